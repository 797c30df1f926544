"""What commands do with results: make stored runs, list and show them.  Imported in command bodies only: it needs the library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gvfx.cli.commands import first_line
from gvfx.cli.terminal import Terminal, check_output, class_name, make_console, make_table, noted
from gvfx.errors import printable
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import Tally, run_all
from gvfx.running.result import Result, standard_error
from gvfx_paper.cli.options import Stored, short_name, workers_given
from gvfx_paper.items import ITEMS, Source
from gvfx_paper.items.curves import load_tuned
from gvfx_paper.items.measures import outside_goals
from gvfx_paper.items.output import write_report
from gvfx_paper.settings.runs import SETTINGS
from gvfx_paper.settings.tabular import BEHAVIOURS

AGAIN = "Delete seed-....diverged.json in an experiment's folder to run that seed again."


def run_missing(
    store: Store, runs: Iterable[tuple[Experiment, int | Iterable[int]]], stored: Stored, device: str | None = None
) -> None:
    """Run what the store does not have yet, with one progress bar: runs done, steps per second, time left."""
    workers = workers_given(stored.workers)
    options: dict[str, Any] = {"cluster": stored.cluster, "device": device, "steal": stored.steal, "verify": stored.verify}
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
            speed = f"{rate / 1e6:.1f} M steps/s" if rate > 2e5 else f"{rate:,.0f} steps/s"
            state = f"{speed}, {left // 60:.0f} min {left % 60:.0f} s left" if tally.done else "compiling"
            bars.update(task, total=tally.total, completed=tally.done + tally.found, state=state)

        with noted(f"finished runs are stored in {store.folder}, and the same command continues from there"):
            tally = run_all(store, runs, workers=workers, report=show, **options)
    made = f"{tally.done} runs in {tally.seconds:.0f} s" if tally.done else "nothing to run"
    print(printable(f"{made}, {tally.found} found in {store.folder}"))
    for lost in tally.diverged:
        print(printable(f"diverged: {lost.experiment}, seed {lost.seed}, step {lost.step:,}: {lost.sentence}"))
    if tally.diverged:
        print(f"{len(tally.diverged)} of {tally.total} runs diverged; tables count them. {AGAIN}")


# --- gvfx list and gvfx report ---------------------------------------------------------------------------------------


def show(console: Terminal) -> None:
    """The paper's part of `gvfx list`: settings, behaviours as they are named in settings, and items."""
    settings = make_table("setting", "what", "GVFs", "steps", "paper")
    for name, setting in SETTINGS.items():
        settings.add_row(name, setting.title, str(len(setting.questions)), f"{setting.steps:,}", setting.section)
    console.print(settings)
    behaviours = make_table("behaviour", "short name", "what")
    for name in {class_name(name): name for name in BEHAVIOURS}.values():  # a class and its short name are one behaviour
        full, short = class_name(name), short_name(name)
        behaviours.add_row(full, "" if short == full else short, _behaviour(name, BEHAVIOURS))
    console.print(behaviours)
    items = make_table("item", "what", "paper's label")
    for name, item in ITEMS.items():
        items.add_row(name, item.title, item.label)
    console.print(items)
    console.print("gvfx reproduce tabular, deep, mujoco and limit make all items; gvfx report turns them into one page.")


def _behaviour(name: str, behaviours: Mapping[str, Callable[[float], Any]]) -> str:
    """What a behaviour is; of a variant (SR-greedy) how it differs from the behaviour it is named after."""
    made, stem = behaviours[name](0.5), name.partition("-")[0]
    if stem == name:
        return first_line(made)
    plain = behaviours[stem](0.5)
    changed = [f.name for f in fields(made) if getattr(made, f.name) != getattr(plain, f.name)]
    if not changed:
        return f"{class_name(stem)}; another one in preset authors"
    return f"{class_name(stem)} with {', '.join(f'{field}={getattr(made, field)!r}' for field in changed)}"


def report_folder(folder: Path, out: Path | None, seeds: int | None) -> None:
    """Write one page with every table and figure whose runs are stored."""
    page = out or folder / "report.html"
    check_output(page, "--out")
    missing = write_report(page, Source(Store(folder), seeds, load_tuned(folder)))
    make_console().say(f"wrote {page}")
    if missing:
        make_console().say(f"not run yet, so left out: {', '.join(missing)}")


# --- results as text -------------------------------------------------------------------------------------------------

SHOWN = 12  # GVFs with a row of their own


def mean_and_error(samples: np.ndarray) -> tuple[str, str]:
    """The mean over seeds [seed] and its standard error ("-" for a single seed)."""
    return f"{samples.mean():.4g}", f"± {standard_error(samples):.2g}" if len(samples) > 1 else "-"


def result_table(result: Result, world: Any) -> Table:
    """The errors at the end of the runs: each GVF's, their average, and the one outside the goals where it is measured."""
    table = make_table("GVF", "MSE", "standard error", "value error, mean |V - V̂|")
    live = getattr(world, "live", slice(None))  # the continuous grid is measured on its whole lattice
    gap = abs(result.values - result.details.truth)[:, :, live].mean(axis=(0, 2))
    for i, name in enumerate(result.names[:SHOWN]):
        table.add_row(name, *mean_and_error(result.mse[:, -1, i]), f"{gap[i]:.4g}")
    if len(result.names) > SHOWN:
        table.add_row(f"... {len(result.names) - SHOWN} more", "", "", "")
    table.add_section()
    table.add_row("average", *mean_and_error(result.error[:, -1]), f"{gap.mean():.4g}", style="bold")
    if "mse_outside" in result.details.extra:
        table.add_row("outside the goals", *mean_and_error(outside_goals(result)[:, -1]), "")
    return table
