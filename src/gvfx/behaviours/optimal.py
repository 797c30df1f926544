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
from gvfx.evidence.model import slots
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import growing
from gvfx.theory.flow import Model
from gvfx.theory.importance import importance
from gvfx.theory.optimum import plan


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
        mu = plan(known.model, need, known.visits, self.ahead * steps)
        state.table[:] = (1 - self.random) * mu + self.random / mu.shape[1]

    def needs(self, model: Empirical) -> tuple[_Smoothed, np.ndarray]:
        """The smoothed model, and every pair's importance G [row, action]: its n visits leave an error of about G / n."""
        known = _Smoothed(model, self.prior)
        need = importance(known.model, known.pi, known.gamma, known.noise, known.weights, known.where)
        going = known.model.going
        typical = np.sqrt(need[going]).mean() ** 2 if going.any() else 0.0
        return known, np.maximum(need, self.floor * typical if typical > 0 else 1.0)


class _Smoothed:
    """The estimated model over table rows, its pairs joined by `prior` visits of the row's average action.

    A row's successors are all that any of its actions led to: model.next is [row, action, successor].
    """

    def __init__(self, data: Empirical, prior: float) -> None:
        world, asked, e = data.world, data.asked, data.evidence
        rows, actions = world.rows, world.actions
        outcome = np.flatnonzero(e.counts)
        n = e.counts.ravel()[outcome].astype(float)
        state, action = np.divmod(outcome // world.successors, actions)
        arrived = world.next.ravel()[outcome]
        row, next_row = world.feature[state], world.feature[arrived]
        pair = row * actions + action

        def shared(total: np.ndarray) -> np.ndarray:
            """Totals per pair [row, action, ...] with the row's average added `prior` times, per visit."""
            visits = self.visits.reshape(rows, actions, *[1] * (total.ndim - 2))
            average = total.sum(axis=1, keepdims=True) / np.maximum(visits.sum(axis=1, keepdims=True), 1)
            return (total + prior * average) / (visits + prior)

        self.visits = np.bincount(pair, n, rows * actions).reshape(rows, actions)
        edge, slot, width = slots(row, next_row, rows)
        following = np.zeros((rows, width), dtype=np.int64)
        following[row, slot] = next_row
        seen = np.bincount(pair * width + slot, n, rows * actions * width).reshape(rows, actions, width)
        ends = np.ones(rows, dtype=bool)
        ends[world.feature[~world.terminal]] = False
        starts = np.bincount(world.feature, e.starts, rows)
        self.model = Model(
            np.repeat(following[:, None], actions, axis=1), shared(seen), starts / starts.sum(), ends, world.horizon
        )

        self.weights = data.weights
        states_of = np.bincount(world.feature, minlength=rows)
        self.where = np.bincount(world.feature, world.live, rows) / world.live.sum()
        self.pi = asked.pi
        if asked.pi_stride:
            self.pi = np.zeros((rows, *asked.pi.shape[1:]))
            np.add.at(self.pi, world.feature, asked.pi)
            self.pi /= np.maximum(states_of, 1)[:, None, None]

        values, paid = data.values, e.row.ravel()[outcome]
        self.noise = np.empty((rows, actions, len(values)))
        self.gamma = asked.gamma
        if asked.gamma_stride:
            self.gamma = np.zeros((rows * actions * width, len(values)))
        for i, v in enumerate(values):
            discount = data.discount(i, outcome)
            target = data.means[paid, i] + discount * v[arrived]
            spread = target**2 + data.spreads[paid, i]
            first, second = (
                shared(np.bincount(pair, n * moment, rows * actions).reshape(rows, actions)) for moment in (target, spread)
            )
            self.noise[:, :, i] = np.maximum(second - first**2, 0.0)
            if asked.gamma_stride:  # of an edge row -> next row, whatever the action
                mean = np.bincount(edge, n * discount) / np.bincount(edge, n)
                spread_out = np.zeros((rows, width))
                spread_out[row, slot] = mean[edge]
                self.gamma[:, i] = np.repeat(spread_out[:, None], actions, axis=1).ravel()
        self.gamma = np.minimum(self.gamma, 1 - self.model.restart)  # an end not seen yet is thought possible


@cache
def _rule(actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            mu[a] = state.table[x, a]

    return BehaviourRule(probabilities, observe_nothing, end_nothing)
