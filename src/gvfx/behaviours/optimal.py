r"""OptimalDesign: go where the answers' error falls fastest, learning the world on the way.

The error of certainty equivalence after n(s, a) visits is about sum G / n (`gvfx.design`).  From a cold start nothing of
it is known, so: act at random for a while; then, each time the data have grown by a fixed factor, estimate the world and
with it G, choose the behaviour that minimises sum G / (n + m x) over the visits x that the estimated world allows, and
follow it.  Estimates from few visits are kept honest in three ways:

- transitions and noise of a pair are those of `prior` further visits in which the action did what the actions of that
  state did on average, so that a single visit does not look free of noise and an untried action is worth trying.  A pair
  that by chance has not shown its rare outcomes looks sure, is visited less, and stays wrong: the more a plan believes
  single pairs, and the oftener it is renewed, the more the answers are biased (Nie et al. 2018, of means that were
  sampled adaptively).  Hence a large `prior` and few plans;
- no pair's importance is taken to be less than a share `floor` of a typical one: while no cumulant was seen at all,
  this alone spreads the visits evenly over everything within reach;
- a share `random` of the actions stays random.

It reads nothing but the evidence of the run, so any learner goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import Smoothed
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import growing
from gvfx.theory.importance import importance
from gvfx.theory.optimum import remaining_design


class PlannedState(NamedTuple):
    table: np.ndarray  # [row, action]


@dataclass(frozen=True)
class OptimalDesign(Behaviour):
    """The behaviour that minimises the predicted error of all answers, planned anew each time the data grow by `growth`.

    first:  steps at random before the first plan (default: three for every state and action).
    growth: factor by which the data grow between two plans.
    ahead:  how far a plan looks, as a multiple of the data so far.
    prior:  visits' worth of trust in "this action does what the state's other actions did".
    floor:  the least importance of a pair, relative to a typical one.
    random: share of random actions.
    """

    first: int | None = None
    growth: float = 2.0
    ahead: float = 1.0
    prior: float = 60.0
    floor: float = 0.03
    random: float = 0.02

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    explores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise InputError(f"first: {self.first} random steps are too few to plan from; give at least 1, or None.")
        if not (self.growth > 1 and self.ahead > 0):
            raise InputError("growth: OptimalDesign needs growth > 1 and ahead > 0, so that plans look forward.")
        if not (self.prior > 0 and self.floor > 0 and 0 <= self.random <= 1):
            raise InputError("floor: OptimalDesign needs prior > 0 and floor > 0, and random within [0, 1].")

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _rule(sizes.actions)

    def begin(self, asked: Stacked, world: Any) -> PlannedState:
        return PlannedState(np.full((world.rows, world.actions), 1 / world.actions))

    def stops(self, steps: int, world: Any) -> Sequence[int]:
        return growing(self.first or 3 * world.rows * world.actions, self.growth, steps)

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        known, need = self.needs(model)
        steps = known.visits.sum()
        mu = remaining_design(known.model, need, known.visits, self.ahead * steps)
        state.table[:] = (1 - self.random) * mu + self.random / mu.shape[1]

    def needs(self, model: Empirical) -> tuple[Smoothed, np.ndarray]:
        """The smoothed model, and every pair's importance G [row, action]: its n visits leave an error of about G / n."""
        known = Smoothed(model, self.prior)
        need = importance(known.model, known.pi, known.gamma, known.noise, known.weights, known.where)
        going = known.model.going
        typical = np.sqrt(need[going]).mean() ** 2 if going.any() else 0.0
        return known, np.maximum(need, self.floor * typical if typical > 0 else 1.0)


@cache
def _rule(actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            mu[a] = state.table[x, a]

    return BehaviourRule(probabilities, observe_nothing, end_nothing)
