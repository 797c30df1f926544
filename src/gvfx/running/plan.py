"""The options of a run, checked: its method, the times of its measurements and snapshots, its seeds, and all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.decisions import WHERE, Decided, Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.files import check_writable
from gvfx.inputs import is_real, listed, shown, whole
from gvfx.learners.base import Learner
from gvfx.questions.gvf import GVF, Audit
from gvfx.questions.where import WhereLike, is_start
from gvfx.running.checkpoint import folder_for
from gvfx.running.log_table import LogLike
from gvfx.running.stepping import StepLimit

MOST = 1_000_000  # measurements, snapshots or seeds of a run


def checked_seeds(seeds: int | Iterable[int], seed: int | None = None) -> tuple[int, ...]:
    """The seeds of a run: a count or a list of distinct non-negative integers, or one seed alone."""
    if seed is not None:
        if not (isinstance(seeds, int) and seeds == 1):
            raise InputError("seed: give either seed=3 for one run or seeds=... for several, not both.")
        return (_seed(seed, "seed"),)
    if not isinstance(seeds, Iterable) and whole(seeds, "seeds") > MOST:
        raise InputError(f"seeds: {seeds} runs are more than {MOST:,}; to run one seed of that number, give seed={seeds}.")
    counted = range(whole(seeds, "seeds")) if not isinstance(seeds, Iterable) else listed(seeds, "seeds", "seeds")
    each = tuple(_seed(s, "seeds") for s in counted)
    if not each:
        raise InputError(f"seeds: {seeds!r} must be at least 1; give a count, or the seeds themselves.")
    if len(set(each)) < len(each):
        raise InputError("seeds: give distinct seeds of at least 0.")
    return each


def _seed(seed: int, field: str) -> int:
    if (number := whole(seed, field)) < 0:
        raise InputError(f"{field}: {number} is negative; give distinct seeds of at least 0.")
    return number


def checked_share(audit: object, default: float = 0.0) -> float:
    """The share of the steps that audits take; None is the default."""
    if isinstance(audit, Audit):
        audit = audit.share
    if audit is None:
        return default
    if not (is_real(audit) and isinstance(audit, int | float | np.number) and 0 <= audit < 1):
        raise InputError(f"audit: {shown(audit)} is not a share of the steps; give a number of at least 0 and below 1.")
    return float(audit)


@dataclass(frozen=True)
class Plan:
    """The length of a run and the times of its measurements and snapshots."""

    steps: int
    evaluations: tuple[int, ...]
    snapshots: tuple[int, ...]
    average_episodes: int = 0  # 0: the error of the current estimates; else the mean over those after each of the last episodes

    @classmethod
    def given(cls, steps: float | Plan, every: float | None, snapshots: Iterable[float]) -> Plan:
        """The plan of these arguments, or one that stands in the place of the steps."""
        if not isinstance(steps, Plan):
            return cls.checked(steps, every, snapshots)
        if every is not None or [*snapshots]:
            raise InputError("steps: a plan has the times of measurements and snapshots; leave evaluate_every and snapshots out.")
        return steps

    @classmethod
    def checked(cls, steps: float, every: float | None, snapshots: Iterable[float], average_episodes: int = 0) -> Plan:
        steps = whole(steps, "steps")
        if steps < 1:
            raise InputError(f"steps: {steps} is too few; give at least 1.")
        every = max(1, steps // 20) if every is None else whole(every, "evaluate_every")
        if every < 1:
            raise InputError(f"evaluate_every: {every} is too few; give at least 1 step between measurements.")
        if steps // every > MOST:
            raise InputError(f"evaluate_every: {every} means {steps // every:,} measurements; give at least {steps // MOST:,}.")
        wanted = sorted({whole(s, "snapshots") for s in listed(snapshots, "snapshots", "steps")})
        if wanted and not (wanted[0] >= 1 and wanted[-1] <= steps):
            raise InputError(f"snapshots: {wanted} must lie between 1 and the {steps} steps of the run.")
        average_episodes = whole(average_episodes, "average_episodes")
        if average_episodes < 0:
            raise InputError(
                f"average_episodes: {average_episodes} is negative; give 0 for the current error, or a number of episodes."
            )
        evaluations = tuple(sorted({*range(every, steps + 1, every), steps}))
        return cls(steps, evaluations, tuple(sorted({*wanted, steps})), average_episodes)

    @property
    def stops(self) -> list[int]:
        """The times of all measurements and snapshots."""
        return sorted({*self.evaluations, *self.snapshots})

    def from_on(self, stop: int) -> list[int]:
        """The stops from a time on, for a run that ends there."""
        return [time for time in self.stops if time >= stop]


class Method(NamedTuple):
    """A behaviour and a learner; None stands for the default of the kind of run."""

    behaviour: Any = None
    learner: Any = None

    def allows(self, kind: str) -> bool:
        """Whether it can be of this kind (`gvfx.kernel.KINDS`): a learner decides, else a behaviour, if they are given."""
        given = self.learner if isinstance(self.learner, Learner) else self.behaviour
        return kind in given.supports if isinstance(given, Learner | Behaviour) else True


@dataclass(frozen=True)
class Options:
    """Every option of a run, as `gvfx.evaluate` describes them; passed whole from there to what uses them."""

    plan: Plan
    until: ErrorBelow | Decision | None = None
    calibrate: bool = False
    where: WhereLike = None
    audit: float | Audit | None = 0.0
    log: LogLike | None = None
    numbered: bool = True  # whether observations of a few whole numbers are numbered as they are met and answered from tables
    seeds: tuple[int, ...] = (0,)
    workers: int = 1
    save: str | Path | None = None
    checkpoint: str | Path | None = None  # a folder
    checkpoint_every: float | None = None  # seconds
    step_limit: float | None = None  # seconds

    def __post_init__(self) -> None:
        whole(self.workers, "workers", least=1)
        if not isinstance(self.calibrate, bool):
            raise InputError(f"calibrate: {self.calibrate!r:.40} is neither True nor False; give one of them.")
        every = self.checkpoint_every
        if every is not None and not (is_real(every) and every >= 0):
            raise InputError(f"checkpoint_every: {every!r:.40} is not a number of seconds; give one, such as 60.")
        if every is not None and self.checkpoint is None:
            raise InputError("checkpoint_every: there are no checkpoints; give their folder with checkpoint=.")
        StepLimit(self.step_limit)  # refuses what is not a time

    def with_places(self) -> Options:
        """The same with a folder and a file that can be written."""
        folder = None if self.checkpoint is None else folder_for(self.checkpoint)
        return replace(self, checkpoint=folder, save=None if self.save is None else check_writable(self.save, "save"))


def rule_for(until: ErrorBelow | Decided | None, where: WhereLike, questions: Sequence[GVF]) -> dict[str, Any]:
    """The stopping rule for some questions, and where errors count: a decision is about values at the start."""
    if not isinstance(until, Decided):
        return {"until": until, "where": where}
    rule = until.on(questions)
    if where is not None and not is_start(where):
        raise InputError(WHERE)
    return {"until": rule, "where": "start"}
