"""Progress bars of runs on the paper's settings, and the short names that settings have for behaviours."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gvfx.cli.terminal import class_name, exchanged, raise_if_stopped
from gvfx.errors import UnknownName, printable
from gvfx.names import SHORT_NAMES

_SHORT = {name.lower(): short for name, short in SHORT_NAMES.items()}


def short_name(name: str) -> str:
    """A name with the paper's short name in place of the class name; names that have none stay as they are."""
    return exchanged(name, _SHORT)


def accepted_name(setting: Any, behaviour: str) -> str:
    """The spelling of a behaviour that a setting accepts; an unknown name is left to the setting, which lists its own."""
    for name in (class_name(behaviour), short_name(behaviour)):
        try:
            setting.experiment(name)
        except UnknownName:
            continue
        return name
    return behaviour


Report = Callable[[str, int, int, float], None]  # (behaviour, seed, steps done, current error)


@contextmanager
def progress_bars(totals: Mapping[str, int], console: Console | None = None) -> Iterator[Report]:
    """One bar per behaviour, for behaviours that are run one after the other; totals: environment steps over all seeds.

    A bar shows "compiling" until the first report arrives, then steps per second and the current MSE.
    """
    columns = (
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[state]:>14}"),
        TextColumn("{task.fields[error]:<13}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=not sys.stdout.isatty()) as bars:
        tasks = {
            name: bars.add_task(printable(class_name(name)), total=None, state="waiting", error="", start=False)
            for name in totals
        }
        waiting = iter(totals)
        done: dict[str, dict[int, int]] = {name: {} for name in totals}
        begun: dict[str, float] = {}

        def start_next() -> None:
            for name in waiting:
                bars.start_task(tasks[name])
                bars.update(tasks[name], state="compiling")
                return

        def report(name: str, seed: int, steps: int, error: float) -> None:
            raise_if_stopped()
            now = time.perf_counter()
            elapsed = now - begun.setdefault(name, now)
            done[name][seed] = steps
            total = sum(done[name].values())
            state = speed(total / elapsed) if elapsed > 0.02 else ""
            bars.update(tasks[name], total=totals[name], completed=total, state=state, error=f"MSE {error:.4g}")
            if total >= totals[name]:
                start_next()

        start_next()
        yield report


def speed(per_second: float) -> str:
    """Steps per second in few characters."""
    return f"{per_second / 1e6:.1f} M steps/s" if per_second > 2e5 else f"{per_second:,.0f} steps/s"
