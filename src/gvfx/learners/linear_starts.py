"""The value at the start with continuous observations: the mean of the answers over the observations in which episodes began.

Its error is that of the mean itself, from the half-samples, and not the mean of the answers' errors.  The starts add the variance
of a mean over as many of them as were seen, joined by one more that is as far away as observations are on average, as in
`gvfx.evidence.starts`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gvfx.evidence.transitions import Transitions
from gvfx.learners.half_samples import Answers

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
    away, far = (((found.fit.values(at, own) - value[:, None]) ** 2) for at, own in ((starts, pi), (others, policies(others))))
    variance = (away.sum(axis=1) + far.mean(axis=1)) / len(starts) ** 2
    return np.stack([value, np.sqrt(error**2 + variance)], axis=1)


def some(rows: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of the rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
