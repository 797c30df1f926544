"""Trackers: send every measurement of a run to a file of JSON lines, to TensorBoard, to Weights & Biases or elsewhere.

`evaluate(..., track="run.jsonl")` writes complete lines at all times; `track=[gvfx.TensorBoard("runs")]` and
`track=[gvfx.WeightsAndBiases("project")]` need their extras and can be combined with a file.  Anything with a method
`log(numbers)`, such as a run of Weights & Biases or Trackio, and any function of `numbers` is accepted as well.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gvfx.errors import InputError, install, printable, unwritten
from gvfx.files import append_line, open_lines
from gvfx.inputs import as_path, check_takes
from gvfx.running.result import Result
from gvfx.types import Described

# --- Listeners of a run: the progress bar, a function of the caller, trackers ---------------------------------------
# A run calls began(seed) when a seed starts, stepped(seed, t) several times a second, measured(seed, t, error) after every
# measurement, and close() at the end.


Report = Callable[[int, int, float], None]  # (seed, steps done, current error)


class Listeners:
    """What is called during a run: all that have `began(seed)`, `stepped(seed, t)`, `measured(seed, t, error)` or `close()`."""

    def __init__(self, *listeners: object) -> None:
        self.began, self.stepped, self.measured, self.close = (
            _each([getattr(listener, name) for listener in listeners if hasattr(listener, name)])
            for name in ("began", "stepped", "measured", "close")
        )


def _each(functions: Sequence[Callable[..., None]]) -> Callable[..., None]:
    """Calls all functions."""

    def call(*given: Any) -> None:
        for function in functions:
            function(*given)

    return call


class Calls:
    """Calls a function after every measurement."""

    def __init__(self, function: Report) -> None:
        self.measured = function


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


Log = Callable[[Described], None]


class Tracker(ABC):
    """A destination of measurements."""

    @abstractmethod
    def begin(self) -> tuple[Log, Callable[[], None]]:
        """A function that logs a record {"seed", "step", "error", ...}, and one that closes the tracker; raises InputError if
        a package is missing."""


@dataclass(frozen=True)
class JsonLines(Tracker):
    """One JSON object per line, appended to a file."""

    path: str | Path

    def begin(self) -> tuple[Log, Callable[[], None]]:
        path = as_path(self.path, "track")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = open_lines(path)
        except OSError as error:
            raise InputError(f"track: {unwritten(path, error)}") from None
        return lambda record: append_line(handle, json.dumps(record)), lambda: os.close(handle)


@dataclass(frozen=True)
class TensorBoard(Tracker):
    """Event files in a folder; needs the extra `tensorboard`."""

    folder: str | Path

    def begin(self) -> tuple[Log, Callable[[], None]]:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise _not_installed("TensorBoard", "tensorboard") from None
        writer = SummaryWriter(str(self.folder))

        def log(record: Described) -> None:
            for name, value in _numbers(record).items():
                writer.add_scalar(f"seed {record['seed']}/{name}", value, record["step"])

        return log, writer.close


@dataclass(frozen=True)
class WeightsAndBiases(Tracker):
    """A run of Weights & Biases, stored locally unless mode="online"; needs the extra `wandb`."""

    project: str = "gvfx"
    mode: str = "offline"
    folder: str | Path | None = None

    def begin(self) -> tuple[Log, Callable[[], None]]:
        try:
            import wandb
        except ImportError:
            raise _not_installed("Weights & Biases", "wandb") from None
        folder = None if self.folder is None else str(self.folder)
        try:
            run = wandb.init(project=self.project, mode=self.mode, dir=folder, reinit="create_new")
        except Exception as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"track: Weights & Biases cannot begin a run ({reason}); try mode='offline'.") from None
        return lambda record: run.log(flat(record)), run.finish


class Sink(Protocol):
    """Anything that takes numbers by name, such as a run of Weights & Biases or the module trackio."""

    @property
    def log(self) -> Callable[..., object]: ...


@dataclass(frozen=True)
class Given(Tracker):
    """What the caller has opened: a function that takes numbers by name (`flat`); closing it is the caller's."""

    function: Callable[[dict[str, float]], object]

    def begin(self) -> tuple[Log, Callable[[], None]]:
        return lambda record: (self.function(flat(record)), None)[1], lambda: None


def flat(record: Described) -> dict[str, float]:
    """A record as numbers by name: "step", "seed 0/error", "seed 0/seconds", and at the end "seed all/value: ..."."""
    at = {"step": int(str(record["step"]))}
    return at | {f"seed {record['seed']}/{name}": value for name, value in _numbers(record).items()}


def _not_installed(name: str, extra: str) -> InputError:
    return InputError(f"track: {name} is not installed; run {install(extra)}, or use track='run.jsonl'.")


def _numbers(record: Described) -> dict[str, float]:
    """The numbers of a record that can be plotted over steps."""
    return {name: value for name, value in record.items() if isinstance(value, float) and name not in ("seed", "step")}


Function = Callable[[dict[str, float]], object]
Tracked = str | Path | Tracker | Sink | Function  # a file of JSON lines, a tracker, or what takes numbers by name


def as_trackers(track: Tracked | Sequence[Tracked]) -> tuple[Tracker, ...]:
    """Trackers from a file name, a tracker, something with a method `log`, a function, or a list of these."""
    return tuple(map(_as_tracker, track if isinstance(track, list | tuple) else [track]))


def _as_tracker(track: Any) -> Tracker:
    if isinstance(track, str | Path):
        return JsonLines(as_path(track, "track"))
    if isinstance(track, type):
        raise InputError(f"track: {track.__name__} is a class; give an object, {track.__name__}(...).")
    if isinstance(track, Tracker):
        return track
    function = getattr(track, "log", track)
    if isinstance(track, logging.Logger) or track is math or not callable(function):
        raise InputError(
            f"track: {track!r:.40} is not a tracker; give a file name, gvfx.TensorBoard(...), gvfx.WeightsAndBiases(...), "
            "a function of a dict of numbers, or an object whose method log takes one."
        )
    check_takes(function, "track", {})
    return Given(function)


class Tracking:
    """A listener that passes every measurement to trackers; without a known truth the error is the estimated one,
    and without an estimate it is omitted."""

    def __init__(self, track: Tracked | Sequence[Tracked] | None) -> None:
        self.begun = time.perf_counter()
        self.open: list[tuple[Log, Callable[[], None]]] = []
        self.failed: list[tuple[Log, Callable[[], None]]] = []
        try:
            for tracker in as_trackers(track) if track is not None else ():
                self.open.append(tracker.begin())
        except BaseException:
            self.close()
            raise

    def _log(self, record: Described) -> None:
        """Log a record; a tracker that fails is left out from then on, and the run continues."""
        for tracker in list(self.open):
            try:
                tracker[0]({k: v for k, v in record.items() if not (isinstance(v, float) and not math.isfinite(v))})
            except Exception as error:
                self.open.remove(tracker)
                self.failed.append(tracker)
                reason = " ".join(str(error).split()).rstrip(".")
                what = f"track: a tracker raised {type(error).__name__} ({reason}); the run continues without it."
                warnings.warn(printable(what), stacklevel=2)

    def measured(self, seed: int, t: int, error: float) -> None:
        self._log({"seed": seed, "step": t, "error": float(error), "seconds": round(time.perf_counter() - self.begun, 3)})

    def finish(self, result: Result) -> None:
        """Log the last record: the values and the description of the run."""
        last = {f"value: {name}": float(v) for name, v in zip(result.names, result.values.mean(axis=(0, 2)), strict=True)}
        self._log({"seed": "all", "step": result.details.snapshots[-1].step, **last, "experiment": result.details.experiment})

    def close(self) -> None:
        for _, close in self.open:
            close()
        for _, close in self.failed:
            with suppress(Exception):  # it has failed before
                close()
