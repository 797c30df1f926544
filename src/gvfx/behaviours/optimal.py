r"""OptimalDesign: visit the pairs that reduce the error of the answers fastest, estimating the world during the run.

The error of certainty equivalence after n(s, a) visits is about sum G / n (`gvfx.design`).  At the start G is unknown, so
the behaviour acts at random for a while; then, each time the data have grown by a fixed factor, it estimates the world and
G, chooses the behaviour that minimises sum G / (n + m x) over the visits x that the estimated world allows, and follows it.
Three things protect against estimates from few visits:

- every pair's data are combined with `prior` visits in which the action did what the actions of that state did on average,
  so that a single visit does not look noise-free and an untried action is worth trying.  A pair whose rare outcomes have not
  occurred yet looks certain, is visited less, and stays wrong: the more a plan trusts single pairs, and the more often it is
  renewed, the more the answers are biased (Nie et al. 2018, on adaptively sampled means).  Hence a large `prior` and few
  plans;
- no pair's importance is taken to be less than a share `floor` of a typical one: before any cumulant has been seen, this
  spreads the visits evenly over all reachable pairs;
- a share `random` of the actions stays random.

It reads only the evidence of the run, so it can be combined with any tabular learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.cell_model import CellModel
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import Smoothed
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import growing
from gvfx.theory.importance import importance
from gvfx.theory.optimum import remaining_design
from gvfx.worlds.mdp import MDP

CELL_GROWTH, CELL_PRIOR = 1.5, 10.0  # the defaults on cells


class PlannedState(NamedTuple):
    table: np.ndarray  # [row, action]
    share: np.ndarray  # [1] of the actions that follow the target policies, blended with uniform; 0 on tables


@dataclass(frozen=True)
class OptimalDesign(Behaviour[PlannedState]):
    """The behaviour that minimises the predicted error of all answers, replanned each time the data grow by `growth`.

    first:  random steps before the first plan (default: three per state and action).
    growth: factor by which the data grow between two plans.
    ahead:  planning horizon, as a multiple of the data so far.
    prior:  number of prior visits in which an action does what the state's actions did on average.
    floor:  the smallest importance of a pair, relative to a typical one.
    random: share of random actions.

    With continuous observations a row is a cell of them (`gvfx.features.cells`).  Default `growth` and `prior` are then 1.5 and
    10, the noise of a cell is that of the learner's temporal-difference errors, and where the features' resolution limits the
    answers rather than chance, a share of the actions follows the target policies, blended half with uniform.
    """

    first: int | None = None
    growth: float = 2.0
    ahead: float = 1.0
    prior: float = 60.0
    floor: float = 0.03
    random: float = 0.02

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear"})
    explores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise InputError(f"first: {self.first} random steps are too few for a plan; give at least 1, or None.")
        if not (self.growth > 1 and self.ahead > 0):
            raise InputError("growth: OptimalDesign needs growth > 1 and ahead > 0.")
        if not (self.prior > 0 and self.floor > 0 and 0 <= self.random <= 1):
            raise InputError("floor: OptimalDesign needs prior > 0 and floor > 0, and random within [0, 1].")

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _rule(sizes.actions)

    def begin(self, asked: Stacked, world: MDP) -> PlannedState:
        return PlannedState(np.full((world.rows, world.actions), 1 / world.actions), np.zeros(1))

    def on_cells(self) -> OptimalDesign:
        growth = CELL_GROWTH if self.growth == OptimalDesign.growth else self.growth
        return replace(self, growth=growth, prior=CELL_PRIOR if self.prior == OptimalDesign.prior else self.prior)

    def stops(self, steps: int, world: MDP) -> Sequence[int]:
        return growing(self.first or 3 * world.rows * world.actions, self.growth, steps)

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        known, need = self.needs(model)
        steps = known.visits.sum()
        mu = remaining_design(known.model, need, known.visits, self.ahead * steps)
        state.table[:] = (1 - self.random) * mu + self.random / mu.shape[1]
        state.share[:] = model.share if isinstance(model, CellModel) else 0.0

    def needs(self, model: Empirical) -> tuple[Smoothed, np.ndarray]:
        """The smoothed model, and every pair's importance G [row, action]: n visits leave an error of about G / n."""
        known = Smoothed(model, self.prior)
        noise = known.noise
        if isinstance(model, CellModel) and model.noise_of_pairs is not None:
            noise = model.noise_of_pairs
        need = importance(known.model, known.pi, known.gamma, noise, known.weights, known.where)
        going = known.model.going
        typical = np.sqrt(need[going]).mean() ** 2 if going.any() else 0.0
        return known, np.maximum(need, self.floor * typical if typical > 0 else 1.0)


@cache
def _rule(actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            mu[a] = state.table[x, a]
        if state.share[0] > 0.0:
            gvfs = pi.shape[1]
            for a in range(actions):
                mean = 0.0
                for i in range(gvfs):
                    mean += pi[a, i]
                mu[a] += state.share[0] * (0.5 * (mean / gvfs + 1.0 / actions) - mu[a])

    return BehaviourRule(probabilities, observe_nothing, end_nothing)
