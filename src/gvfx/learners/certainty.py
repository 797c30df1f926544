"""CertaintyEquivalence: estimate the world from counts, and solve every question exactly in the estimated world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.inputs import check_fields
from gvfx.kernel import LearnerRule, Sizes, learn_nothing_at_end, piece
from gvfx.learners.base import Learner
from gvfx.questions.gvf import Stacked
from gvfx.schedules import growing
from gvfx.worlds.mdp import MDP

AUTO = (0.0, 0.03, 0.1, 0.3, 1.0)  # the rates that "auto" chooses from


class ModelTables(NamedTuple):
    """q is empty (values are computed on request); m [row, action, gvf] is read by behaviours."""

    q: np.ndarray
    m: np.ndarray


@dataclass(frozen=True)
class CertaintyEquivalence(Learner[ModelTables]):
    """Values of all GVFs by linear solves in the model estimated from counts; asymptotically efficient (docs/limit.md).

    forgetting: for drifting cumulants, the smallest weight of a new value in the running mean of its outcome: 0 is the plain
                mean, 1 the last value seen, "auto" uses for each GVF the rate that has predicted its cumulants best.  The
                transition model never forgets.
    initial_m:  the variance M of pairs without data, for behaviours that read M; elsewhere M is that of the model (Eq. 6),
                recomputed each time the data grow by `growth`.
    """

    forgetting: float | Literal["auto"] = 0.0
    initial_m: float = 5.0
    growth: float = 1.3

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    needs_evidence: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        if self.forgetting != "auto" and not (isinstance(self.forgetting, Real) and 0 <= self.forgetting <= 1):
            raise InputError(f"forgetting: {self.forgetting!r} is not a valid rate; give a number within [0, 1], or 'auto'.")
        if self.initial_m < 0:
            raise InputError(f"initial_m: {self.initial_m} is negative; a variance starts at 0 or above.")
        if not self.growth > 1:
            raise InputError(f"growth: {self.growth} must exceed 1, the factor by which data grow between two solves.")

    @property
    def forgetting_rates(self) -> tuple[float, ...]:  # type: ignore[override]
        if self.forgetting == "auto":
            return AUTO
        return (float(self.forgetting),) if self.forgetting else ()

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        return _nothing_between_stops()

    def begin(self, asked: Stacked, world: MDP) -> ModelTables:
        m = np.full((world.rows, world.actions, len(asked.names)), float(self.initial_m))
        return ModelTables(np.zeros((0, world.actions, len(asked.names))), m)

    def stops(self, steps: int) -> Sequence[int]:
        return growing(100, self.growth, steps)

    def refresh(self, state: ModelTables, model: Empirical) -> None:
        tried = model.tried
        state.m[model.world.feature[:, None], np.arange(model.world.actions)] = np.where(
            tried[:, :, None], model.variance(), self.initial_m
        )

    def improvements(self, steps: int) -> Sequence[int]:
        return self.stops(steps)

    def improved(self, state: ModelTables, model: Empirical, tried: np.ndarray) -> np.ndarray:
        return model.converged_policies()

    def values(self, state: ModelTables, model: Empirical) -> np.ndarray:
        return model.values


@cache
def _nothing_between_stops() -> LearnerRule:
    @piece
    def update(state, t, tr, c, gamma, pi):
        """Nothing: the loop has counted the transition."""

    return LearnerRule(update, learn_nothing_at_end)
