"""The methods that GVFExplorer is compared with: SR, BPS, robust on-policy sampling, and two designs planned on the evidence.

`gvfx.theory.design` has the formulas of the designs and states where they are our interpretation.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gvfx import schedules
from gvfx.behaviours.base import Behaviour, NetworkRule
from gvfx.behaviours.optimal import PlannedState, Planning
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import estimated
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, normalise, piece
from gvfx.questions.gvf import GVF, Stacked
from gvfx.schedules import Schedule, ScheduleState
from gvfx.theory.design import characteristic_time_of, second_moment_of
from gvfx.worlds.mdp import MDP, TableRows

# --- SuccessorRepresentation: act where the successor representation and the reward weights change most --------------
# McLeod et al. (2021) as the paper describes it (App. B.1): for every distinct target policy a successor representation
# psi(s, a) over states, for every GVF reward weights w(s, a).  The intrinsic reward of a step is the total absolute change of
# both; the behaviour is Boltzmann (or greedy) in its Expected-Sarsa value.  All three share one learning rate.  The policy mean
# of psi is stored too, so that an update is one pass over a row.
#
# The authors' code: with `update="entries"` only psi(s, a, s') is updated, towards 1 + gamma * sum_a' pi(a'|s') * mean_f psi(s',
# a', f), and `mean` holds the row means [policy, row, action]; with `when="episode"` an episode keeps its first step's behaviour
# and learning rate.

MEMORY_LIMIT = 4 << 30


class SuccessorState(NamedTuple):
    psi: np.ndarray  # [policy, row, action, row] successor representations
    mean: np.ndarray  # [policy, row, row] their means over actions under the target policy
    member: np.ndarray  # [policy] the index of a GVF with this policy
    copies: np.ndarray  # [policy] how often the change of its representation counts
    weights: np.ndarray  # [row, action, gvf] reward weights; [row, 1, gvf] if they belong to states
    value: np.ndarray  # [row, action] action value of the intrinsic reward
    scratch: np.ndarray  # [action] the behaviour at the next state
    policy: np.ndarray  # [row, action] the behaviour of this episode; empty if it changes at every step
    begun: np.ndarray  # int64 [1] the step at which this episode began
    rate: ScheduleState
    temperature: float  # 0: greedy
    discount: float
    floor: float


@dataclass(frozen=True)
class SuccessorRepresentation(Behaviour[SuccessorState]):
    """Boltzmann (or greedy) behaviour on the value of an intrinsic reward, the change of the representation.

    rate:     learning rate: a schedule, or the minimum of a linear one from 1 over 500,000 steps.
    choice:   "boltzmann" with `temperature`, "greedy" (equally good actions share the probability), or "first" of them.
    discount: of the intrinsic value.

    The rest is for the authors' code where it differs from the text; networks read `choice` and `floor` only:
    update:   the whole "rows" of the successor vector, or the visited "entries".
    when:     behaviour and rate change at every "step" or "episode"; the first episode's behaviour is then the targets' mean.
    weights:  reward weights for "pairs" of state and action, or for "states".
    per:      whether the change of a representation counts once for each distinct "policy" or for each "gvf".
    floor:    smaller probabilities are raised to it before they are scaled to sum to one; the intrinsic value follows them.
    """

    rate: float | Schedule = 0.25
    choice: Literal["boltzmann", "greedy", "first"] = "boltzmann"
    temperature: float = 100.0
    discount: float = 0.99
    update: Literal["rows", "entries"] = "rows"
    when: Literal["step", "episode"] = field(default="step", metadata={"later": True})
    weights: Literal["pairs", "states"] = field(default="pairs", metadata={"later": True})
    per: Literal["policy", "gvf"] = field(default="policy", metadata={"later": True})
    floor: float = field(default=0.0, metadata={"later": True})

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "networks"})
    needs_intrinsic: ClassVar[bool] = True
    allowed: ClassVar = {"temperature": "(0, inf]", "floor": "[0, 1)"}

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _successor_rule(
            *sizes,
            entries=self.update == "entries",
            episodes=self.when == "episode",
            states=self.weights == "states",
            first=self.choice == "first",
            floored=self.floor > 0,
        )

    def begin(self, asked: Stacked, world: TableRows) -> SuccessorState:
        member, copies = _distinct_policies(asked)
        rows, actions = world.rows, world.actions
        size = 8 * len(member) * rows * rows * (actions + 1)
        if size > MEMORY_LIMIT:
            raise InputError(
                f"behaviour: SuccessorRepresentation needs {size / 2**30:.1f} GB for {rows} states and {len(member)} "
                "policies; group states together or choose another behaviour."
            )
        policy = np.zeros((rows if self.when == "episode" else 0, actions))
        if self.when == "episode":
            policy[world.feature] = asked.pi.mean(axis=2)
        return SuccessorState(
            psi=np.zeros((len(member), rows, actions, rows)),
            mean=np.zeros((len(member), rows, rows if self.update == "rows" else actions)),
            member=np.array(member, dtype=np.int64),
            copies=np.array(copies, dtype=float) if self.per == "gvf" else np.ones(len(member)),
            weights=np.zeros((rows, actions if self.weights == "pairs" else 1, len(asked.names))),
            value=np.zeros((rows, actions)),
            scratch=np.zeros(actions),
            policy=policy,
            begun=np.zeros(1, dtype=np.int64),
            rate=schedules.as_falling(self.rate).state(),
            temperature=self.temperature if self.choice == "boltzmann" else 0.0,
            discount=self.discount,
            floor=self.floor,
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
            best = 1.0 * (value == value.max() if self.choice == "greedy" else jnp.arange(len(value)) == value.argmax())
            mu = jax.nn.softmax(value / self.temperature) if self.choice == "boltzmann" else best / jnp.sum(best)
            above = jnp.maximum(mu, self.floor)
            return above / above.sum() if self.floor else mu

        return NetworkRule(lambda weights: (), probabilities, lambda state: state)


def _distinct_policies(asked: Stacked) -> tuple[list[int], list[int]]:
    """The first GVF of every distinct (policy, discount) pair, and how many GVFs have it.

    Policies defined by a GVF's own values are all distinct.
    """
    found: dict[Any, list[int]] = {}
    own = dict(asked.own)
    for i in range(len(asked.names)):
        found.setdefault(i if i in own else asked.pi[:, :, i].tobytes() + asked.gamma[:, i].tobytes(), []).append(i)
    return [gvfs[0] for gvfs in found.values()], [len(gvfs) for gvfs in found.values()]


@cache
def _successor_rule(
    gvfs: int, actions: int, *, entries: bool, episodes: bool, states: bool, first: bool, floored: bool
) -> BehaviourRule:
    @piece
    def choose(state, x, mu):
        """Boltzmann probabilities of the intrinsic value at row x, or greedy at temperature 0."""
        value, temperature = state.value[x], state.temperature
        best, which = value[0], 0
        for a in range(1, actions):
            if value[a] > best:
                best, which = value[a], a
        for a in range(actions):
            greedy = 1.0 * (a == which if first else value[a] == best)
            mu[a] = math.exp((value[a] - best) / temperature) if temperature > 0.0 else greedy
        normalise(mu, actions)
        if floored:
            for a in range(actions):
                mu[a] = max(mu[a], state.floor)
            normalise(mu, actions)

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        if episodes:
            for a in range(actions):
                mu[a] = state.policy[x, a]
        else:
            choose(state, x, mu)

    @piece
    def move_row(state, j, rate, tr, gamma, pi):
        """psi_j(s, a) towards indicator(s) + gamma * policy mean of psi_j(s'); returns the total absolute change."""
        i = state.member[j]
        discount = tr.alive * gamma[tr.g, i]
        weight = pi[tr.row, tr.action, i]
        psi = state.psi[j, tr.x, tr.action]
        mean = state.mean[j, tr.x]
        future = state.mean[j, tr.next_x]
        own = rate * (discount * future[tr.x] - psi[tr.x])  # at the visited state, the indicator still missing
        change = abs(own + rate) - abs(own)
        for f in range(psi.shape[0]):
            delta = rate * (discount * future[f] - psi[f])
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
        future = 0.0
        for a in range(actions):
            future += pi[tr.next_row, a, i] * state.mean[j, tr.next_x, a]
        delta = rate * (1.0 + tr.alive * gamma[tr.g, i] * future - state.psi[j, tr.x, tr.action, tr.next_x])
        state.psi[j, tr.x, tr.action, tr.next_x] += delta
        state.mean[j, tr.x, tr.action] += delta / state.psi.shape[3]
        return abs(delta)

    @piece
    def observe(state, t, tr, c, gamma, pi):
        rate = schedules.at(state.rate, state.begun[0] if episodes else t)
        change = 0.0
        for j in range(state.member.shape[0]):
            moved = move_entry(state, j, rate, tr, gamma, pi) if entries else move_row(state, j, rate, tr, gamma, pi)
            change += state.copies[j] * moved
        weights = state.weights[tr.x, 0 if states else tr.action]
        for i in range(gvfs):
            delta = rate * (c[i] - weights[i])
            change += abs(delta)
            weights[i] += delta
        if not episodes:
            choose(state, tr.next_x, state.scratch)
        mu = state.policy[tr.next_x] if episodes else state.scratch
        v = 0.0
        for a in range(actions):
            v += mu[a] * state.value[tr.next_x, a]
        target = change + tr.alive * state.discount * v
        state.value[tr.x, tr.action] += rate * (target - state.value[tr.x, tr.action])

    @piece
    def next_episode(state, t, rng):
        for x in range(state.policy.shape[0]):
            choose(state, x, state.policy[x])
        state.begun[0] = t

    return BehaviourRule(probabilities, observe, next_episode if episodes else end_nothing)


# --- BehaviourPolicySearch: REINFORCE on the variance of the importance-sampled return (Hanna et al. 2017) -----------
# For several GVFs (App. B.1): after each episode theta += alpha * sum_i IS(tau, pi_i)^2 * sum_t grad log mu_theta(a_t|s_t), with
# IS = G * prod_t pi/mu.  The weights of single episodes span many orders of magnitude, so each ratio is clipped, and
# alpha * sum_i IS^2 is at most `largest_step`: one episode moves a logit by at most that much per visit of its state.


class PolicySearchState(NamedTuple):
    theta: np.ndarray  # [row, action] logits
    visits: np.ndarray  # [row, action] in the episode so far
    path: np.ndarray  # [horizon] its table rows
    length: np.ndarray  # [1]
    log_ratio: np.ndarray  # [gvf] log prod_t pi/mu
    returns: np.ndarray  # [gvf] discounted sum of cumulants
    discount: np.ndarray  # [gvf] gamma^t
    scratch: np.ndarray  # [action]
    rate: ScheduleState
    per_square: float  # 1 / scale^2
    largest_step: float
    log_low: float
    log_high: float


@dataclass(frozen=True)
class BehaviourPolicySearch(Behaviour[PolicySearchState]):
    """Softmax behaviour trained after each episode to reduce the variance of the importance-sampled return.

    rate:         alpha at the episode's first step: a schedule, or the minimum of a linear one from 1 over 500,000 steps.
    scale:        a typical return: alpha is divided by its square.
    largest_step: bound on alpha * sum_i IS^2 for one episode.
    ratio_low, ratio_high: clipping range of each pi/mu.
    parameters:   "softmax" (theta are logits), or "ratio" (mu = theta / sum theta), as in the authors' code.
    """

    rate: float | Schedule = 0.5
    scale: float = 100.0
    largest_step: float = 1.0
    ratio_low: float = 1e-3
    ratio_high: float = 10.0
    parameters: Literal["softmax", "ratio"] = "softmax"

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    by_episode: ClassVar[bool] = True

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _search_rule(*sizes, self.parameters == "ratio")

    def begin(self, asked: Stacked, world: TableRows) -> PolicySearchState:
        if world.horizon is None:
            raise InputError("horizon: BehaviourPolicySearch learns from whole episodes; give the world a horizon.")
        if not (self.scale > 0 and 0 < self.ratio_low <= self.ratio_high):
            raise InputError("behaviour: BehaviourPolicySearch needs scale > 0 and 0 < ratio_low <= ratio_high.")
        gvfs = len(asked.names)
        mixture = np.broadcast_to(asked.pi.mean(axis=2), (world.states, world.actions))
        theta = np.zeros((world.rows, world.actions))
        theta[world.feature] = np.maximum(mixture, 1e-8)  # starts at the mixture
        if self.parameters == "softmax":
            theta = np.log(np.where(theta > 0, theta, 1.0))
        return PolicySearchState(
            theta=theta,
            visits=np.zeros(theta.shape),
            path=np.zeros(world.horizon, dtype=np.int64),
            length=np.zeros(1, dtype=np.int64),
            log_ratio=np.zeros(gvfs),
            returns=np.zeros(gvfs),
            discount=np.ones(gvfs),
            scratch=np.zeros(world.actions),
            rate=schedules.as_falling(self.rate).state(),
            per_square=1 / self.scale**2,
            largest_step=self.largest_step,
            log_low=math.log(self.ratio_low),
            log_high=math.log(self.ratio_high),
        )


@cache
def _search_rule(gvfs: int, actions: int, ratio: bool) -> BehaviourRule:
    @piece
    def chosen(theta, mu):
        best = theta[0]
        for a in range(1, actions):
            best = max(best, theta[a])
        for a in range(actions):
            mu[a] = theta[a] / best if ratio else math.exp(theta[a] - best)
        normalise(mu, actions)

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        chosen(state.theta[x], mu)

    @piece
    def observe(state, t, tr, c, gamma, pi):
        n = state.length[0]
        state.path[n] = tr.x
        state.visits[tr.x, tr.action] += 1.0
        state.length[0] = n + 1
        for i in range(gvfs):
            state.returns[i] += state.discount[i] * c[i]
            state.discount[i] *= gamma[tr.g, i]
            rho = math.log(max(pi[tr.row, tr.action, i] / tr.prob, 1e-300))
            state.log_ratio[i] += min(max(rho, state.log_low), state.log_high)

    @piece
    def episode_end(state, t, rng):
        total = 0.0
        for i in range(gvfs):
            total += state.returns[i] ** 2 * math.exp(2.0 * min(state.log_ratio[i], 200.0))  # IS(tau, pi_i)^2
            state.returns[i] = 0.0
            state.log_ratio[i] = 0.0
            state.discount[i] = 1.0
        alpha = state.per_square * schedules.at(state.rate, t - state.length[0])
        step = min(alpha * total, state.largest_step)
        for n in range(state.length[0]):
            theta, visits = state.theta[state.path[n]], state.visits[state.path[n]]
            seen = 0.0
            for a in range(actions):
                seen += visits[a]
            if seen > 0.0:  # the first time that the path comes here
                chosen(theta, state.scratch)
                for a in range(actions):  # grad log mu_theta = indicator - mu_theta for a softmax, summed over the visits
                    mu = state.scratch[a]
                    theta[a] += step * (visits[a] * (1.0 - mu) if ratio else visits[a] - seen * mu)  # App. B.1 (4)
                    visits[a] = 0.0
        state.length[0] = 0

    return BehaviourRule(probabilities, observe, episode_end)


# --- Robust on-policy sampling, and designs from the literature -----------------------------------------------------


class SamplingState(NamedTuple):
    counts: np.ndarray  # int64 [row, action] how often each action was taken
    share: float


@dataclass(frozen=True)
class RobustSampling(Behaviour[SamplingState]):
    """The action whose share of the visits so far is furthest below the mixture of the target policies.

    The original (Zhong et al. 2022) samples from the policy after a gradient step on the log-likelihood of the data; for a table
    and a large step, our interpretation, this is the most under-sampled action.  With probability 1 - `share` an action is drawn
    from the mixture.
    """

    share: float = 1.0

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _sampling_rule(*sizes)

    def begin(self, asked: Stacked, world: TableRows) -> SamplingState:
        return SamplingState(np.zeros((world.rows, world.actions), dtype=np.int64), float(self.share))


@dataclass(frozen=True)
class PublishedDesign(Planning):
    """Random at first; then a design for the world estimated from the data, replanned each time the data grow by `growth`.

    The options are those of OptimalDesign.
    """

    first: int | None = None
    growth: float = 1.3
    prior: float = 1.0
    random: float = 0.02
    search: float = field(default=0.0, metadata={"later": True})

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    tracked: ClassVar[bool] = False

    @abstractmethod
    def design(self, world: MDP, questions: Sequence[GVF]) -> np.ndarray:
        """The behaviour mu [state, action] for a known world."""

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        self.follow(state, self.design(*estimated(model, self.prior)))


@dataclass(frozen=True)
class SecondMoment(PublishedDesign):
    """Actions proportional to the root of the weighted mean square returns of all GVFs (Liu, Chen & Zhang)."""

    def design(self, world: MDP, questions: Sequence[GVF]) -> np.ndarray:
        return second_moment_of(world, questions)


@dataclass(frozen=True)
class CharacteristicTime(PublishedDesign):
    """Visits that minimise the largest value deviation per visit (MR-NaS, Russo & Pacchiano 2025)."""

    def design(self, world: MDP, questions: Sequence[GVF]) -> np.ndarray:
        return characteristic_time_of(world, questions)


@cache
def _sampling_rule(gvfs: int, actions: int) -> BehaviourRule:
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        visits = 0
        for a in range(actions):
            visits += state.counts[x, a]
        lagging = 0
        furthest = -1e300
        for a in range(actions):
            wanted = 0.0
            for i in range(gvfs):
                wanted += pi[a, i]
            wanted /= gvfs
            lag = wanted * (visits + 1) - state.counts[x, a]
            if wanted > 0.0 and lag > furthest:
                furthest = lag
                lagging = a
            mu[a] = (1.0 - state.share) * wanted
        mu[lagging] += state.share
        normalise(mu, actions)

    @piece
    def observe(state, t, transition, c, gamma, pi):
        state.counts[transition.x, transition.action] += 1

    return BehaviourRule(probabilities, observe, end_nothing)
