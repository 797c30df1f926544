"""Relevance: how much the answers change with each input, for kernels whose lengths differ by input.

An input on which no answer depends only spreads the data out, and a kernel with one length for all inputs then sees
neighbours nowhere.  The relevance of an input is the root mean square of the answers' derivative along it, relative to the
largest; lengths are divided by it.  Derivatives come from a fit with the lengths so far, so a few rounds are made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ROUNDS = 3
FLOOR = 0.03  # smallest relevance of an input, relative to the largest
STEP = 0.1  # of the differences that stand for derivatives, in scaled units


def relevance(answers: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    """The relevance [d], within [FLOOR, 1], of the inputs of `answers`, from its differences at points [n, d].

    answers: from points [n, d] to answers [n, ...]; each is counted in units of its standard deviation over the points.
    """
    here = answers(points).reshape(len(points), -1)
    unit = here.std(axis=0)
    used = unit > 1e-9 * np.abs(here).max(axis=0, initial=0.0)
    if not used.any():
        return np.ones(points.shape[1])
    slopes = np.empty(points.shape[1])
    for k in range(points.shape[1]):
        step = STEP * np.eye(points.shape[1])[k]
        change = (answers(points + step) - answers(points - step)).reshape(len(points), -1)[:, used]
        slopes[k] = np.sqrt(((change / unit[used]) ** 2).mean())
    return np.maximum(slopes / slopes.max(), FLOOR) if slopes.max() > 0 else np.ones(points.shape[1])
