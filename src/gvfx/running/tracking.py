"""Trackers: send every measurement of a run to a file of JSON lines, to TensorBoard or to Weights & Biases.

`evaluate(..., track="run.jsonl")` writes complete lines at all times; `track=[gvfx.TensorBoard("runs")]` and
`track=[gvfx.WeightsAndBiases("project")]` need their extras and can be combined with a file.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gvfx.errors import InputError, install
from gvfx.running.result import Result
from gvfx.types import Described

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
        path = Path(self.path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a", encoding="utf-8", buffering=1)  # a line at a time
        except OSError as error:
            raise InputError(f"track: cannot write {path} ({error.strerror}); name another file.") from None
        return lambda record: print(json.dumps(record), file=file), file.close


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
        run = wandb.init(project=self.project, mode=self.mode, dir=None if self.folder is None else str(self.folder))

        def log(record: Described) -> None:
            at = {"step": record["step"]}
            run.log(at | {f"seed {record['seed']}/{name}": value for name, value in _numbers(record).items()})

        return log, run.finish


def _not_installed(name: str, extra: str) -> InputError:
    return InputError(f"track: {name} is not installed; run {install(extra)}, or use track='run.jsonl'.")


def _numbers(record: Described) -> dict[str, float]:
    """The numbers of a record that can be plotted over steps."""
    return {name: value for name, value in record.items() if isinstance(value, float) and name not in ("seed", "step")}


Tracked = str | Path | Tracker  # a file of JSON lines, or a tracker


def as_trackers(track: Tracked | Sequence[Tracked]) -> tuple[Tracker, ...]:
    """Trackers from a file name, a tracker, or a list of either."""
    several = track if isinstance(track, Sequence) and not isinstance(track, str) else [track]
    made = tuple(JsonLines(t) if isinstance(t, str | Path) else t for t in several)
    for t in made:
        if not isinstance(t, Tracker):
            raise InputError(f"track: {t!r:.40} is not a tracker; give a file name, gvfx.TensorBoard or gvfx.WeightsAndBiases.")
    return made


class Tracking:
    """A listener that passes every measurement to trackers; the error is the estimated one if the truth is not known, and is
    left out if there is no estimate."""

    def __init__(self, track: Tracked | Sequence[Tracked] | None) -> None:
        self.begun = time.perf_counter()
        self.open: list[tuple[Log, Callable[[], None]]] = []
        try:
            for tracker in as_trackers(track) if track is not None else ():
                self.open.append(tracker.begin())
        except BaseException:
            self.close()
            raise

    def began(self, seed: int) -> None: ...
    def stepped(self, seed: int, t: int) -> None: ...

    def _tell(self, record: Described) -> None:
        for log, _ in self.open:
            log({k: v for k, v in record.items() if not (isinstance(v, float) and not math.isfinite(v))})

    def measured(self, seed: int, t: int, error: float) -> None:
        self._tell({"seed": seed, "step": t, "error": float(error), "seconds": round(time.perf_counter() - self.begun, 3)})

    def finish(self, result: Result) -> None:
        """Log the last record: the values and the description of the run."""
        last = {f"value: {name}": float(v) for name, v in zip(result.names, result.values.mean(axis=(0, 2)), strict=True)}
        self._tell({"seed": "all", "step": result.snapshots[-1].step, **last, "experiment": result.experiment})

    def close(self) -> None:
        for _, close in self.open:
            close()
