"""Recent methods as behaviours: robust on-policy sampling, and two designs from the literature planned on the run's evidence.

`gvfx.theory.design` has the formulas of the designs and states where they are our interpretation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.optimal import PlannedState, Planning
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import estimated
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, normalise, piece
from gvfx.questions.gvf import GVF, Stacked
from gvfx.theory.design import characteristic_time_of, second_moment_of
from gvfx.worlds.mdp import MDP


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
        return _rule(*sizes)

    def begin(self, asked: Stacked, world: MDP) -> SamplingState:
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
