"""Backends and streams: what `gvfx.running.drive` drives.

A *backend* holds what the seeds of a run share; its `begin(seed)` returns a *stream*, one seed's experience and what is learned
from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import Calibrated
from gvfx.evidence.counts import Empirical
from gvfx.evidence.joint import Groups, Joint, joint_of
from gvfx.evidence.uncertainty import LOOK_GROWTH, ErrorBelow
from gvfx.questions.where import EVERYWHERE, Where
from gvfx.running.earlier import Earlier
from gvfx.running.plan import Plan
from gvfx.running.record import Measurement, Part, answered_weights


class Stream(ABC):
    """The experience of one seed (or of several advanced together) and what is learned from it."""

    seeds: tuple[int, ...]
    t: int = 0  # environment steps done
    grain: int = 1  # `advance` makes steps in multiples of this
    stops: frozenset[int] = frozenset()  # times at which the stream itself must pause
    plans: frozenset[int] = frozenset()  # those at which its behaviour plans

    @abstractmethod
    def start(self) -> None:
        """Prepare for the first step, or for the next one after `restore`; slow work that is not learning belongs here."""

    @abstractmethod
    def advance(self, to: int) -> None:
        """Step and learn until at least `to` steps are done."""

    def pause(self, stop: int) -> None:  # noqa: B027 (most have nothing to do)
        """Do what is due at a stop: plan, refresh tables, improve policies."""

    def check(self) -> None:  # noqa: B027
        """Raise Diverged if a number is no longer finite."""

    @property
    def known(self) -> Empirical:
        """The evidence so far, if the run keeps it."""
        raise AttributeError("this stream keeps no evidence")

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        """What a stopping rule finds now, after `looks` checks that could have stopped the run (`ErrorBelow.bound`)."""
        return until.bound(self.known, looks)

    def joint(self, groups: Groups) -> Joint:
        """The values at the start now, with the errors of their differences between questions of the same group."""
        return joint_of(self.known, groups)

    def weigh(self, weights: np.ndarray) -> None:  # noqa: B027
        """Weigh the questions anew in plans from now on, [gvf]."""

    @abstractmethod
    def episodes(self) -> list[int]:
        """Finished episodes of each seed."""

    @abstractmethod
    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        """Measure each seed: the error for the curve, the tables of a snapshot, or both."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Everything that the rest of the run depends on, as named arrays."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from arrays that `state` returned."""

    def outcome(self, k: int) -> dict[str, Any]:
        """Additional fields of the k-th seed's part at the end: truth, model, network, actor."""
        return {}

    def resumed(self) -> str:
        """What a user must know about continuing from a checkpoint; empty if the result is the same."""
        return ""


class Backend(ABC):
    """What the seeds of a run share."""

    names: tuple[str, ...]
    weights: np.ndarray  # [gvf]
    behaviour: Behaviour
    learner: Any
    plan: Plan
    why: str = ""  # why its method was chosen, if it was not given
    pairs: int = 0  # states times actions, of tables
    look_growth: float = LOOK_GROWTH  # of the data between two checks of a stopping rule
    one_environment: bool = False  # seeds cannot run in parallel, because they step the caller's environment
    knows_truth: bool = True
    calibrated: bool = False  # whether each weight is divided by the GVF's mean square value
    where: Where = EVERYWHERE  # where errors count
    audit: float = 0.0  # the share of steps for audits
    audit_ranges: np.ndarray = np.empty((0, 2))  # [gvf, 2] of cumulants, where they are known
    audits_early: bool = False  # whether some are made before the end, for a stopping rule
    tag: str = ""  # in the names of its checkpoints
    left_out: tuple[str, ...] = ()  # entries of the environment's observations that are not read
    log: Earlier | None = None  # the transitions from which it starts
    asked_at: np.ndarray = np.empty(0)  # [point, o] the observations at which errors count, if they were given

    @property
    def logged(self) -> int:
        """The number of transitions of the log from which it starts."""
        return 0 if self.log is None else len(self.log)

    @abstractmethod
    def begin(self, seed: int) -> Stream:
        """The stream of a seed, before its first step."""

    def described(self) -> dict[str, Any]:
        """The description of the run in its result."""
        behaviour = self.behaviour.behaviour if isinstance(self.behaviour, Calibrated) else self.behaviour
        said = {"behaviour": repr(behaviour), "learner": repr(self.learner), "steps": self.plan.steps}
        said |= {"calibrate": True} if self.calibrated else {}
        said |= {} if self.where == EVERYWHERE else {"where": str(self.where)}
        said |= {"audit": self.audit} if self.audit else {}
        said |= {} if self.log is None else {"log": len(self.log)}
        return said | ({"chosen": self.why} if self.why else {})

    def weigh(self, answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The GVFs' weights in reported errors [gvf]; `answers` as in `answered_weights`, read if the truth is not known."""
        return self.weights if self.knows_truth or not self.calibrated else answered_weights(self.weights, answers)

    def aligned(self, parts: Sequence[Part]) -> list[Part]:
        """The seeds' parts with the same states in the same order."""
        return list(parts)

    def predictor(self, parts: list[Part]) -> Any:
        """The predictor of the result; None uses the result's tables."""
        return None
