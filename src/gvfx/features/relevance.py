"""Relevance: how much the answers change with each input, for kernels whose lengths differ by input.

An input on which no answer depends only spreads the data out, and a kernel with one length for all inputs then sees
neighbours nowhere.  The relevance of an input is the root mean square of the answers' derivative along it, relative to the
largest.  Lengths are divided by its square root, because the derivatives of a fit with lengths that differ exaggerate what its
lengths say; inputs of little relevance get the floor.  Derivatives come from a fit with the lengths so far, so a few rounds are
made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ROUNDS = 3
LITTLE = 0.1  # relevance below which an input counts as irrelevant
FLOOR = 0.03  # what lengths of irrelevant inputs are divided by
STEP = 0.1  # of the differences that stand for derivatives, in scaled units


def relevance(answers: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    """What the lengths [d] of the inputs of `answers` are divided by, within [FLOOR, 1], from differences at points [n, d].

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
    if not slopes.max() > 0:
        return np.ones(points.shape[1])
    relative = slopes / slopes.max()
    return np.where(relative >= LITTLE, np.sqrt(relative), FLOOR)
