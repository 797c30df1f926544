"""Behaviours that do not learn: uniform, the mixture of the targets, the targets in turn, and a given policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour, BoxActionRule, NetworkRule
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.questions.policies import Policy, PolicyLike, as_policy
from gvfx.worlds.mdp import TableRows


class FixedState(NamedTuple):
    table: np.ndarray  # [1 or states, action]
    stride: int


class MixtureState(NamedTuple):
    share: float  # the weight of every target policy


class TurnState(NamedTuple):
    turn: np.ndarray  # [1] index of the GVF whose policy is followed


@dataclass(frozen=True)
class Uniform(Behaviour[FixedState]):
    """Every action with the same probability."""

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear", "networks", "box_actions"})

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _fixed(sizes.actions)

    def begin(self, asked: Stacked, world: TableRows) -> FixedState:
        return FixedState(np.full((1, world.actions), 1 / world.actions), 0)

    def network_rule(self) -> NetworkRule:
        return _stateless(lambda pi: pi.mean(axis=1) * 0 + 1 / pi.shape[0])

    def box_action_rule(self) -> BoxActionRule:
        return memoryless(lambda chance, pull: (0 * chance[:, 0]).astype(int) + pull.shape[1])


@dataclass(frozen=True)
class Mixture(Behaviour[MixtureState]):
    """The mean of the target policies at every step (paper, App. B.1)."""

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear", "networks", "box_actions"})

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _mixture(*sizes)

    def begin(self, asked: Stacked, world: TableRows) -> MixtureState:
        return MixtureState(1 / len(asked.weights))

    def network_rule(self) -> NetworkRule:
        return _stateless(lambda pi: pi.mean(axis=1))

    def box_action_rule(self) -> BoxActionRule:
        return memoryless(lambda chance, pull: (chance[:, 0] * pull.shape[1]).astype(int))


@dataclass(frozen=True)
class Follow(Behaviour[FixedState]):
    """One given policy, independent of the questions."""

    policy: Policy

    if TYPE_CHECKING:  # what the field may be given as

        def __init__(self, policy: PolicyLike) -> None: ...

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", as_policy(self.policy))

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _fixed(sizes.actions)

    def begin(self, asked: Stacked, world: TableRows) -> FixedState:
        table = self.policy.table(world.states, world.actions, "behaviour.policy")
        return FixedState(table, int(len(table) == world.states and world.states > 1))


@dataclass(frozen=True)
class RoundRobin(Behaviour[TurnState]):
    """The target policies in turn, one episode each (paper, App. B.1)."""

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear", "networks", "box_actions"})

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _round_robin(*sizes)

    def begin(self, asked: Stacked, world: TableRows) -> TurnState:
        return TurnState(np.zeros(1, dtype=np.int64))

    def network_rule(self) -> NetworkRule:
        import jax.numpy as jnp

        return NetworkRule(
            begin=lambda weights: (jnp.zeros((), jnp.int32), jnp.asarray(len(weights), jnp.int32)),
            probabilities=lambda state, t, pi, m, value: pi[:, state[0]],
            episode_end=lambda state: ((state[0] + 1) % state[1], state[1]),
        )

    def box_action_rule(self) -> BoxActionRule:
        """The target policies in turn in every world; the worlds begin with different ones."""
        import jax.numpy as jnp

        return BoxActionRule(
            begin=lambda worlds, gvfs: (jnp.arange(worlds) % gvfs, jnp.asarray(gvfs)),
            choose=lambda state, chance, pull: (state, state[0]),
            episode_end=lambda state, over: ((state[0] + over) % state[1], state[1]),
        )


def _stateless(choose: Callable[[Any], Any]) -> NetworkRule:
    """A rule that depends on the target policies only."""
    return NetworkRule(lambda weights: (), lambda state, t, pi, m, value: choose(pi), lambda state: state)


def memoryless(choose: Callable[[Any, Any], Any]) -> BoxActionRule:
    """A rule for Box actions that depends on chance and pull only."""
    return BoxActionRule(
        begin=lambda worlds, gvfs: (),
        choose=lambda state, chance, pull: (state, choose(chance, pull)),
        episode_end=lambda state, over: state,
    )


@cache
def _fixed(actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            mu[a] = state.table[s * state.stride, a]

    return BehaviourRule(probabilities, observe_nothing, end_nothing)


@cache
def _mixture(gvfs: int, actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            total = 0.0
            for i in range(gvfs):
                total += pi[a, i]
            mu[a] = state.share * total

    return BehaviourRule(probabilities, observe_nothing, end_nothing)


@cache
def _round_robin(gvfs: int, actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            mu[a] = pi[a, state.turn[0]]

    @piece
    def episode_end(state, t, rng):
        state.turn[0] = (state.turn[0] + 1) % gvfs

    return BehaviourRule(probabilities, observe_nothing, episode_end)
