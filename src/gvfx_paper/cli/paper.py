"""The paper's commands: run, demo, sweep, reproduce and train-targets."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gvfx.cli.options import Checkpoint, Count, OutputFile, OutputFolder, SaveFile, Seconds, Seed, Seeds, Share, Until, Where
from gvfx.cli.terminal import Terminal, check_output, class_name, make_console, make_table, write_json, write_outputs
from gvfx.errors import Unsaved, require
from gvfx_paper.cli import options

# --- Commands that run behaviours on a setting of the paper: run and demo --------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Run:
    """What `run_behaviour` takes, under the same names.

    rate_q: Minimum learning rate of Q (default: published).
    rate_m: Minimum learning rate of M (default: published).
    preset: paper (its text), authors (their code; not walker, cheetah), stabilised or recommended (continuous, walker, cheetah).
    calibrate: Divide each GVF's weight by its mean square value (not walker, cheetah).
    audit: Share of the steps that check the values at the start by rollouts (docs/audits.md), as 0.2.
    """

    rate_q: options.Rate | None = None
    rate_m: options.Rate | None = None
    preset: options.Preset = "paper"
    calibrate: bool = False
    save: SaveFile | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_every: Seconds | None = None
    until: Until | None = None
    where: Where | None = None
    audit: Share | None = None


def run(
    setting: options.Setting,
    *,
    behaviour: options.Behaviour = "GVFExplorer",
    learner: options.Learner | None = None,
    steps: Count | None = None,
    seeds: Seeds = 5,
    evaluate_every: Count | None = None,
    every: Count | None = None,
    given: Run,
    workers: options.Workers | None = None,
    json: OutputFile | None = None,
) -> None:
    """Run one behaviour and one learner on a setting of the paper.

    setting: A setting of `gvfx list`: same, distinct, semi-greedy, fourrooms, forty, continuous, walker, cheetah, ...
    behaviour: A behaviour of `gvfx list`, by class name or short name.
    learner: A learner of `gvfx list` (default: ExpectedSarsa; continuous: Deep; walker, cheetah: TwinCritics).
    steps: Environment steps per run (default: as in the paper).
    seeds: Number of independent runs.
    evaluate_every: Steps between error measurements (default: twenty per run).
    every: Old name of --evaluate-every.
    json: Also write the results to this JSON file.

        gvfx run distinct --steps 2000000 --seeds 5 --json out.json
        gvfx run same --behaviour SuccessorRepresentation --evaluate-every 100000
        gvfx run continuous --preset recommended
    """
    from gvfx.running.starts import start_lines
    from gvfx.running.summary import decided_lines
    from gvfx_paper.cli.stored import result_table
    from gvfx_paper.settings.runs import find_setting, run_behaviour

    chosen = find_setting(setting)
    name = options.accepted_name(chosen, behaviour)
    total = chosen.steps if steps is None else steps
    unsaved = ""
    try:
        result = run_behaviour(
            chosen,
            name,
            learner,
            steps=total,
            seeds=seeds,
            evaluate_every=every if evaluate_every is None else evaluate_every,
            workers=options.workers_given(workers),
            **vars(given),
        )
    except Unsaved as error:
        result, unsaved = error.result, str(error)
    console = make_console()
    console.say("")
    console.say_titled(chosen.title, f", {total:,} steps, {len(result.seeds)} seeds")
    console.say(*(f"{part:<9} {result.details.experiment[part]}" for part in ("behaviour", "learner")))
    if result.details.audits is None or (result.mse == result.mse).any():  # an audited world is stepped without its true values
        console.print(result_table(result, chosen.world))
    if given.where is not None:
        console.say(f"MSE: where errors count, {result.details.experiment['where']}")
    if given.where is not None or result.details.audits is not None:
        console.say(*start_lines(result.value(), None if result.details.audits is None else result.audit()))
    if result.stopped is not None and result.reached is not None and "decided" in result.details.experiment:
        console.say(*decided_lines(result.details.experiment["decided"], result.stopped, result.reached))  # type: ignore[arg-type]
    elif result.stopped is not None and result.details.bounds is not None:
        pairs = zip(result.stopped, result.details.bounds, strict=True)
        console.say("stopped after " + ", ".join(f"{n:,} steps (error at most {bound:.3g})" for n, bound in pairs))
    made = total * len(result.seeds) if result.stopped is None else int(result.stopped.sum())
    console.say(f"{made / result.details.seconds.sum():,.0f} steps/s per core")
    data = {"setting": chosen.name, **result.details.to_json()}
    write_outputs(console, ("--json", json, lambda place: write_json(place, data)), failed=unsaved)


def demo(
    *,
    out: OutputFolder = Path("demo"),
    setting: options.TabularSetting = "distinct",
    steps: Count = 1_000_000,
    seeds: Seeds = 5,
    workers: options.Workers | None = None,
    picture: bool = True,
) -> None:
    """Run gvfx beside other methods, then the paper's six behaviours on one setting: errors and figures (under a minute).

    out: Folder for the figures.
    setting: A tabular setting of `gvfx list`.
    steps: Environment steps per run.
    seeds: Number of independent runs.
    picture: Begin with gvfx beside other methods.

        gvfx demo --setting same --out demo
    """
    from gvfx_paper.demo import verdict, write_figures
    from gvfx_paper.items.measures import mean_or_only
    from gvfx_paper.settings.runs import compare
    from gvfx_paper.settings.tabular import paper

    begun = time.perf_counter()
    console = make_console()
    chosen = paper[setting]
    count = options.workers_given(workers)
    if picture:
        _picture(console, out, min(seeds, 2), count)
    world = f"{len(chosen.questions)} GVFs, {chosen.world.states} states"
    console.say_titled(chosen.title, f": {world}, {steps:,} steps, {seeds} seeds")
    results = compare(chosen, steps=steps, seeds=seeds, workers=count)
    table = make_table("behaviour", "learning rate", "MSE, 95 % interval", "steps/s")
    for name, result in sorted(results.items(), key=lambda item: item[1].error[:, -1].mean()):
        rate = steps * len(result.seeds) / result.details.seconds.sum()
        table.add_row(class_name(name), f"{chosen.rate(name):g}", mean_or_only(result.error[:, -1]), f"{rate:,.0f}")
    console.print(table)
    console.say(verdict({class_name(name): result for name, result in results.items()}))
    for path in write_figures(chosen, results, out):
        console.say(f"wrote {path}")
    seconds = time.perf_counter() - begun
    console.say(f"Finished in {seconds:.0f} s. The learning rates are the paper's; `gvfx run` has options to change them.")


def _picture(console: Terminal, out: Path, seeds: int, workers: int) -> None:
    """Run gvfx's default method, and show it beside the stored errors of other methods: a table and a figure."""
    from gvfx_paper.items import headline
    from gvfx_paper.report.figures import draw, save
    from gvfx_paper.report.style import steps_label

    last = headline.NOW[-1]
    console.say_titled("gvfx beside other methods", f": 2 GVFs on the paper's continuous grid, {last:,} steps, {seeds} seeds")
    runs = headline.run_now(seeds, workers)
    table = make_table("method", *map(steps_label, headline.NOW))
    for row in headline.rows(runs):
        table.add_row(*row)
    console.print(table)
    console.say("Mean squared errors. In brackets: of gvfx the range of its runs, of the others 95 % intervals over stored runs.")
    console.say(headline.verdict(runs))
    out.mkdir(parents=True, exist_ok=True)
    save(draw(headline.picture(runs)), out / "headline.png")
    console.say(f"wrote {out / 'headline.png'}", "")


# --- Commands for the paper's experiments: sweep and reproduce -------------------------------------------------------


def sweep(setting: options.TabularSettings = (), *, seeds: Seeds | None = None, stored: options.Stored) -> None:
    """Tune every method with the paper's protocol: the learning rate with the lowest MSE after two fifths of the steps.

    setting: Settings to tune on: same, distinct, semi-greedy, fourrooms, fourrooms-visit, forty (default: these six); continuous.
    seeds: Runs per learning rate (default: 10; continuous: 4).

        gvfx sweep
        gvfx sweep same distinct --seeds 3 --workers 2
    """
    import numpy as np

    from gvfx.experiments.store import Store
    from gvfx_paper.cli.stored import run_missing
    from gvfx_paper.items.curves import TUNED, load_tuned, seeds_of
    from gvfx_paper.items.exhibits import Source
    from gvfx_paper.items.tables import choose_rates, protocol
    from gvfx_paper.report.statistics import short
    from gvfx_paper.settings.choices import checked
    from gvfx_paper.settings.tabular import MAIN, paper

    names = [checked("setting", name, {**paper, "continuous": None}) for name in setting] or list(MAIN)
    store = Store(stored.results)
    protocols = {name: protocol(name) for name in names}
    runs = [(c.experiment, seeds_of(c, seeds, p.seeds)) for p in protocols.values() for c in p.curves]
    tuned = {s: {m: list(rates) for m, rates in methods.items()} for s, methods in load_tuned(stored.results).items()}
    check_output(stored.results / TUNED, "--results")
    run_missing(store, runs, stored)
    console = make_console()
    for name, p in protocols.items():
        surface = p.errors(Source(store, seeds, {}, p.seeds))
        chosen = choose_rates(surface, p.rates)
        tuned[name] = {m: list(rates) for m, rates in chosen.items()}
        table = make_table("method", *(f"{q:g}" for q in p.rates), "chosen", "published")
        for method, errors in surface.items():
            both = errors.ndim == 2  # [rate of Q, rate of M]
            q, m = chosen.get(method, (np.nan, np.nan))
            row = np.fmin.reduce(errors, axis=1) if both else errors
            rate = "none" if np.isnan(q) else f"{q:g}, {m:g}" if both else f"{q:g}"
            table.add_row(method, *map(short, row), rate, p.published(method))
        console.say("")
        console.say_titled(name, f": MSE after {p.steps:,} steps by {p.axis}")
        console.print(table)
    write_outputs(console, ("--results", stored.results / TUNED, lambda place: write_json(place, tuned)))
    console.say("`gvfx reproduce` now also shows every method at the chosen rates.")


def reproduce(
    items: options.Items,
    *,
    seeds: Seeds | None = None,
    stored: options.Stored,
    out: OutputFolder | None = None,
    device: options.Device | None = None,
) -> None:
    """Make tables and figures of the paper: run what is not stored yet, print tables, write Markdown and PNG files.

    items: Items of `gvfx list`, e.g. table1 same drift, or a group: tabular, deep, mujoco, limit.
    seeds: Runs per curve (default: each item's own number).
    out: Folder for tables and figures (default: RESULTS/items).

        gvfx reproduce table1 drift --seeds 5
        gvfx reproduce tabular
    """
    from gvfx.experiments.store import Store
    from gvfx_paper.cli.stored import run_missing
    from gvfx_paper.items import Source, build, chosen_items, curves_with_seeds
    from gvfx_paper.items.curves import load_tuned, seeds_of
    from gvfx_paper.items.exhibits import AllDiverged
    from gvfx_paper.items.output import print_table, write_exhibits

    chosen = chosen_items(list(items))
    folder = out or stored.results / "items"
    check_output(folder / "table1.md", "--out")
    tuned = load_tuned(stored.results)
    store = Store(stored.results)
    runs = [(c.experiment, seeds_of(c, seeds, n)) for c, n in curves_with_seeds(chosen, tuned, seeds)]
    run_missing(store, runs, stored, device)
    console = make_console()
    for item in chosen:
        try:
            exhibits = build(item, Source(store, seeds, tuned))
        except AllDiverged as error:
            console.say(f"{item.name}: left out. {error}")
            continue
        for exhibit in exhibits:
            print_table(console, exhibit)
        for path in write_exhibits(folder, item, exhibits):
            console.say(f"wrote {path}")


# --- Command for target policies of Walker and Cheetah: train-targets ------------------------------------------------


def train_targets(domain: options.Domain, task: str, *, seed: Seed = 0, folder: OutputFolder = Path("targets")) -> None:
    """Train a target policy with TD3 until a mid-level one (return 300 to 600) is found.

    domain: walker or cheetah.
    task: walker: walk or flip; cheetah: walk or run.
    seed: Random seed.
    folder: Folder for the policy and its learning curve.

        gvfx train-targets walker walk --seed 0
    """
    from gvfx_paper.worlds.mujoco import domain_named

    chosen = domain_named(domain)
    require("jax", "mujoco")
    from gvfx_paper.training import PolicySnapshot
    from gvfx_paper.training import train_targets as train

    console = make_console()

    def show(snapshot: PolicySnapshot) -> None:
        console.say(f"{snapshot.steps:>9,} steps   return {snapshot.mean:6.1f} ± {snapshot.spread:.1f}")

    console.say(f"wrote {train(chosen, task, seed, folder, show)}")
