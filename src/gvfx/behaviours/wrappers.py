"""Wrappers: random exploration, a lower bound on probabilities, choices held for several steps, and mixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gvfx import schedules
from gvfx.behaviours.base import Behaviour, BoxActionRule, NetworkRule
from gvfx.behaviours.fixed import RoundRobin
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.kernel import BehaviourRule, Sizes, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import Linear, Schedule, ScheduleState
from gvfx.worlds.mdp import TableRows


class EpsilonState(NamedTuple):
    inner: Any
    epsilon: ScheduleState


class HeldEpsilonState(NamedTuple):
    inner: Any
    epsilon: ScheduleState
    begun: np.ndarray  # int64 [1] the step at which this episode began


class FloorState(NamedTuple):
    inner: Any
    floor: float


State = tuple[object, ...]  # of a wrapper, a named tuple


def _if_a_part(need: str) -> Any:
    def needed(self: Wrapper) -> bool:
        return any(getattr(part, need) for part in self._parts().values())

    return property(needed)


class Wrapper(Behaviour[State]):
    """A behaviour that changes the probabilities of others and delegates everything else to them.

    It supports the kinds in `wraps` that all of them support.
    """

    wraps: ClassVar[frozenset[str]] = frozenset({"tables", "linear", "networks"})
    holds: ClassVar[Mapping[str, str]] = {"inner": "behaviour"}  # fields of its state, and the behaviour that each belongs to

    needs_variance = _if_a_part("needs_variance")
    needs_intrinsic = _if_a_part("needs_intrinsic")
    needs_actor = _if_a_part("needs_actor")
    counts_cells = _if_a_part("counts_cells")

    def _parts(self) -> dict[str, Behaviour]:
        return {name: getattr(self, whose) for name, whose in self.holds.items()}

    @property
    def supports(self) -> frozenset[str]:
        return self.wraps.intersection(*(part.supports for part in self._parts().values()))

    def stops(self, steps: int, world: TableRows) -> Sequence[int]:
        return sorted({stop for part in self._parts().values() for stop in part.stops(steps, world)})

    def refresh(self, state: State, model: Empirical) -> None:
        for name, part in self._parts().items():
            part.refresh(getattr(state, name), model)

    def retarget(self, state: State, model: Empirical) -> None:
        for name, part in self._parts().items():
            part.retarget(getattr(state, name), model)

    def shown(self, state: State) -> State:
        inner = {name: part.shown(getattr(state, name)) for name, part in self._parts().items()}
        return state._replace(**inner)  # type: ignore[attr-defined]

    def on_cells(self) -> Behaviour[State]:
        changed: dict[str, Any] = {self.holds[name]: part.on_cells() for name, part in self._parts().items()}
        return replace(self, **changed)  # type: ignore[type-var]


@dataclass(frozen=True)
class Epsilon(Wrapper):
    """A uniformly random action with probability epsilon_t: (1 - epsilon) mu + epsilon / actions.

    when: epsilon is the schedule's at every "step", or throughout an "episode" the one of its first step (tables only).
    """

    behaviour: Behaviour
    schedule: Schedule = Linear(1.0, 0.0, 500)
    when: Literal["step", "episode"] = field(default="step", metadata={"later": True})

    @property
    def supports(self) -> frozenset[str]:
        return super().supports if self.when == "step" else super().supports & {"tables"}

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _epsilon(self.behaviour.rule(sizes), sizes.actions, self.when == "episode")

    def begin(self, asked: Stacked, world: TableRows) -> EpsilonState | HeldEpsilonState:
        state = self.schedule.state()
        if not (0 <= state.minimum <= 1 and 0 <= state.start <= 1):
            raise InputError(f"schedule: epsilon must stay within [0, 1], but is {self.schedule}.")
        inner = self.behaviour.begin(asked, world)
        if self.when == "episode":
            return HeldEpsilonState(inner, state, np.zeros(1, dtype=np.int64))
        return EpsilonState(inner, state)

    def network_rule(self) -> NetworkRule:
        inner, schedule = self.behaviour.network_rule(), self.schedule.state()

        def probabilities(state, t, pi, m, value):
            epsilon = schedules.in_jax(schedule, t)
            return (1 - epsilon) * inner.probabilities(state, t, pi, m, value) + epsilon / pi.shape[0]

        return inner._replace(probabilities=probabilities)


@dataclass(frozen=True)
class Floor(Wrapper):
    """No probability below `floor`: smaller ones are raised to it, and the excess above it is scaled to sum to one."""

    behaviour: Behaviour
    floor: float = 1e-3

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _floor(self.behaviour.rule(sizes), sizes.actions)

    def begin(self, asked: Stacked, world: TableRows) -> FloorState:
        if not 0 <= self.floor < 1 / world.actions:
            raise InputError(f"floor: {self.floor} must lie in [0, {1 / world.actions:g}), as there are {world.actions} actions.")
        return FloorState(self.behaviour.begin(asked, world), self.floor)

    def network_rule(self) -> NetworkRule:
        inner = self.behaviour.network_rule()

        def probabilities(state, t, pi, m, value):
            above = inner.probabilities(state, t, pi, m, value) - self.floor
            above = above * (above > 0)
            return self.floor + (1 - pi.shape[0] * self.floor) * above / above.sum()

        return inner._replace(probabilities=probabilities)


@dataclass(frozen=True)
class Hold(Wrapper):
    """Box actions: a world keeps the behaviour's choice for `steps` steps on average before the next choice."""

    behaviour: Behaviour
    steps: float = 100.0

    wraps: ClassVar[frozenset[str]] = frozenset({"box_actions"})
    allowed: ClassVar = {"steps": "[1, inf]"}

    def box_action_rule(self) -> BoxActionRule:
        import jax.numpy as jnp

        inner = self.behaviour.box_action_rule()

        def choose(state, chance, pull):
            within, held = state
            within, fresh = inner.choose(within, chance, pull)
            which = jnp.where((held < 0) | (chance[:, 1] * self.steps < 1), fresh, held)
            return (within, which), which

        return BoxActionRule(
            begin=lambda worlds, gvfs: (inner.begin(worlds, gvfs), jnp.full(worlds, -1)),
            choose=choose,
            episode_end=lambda state, over: (inner.episode_end(state[0], over), jnp.where(over, -1, state[1])),
        )


@dataclass(frozen=True)
class Alternate(Wrapper):
    """Box actions: the fraction `share` of every world's episodes follows `behaviour`, the others follow `other`."""

    behaviour: Behaviour
    other: Behaviour = RoundRobin()
    share: float = 0.5

    wraps: ClassVar[frozenset[str]] = frozenset({"box_actions"})
    holds: ClassVar = {"inner": "behaviour", "second": "other"}
    allowed: ClassVar = {"share": "(0, 1)"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other.needs_actor or self.other.needs_variance:
            raise InputError(f"other: {type(self.other).__name__} learns; give it as the behaviour, or one that does not learn.")

    def box_action_rule(self) -> BoxActionRule:
        import jax.numpy as jnp

        first, second = self.behaviour.box_action_rule(), self.other.box_action_rule()

        def own(episode):  # whether this episode is the behaviour's
            return jnp.floor((episode + 1) * self.share) > jnp.floor(episode * self.share)

        def choose(state, chance, pull):
            one, two, episode = state
            one, a = first.choose(one, chance, pull)
            two, b = second.choose(two, chance, pull)
            return (one, two, episode), jnp.where(own(episode), a, b)

        def episode_end(state, over):
            one, two, episode = state
            mine = own(episode)
            return first.episode_end(one, over & mine), second.episode_end(two, over & ~mine), episode + over

        def begin(worlds, gvfs):  # worlds of either kind follow the targets in turn
            return first.begin(worlds, gvfs), second.begin(worlds, gvfs), jnp.arange(worlds) // gvfs

        return BoxActionRule(begin, choose, episode_end)


def passing_on(inner: BehaviourRule, probabilities: Any) -> BehaviourRule:
    inner_observe, inner_end = inner.observe, inner.episode_end

    @piece
    def observe(state, t, tr, c, gamma, pi):
        inner_observe(state.inner, t, tr, c, gamma, pi)

    @piece
    def episode_end(state, t, rng):
        inner_end(state.inner, t, rng)

    return BehaviourRule(probabilities, observe, episode_end)


@cache
def _epsilon(inner: BehaviourRule, actions: int, held: bool) -> BehaviourRule:
    inner_probabilities, inner_end = inner.probabilities, inner.episode_end

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        inner_probabilities(state.inner, t, s, x, pi, m, mu)
        epsilon = schedules.at(state.epsilon, state.begun[0] if held else t)
        for a in range(actions):
            mu[a] = (1.0 - epsilon) * mu[a] + epsilon / actions

    @piece
    def next_episode(state, t, rng):
        inner_end(state.inner, t, rng)
        state.begun[0] = t

    passed = passing_on(inner, probabilities)
    return replace(passed, episode_end=next_episode) if held else passed


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

    return passing_on(inner, probabilities)


class BlendState(NamedTuple):
    first: Any
    second: Any
    share: float
    scratch: Any  # [action]


@dataclass(frozen=True)
class Blend(Wrapper):
    """Two behaviours mixed at every step: share * first + (1 - share) * second."""

    first: Behaviour
    second: Behaviour
    share: float = 0.5

    holds: ClassVar = {"first": "first", "second": "second"}
    allowed: ClassVar = {"share": "[0, 1]"}

    @property
    def supports(self) -> frozenset[str]:  # networks keep an intrinsic value for one rule alone
        return super().supports - ({"networks"} if self.needs_intrinsic else set())

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _blend(self.first.rule(sizes), self.second.rule(sizes), sizes.actions)

    def begin(self, asked: Stacked, world: TableRows) -> BlendState:
        return BlendState(self.first.begin(asked, world), self.second.begin(asked, world), self.share, np.zeros(world.actions))

    def network_rule(self) -> NetworkRule:
        first, second = self.first.network_rule(), self.second.network_rule()

        def probabilities(state, t, pi, m, value):
            one = first.probabilities(state[0], t, pi, m, value)
            return self.share * one + (1 - self.share) * second.probabilities(state[1], t, pi, m, value)

        return NetworkRule(
            begin=lambda weights: (first.begin(weights), second.begin(weights)),
            probabilities=probabilities,
            episode_end=lambda state: (first.episode_end(state[0]), second.episode_end(state[1])),
        )


@cache
def _blend(first: BehaviourRule, second: BehaviourRule, actions: int) -> BehaviourRule:
    first_probabilities, first_observe, first_end = first.probabilities, first.observe, first.episode_end
    second_probabilities, second_observe, second_end = second.probabilities, second.observe, second.episode_end

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        first_probabilities(state.first, t, s, x, pi, m, mu)
        second_probabilities(state.second, t, s, x, pi, m, state.scratch)
        for a in range(actions):
            mu[a] = state.share * mu[a] + (1.0 - state.share) * state.scratch[a]

    @piece
    def observe(state, t, tr, c, gamma, pi):
        first_observe(state.first, t, tr, c, gamma, pi)
        second_observe(state.second, t, tr, c, gamma, pi)

    @piece
    def episode_end(state, t, rng):
        first_end(state.first, t, rng)
        second_end(state.second, t, rng)

    return BehaviourRule(probabilities, observe, episode_end)


# --- Calibrated: each GVF's variance in units of the GVF's mean square value (`calibrate=True`) ---------------------
# The scale of GVF i is a running mean of Q_i(s, a)^2 over the visited pairs, and the wrapped behaviour gets M_i / scale_i.  A GVF
# whose values are still 0 has the smallest scale of the others, so that it is not neglected before its first cumulant is seen.
# A test holds the two forms equal: `_calibrated` for compiled loops and `noted` over arrays (NumPy, JAX).


NOTHING = 1e-30  # a mean square value up to this is not a scale


class SquareScales(NamedTuple):
    square: Any  # [gvf] mean square values
    steps: Any  # [1] number of steps in them
    factor: Any  # [gvf] M is multiplied by this


class CalibratedState(NamedTuple):
    inner: Any
    scales: SquareScales
    q: np.ndarray  # [row, action, gvf] the learner's own array, read after each of its updates; no rows: nothing is tracked
    m: np.ndarray  # [action, gvf] M in units of the scales, at one state


@dataclass(frozen=True)
class Calibrated(Wrapper):
    """A behaviour that reads M_i divided by the running mean of Q_i^2.

    rate: smallest weight of a new step in the running mean: about the last 1 / rate steps count.
    """

    behaviour: Behaviour
    rate: float = 1e-4

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _calibrated(self.behaviour.rule(sizes), *sizes, float(self.rate))

    def begin(self, asked: Stacked, world: TableRows) -> CalibratedState:
        gvfs = len(asked.weights)
        tracked, scaled = np.zeros((0, world.actions, gvfs)), np.zeros((world.actions, gvfs))
        return CalibratedState(self.behaviour.begin(asked, world), no_scales(gvfs, np), tracked, scaled)

    def network_rule(self) -> NetworkRule:
        import jax.numpy as jnp

        inner = self.behaviour.network_rule()

        def probabilities(state, t, pi, m, value):
            return inner.probabilities(state[0], t, pi, m * state[1].factor, value)

        return NetworkRule(
            begin=lambda weights: (inner.begin(weights), no_scales(len(weights), jnp)),
            probabilities=probabilities,
            episode_end=lambda state: (inner.episode_end(state[0]), state[1]),
        )

    def after_log(self, steps: int, logged: int) -> Calibrated:
        return replace(self, behaviour=self.behaviour.after_log(steps, logged))

    def with_table(self, state: Any, q: np.ndarray) -> Any:
        return state._replace(q=q)

    def rescale(self, state: Any, model: Empirical) -> None:
        square = model.evaluation.squares(model.values)
        _set(state.scales, SquareScales(square, state.scales.steps, factors(square, np)))

    def noted(self, state: Any, squares: Any, steps: int) -> Any:
        """The state of the network rule after `steps` steps with these mean square values [gvf]; pure, in JAX."""
        import jax.numpy as jnp

        return state[0], noted(state[1], squares, steps, self.rate, jnp)

    def note(self, state: CalibratedState, squares: np.ndarray, steps: int) -> None:
        """The same in place, for the state of `rule`."""
        _set(state.scales, noted(state.scales, squares, steps, self.rate, np))


def calibrated(behaviour: Behaviour) -> Behaviour:
    """The behaviour as `calibrate=True` runs it: unchanged if it does not read M."""
    return Calibrated(behaviour) if behaviour.needs_variance else behaviour


def no_scales(gvfs: int, xp: Any) -> SquareScales:
    return SquareScales(xp.zeros(gvfs), xp.zeros(1), xp.ones(gvfs))


def noted(scales: SquareScales, squares: Any, steps: int, rate: float, xp: Any) -> SquareScales:
    """The scales after `steps` further steps with mean square values `squares` [gvf]."""
    total = scales.steps + steps
    square = scales.square + xp.maximum(steps / total, min(steps * rate, 1.0)) * (squares - scales.square)
    return SquareScales(square, total, factors(square, xp))


def factors(square: Any, xp: Any) -> Any:
    """1 / scale [gvf]; the smallest known scale where none is known, and 1 everywhere before the first."""
    known = square > NOTHING
    smallest = xp.where(known, square, xp.inf).min()
    return xp.where(known.any(), 1 / xp.where(known, square, smallest), 1.0)


def _set(scales: SquareScales, new: SquareScales) -> None:
    for array, values in zip(scales, new, strict=True):
        array[:] = values


@cache
def _calibrated(inner: BehaviourRule, gvfs: int, actions: int, rate: float) -> BehaviourRule:
    inner_probabilities, inner_observe = inner.probabilities, inner.observe

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            for i in range(gvfs):
                state.m[a, i] = m[a, i] * state.scales.factor[i]
        inner_probabilities(state.inner, t, s, x, pi, state.m, mu)

    @piece
    def note(scales, q):
        scales.steps[0] += 1.0
        share = max(1.0 / scales.steps[0], rate)
        smallest = np.inf
        for i in range(gvfs):
            scales.square[i] += share * (q[i] * q[i] - scales.square[i])
            if scales.square[i] > NOTHING:
                smallest = min(smallest, scales.square[i])
        for i in range(gvfs):
            scale = scales.square[i] if scales.square[i] > NOTHING else smallest
            scales.factor[i] = 1.0 / scale if scale < np.inf else 1.0

    @piece
    def observe(state, t, tr, c, gamma, pi):
        inner_observe(state.inner, t, tr, c, gamma, pi)
        if state.q.shape[0] > 0:
            note(state.scales, state.q[tr.x, tr.action])

    return replace(passing_on(inner, probabilities), observe=observe)
