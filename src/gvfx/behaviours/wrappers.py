"""Wrappers that fit any behaviour: exploration at random, and a floor under every probability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from gvfx import schedules
from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.gvf import Stacked
from gvfx.kernel import BehaviourRule, Sizes, piece
from gvfx.schedules import Linear, Schedule, ScheduleState


class EpsilonState(NamedTuple):
    inner: Any
    epsilon: ScheduleState


class FloorState(NamedTuple):
    inner: Any
    floor: float


class _Wrapper(Behaviour):
    """A behaviour that changes another's probabilities and passes everything else on."""

    behaviour: Behaviour

    @property
    def needs_variance(self) -> bool:  # type: ignore[override]
        return self.behaviour.needs_variance


@dataclass(frozen=True)
class Epsilon(_Wrapper):
    """With probability epsilon_t a uniformly random action: (1 - epsilon) mu + epsilon / actions."""

    behaviour: Behaviour
    schedule: Schedule = Linear(1.0, 0.0, 500)

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _epsilon(self.behaviour.rule(sizes), sizes.actions)

    def begin(self, asked: Stacked, world: Any) -> EpsilonState:
        state = self.schedule.state()
        if not (0 <= state.minimum <= 1 and 0 <= state.start <= 1):
            raise InputError(f"schedule: epsilon must stay within [0, 1], but is {self.schedule}.")
        return EpsilonState(self.behaviour.begin(asked, world), state)


@dataclass(frozen=True)
class Floor(_Wrapper):
    """No action below `floor`: smaller probabilities are raised to it, what lies above is scaled to sum to one."""

    behaviour: Behaviour
    floor: float = 1e-3

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _floor(self.behaviour.rule(sizes), sizes.actions)

    def begin(self, asked: Stacked, world: Any) -> FloorState:
        if not 0 <= self.floor < 1 / world.actions:
            raise InputError(f"floor: {self.floor} must lie in [0, {1 / world.actions:g}), as there are {world.actions} actions.")
        return FloorState(self.behaviour.begin(asked, world), self.floor)


def _passing_on(inner: BehaviourRule, probabilities: Any) -> BehaviourRule:
    inner_observe, inner_end = inner.observe, inner.episode_end

    @piece
    def observe(state, t, tr, c, gamma, pi):
        inner_observe(state.inner, t, tr, c, gamma, pi)

    @piece
    def episode_end(state, t, rng):
        inner_end(state.inner, t, rng)

    return BehaviourRule(probabilities, observe, episode_end)


@cache
def _epsilon(inner: BehaviourRule, actions: int) -> BehaviourRule:
    inner_probabilities = inner.probabilities

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        inner_probabilities(state.inner, t, s, x, pi, m, mu)
        epsilon = schedules.at(state.epsilon, t)
        for a in range(actions):
            mu[a] = (1.0 - epsilon) * mu[a] + epsilon / actions

    return _passing_on(inner, probabilities)


@cache
def _floor(inner: BehaviourRule, actions: int) -> BehaviourRule:
    inner_probabilities = inner.probabilities

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        inner_probabilities(state.inner, t, s, x, pi, m, mu)
        excess = 0.0
        for a in range(actions):
            mu[a] = max(mu[a] - state.floor, 0.0)
            excess += mu[a]
        scale = (1.0 - actions * state.floor) / excess
        for a in range(actions):
            mu[a] = state.floor + scale * mu[a]

    return _passing_on(inner, probabilities)
