r"""The noise of every pair, learned from its own outcomes and from those of all other pairs (empirical Bayes).

The error theory needs $\sigma^2(s,a) = Var(c + \gamma V(s') | s, a)$.  A pair that was tried a few times without its rare
outcome looks free of noise, and its answer is wrong at the same time: intervals from each pair's own variance are too narrow
exactly where they fail.  Pairs of one world resemble each other, so each pair's variance s^2 is drawn towards what its
surroundings suggest, by Buehlmann's credibility:

$$\hat\sigma^2 = Z s^2 + (1 - Z)\,\bar x\,g, \qquad Z = \frac{n}{n + W/B},$$

where g(s) is the local scale (the mean square of $c + \gamma V(s') - V(s)$ over the distinct outcomes that leave or enter the
state), $x = s^2/g$ the noise in units of it, $\bar x$ its mean over pairs, B the variance of the true x between pairs and W/n
that of its estimate within a pair, from the fourth moments.  Where pairs truly differ, B is large and each keeps its own
variance; where the differences are chance, they share one.  On average over pairs nothing is added.  In addition no pair has
less than the share h(n) of its local scale, with h the chance that a pair tried n times next shows an outcome that it has not
shown before (the discovery curve of `unseen`, of outcomes instead of states).

What remains uncertain about a pair's noise is its *doubt*, $g^2 B W / (n B + W)$, with W drawn towards the pair's own.
A variance $A = \sum_k w_k\hat\sigma_k^2$ has then itself a variance $S = \sum_k w_k^2 doubt_k$ (so $\nu = 2A^2/S$ degrees of
freedom, Satterthwaite), and intervals use
$A\,(1 + 1/(2\nu)) = A + S/(4A)$.  Student's t would widen more; measured coverage does not ask for it.
"""

from __future__ import annotations

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import smoothed_noise
from gvfx.evidence.unseen import discovery

VISITS = 10.0  # of all pairs' fourth moment, added to each pair's own
SMALLEST = 1e-100  # scale that is not taken for 0
WIDEST = 8.0  # the largest 1/(2 nu)


def shared_noise(data: Empirical) -> tuple[np.ndarray, np.ndarray]:
    """The noise of every pair and the variance of that estimate (its doubt), both [state, action, gvf]."""
    world, seen, v = data.world, data.seen, data.values
    pairs, gvfs = world.states * world.actions, len(v)
    n = data.visits.ravel().astype(float)
    mean, variance = data.moments(v)
    shape = variance.shape[:2]
    own, doubt = variance * np.where(n > 1, n / np.maximum(n - 1, 1), 1.0).reshape(*shape, 1), np.zeros(variance.shape)
    tries, new = discovery(seen.pair, data.evidence.counts.ravel()[seen.outcome].astype(float), n, np.zeros(len(seen.pair)))
    missing = new[np.searchsorted(tries, n, side="right") - 1]
    left, arrived = seen.pair // world.actions, world.next.ravel()[seen.outcome]
    row = data.evidence.row.ravel()[seen.outcome]
    often = n > 1
    for i in range(gvfs):
        target = data.means[row, i] + data.discounts(i) * v[i][arrived]
        inner = data.spreads[row, i]
        scale = _scale(left, arrived, (target - v[i][left]) ** 2 + inner, world.states)
        scale = np.repeat(scale, world.actions)
        alone = own[:, :, i].ravel()
        scaled = scale > SMALLEST
        used = often & scaled
        if not alone[used].any():
            continue
        away = (target - mean[:, :, i].ravel()[seen.pair]) ** 2
        fourth = np.bincount(seen.pair, seen.prob * (away**2 + 6 * away * inner + 3 * inner**2), pairs)
        centre, between, within = credibility(alone[used] / scale[used], fourth[used] / scale[used] ** 2, n[used])
        if within == 0:
            continue
        share = n * between / (n * between + within)  # Z
        pooled = np.maximum(share * alone + (1 - share) * centre * scale, missing * scale)
        own[:, :, i] = np.where(n > 0, pooled, 0.0).reshape(shape)
        away, fourth = (np.divide(x, y, out=np.zeros(pairs), where=scaled) for x, y in ((pooled, scale), (fourth, scale**2)))
        fourth -= away**2
        within = (n * np.maximum(fourth, 0.0) + VISITS * within) / (n + VISITS)
        doubt[:, :, i] = np.where(n > 0, scale**2 * between * within / (n * between + within), 0.0).reshape(shape)
    return smoothed_noise(mean, variance, own, data.visits[:, :, None].astype(float)), doubt


def credibility(x: np.ndarray, fourth: np.ndarray, n: np.ndarray) -> tuple[float, float, float]:
    """Mean of the pairs' variances x, the variance of the true ones between pairs, and that of one visit's estimate within.

    fourth: fourth central moments in the same units;  n: visits.  Pairs count by their visits.
    """
    weight = n / n.sum()
    centre = float(weight @ x)
    within = float(weight @ np.maximum(fourth - x**2, 0.0))
    spread = float(weight @ (x - centre) ** 2)
    return centre, max(spread - within * float(weight @ (1 / n)), 0.02 * centre**2), within


def _scale(left: np.ndarray, arrived: np.ndarray, square: np.ndarray, states: int) -> np.ndarray:
    """Mean of `square` [outcome] over the outcomes that leave or enter each state, [state]."""
    total = np.bincount(left, square, states) + np.bincount(arrived, square, states)
    return total / np.maximum(np.bincount(left, minlength=states) + np.bincount(arrived, minlength=states), 1)
