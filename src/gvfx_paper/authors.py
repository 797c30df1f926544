"""What the authors' code does in place of the paper's text (preset `authors`): a learner and two behaviours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

import gvfx
from gvfx import schedules
from gvfx.behaviours.base import Behaviour, NetworkRule
from gvfx.behaviours.fixed import FixedState
from gvfx.inputs import check_fields
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, end_nothing, normalise, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.rng import BEHAVIOUR, REPLAY, uniform
from gvfx.schedules import Linear, Schedule, ScheduleState
from gvfx.theory.equations import m_target, q_target
from gvfx.worlds.mdp import TableRows

# --- Expected Sarsa applied after each episode, as the authors' code does it (preset `authors`) ----------------------


class EpisodeTables(NamedTuple):
    """Action values and variances [row, action, gvf], and the transitions of the episode so far."""

    q: np.ndarray
    m: np.ndarray
    rate_q: ScheduleState
    rate_m: ScheduleState
    smallest_m: float
    path: np.ndarray  # int64 [horizon, 5]: x, action, next row, next x, discount row
    alive: np.ndarray  # [horizon]
    cumulants: np.ndarray  # [horizon, gvf]
    order: np.ndarray  # int64 [horizon]
    length: np.ndarray  # int64 [1]


@dataclass(frozen=True)
class EpisodicExpectedSarsa(gvfx.Learner[EpisodeTables]):
    """Eqs. 5 and 6 after each episode: a pass for Q in order, then a pass for M in shuffled order with the new Q.

    smallest_m: lower bound on the variances.
    """

    rate_q: float | Schedule = 0.1
    rate_m: float | Schedule = 0.8
    initial_q: float = 1.0
    initial_m: float = 5.0
    smallest_m: float = 1e-4

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    by_episode: ClassVar[bool] = True

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        return _rule(*sizes, variance)

    def begin(self, asked: Stacked, world: TableRows) -> EpisodeTables:
        if world.horizon is None:
            raise gvfx.InputError("horizon: EpisodicExpectedSarsa learns from whole episodes; give the world a horizon.")
        plain = gvfx.ExpectedSarsa(self.rate_q, self.rate_m, self.initial_q, self.initial_m).begin(asked, world)
        horizon = world.horizon
        return EpisodeTables(
            q=plain.q,
            m=plain.m,
            rate_q=plain.rate_q,
            rate_m=plain.rate_m,
            smallest_m=self.smallest_m,
            path=np.zeros((horizon, 5), dtype=np.int64),
            alive=np.zeros(horizon),
            cumulants=np.zeros((horizon, len(asked.names))),
            order=np.zeros(horizon, dtype=np.int64),
            length=np.zeros(1, dtype=np.int64),
        )


@cache
def _rule(gvfs: int, actions: int, variance: bool) -> LearnerRule:
    @piece
    def update(state, t, tr, c, gamma, pi):
        n = state.length[0]
        state.path[n, 0] = tr.x
        state.path[n, 1] = tr.action
        state.path[n, 2] = tr.next_row
        state.path[n, 3] = tr.next_x
        state.path[n, 4] = tr.g
        state.alive[n] = tr.alive
        for i in range(gvfs):
            state.cumulants[n, i] = c[i]
        state.length[0] = n + 1

    @piece
    def expected(table, pi, i):
        """sum_a pi(a|s') table(s', a) of one GVF."""
        v = 0.0
        for a in range(actions):
            v += pi[a, i] * table[a, i]
        return v

    @piece
    def episode_end(state, t, rng, pi, gamma):
        q, m, path = state.q, state.m, state.path
        rate_q = schedules.at(state.rate_q, t)
        rate_m = schedules.at(state.rate_m, t)
        length = state.length[0]
        for n in range(length):
            x, action, row, x_next, g = path[n, 0], path[n, 1], path[n, 2], path[n, 3], path[n, 4]
            for i in range(gvfs):
                discount = state.alive[n] * gamma[g, i]
                target = q_target(state.cumulants[n, i], discount, expected(q[x_next], pi[row], i))  # Eq. 5 (eq:sarsa-q-update)
                q[x, action, i] += rate_q * (target - q[x, action, i])
        if variance:
            for n in range(length):  # Fisher-Yates, from the inside out
                k = int(uniform(rng, REPLAY) * (n + 1))
                state.order[n] = state.order[k]
                state.order[k] = n
            for j in range(length):
                n = state.order[j]
                x, action, row, x_next, g = path[n, 0], path[n, 1], path[n, 2], path[n, 3], path[n, 4]
                for i in range(gvfs):
                    discount = state.alive[n] * gamma[g, i]
                    v = expected(q[x_next], pi[row], i)
                    delta = q_target(state.cumulants[n, i], discount, v) - q[x, action, i]  # Eq. 5 (eq:sarsa-q-update)
                    goal = m_target(delta, discount, expected(m[x_next], pi[row], i))  # Eq. 6 (eq:sarsa-m-update)
                    m[x, action, i] = max(m[x, action, i] + rate_m * (goal - m[x, action, i]), state.smallest_m)
        state.length[0] = 0

    return LearnerRule(update, episode_end)


# --- VarianceSoftmax: the behaviour that the authors' launcher uses on networks instead of Theorem 4.1's (preset `authors`)


class SoftmaxState(NamedTuple):
    temperature: ScheduleState
    smallest_m: float


@dataclass(frozen=True)
class VarianceSoftmax(Behaviour[SoftmaxState]):
    """mu(a|s) = softmax(mean_i M_i(s, a) / temperature): the target policies and the GVFs' weights play no part.

    temperature: a schedule; at a low temperature it takes the action with the largest variance.
    smallest_m:  lower bound on each M_i before the mean.
    """

    temperature: Schedule = Linear(1.0, 0.1, 50_000)
    smallest_m: float = 0.1

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear", "networks"})
    needs_variance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "behaviour")
        state = self.temperature.state()
        if not (state.minimum > 0 and state.start > 0):
            raise gvfx.InputError(f"temperature: {self.temperature} must stay positive; give an end above 0.")
        if not self.smallest_m >= 0:
            raise gvfx.InputError(f"smallest_m: {self.smallest_m!r} must be at least 0.")

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _softmax(*sizes)

    def begin(self, asked: Stacked, world: TableRows) -> SoftmaxState:
        return SoftmaxState(self.temperature.state(), self.smallest_m)

    def network_rule(self) -> NetworkRule:
        import jax
        import jax.numpy as jnp

        schedule = self.temperature.state()

        def probabilities(state, t, pi, m, value):
            score = jnp.maximum(m, self.smallest_m).mean(axis=-1)
            return jax.nn.softmax(score / schedules.in_jax(schedule, t))

        return NetworkRule(lambda weights: (), probabilities, lambda state: state)


@cache
def _softmax(gvfs: int, actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        best = -np.inf
        for a in range(actions):
            total = 0.0
            for i in range(gvfs):
                total += max(m[a, i], state.smallest_m)
            mu[a] = total / gvfs
            best = max(best, mu[a])
        temperature = schedules.at(state.temperature, t)
        for a in range(actions):
            mu[a] = math.exp((mu[a] - best) / temperature)
        normalise(mu, actions)

    return BehaviourRule(probabilities, observe_nothing, end_nothing)


# --- A new random policy every episode ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RandomPolicies(Behaviour[FixedState]):
    """A new random policy every episode, each row uniform numbers scaled to sum to one (their "Uniform")."""

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _random_policies(sizes.actions)

    def begin(self, asked: Stacked, world: TableRows) -> FixedState:
        return FixedState(np.full((world.states, world.actions), 1 / world.actions), 1)


@cache
def _random_policies(actions: int) -> BehaviourRule:
    @piece
    def episode_end(state, t, rng):
        for s in range(state.table.shape[0]):
            for a in range(actions):
                state.table[s, a] = uniform(rng, BEHAVIOUR)
            normalise(state.table[s], actions)

    return BehaviourRule(gvfx.Uniform().rule(Sizes(0, actions)).probabilities, observe_nothing, episode_end)
