r"""The value at the start from recorded episodes of a target policy, scored against answers that were fitted without them.

The episodes of a log are divided into folds.  With answers $\hat Q$ fitted without the fold of an episode that followed $\pi$,
and $\hat V(s) = \sum_a \pi(a|s) \hat Q(s,a)$, the score of the episode is

$$Y = \hat V(s_0) + \sum_t w_t\,[c_t + \gamma \hat V(s_{t+1}) - \hat Q(s_t, a_t)], \qquad w_t = \prod_{k<t} \gamma_k, \quad (A3)$$

which is Eq. A1 discounted to the end of the episode, in place of stopping by chance.  $E[Y] = V(d_0)$ in every fold, so that all
scores are one sample.

**Starts.**  All episodes of the log have the same distribution of starts.  The mean of $\hat V(s_0)$ over the episodes of $\pi$
is therefore moved to that over all episodes, fold by fold, by the slope of Y on $\hat V(s_0)$ (1 with few episodes).

**Rare events.**  If a few transitions of the log carry most of the squared temporal-difference
errors, and fewer than `FEW` of them are expected in the episodes of $\pi$, the variance of a score is at least what these errors
imply, their mean square times the mean of $\sum_t w_t^2$.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gvfx.evidence.audits import Audit

ENOUGH = 8  # episodes from which the slope on V(s_0) is estimated
FEW = 20.0  # expected effective number of surprises below which the spread of scores is not trusted alone
ROUNDING = 1e-18  # of the sum of squares of V(s_0): starts that vary less are the same


class Episodes(NamedTuple):
    """All episodes of a log; gain and length are those of the questions whose policy was followed, NaN for the others."""

    fold: np.ndarray  # int64 [episode]
    steps: np.ndarray  # int64 [episode]
    cut: np.ndarray  # bool [episode]: did not end by termination
    start: np.ndarray  # [episode, gvf] V(s_0)
    gain: np.ndarray  # [episode, gvf] Y - V(s_0)
    length: np.ndarray  # [episode, gvf] sum of the squares of w
    level: np.ndarray  # [fold, gvf] the mean of V(s_0) over all episodes of the log by the answers of each fold
    surprise: np.ndarray  # [gvf] mean squared temporal-difference error of the answers to the whole log
    common: np.ndarray  # [gvf] the share of transitions that carry it


def surprises(errors: np.ndarray, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Of temporal-difference errors [n, gvf]: the mean square, and the share of transitions that carry it, each [gvf].

    times [n]: how often each occurred, if not once.
    """
    n = np.ones(len(errors)) if times is None else times.astype(float)
    squares, many = errors**2, max(1.0, n.sum())
    total, fourth = n @ squares, n @ squares**2
    common = np.divide(total**2, fourth, out=np.full(len(total), many), where=fourth > 0) / many
    return total / many, common


def cross_fitted(episodes: Episodes) -> Audit:
    """The value at the start of every question by the episodes that followed its policy, with standard errors."""
    gvfs = episodes.start.shape[1]
    none = np.full(gvfs, np.nan), np.full(gvfs, np.inf), np.ones(gvfs)
    apart = np.full((gvfs, gvfs), np.inf), np.ones((gvfs, gvfs))  # differences are not scored
    out = Audit(*none, np.zeros(gvfs), np.zeros(gvfs), np.zeros(gvfs), *apart)
    for i in range(gvfs):
        own = ~np.isnan(episodes.gain[:, i])
        out.rollouts[i], out.steps[i], out.cut[i] = own.sum(), episodes.steps[own].sum(), episodes.cut[own].sum()
        if own.sum() > 1:
            out.value[i], out.error[i], out.freedom[i] = _estimated(episodes, i, own)
    return out


def _estimated(episodes: Episodes, i: int, own: np.ndarray) -> tuple[float, float, float]:
    """Value, standard error and degrees of freedom of question i, whose policy at least two episodes followed."""
    fold, start, n = episodes.fold, episodes.start[:, i], int(own.sum())
    every, on = np.bincount(fold), np.bincount(fold[own], minlength=fold.max() + 1)
    x = start - (np.bincount(fold, start) / np.maximum(every, 1))[fold]  # from the mean of the fold
    others = every - on
    rest = others / np.maximum(every, 1)  # [fold]
    y = start[own] + episodes.gain[own, i]
    away, moved, least = x[own] - x[own].mean(), float(x[own].mean()), ROUNDING * float(start @ start)
    slope, freedom, lever, spread = 0.0, n - 1.0, 0.0, float(away @ away)
    if len(fold) > n and float(x @ x) > least:
        slope = 1.0
        if n >= ENOUGH and spread > least:
            slope, freedom, lever = float(away @ y) / spread, n - 2.0, moved**2 / spread
    apart = start[own] - episodes.level[fold[own], i]
    z = y - slope * rest[fold[own]] * apart
    variance = float(((z - z.mean()) ** 2).sum()) / freedom
    if episodes.common[i] * episodes.length[own, i].sum() < FEW:  # rare events
        implied = float(episodes.length[own, i].mean()) * float(episodes.surprise[i])
        variance = max(variance, implied + float((((1 - slope * rest[fold[own]]) * apart) ** 2).mean()))
    parts, freedoms = [variance * (1 / n + lever)], [freedom]
    weight = on / np.maximum(every, 1) / n  # [fold] of each other start
    free = float(len(fold) - (every > 0).sum())
    if slope and free:
        parts.append(slope**2 * float(others @ weight**2) * float(x @ x) / free)
        freedoms.append(free)
    total = sum(parts)
    welch = total**2 / sum(v**2 / f for v, f in zip(parts, freedoms, strict=True)) if total > 0 else sum(freedoms)
    return float(y.mean()) - slope * moved, float(np.sqrt(total)), welch
