"""Commands that run behaviours on a setting of the paper: run and demo."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli import checks, completion, options
from gvfx.cli.names import accepted_name, class_name
from gvfx.cli.progress import progress_bars
from gvfx.cli.terminal import Terminal, make_console, make_table, write_json


def run(
    setting: options.Setting,
    behaviour: Annotated[
        str,
        typer.Option(
            "--behaviour",
            "-b",
            help="A behaviour of `gvfx list`, by class name or short name.",
            autocompletion=completion.behaviours,
        ),
    ] = "GVFExplorer",
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner",
            "-l",
            help="A learner of `gvfx list` (default: ExpectedSarsa; continuous: Deep; walker, cheetah: TwinCritics).",
            autocompletion=completion.learners,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Environment steps per run (default: as in the paper).", callback=checks.count()),
    ] = None,
    seeds: options.Seeds = 5,
    rate_q: Annotated[
        float | None,
        typer.Option("--rate-q", help="Minimum learning rate of Q (default: published).", callback=checks.number(at_most=1)),
    ] = None,
    rate_m: Annotated[
        float | None,
        typer.Option("--rate-m", help="Minimum learning rate of M (default: published).", callback=checks.number(at_most=1)),
    ] = None,
    evaluate_every: Annotated[
        int | None,
        typer.Option(
            "--evaluate-every", help="Steps between error measurements (default: twenty per run).", callback=checks.count()
        ),
    ] = None,
    every: Annotated[
        int | None, typer.Option("--every", hidden=True, help="Old name of --evaluate-every.", callback=checks.count())
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            help="paper (its text), authors (their code; not walker, cheetah), stabilised or recommended "
            "(continuous, walker, cheetah).",
            autocompletion=completion.presets,
        ),
    ] = "paper",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Divide each GVF's weight by its mean square value (not walker, cheetah).")
    ] = False,
    output: options.Json = None,
    save: options.Save = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = None,
    workers: options.Workers = None,
    until: options.Until = None,
    where: options.Where = None,
    audit: options.Audit = None,
) -> None:
    """Run one behaviour and one learner on a setting of the paper."""
    from gvfx.cli.results import result_table
    from gvfx.experiments.compare import find_setting, run_behaviour
    from gvfx.running.starts import start_lines
    from gvfx.running.story import decided_lines

    chosen = find_setting(setting)
    name = accepted_name(chosen, behaviour)
    total = chosen.steps if steps is None else steps
    with progress_bars({name: total * max(seeds, 1)}) as report:
        result = run_behaviour(
            chosen,
            name,
            learner,
            steps=total,
            seeds=seeds,
            rate_q=rate_q,
            rate_m=rate_m,
            evaluate_every=every if evaluate_every is None else evaluate_every,
            preset=preset,
            calibrate=calibrate,
            workers=options.workers_given(workers),
            progress=report,
            save=save,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            until=options.until_given(until),
            where=options.where_given(where),
            audit=audit,
        )
    console = make_console()
    console.say("")
    console.say_titled(chosen.title, f", {total:,} steps, {len(result.seeds)} seeds")
    console.say(*(f"{part:<9} {result.experiment[part]}" for part in ("behaviour", "learner")))
    if result.audits is None or (result.mse == result.mse).any():  # an audited world is stepped without its true values
        console.print(result_table(result, chosen.world))
    if where is not None:
        console.say(f"MSE: where errors count, {result.experiment['where']}")
    if where is not None or result.audits is not None:
        console.say(*start_lines(result.value(), None if result.audits is None else result.audit()))
    if result.stopped is not None and result.reached is not None and "decided" in result.experiment:
        console.say(*decided_lines(result.experiment["decided"], result.stopped, result.reached))  # type: ignore[arg-type]
    elif result.stopped is not None and result.bounds is not None:
        pairs = zip(result.stopped, result.bounds, strict=True)
        console.say("stopped after " + ", ".join(f"{n:,} steps (error at most {bound:.3g})" for n, bound in pairs))
    made = total * len(result.seeds) if result.stopped is None else int(result.stopped.sum())
    console.say(f"{made / result.seconds.sum():,.0f} steps/s per core")
    if output is not None:
        write_json(output, {"setting": chosen.name, **result.to_json()})


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figures.", callback=checks.output_folder)] = Path("demo"),
    setting: Annotated[
        str, typer.Option("--setting", help="A tabular setting of `gvfx list`.", autocompletion=completion.tabular_settings)
    ] = "distinct",
    steps: Annotated[int, typer.Option("--steps", help="Environment steps per run.", callback=checks.count())] = 1_000_000,
    seeds: options.Seeds = 5,
    workers: options.Workers = None,
    picture: Annotated[bool, typer.Option("--picture/--no-picture", help="Begin with gvfx beside other methods.")] = True,
) -> None:
    """Run gvfx beside other methods, then the paper's six behaviours on one setting: errors and figures (under a minute)."""
    from gvfx.cli.results import mean_and_error
    from gvfx.experiments.compare import compare
    from gvfx.experiments.settings.tabular import METHODS, paper
    from gvfx.report.demo import verdict, write_figures

    begun = time.perf_counter()
    console = make_console()
    chosen = paper[setting]
    count = options.workers_given(workers)
    if picture:
        _picture(console, out, min(seeds, 2), count)
    world = f"{len(chosen.questions)} GVFs, {chosen.world.states} states"
    console.say_titled(chosen.title, f": {world}, {steps:,} steps, {seeds} seeds")
    with progress_bars(dict.fromkeys(METHODS, steps * max(seeds, 1))) as report:
        results = compare(chosen, steps=steps, seeds=seeds, workers=count, progress=report)
    table = make_table("behaviour", "learning rate", "MSE", "standard error", "steps/s")
    for name, result in sorted(results.items(), key=lambda item: item[1].error[:, -1].mean()):
        rate = steps * len(result.seeds) / result.seconds.sum()
        table.add_row(class_name(name), f"{chosen.rate(name):g}", *mean_and_error(result.error[:, -1]), f"{rate:,.0f}")
    console.print(table)
    console.say(verdict({class_name(name): result for name, result in results.items()}))
    for path in write_figures(chosen, results, out):
        console.say(f"wrote {path}")
    seconds = time.perf_counter() - begun
    console.say(f"Finished in {seconds:.0f} s. The learning rates are the paper's; `gvfx run` has options to change them.")


def _picture(console: Terminal, out: Path, seeds: int, workers: int) -> None:
    """Run gvfx's default method, and show it beside the stored errors of other methods: a table and a figure."""
    from gvfx.report.colours import steps_label
    from gvfx.report.figures import draw
    from gvfx.report.style import save
    from gvfx.reproduce import demo_picture

    name = "gvfx"
    last = demo_picture.NOW[-1]
    console.say_titled("gvfx beside other methods", f": 2 GVFs on the paper's continuous grid, {last:,} steps, {seeds} seeds")
    with progress_bars({name: last * seeds}) as report:
        runs = demo_picture.run_now(seeds, workers, lambda seed, done, error: report(name, seed, done, error))
    table = make_table("method", *map(steps_label, demo_picture.NOW))
    for row in demo_picture.rows(runs):
        table.add_row(*row)
    console.print(table)
    console.say("Mean squared errors. In brackets: of gvfx the range of its runs, of the others 95 % intervals over stored runs.")
    console.say(demo_picture.verdict(runs))
    out.mkdir(parents=True, exist_ok=True)
    save(draw(demo_picture.picture(runs)), out / "headline.png")
    console.say(f"wrote {out / 'headline.png'}", "")
