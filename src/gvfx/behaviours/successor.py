"""SuccessorRepresentation: act where the successor representation and the reward weights change most.

McLeod et al. (2021) as the paper describes it (App. B.1): for every distinct target policy an indicator-vector
successor representation psi(s, a) over states, for every GVF reward weights w(s, a); each step's intrinsic reward is
the total absolute change of both, an Expected-Sarsa action value is learned from it, and the behaviour is Boltzmann
(or greedy) in that action value.  All three share one learning rate.

The policy mean of psi at each state is stored too, so an update is one pass over a row instead of one per action.

`update="entries"` is the form in the authors' code: only the visited entry psi(s, a, s') is updated, towards
1 + gamma * sum_a' pi(a'|s') * mean_f psi(s', a', f); `mean` then holds the row means [policy, row, action].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gvfx import schedules
from gvfx.behaviours.base import Behaviour, NetworkRule
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, normalise, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import Schedule, ScheduleState
from gvfx.worlds.mdp import MDP

MEMORY_LIMIT = 4 << 30


class SuccessorState(NamedTuple):
    psi: np.ndarray  # [policy, row, action, row] successor representations
    mean: np.ndarray  # [policy, row, row] their means over actions under the target policy
    member: np.ndarray  # [policy] the index of a GVF with this policy
    weights: np.ndarray  # [row, action, gvf] reward weights
    value: np.ndarray  # [row, action] action value of the intrinsic reward
    scratch: np.ndarray  # [action] the behaviour at the next state
    rate: ScheduleState
    temperature: float  # 0: greedy
    discount: float


@dataclass(frozen=True)
class SuccessorRepresentation(Behaviour[SuccessorState]):
    """Boltzmann (or greedy) behaviour on the value of an intrinsic reward, the change of the representation.

    rate:        learning rate of the representation, the reward weights and the intrinsic value: a schedule, or the
                 minimum of a linear one from 1 over 500,000 steps.
    choice:      "boltzmann" with `temperature`, or "greedy".
    discount:    of the intrinsic value.
    update:      "rows" (the whole successor vector) or "entries" (only the visited entry, as in the authors' code).
    """

    rate: float | Schedule = 0.25
    choice: Literal["boltzmann", "greedy"] = "boltzmann"
    temperature: float = 100.0
    discount: float = 0.99
    update: Literal["rows", "entries"] = "rows"

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "networks"})
    needs_intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.choice not in ("boltzmann", "greedy"):
            raise InputError(f"choice: {self.choice!r} is unknown; choose 'boltzmann' or 'greedy'.")
        if self.update not in ("rows", "entries"):
            raise InputError(f"update: {self.update!r} is unknown; choose 'rows' or 'entries'.")
        if self.temperature <= 0:
            raise InputError(f"temperature: {self.temperature} must be positive; use choice='greedy' for the limit of 0.")

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _rule(*sizes, self.update == "entries")

    def begin(self, asked: Stacked, world: MDP) -> SuccessorState:
        member = _distinct_policies(asked)
        rows, actions = world.rows, world.actions
        size = 8 * len(member) * rows * rows * (actions + 1)
        if size > MEMORY_LIMIT:
            raise InputError(
                f"behaviour: SuccessorRepresentation needs {size / 2**30:.1f} GB for {rows} states and {len(member)} "
                "policies; group states together or choose another behaviour."
            )
        return SuccessorState(
            psi=np.zeros((len(member), rows, actions, rows)),
            mean=np.zeros((len(member), rows, rows if self.update == "rows" else actions)),
            member=np.array(member, dtype=np.int64),
            weights=np.zeros((rows, actions, len(asked.names))),
            value=np.zeros((rows, actions)),
            scratch=np.zeros(actions),
            rate=schedules.as_falling(self.rate).state(),
            temperature=self.temperature if self.choice == "boltzmann" else 0.0,
            discount=self.discount,
        )

    def retarget(self, state: SuccessorState, model: Empirical) -> None:
        if self.update == "entries":  # whose means do not depend on the target policies
            return
        own = dict(model.asked.own)
        for j, i in enumerate(state.member.tolist()):
            if i in own:
                pi = np.zeros(state.psi.shape[1:3])
                pi[model.world.feature] = model.asked.pi[:, :, i]
                state.mean[j] = np.einsum("xa,xaf->xf", pi, state.psi[j])

    def network_rule(self) -> NetworkRule:
        import jax
        import jax.numpy as jnp

        def probabilities(state, t, pi, m, value):
            greedy = 1.0 * (value == value.max())
            return jax.nn.softmax(value / self.temperature) if self.choice == "boltzmann" else greedy / jnp.sum(greedy)

        return NetworkRule(lambda weights: (), probabilities, lambda state: state)


def _distinct_policies(asked: Stacked) -> list[int]:
    """The first GVF of every distinct (policy, discount) pair; policies defined by a GVF's own values are all distinct."""
    first: dict[Any, int] = {}
    own = dict(asked.own)
    for i in range(len(asked.names)):
        first.setdefault(i if i in own else asked.pi[:, :, i].tobytes() + asked.gamma[:, i].tobytes(), i)
    return list(first.values())


@cache
def _rule(gvfs: int, actions: int, entries: bool) -> BehaviourRule:
    @piece
    def softmax(value, temperature, mu):
        """Boltzmann probabilities of value[action], or greedy at temperature 0 (ties share the probability)."""
        best = value[0]
        for a in range(1, actions):
            best = max(best, value[a])
        for a in range(actions):
            mu[a] = math.exp((value[a] - best) / temperature) if temperature > 0.0 else 1.0 * (value[a] == best)
        normalise(mu, actions)

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        softmax(state.value[x], state.temperature, mu)

    @piece
    def move_row(state, j, rate, tr, gamma, pi):
        """psi_j(s, a) towards indicator(s) + gamma * policy mean of psi_j(s'); returns the total absolute change."""
        i = state.member[j]
        discount = tr.alive * gamma[tr.g, i]
        weight = pi[tr.row, tr.action, i]
        psi = state.psi[j, tr.x, tr.action]
        mean = state.mean[j, tr.x]
        onward = state.mean[j, tr.next_x]
        own = rate * (discount * onward[tr.x] - psi[tr.x])  # at the visited state, the indicator still missing
        change = abs(own + rate) - abs(own)
        for f in range(psi.shape[0]):
            delta = rate * (discount * onward[f] - psi[f])
            change += abs(delta)
            psi[f] += delta
            mean[f] += weight * delta
        psi[tr.x] += rate
        mean[tr.x] += weight * rate
        return change

    @piece
    def move_entry(state, j, rate, tr, gamma, pi):
        """psi_j(s, a, s') towards 1 + gamma * the mean of psi_j(s'); returns the absolute change."""
        i = state.member[j]
        onward = 0.0
        for a in range(actions):
            onward += pi[tr.next_row, a, i] * state.mean[j, tr.next_x, a]
        delta = rate * (1.0 + tr.alive * gamma[tr.g, i] * onward - state.psi[j, tr.x, tr.action, tr.next_x])
        state.psi[j, tr.x, tr.action, tr.next_x] += delta
        state.mean[j, tr.x, tr.action] += delta / state.psi.shape[3]
        return abs(delta)

    @piece
    def observe(state, t, tr, c, gamma, pi):
        rate = schedules.at(state.rate, t)
        change = 0.0
        for j in range(state.member.shape[0]):
            change += move_entry(state, j, rate, tr, gamma, pi) if entries else move_row(state, j, rate, tr, gamma, pi)
        for i in range(gvfs):
            delta = rate * (c[i] - state.weights[tr.x, tr.action, i])
            change += abs(delta)
            state.weights[tr.x, tr.action, i] += delta
        softmax(state.value[tr.next_x], state.temperature, state.scratch)
        v = 0.0
        for a in range(actions):
            v += state.scratch[a] * state.value[tr.next_x, a]
        target = change + tr.alive * state.discount * v
        state.value[tr.x, tr.action] += rate * (target - state.value[tr.x, tr.action])

    return BehaviourRule(probabilities, observe, end_nothing)
