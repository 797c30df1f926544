"""The command line.  Heavy modules are imported inside the commands, so that --help is instant."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from gvfx.errors import InputError

app = typer.Typer(
    help="Answer many predictive questions (GVFs) from one stream of experience, with as few steps as possible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Setting = Annotated[
    str,
    typer.Argument(help="A setting of the paper: same, distinct, semi-greedy, fourrooms, forty, continuous, walker, cheetah."),
]
Made = Annotated[str, typer.Argument(help="module:make, a function that returns your environment and your questions.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Independent runs.")]
Results = Annotated[Path, typer.Option("--results", help="Folder of stored runs.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Address of a Dask scheduler, tcp://host:port.")]
Device = Annotated[str | None, typer.Option("--device", help="For networks: gpu or tpu runs all seeds in one loop there.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Seeds run side by side (default: the number of cores).")]


def main() -> None:
    """Entry point: bad input is one sentence on stderr and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"gvfx: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("gvfx: interrupted.", file=sys.stderr)
        raise SystemExit(130) from None


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        from gvfx import __version__

        print(f"gvfx {__version__}")
        raise typer.Exit


@app.command("list")
def list_() -> None:
    """What there is: settings, behaviours, learners, and the paper's tables and figures."""
    from gvfx.experiments.compare import SETTINGS
    from gvfx.experiments.settings.tabular import BEHAVIOURS, LEARNERS
    from gvfx.learners.networks.deep import Deep
    from gvfx.learners.networks.twin_critics import TwinCritics

    console = _console()
    settings = _table("setting", "what", "GVFs", "steps", "paper")
    for name, setting in SETTINGS.items():
        settings.add_row(name, setting.title, str(len(setting.questions)), f"{setting.steps:,}", setting.section)
    console.print(settings)
    behaviours = _table("behaviour", "what")
    for name, make in BEHAVIOURS.items():
        behaviours.add_row(name, _first_line(make(0.5)))
    console.print(behaviours)
    learners = _table("learner", "what")
    for name, kind in {**LEARNERS, "Deep": Deep, "TwinCritics": TwinCritics}.items():
        learners.add_row(name, _first_line(kind))
    console.print(learners)
    from gvfx.reproduce.items import ITEMS

    items = _table("item", "what", "paper's label")
    for name, item in ITEMS.items():
        items.add_row(name, item.title, item.label)
    console.print(items)
    console.print("gvfx reproduce tabular, deep, mujoco and limit make all items; gvfx report turns them into one page.")


@app.command()
def run(
    setting: Setting,
    behaviour: Annotated[str, typer.Option("--behaviour", "-b", help="See `gvfx list`.")] = "GVFExplorer",
    learner: Annotated[
        str | None, typer.Option("--learner", "-l", help="See `gvfx list` (default: ExpectedSarsa, or Deep for networks).")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Environment steps (default: as in the paper).")] = None,
    seeds: Seeds = 5,
    rate_q: Annotated[float | None, typer.Option("--rate-q", help="Minimum learning rate of Q (default: published).")] = None,
    rate_m: Annotated[float | None, typer.Option("--rate-m", help="Minimum learning rate of M (default: published).")] = None,
    evaluate_every: Annotated[int | None, typer.Option("--every", help="Steps between error measurements.")] = None,
    preset: Annotated[
        str, typer.Option("--preset", help="paper (as the text says), authors (as their code does); continuous: recommended too.")
    ] = "paper",
    output: Annotated[Path | None, typer.Option("--json", help="Write curves and summary to this file.")] = None,
    workers: Workers = None,
) -> None:
    """Run one behaviour and learner on a setting of the paper."""
    from gvfx.experiments.compare import find_setting, run_behaviour

    chosen = find_setting(setting)
    if output is not None:
        _check_writable(output, "--json")
    total = chosen.steps if steps is None else steps
    with _progress({behaviour: total * max(seeds, 1)}) as report:
        result = run_behaviour(
            chosen,
            behaviour,
            learner,
            steps=total,
            seeds=seeds,
            rate_q=rate_q,
            rate_m=rate_m,
            evaluate_every=evaluate_every,
            preset=preset,
            workers=workers or os.cpu_count() or 1,
            progress=lambda _, seed, done, error: report(behaviour, seed, done, error),
        )
    console = _console()
    table = _table("GVF", "MSE", "standard error", "value error, mean |V - V̂|")
    live = getattr(chosen.world, "live", slice(None))  # the continuous grid is measured on its whole lattice
    gap = abs(result.values - result.truth)[:, :, live].mean(axis=(0, 2))
    for i, name in enumerate(result.names[:12]):
        table.add_row(name, *_mean_and_error(result.mse[:, -1, i]), f"{gap[i]:.4g}")
    if len(result.names) > 12:
        table.add_row(f"... {len(result.names) - 12} more", "", "", "")
    table.add_section()
    table.add_row("average", *_mean_and_error(result.error[:, -1]), f"{gap.mean():.4g}", style="bold")
    console.print(f"\n[bold]{chosen.title}[/], {total:,} steps, {len(result.seeds)} seeds")
    console.print(f"behaviour {result.experiment['behaviour']}\nlearner   {result.experiment['learner']}", highlight=False)
    if result.mse_outside is not None:
        outside = result.mse_outside[:, -1]
        table.add_row("outside the goals", *_mean_and_error(outside.mean(axis=1)), "")
    console.print(table)
    console.print(f"{total * len(result.seeds) / result.seconds.sum():,.0f} steps/s per core")
    if output is not None:
        _write_json(output, {"setting": chosen.name, **result.to_json()})
        console.print(f"wrote {output}")


@app.command()
def plan(
    setting: Setting,
    error: Annotated[float, typer.Option("--error", help="The wanted mean squared error.")] = 0.05,
    pilot: Annotated[int, typer.Option("--pilot", help="Take the world as unknown: learn it from so many steps first.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the pilot.")] = 0,
    output: Annotated[Path | None, typer.Option("--json", help="Write the plan to this file.")] = None,
) -> None:
    """How many steps each behaviour needs for a wanted error, before any is spent; learner: CertaintyEquivalence."""
    from gvfx.experiments.compare import find_setting
    from gvfx.running.planning import OPTIMUM
    from gvfx.running.planning import plan as make_plan

    chosen = find_setting(setting)
    if output is not None:
        _check_writable(output, "--json")
    costs = make_plan(chosen.world, chosen.questions, error, pilot=pilot, seed=seed)
    best = costs[OPTIMUM].steps
    table = _table("behaviour", "steps", "one run in twenty by", "all but one in twenty by", "times the optimum")
    for cost in costs.costs:
        numbers = [f"{n:,.0f}" if n < float("inf") else "never" for n in (cost.steps, cost.low, cost.high)]
        table.add_row(cost.name, *numbers, f"{cost.steps / best:.3g}" if best else "-", style="bold" * (cost.name == OPTIMUM))
    console = _console()
    source = f"as {pilot:,} steps of OptimalDesign describe it" if pilot else "taken as known"
    console.print(f"\n[bold]{chosen.title}[/], the world {source}: steps to a mean squared error of {error:g}")
    console.print(table)
    console.print(f"No behaviour needs fewer than {costs.bound:,.0f} steps. RoundRobin is planned as the mixture.")
    if costs.unseen:
        console.print(f"The pilot never acted in {costs.unseen} of the evaluation states; a longer one would tell more.")
    if output is not None:
        _write_json(output, {"setting": chosen.name, **costs.to_json()})
        console.print(f"wrote {output}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figures.")] = Path("demo"),
    setting: Annotated[str, typer.Option("--setting", help="See `gvfx list`.")] = "distinct",
    steps: Annotated[int, typer.Option("--steps", help="Environment steps per run.")] = 1_000_000,
    seeds: Seeds = 5,
    workers: Workers = None,
) -> None:
    """All six behaviours on one setting: who wins, by how much, and figures of why (under a minute)."""
    from gvfx.experiments.compare import compare
    from gvfx.experiments.settings.tabular import METHODS, paper

    begun = time.perf_counter()
    console = _console()
    chosen = paper[setting]
    _check_writable(out / "learning-curves.png", "--out")
    console.print(
        f"[bold]{chosen.title}[/]: {len(chosen.questions)} GVFs, {chosen.world.states} states, {steps:,} steps, {seeds} seeds"
    )
    with _progress(dict.fromkeys(METHODS, steps * max(seeds, 1))) as report:
        results = compare(chosen, steps=steps, seeds=seeds, workers=workers or os.cpu_count() or 1, progress=report)
    from gvfx.report.demo import verdict, write_figures

    table = _table("behaviour", "learning rate", "MSE", "standard error", "steps/s")
    for name, result in sorted(results.items(), key=lambda item: item[1].error[:, -1].mean()):
        rate = steps * len(result.seeds) / result.seconds.sum()
        table.add_row(name, f"{chosen.rate(name):g}", *_mean_and_error(result.error[:, -1]), f"{rate:,.0f}")
    console.print(table)
    console.print(verdict(results))
    for path in write_figures(chosen, results, out):
        console.print(f"wrote {path}")
    console.print(f"{time.perf_counter() - begun:.0f} s in all. Learning rates are the paper's; `gvfx run --help` changes them.")


@app.command()
def sweep(
    setting: Annotated[list[str], typer.Argument(help="Settings to tune on (default: the paper's five).")] = [],  # noqa: B006
    seeds: Annotated[int, typer.Option("--seeds", help="Runs per learning rate.")] = 10,
    results: Results = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
) -> None:
    """The paper's tuning protocol for every method alike: the minimum learning rate by MSE after 800,000 steps."""
    from gvfx.experiments.settings.tabular import MAIN, RATES, paper
    from gvfx.experiments.store import Store
    from gvfx.report.statistics import short
    from gvfx.reproduce.items import ITEMS, load_tuned, sweep_curves
    from gvfx.reproduce.source import Source
    from gvfx.reproduce.tables import choose_rates, sweep_errors

    names = [paper[name].name for name in setting] or list(MAIN)
    store = Store(results)
    _run_all(store, [(c.experiment, seeds) for name in names for c in sweep_curves(name)], workers, cluster)
    console = _console()
    tuned = {s: {m: list(rates) for m, rates in methods.items()} for s, methods in load_tuned(results).items()}
    for name in names:
        surface = sweep_errors(Source(store, seeds, {}), name, ITEMS["table2"])
        chosen = choose_rates(surface)
        tuned[name] = {m: list(rates) for m, rates in chosen.items()}
        table = _table("method", *(f"{q:g}" for q in RATES), "chosen", "published")
        for method, errors in surface.items():
            line = errors if errors.ndim == 1 else errors.min(axis=1)
            both = errors.ndim == 2
            q, m = chosen[method]
            published = f"{paper[name].rate(method):g}" + (f", {paper[name].rate_m:g}" if both else "")
            table.add_row(method, *map(short, line), f"{q:g}, {m:g}" if both else f"{q:g}", published)
        console.print(f"\n[bold]{name}[/]: MSE after 800,000 steps by minimum learning rate (GVFExplorer: at its best rate of M)")
        console.print(table)
    _write_json(results / "tuned.json", tuned)
    console.print(f"wrote {results / 'tuned.json'}; `gvfx reproduce` now shows every method at these rates too.")


@app.command()
def reproduce(
    items: Annotated[
        list[str],
        typer.Argument(
            help="Items of `gvfx list`, e.g. table1 same drift, or `tabular`, `deep`, `mujoco`, `limit` for all of one kind."
        ),
    ],
    seeds: Annotated[int | None, typer.Option("--seeds", help="Runs per curve (default: as in the paper).")] = None,
    results: Results = Path("results"),
    out: Annotated[Path | None, typer.Option("--out", help="Folder for tables and figures (default: RESULTS/items).")] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    device: Device = None,
) -> None:
    """Make tables and figures of the paper: runs what is missing, prints tables, writes Markdown and PNG files."""
    from gvfx.experiments.store import Store
    from gvfx.reproduce.items import chosen_items, curves_with_seeds, load_tuned
    from gvfx.reproduce.output import print_table, write_exhibits
    from gvfx.reproduce.source import Source
    from gvfx.reproduce.tabular import build

    chosen = chosen_items(items)
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds: {seeds} gives no run at all; ask for at least 1.")
    folder = out or results / "items"
    _check_writable(folder / "table1.md", "--out")
    tuned = load_tuned(results)
    store = Store(results)
    _run_all(store, [(c.experiment, n) for c, n in curves_with_seeds(chosen, tuned, seeds)], workers, cluster, device)
    console = _console()
    for item in chosen:
        exhibits = build(item, Source(store, seeds, tuned))
        for exhibit in exhibits:
            print_table(console, exhibit)
        for path in write_exhibits(folder, item, exhibits):
            console.print(f"wrote {path}")


@app.command()
def report(
    folder: Annotated[
        Path, typer.Argument(help="A results folder of `gvfx reproduce` or `gvfx sweep`, or a file of result.save.")
    ] = Path("results"),
    out: Annotated[Path | None, typer.Option("--out", help="The page (default: FOLDER/report.html, FILE.html).")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Use the first so many seeds (default: each item's own).")] = None,
) -> None:
    """Write one self-contained HTML page of everything in a results folder, or of one saved result."""
    if folder.is_file():
        from gvfx.report.answers import write_answers
        from gvfx.running.saved import load

        page = out or folder.with_suffix(".html")
        _check_writable(page, "--out")
        write_answers(page, load(folder), folder)
        print(f"wrote {page}")
        return
    from gvfx.experiments.store import Store
    from gvfx.reproduce.items import load_tuned
    from gvfx.reproduce.source import Source
    from gvfx.reproduce.summary import write_report

    if not folder.is_dir():
        raise InputError(f"folder: {folder} does not exist; run `gvfx reproduce tabular` first.")
    path = out or folder / "report.html"
    _check_writable(path, "--out")
    missing = write_report(path, Source(Store(folder), seeds, load_tuned(folder)))
    print(f"wrote {path}")
    if missing:
        print(f"not yet run, so left out: {', '.join(missing)}")


@app.command("train-targets")
def train_targets_(
    domain: Annotated[str, typer.Argument(help="walker or cheetah.")],
    task: Annotated[str, typer.Argument(help="walker: walk, flip; cheetah: walk, run.")],
    seed: Annotated[int, typer.Option("--seed", help="Of everything random.")] = 0,
    folder: Annotated[Path, typer.Option("--folder", help="Where the policy and its learning curve go.")] = Path("targets"),
) -> None:
    """Train a target policy by TD3 until a mid-level one (return 300 to 600) is found."""
    from gvfx.worlds.control import domain_named

    chosen = domain_named(domain)
    from gvfx.experiments.train_targets import Snapshot, train_targets

    console = _console()

    def show(snapshot: Snapshot) -> None:
        console.print(f"{snapshot.steps:>9,} steps   return {snapshot.mean:6.1f} ± {snapshot.spread:.1f}", highlight=False)

    console.print(f"wrote {train_targets(chosen, task, seed, folder, show)}")


@app.command()
def check(
    make: Made,
    steps: Annotated[int, typer.Option("--steps", help="How many random steps to try.")] = 1000,
) -> None:
    """Find the mistakes in your environment and questions before step one; exit code 2 if there are errors."""
    from gvfx.running.check import check as find
    from gvfx.running.check import load_made

    env, questions = load_made(make)
    findings = find(env, questions, steps)
    for finding in findings:
        print(finding)
    errors = sum(finding.severity == "error" for finding in findings)
    print(f"{errors} errors, {len(findings) - errors} warnings" if findings else "no mistakes found")
    if errors:
        raise typer.Exit(2)


@app.command()
def truth(
    make: Made,
    points: Annotated[int | None, typer.Option("--points", help="So many states of random walks (default: the start).")] = None,
    precision: Annotated[float | None, typer.Option("--precision", help="Stop at this standard error.")] = None,
    relative: Annotated[float | None, typer.Option("--relative", help="Stop at this standard error as a share.")] = None,
    max_episodes: Annotated[int, typer.Option("--max-episodes", help="At most so many per point and policy.")] = 10_000,
    output: Annotated[Path | None, typer.Option("--json", help="Write the values to this file.")] = None,
) -> None:
    """Estimate the true answers to your questions by Monte Carlo, with standard errors."""
    from gvfx.running.check import load_made
    from gvfx.truths.monte_carlo import truth_of

    if output is not None:
        _check_writable(output, "--json")
    env, questions = load_made(make)
    found = truth_of(env(), questions, points, precision=precision, relative=relative, max_episodes=max_episodes)
    table = _table("GVF", "at", "value", "standard error", "cut off, at most", "episodes")
    for i, name in enumerate(found.names):
        for j, point in enumerate(found.points):
            numbers = (found.values[i, j], found.standard_errors[i, j], found.residuals[i, j])
            table.add_row(name, f"{point}", *(f"{x:.4g}" for x in numbers), f"{found.episodes[i, j]:,}")
    _console().print(table)
    if (precision or relative) and not found.precise.all():
        print(f"the wanted precision was not reached everywhere within {max_episodes:,} episodes; allow more.")
    if output is not None:
        _write_json(output, found.to_json())
        print(f"wrote {output}")


@app.command()
def bench(
    which: Annotated[str, typer.Argument(help="cartpole, deep, limit, mujoco, online, own, random_mdps or tabular")] = "tabular",
    quick: Annotated[bool, typer.Option("--quick", help="Shorter timings, noisier ratios.")] = False,
) -> None:
    """Measure speed and accuracy against the bars, side by side in one run (needs the source checkout)."""
    import importlib

    from gvfx.errors import UnknownName

    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    if not folder.is_dir():
        raise InputError("bench: the benchmarks come with the source checkout; clone the repository and run it there.")
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "reference", "rows"))
    if which not in names:
        raise UnknownName("bench", which, names)
    sys.path.insert(0, str(folder.parent))
    rows = importlib.import_module(f"benchmarks.{which}").run(_console(), quick=quick)
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)


# --- helpers -----------------------------------------------------------------------------------------------------


def _console() -> Any:
    """The terminal; where output goes to a file or a pipe, wide enough for every table."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160)


def _table(*columns: str) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for k, column in enumerate(columns):
        numeric = column in ("GVFs", "steps", "MSE", "standard error", "steps/s", "learning rate") or column.startswith("value")
        table.add_column(column, justify="right" if numeric else "left", no_wrap=k == 0)
    return table


def _first_line(thing: Any) -> str:
    from rich.markup import escape

    return escape((thing.__doc__ or "").strip().splitlines()[0])


def _mean_and_error(samples: Any) -> tuple[str, str]:
    from gvfx.running.result import standard_error

    return f"{samples.mean():.4g}", f"± {standard_error(samples):.2g}" if len(samples) > 1 else "-"


@contextmanager
def _progress(totals: dict[str, int]) -> Iterator[Any]:
    """A live bar per task, showing steps/s and the current MSE; yields report(task, seed, steps done, error)."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rate]:>14}"),
        TextColumn("MSE {task.fields[error]:<9}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=not sys.stdout.isatty()) as bars:
        tasks = {
            name: bars.add_task(name, total=total, rate="compiling", error="", start=False) for name, total in totals.items()
        }
        done: dict[str, dict[int, int]] = {name: {} for name in totals}
        begun: dict[str, float] = {}

        def report(name: str, seed: int, steps: int, error: float) -> None:
            now = time.perf_counter()
            if name not in begun:
                begun[name] = now
                bars.start_task(tasks[name])
            done[name][seed] = steps
            so_far = sum(done[name].values())
            elapsed = now - begun[name]
            rate = _rate(so_far / elapsed) if elapsed > 0.02 else ""
            bars.update(tasks[name], completed=so_far, rate=rate, error=f"{error:.4g}")

        yield report


def _rate(per_second: float) -> str:
    return f"{per_second / 1e6:.1f} M steps/s" if per_second > 2e5 else f"{per_second:,.0f} steps/s"


def _run_all(store: Any, runs: list[Any], workers: int | None, cluster: str | None, device: str | None = None) -> None:
    """Run what is missing with one progress display: done of total, steps per second, time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from gvfx.experiments.sweep import Tally, run_all

    columns = (
        TextColumn("runs"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=not sys.stdout.isatty()) as bars:
        task = bars.add_task("runs", total=None, speed="looking for what is missing")

        def show(tally: Tally) -> None:
            rate = tally.steps / max(tally.seconds, 1e-9)
            left = tally.steps_left / max(rate, 1e-9)
            speed = (
                f"{_rate(rate)}, {left // 60:.0f} min {left % 60:.0f} s left" if tally.done else "compiling, first runs under way"
            )
            bars.update(task, total=tally.total, completed=tally.done + tally.found, speed=speed)

        tally = run_all(store, runs, workers=workers or os.cpu_count() or 1, cluster=cluster, device=device, report=show)
    words = f"{tally.done} runs in {tally.seconds:.0f} s" if tally.done else "nothing to run"
    print(f"{words}, {tally.found} found in {store.folder}")


def _check_writable(path: Path, field: str) -> None:
    """Refuse an output that cannot be written, before any work is done; makes its folder."""
    if path.is_dir():
        raise InputError(f"{field}: {path} is a folder; name a file in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{field}: cannot make the folder {path.parent} ({error.strerror}); choose another place.") from None
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{field}: cannot write to {path.parent}; choose another place.")


def _write_json(path: Path, data: Any) -> None:
    """Write a file whole or not at all."""
    from gvfx.files import write_whole

    write_whole(path, json.dumps(data, indent=1).encode())


if __name__ == "__main__":
    main()
