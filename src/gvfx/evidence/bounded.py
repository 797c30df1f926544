r"""Intervals of audited values that hold with any number of rollouts, for cumulants in a known range.

The last cumulant of a rollout that stops with probability $1 - \gamma$ after each step (0 if the episode ended before) has the
expectation $(1 - \gamma) V(d_0)$, and lies in the range.  Its mean is bounded by betting (Waudby-Smith and Ramdas, 2024): if x in
[0, 1] has mean m, the capital $\prod_j (1 + f (x_j / m - 1))$ of a gambler who bets a fraction f has an expectation of at most 1,
and so has its average over several f; it exceeds $2/\alpha$ with probability at most $\alpha/2$.  All m where it does not are
above the lower bound, since it decreases in m.  Numbers v from strata (`gvfx.evidence.audits`) keep this: the x are independent,
their means differ and have the mean m, and the product of the $1 + f (m_j / m - 1)$ is at most 1.
"""

from __future__ import annotations

import numpy as np

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)  # for which a result keeps bounds
BETS = np.concatenate([[0.9, 0.75], 0.5 ** np.arange(1, 13)])
HALVINGS = 60


def last_cumulants(cumulants: np.ndarray, gamma: np.ndarray, stop: float, terminated: bool) -> np.ndarray:
    """The cumulant at which a rollout with number v stops, by each question's own discount, [gvf]; with discount 1 the return.

    cumulants [step, gvf]; gamma [gvf]; stop: v; NaN where a cut leaves it unknown.
    """
    out = np.full(len(gamma), 0.0 if terminated else np.nan)
    for i, g in enumerate(gamma.tolist()):
        if g < 1:
            t = 1 if g == 0 else max(1, int(np.ceil(np.log(stop) / np.log(g))))  # the first with gamma^t <= v
            if t <= len(cumulants):
                out[i] = cumulants[t - 1, i]
        elif terminated:
            out[i] = cumulants[:, i].sum()
    return out


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


def value_bounds(last: np.ndarray, gamma: float, least: float, most: float, level: float) -> tuple[float, float]:
    """An interval of a value at the start from `last_cumulants` [rollout] of a question, in the range from least to most."""
    if gamma < 1:
        least, most = min(least, 0.0), max(most, 0.0)
    x = np.clip((last - least) / (most - least), 0.0, 1.0)
    error = (1 - level) / 2
    low = lower(np.where(np.isnan(x), 0.0, x), error)
    high = 1 - lower(np.where(np.isnan(x), 0.0, 1 - x), error)
    scale = 1 / (1 - gamma) if gamma < 1 else 1.0
    return (least + (most - least) * low) * scale, (least + (most - least) * high) * scale


def bounds_of_runs(bounds: np.ndarray, level: float) -> np.ndarray:
    """Intervals [gvf, 2] of the mean over runs, from those that each keeps for `LEVELS`, [seed, gvf, level, 2]; NaN without."""
    needed = 1 - (1 - level) / len(bounds)
    fit = [k for k, kept in enumerate(LEVELS) if kept >= needed - 1e-9]
    if not fit:
        return np.where(np.isnan(bounds[0, :, 0]), np.nan, [-np.inf, np.inf])
    return np.asarray(bounds[:, :, fit[0]].mean(axis=0))
