"""LinearCertaintyEquivalence: certainty equivalence for continuous observations, in features chosen from the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.evidence.transitions import Transitions
from gvfx.inputs import check_fields
from gvfx.learners.base import Learner
from gvfx.learners.half_samples import Answers, answered
from gvfx.learners.linear_fit import Fit, fitted
from gvfx.learners.selection import Choice, choose
from gvfx.learners.support import missing
from gvfx.schedules import growing
from gvfx.threads import one_thread

FEATURES = ("auto", "lattice", "kernel")
FIRST, GROWTH = 300, 2.0  # steps before features are first chosen, and the growth of data between two choices
LARGEST = 12  # numbers in an observation up to which this learner is the default
UNRESOLVED = 0.5  # share of the targets' variance that is left, above which finer features matter
TOO_LARGE = 1e100  # signals whose squares would overflow
SHARPER = 0.9  # of the error at half the resolution: below it, resolution matters


class NoTables(NamedTuple):
    """The state of a learner that keeps transitions instead of tables; `m` [cell, action, gvf] is read by behaviours."""

    q: np.ndarray
    m: np.ndarray


@dataclass(frozen=True)
class LinearCertaintyEquivalence(Learner[NoTables]):
    """Values of all GVFs by linear solves in features of continuous observations (LSTD-Q), all of them chosen from the data.

    features:  "lattice" (piecewise linear, for one or two inputs that vary), "kernel", or "auto": a lattice where it fits.
    capacity:  transitions that are kept; beyond, a random sample of all of them is.
    intervals: whether half-samples are fitted for error bars.
    """

    features: Literal["auto", "lattice", "kernel"] = "auto"
    capacity: int = 1_000_000
    intervals: bool = True

    supports: ClassVar[frozenset[str]] = frozenset({"linear"})

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        if self.features not in FEATURES:
            raise UnknownName("features", str(self.features), FEATURES)
        if not isinstance(self.capacity, int | np.integer) or self.capacity < 100:
            raise InputError(f"capacity: {self.capacity!r} transitions are too few; give at least 100.")

    def stops(self, steps: int) -> Sequence[int]:
        return growing(FIRST, GROWTH, steps)

    def choose(self, data: Transitions, seed: int = 0) -> Choice:
        """The features for these transitions; refuses signals that are too large to be squared."""
        if (largest := np.abs(data.cumulant).max()) > TOO_LARGE:
            raise InputError(f"cumulant: a signal reached {largest:.3g}, too large to be squared; give it in other units.")
        with one_thread():
            return choose(data, self.features, seed)

    def fit(self, data: Transitions, choice: Choice, halved: bool = False) -> Fit:
        """The fit with chosen features, or with half their resolution."""
        with one_thread():
            basis = choice.basis.halved() if halved else choice.basis
            return fitted(basis.rows(data), basis)

    def answers(self, data: Transitions, choice: Choice, seed: int = 0, intervals: bool = True) -> Answers:
        """The answers with chosen features, with error bars if they are wanted and kept."""
        with one_thread():
            return answered(data, choice.basis, seed, intervals and self.intervals)


def unresolved(data: Transitions, choice: Choice, names: tuple[str, ...]) -> dict[str, str]:
    """The questions that the transitions or the chosen features do not resolve, each with the reason."""
    out = {}
    for name, reason, left, coarse in zip(names, missing(data), choice.score, choice.halved, strict=True):
        if reason:
            out[name] = f"not resolved: {reason}."
        elif left > UNRESOLVED and left < SHARPER * coarse:
            out[name] = (
                f"not resolved: {left:.0%} of what follows a transition is left unexplained, and finer features would explain "
                "more; its intervals may be too narrow; give more steps, fewer inputs or gvfx.Deep()."
            )
    return out


def left_out(choice: Choice, size: int) -> str:
    """Which of the `size` numbers of an observation are not used, in words; empty if all are."""
    scaling = choice.basis.scaling
    if not scaling.size:
        return "no number of an observation ever changed, so every observation has the same answers"
    constant, copies = len(scaling.still), size - scaling.size - len(scaling.still)
    words = [f"{constant} never changed"] * (constant > 0) + [f"{copies} repeat others"] * (copies > 0)
    return f"{scaling.size} of {size} numbers of an observation ({', '.join(words)})" if words else ""
