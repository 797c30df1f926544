"""VarianceSoftmax: the behaviour that the authors' launcher uses on networks instead of Theorem 4.1's (preset `authors`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from gvfx import schedules
from gvfx.behaviours.base import Behaviour, NetworkRule
from gvfx.errors import InputError
from gvfx.inputs import check_fields
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, normalise, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import Linear, Schedule, ScheduleState
from gvfx.worlds.mdp import MDP


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
            raise InputError(f"temperature: {self.temperature} must stay positive; give an end above 0.")
        if not self.smallest_m >= 0:
            raise InputError(f"smallest_m: {self.smallest_m!r} must be at least 0.")

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _rule(*sizes)

    def begin(self, asked: Stacked, world: MDP) -> SoftmaxState:
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
def _rule(gvfs: int, actions: int) -> BehaviourRule:
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
