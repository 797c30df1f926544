r"""Intervals of values that hold with any number of episodes, where the range of a cumulant or of a return is known.

The discounted return of an episode lies in a known range if its cumulants do; what follows a cut adds something in the range of
values, times its weight.  The mean is bounded by betting (Waudby-Smith and Ramdas, 2024): if x in [0, 1] has mean m, the capital
$\prod_j (1 + f (x_j / m - 1))$ of a gambler who bets a fraction f has an expectation of at most 1, and so has its average over
several f; it exceeds $2/\alpha$ with probability at most $\alpha/2$.  All m where it does not are above the lower bound, since it
decreases in m.
"""

from __future__ import annotations

import numpy as np

from gvfx.evidence.episodes import Scores

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)  # for which a result keeps bounds
BETS = np.concatenate([[0.9, 0.75], 0.5 ** np.arange(1, 13)])
HALVINGS = 60


def lower(x: np.ndarray, error: float) -> float:
    """A lower bound of the mean of x in [0, 1], [n], that is too large with at most this probability."""
    if not len(x) or not (x > 0).any():
        return 0.0

    def capital(m: float) -> float:
        logs = np.log1p(BETS[:, None] * (x / m - 1)).sum(axis=1)
        return float(np.logaddexp.reduce(logs) - np.log(len(BETS)))

    low, high = 0.0, float(x.mean())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if middle == 0 or capital(middle) > -np.log(error) else (low, middle)
    return low


def value_bounds(
    paid: np.ndarray, left: np.ndarray, gamma: float, least: float, most: float, level: float
) -> tuple[float, float]:
    """An interval of a value at the start from what episodes paid, [episode], discounted by gamma.

    left [episode]: the weight of what follows their last step.  least, most: of a cumulant; with discount 1 of a return, and an
    episode that did not end counts as anything between them.
    """
    if gamma < 1:  # after an end nothing is paid
        least, most = (x / (1 - gamma) for x in (min(least, 0.0), max(most, 0.0)))
        below, above = paid + left * least, paid + left * most
    else:
        below, above = (np.where(left > 0, x, paid) for x in (least, most))
    error, scale = (1 - level) / 2, most - least
    low, high = (lower(np.clip(x / scale, 0.0, 1.0), error) for x in (below - least, most - above))
    return least + scale * low, most - scale * high


def range_bounds(of: Scores | None, ranges: np.ndarray, discounts: np.ndarray, level: float) -> np.ndarray:
    """Intervals of values at the start by the ranges of their cumulants [gvf, 2], [gvf, 2]; NaN where these are NaN."""
    out = np.full((len(discounts), 2), np.nan)
    for i, (least, most) in enumerate(ranges.tolist()):
        if np.isfinite(least):
            own = np.zeros(0, int) if of is None else np.flatnonzero(~np.isnan(of.paid[:, i]))
            paid, left = (np.zeros(0), np.zeros(0)) if of is None else (of.paid[own, i], of.left[own, i])
            out[i] = value_bounds(paid, left, float(discounts[i]), least, most, level)
    return out


def bounds_of_runs(bounds: np.ndarray, level: float) -> np.ndarray:
    """Intervals [gvf, 2] of the mean over runs, from those that each keeps for `LEVELS`, [seed, gvf, level, 2]; NaN without."""
    needed = 1 - (1 - level) / len(bounds)
    fit = [k for k, kept in enumerate(LEVELS) if kept >= needed - 1e-9]
    if not fit:
        return np.where(np.isnan(bounds[0, :, 0]), np.nan, [-np.inf, np.inf])
    return np.asarray(bounds[:, :, fit[0]].mean(axis=0))
