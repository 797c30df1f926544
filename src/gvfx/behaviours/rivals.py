"""Robust on-policy sampling on the mixture: take the action that lags most behind (Zhong et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.gvf import Stacked
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, normalise, piece


class SamplingState(NamedTuple):
    counts: np.ndarray  # int64 [row, action] how often each action was taken
    share: float


@dataclass(frozen=True)
class RobustSampling(Behaviour):
    """The action whose share of the visits so far is furthest below the mixture of the target policies.

    The original ("Robust On-Policy Sampling for Data-Efficient Policy Evaluation in Reinforcement Learning") takes a gradient
    step on the log-likelihood of the data and samples from the changed policy.  In a table, with a large step, that is the
    most under-sampled action: our reading.  With probability 1 - `share` an action is drawn from the mixture itself.
    """

    share: float = 1.0

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _rule(*sizes)

    def begin(self, asked: Stacked, world: Any) -> SamplingState:
        return SamplingState(np.zeros((world.rows, world.actions), dtype=np.int64), float(self.share))


@cache
def _rule(gvfs: int, actions: int) -> BehaviourRule:
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
