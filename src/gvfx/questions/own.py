"""Target policies defined by a GVF's own action values: greedy or softmax, improved while the values are learned.

Such a policy is not known beforehand.  `gvfx.theory.improvement` computes the one that a model or a table of action values
implies; runs with tables keep it up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import is_finite, shown
from gvfx.questions.policies import Policy


@dataclass(frozen=True)
class OwnPolicy(Policy):
    """Greedy or softmax with respect to its own GVF's action values Q, improved while they are learned.

    epsilon:     probability of a random action instead of a greedy one.
    temperature: if above 0, the softmax of Q / temperature instead of the greedy actions.

    An action never tried in a state keeps its initial probability 1 / actions; the tried ones share the rest.
    """

    epsilon: float = 0.0
    temperature: float = 0.0

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(
            f"{field}: a policy by its own GVF's values is supported by gvfx.evaluate with tables only; give a known policy here."
        )

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(0, actions, field)

    def choices(self, q: np.ndarray, tried: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """Greedy or softmax probabilities over the tried actions [state, action]; a state where nothing was tried has zeros.

        q, tried: [state, action].  Equally good actions get equal probabilities.
        before:   earlier greedy choices [state, action], which are kept in states where they are still best.
        """
        best = np.where(tried, q, -np.inf).max(axis=1, keepdims=True)
        best = np.where(np.isfinite(best), best, 0.0)
        if self.temperature > 0:
            return _shares(np.where(tried, np.exp(np.minimum(q - best, 0.0) / self.temperature), 0.0))
        good = tried & (q >= best - 1e-9 * np.abs(q).max())
        if before is None:
            return _shares(good)
        worse = ((before > 0) & ~good).any(axis=1, keepdims=True)
        return np.where(worse, _shares(good), before)

    def probabilities(self, choices: np.ndarray, tried: np.ndarray) -> np.ndarray:
        """The complete policy [state, action] from the `choices` among the tried actions [state, action]."""
        known = tried.mean(axis=1, keepdims=True)
        own = (1 - self.epsilon) * choices + self.epsilon * _shares(tried)
        return np.where(tried, known * own, 1 / tried.shape[1])


def _shares(weights: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; rows of zeros stay zero."""
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def own_greedy(epsilon: float = 0.0) -> OwnPolicy:
    """The action with the highest value of the GVF itself; with probability `epsilon` a random action."""
    if not (is_finite(epsilon) and 0 <= epsilon <= 1):
        raise InputError(f"epsilon: {shown(epsilon)} lies outside [0, 1]; give the probability of a random action.")
    return OwnPolicy(epsilon=float(epsilon))


def own_softmax(temperature: float) -> OwnPolicy:
    """Probabilities proportional to exp(Q / temperature) with the GVF's own action values Q."""
    if not (is_finite(temperature) and temperature > 0):
        raise InputError(f"temperature: {shown(temperature)} must be a number above 0; use gvfx.own_greedy() for temperature 0.")
    return OwnPolicy(temperature=float(temperature))
