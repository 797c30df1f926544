"""BehaviourPolicySearch: REINFORCE on the variance of the importance-sampled return (Hanna et al. 2017).

For several GVFs (App. B.1): after each episode theta += alpha * sum_i IS(tau, pi_i)^2 * sum_t grad log mu_theta(a_t|s_t), with
IS = G * prod_t pi/mu.  The weights of single episodes span many orders of magnitude, so each ratio is clipped, and
alpha * sum_i IS^2 is at most `largest_step`: one episode moves a logit by at most that much per visit of its state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gvfx import schedules
from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.kernel import BehaviourRule, Sizes, normalise, piece
from gvfx.questions.gvf import Stacked
from gvfx.schedules import Schedule, ScheduleState
from gvfx.worlds.mdp import MDP


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
        return _rule(*sizes, self.parameters == "ratio")

    def begin(self, asked: Stacked, world: MDP) -> PolicySearchState:
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
def _rule(gvfs: int, actions: int, ratio: bool) -> BehaviourRule:
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
