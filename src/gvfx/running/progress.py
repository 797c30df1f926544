"""Listeners of a run: the progress bar, a function of the caller, trackers.

A run calls began(seed) when a seed starts, stepped(seed, t) several times a second, measured(seed, t, error) after every
measurement, and close() at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from gvfx.errors import InputError
from gvfx.inputs import check_takes

Report = Callable[[int, int, float], None]  # (seed, steps done, current error)


class Listener(Protocol):
    """The interface of a listener."""

    def began(self, seed: int) -> None: ...
    def stepped(self, seed: int, t: int) -> None: ...
    def measured(self, seed: int, t: int, error: float) -> None: ...
    def close(self) -> None: ...


class Listeners:
    """Several listeners as one."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def began(self, seed: int) -> None:
        for each in self.listeners:
            each.began(seed)

    def stepped(self, seed: int, t: int) -> None:
        for each in self.listeners:
            each.stepped(seed, t)

    def measured(self, seed: int, t: int, error: float) -> None:
        for each in self.listeners:
            each.measured(seed, t, error)

    def close(self) -> None:
        for each in self.listeners:
            each.close()


class Calls:
    """Calls a function after every measurement."""

    def __init__(self, function: Report) -> None:
        self.function = function

    def began(self, seed: int) -> None: ...
    def stepped(self, seed: int, t: int) -> None: ...
    def close(self) -> None: ...

    def measured(self, seed: int, t: int, error: float) -> None:
        self.function(seed, t, error)


class Bar:
    """A bar over the steps of all seeds; shows "compiling" until the first step."""

    def __init__(self, steps: int, seeds: Iterable[int]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.done = dict.fromkeys(seeds, 0)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, TextColumn("{task.fields[error]}"), console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("compiling", total=steps * len(self.done), error="", start=False)
        self.bar.start()

    def began(self, seed: int) -> None:
        self.bar.start_task(self.task)
        self.bar.update(self.task, description="learning" if len(self.done) == 1 else f"learning, seed {seed}")

    def stepped(self, seed: int, t: int) -> None:
        self.done[seed] = t
        self.bar.update(self.task, completed=sum(self.done.values()))

    def measured(self, seed: int, t: int, error: float) -> None:
        self.bar.update(self.task, error=f"error {error:.3g}" if error == error else "")

    def close(self) -> None:
        self.bar.stop()


def wants_bar() -> bool:
    """Whether to show a bar by default: in a terminal or a notebook."""
    shell: Any = sys.modules.get("IPython")
    inside = shell.get_ipython() if shell is not None else None
    return sys.stderr.isatty() or (inside is not None and type(inside).__name__ == "ZMQInteractiveShell")


def listener(progress: bool | Report | None, steps: int, seeds: Iterable[int]) -> Listeners:
    """The listener for `evaluate(progress=...)`: True, False, a function, or None for a bar in a terminal or notebook."""
    if progress is None or isinstance(progress, bool):
        return Listeners(Bar(steps, seeds)) if progress or (progress is None and wants_bar()) else Listeners()
    if not callable(progress) or isinstance(progress, type):
        raise InputError(f"progress: {progress!r:.40} cannot be called; give True, False, or a function of (seed, step, error).")
    check_takes(progress, "progress", 0, 1, 0.5)  # seed, step, error
    return Listeners(Calls(progress))
