"""The value at the start with continuous observations: the mean of the answers over the observations in which episodes began.

Its error is that of the mean itself, from the half-samples, and not the mean of the answers' errors.  The starts add the variance
of a mean over as many of them as were seen, joined by one more that is as far away as observations are on average, as in
`gvfx.evidence.starts`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gvfx.evidence.joint import Joint
from gvfx.evidence.transitions import Transitions
from gvfx.learners.half_samples import FREEDOM, Answers

STARTS = 2000  # observations over which the value at the start is a mean, at most
OTHERS = 64  # observations that say how far away others are


def start_answers(found: Answers, data: Transitions, policies: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The value at the start and its standard error, [gvf, 2]; NaN without starts, or without half-samples for the error.

    policies: a function from observations [n, o] to the policies there [1 or n, action, gvf].
    """
    starts, others = some(data.observation[data.first], STARTS), some(data.observation, OTHERS)
    if not len(starts):
        return np.full((data.gvfs, 2), np.nan)
    pi = policies(starts)
    value, error = found.mean(starts, pi)
    at_starts, elsewhere = found.fit.values(starts, pi), found.fit.values(others, policies(others))
    variance = _variance(at_starts - value[:, None], elsewhere - value[:, None])
    variance = np.where(np.isnan(value), np.inf, variance)  # nothing was tried
    return np.stack([value, np.sqrt(error**2 + variance)], axis=1)


def _variance(away: np.ndarray, far: np.ndarray) -> np.ndarray:
    """The variance due to the starts, from deviations at the starts and elsewhere [..., n]."""
    return ((away**2).sum(axis=-1) + (far**2).mean(axis=-1)) / away.shape[-1] ** 2


def start_joint(found: Answers, data: Transitions, policies: Callable[[np.ndarray], np.ndarray]) -> Joint:
    """The values at the start with the errors of all their differences; arguments as in `start_answers`."""
    starts, others = some(data.observation[data.first], STARTS), some(data.observation, OTHERS)
    own = start_answers(found, data, policies)
    if not len(starts):
        return joint_of_means(own, np.full((len(own), len(own)), np.nan))
    pi = policies(starts)
    at_starts, elsewhere = found.fit.values(starts, pi), found.fit.values(others, policies(others))
    away, far = (v - at_starts.mean(axis=1, keepdims=True) for v in (at_starts, elsewhere))
    variance = np.stack([_variance(away - away[i], far - far[i]) for i in range(len(own))])
    return joint_of_means(own, found.differences(starts, pi) + variance)


def joint_of_means(own: np.ndarray, squares: np.ndarray) -> Joint:
    """Values with standard errors [gvf, 2], and squared standard errors of their differences [gvf, gvf], together."""
    unsure = ~np.isfinite(own[:, 1])
    errors = np.where(np.eye(len(own), dtype=bool), np.where(unsure, np.nan, own[:, 1]), np.sqrt(squares))
    return Joint(own[:, 0], errors, unsure, unsure, np.zeros(len(own)), FREEDOM)


def some(rows: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of the rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
