"""Make the stored runs that a command needs.  Imported in command bodies only: it needs the library."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gvfx.cli.options import workers_given
from gvfx.cli.progress import speed
from gvfx.cli.stopping import noted
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import Tally, run_all
from gvfx.text import printable

AGAIN = "Delete seed-....diverged.json in an experiment's folder to run that seed again."


def run_missing(
    store: Store,
    runs: Iterable[tuple[Experiment, int | Iterable[int]]],
    workers: int | None,
    cluster: str | None,
    device: str | None = None,
    steal: bool = False,
    verify: bool = False,
) -> None:
    """Run what the store does not have yet, with one progress bar: runs done, steps per second, time left."""
    workers = workers_given(workers)
    columns = (
        TextColumn("runs"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=not sys.stdout.isatty()) as bars:
        task = bars.add_task("runs", total=None, state="looking for stored runs")

        def show(tally: Tally) -> None:
            rate = tally.steps / max(tally.seconds, 1e-9)
            left = tally.steps_left / max(rate, 1e-9)
            state = f"{speed(rate)}, {left // 60:.0f} min {left % 60:.0f} s left" if tally.done else "compiling"
            bars.update(task, total=tally.total, completed=tally.done + tally.found, state=state)

        with noted(f"finished runs are stored in {store.folder}, and the same command continues from there"):
            tally = run_all(store, runs, workers=workers, cluster=cluster, device=device, report=show, steal=steal, verify=verify)
    made = f"{tally.done} runs in {tally.seconds:.0f} s" if tally.done else "nothing to run"
    print(printable(f"{made}, {tally.found} found in {store.folder}"))
    for lost in tally.diverged:
        print(printable(f"diverged: {lost.experiment}, seed {lost.seed}, step {lost.step:,}: {lost.said}"))
    if tally.diverged:
        print(f"{len(tally.diverged)} of {tally.total} runs diverged; tables count them. {AGAIN}")
