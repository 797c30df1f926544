r"""Pairs without chance: how likely it is that an action always does the same in a state.

Where most pairs have no chance in them, as in a taxi that picks up or does not, one try settles a pair, and a plan that treats
it like the noisy ones wastes its steps.  A pair that has shown one outcome in n tries either has no chance in it, or it has and
was lucky:

$$P(\text{no chance}\mid n) = \frac{q}{q + (1-q)\,s(n)},$$

with s(n) the chance that a pair with several outcomes shows only one in n tries, the mean over the pairs that have shown several
(keep a random n of their tries: rarefaction), but at least 1 / (n + 1), as if its second outcome could have any probability; and
q the share of pairs without chance among the others of the same action that were tried so often that s(n) is below `TELLING`.
A few imaginary pairs (`ALIKE`) pull an action's share to that of all actions, and others with chance (`CAUTION`) join all.
Where every pair has chance in it, q is 0 and nothing changes.  A pair that never left a state which others seldom leave is not
among them: it may only hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from gvfx.evidence.counts import Empirical
from gvfx.evidence.unseen import RARELY

TELLING = 0.1  # largest s(n) of pairs that say how many have no chance in them
CAUTION, ALIKE = 5.0, 2.0  # imaginary pairs: with chance, and like those of all actions
EXACT = 1e-12  # largest variance of a target, in units of the largest squared value, that counts as 0
FINE, COARSE = 32, 1.25  # s is computed at every n up to FINE, then at multiples of COARSE


class Determinism(NamedTuple):
    """How likely every pair has no chance in it [state, action], and the share of such pairs in the world."""

    sure: np.ndarray
    share: float


def determinism(data: Empirical) -> Determinism:
    """What the data say about pairs without chance."""
    world, seen = data.world, data.seen
    n = data.visits.ravel().astype(float)
    spread = data.noise(data.values).max(axis=2).ravel()
    one = (np.bincount(seen.pair, minlength=n.size) == 1) & (spread <= EXACT * max(1.0, float(np.abs(data.values).max()) ** 2))
    several = (n > 0) & ~one
    one &= ~_holding(data)
    tries, alike = shows_one(*_counts(data, several))
    lucky = np.where(n > 0, alike[np.searchsorted(tries, np.maximum(n, 1), side="right") - 1], 1.0)
    lucky = np.maximum(lucky, 1 / (n + 1))
    telling = (n > 0) & (lucky < TELLING)
    share = float((one & telling).sum() / (telling.sum() + CAUTION))
    if share == 0:
        return Determinism(np.zeros(data.visits.shape), 0.0)
    action = np.tile(np.arange(world.actions), world.states)
    asked, found = (np.bincount(action[which], minlength=world.actions) for which in (telling, telling & one))
    itself = (telling & one).astype(float)
    own = (found[action] - itself + ALIKE * share) / (asked[action] - telling + ALIKE)
    sure = np.where(one, own / (own + (1 - own) * lucky), 0.0)
    return Determinism(sure.reshape(data.visits.shape), float(sure[n > 0].mean()))


def _holding(data: Empirical) -> np.ndarray:
    """Whether a pair never left its state, and those that did left it seldom, or none did, [pair] bool."""
    seen, world, n = data.seen, data.world, data.visits.astype(float)
    away = world.next.ravel()[seen.outcome] != seen.pair // world.actions
    left = np.bincount(seen.pair[away], (seen.prob * n.ravel()[seen.pair])[away], n.size).reshape(n.shape)
    tried = np.where(left > 0, n, 0.0).sum(axis=1, keepdims=True)
    seldom = left.sum(axis=1, keepdims=True) < RARELY * np.maximum(tried, 1)
    return ((left == 0) & (n > 0) & seldom).ravel()


def _counts(data: Empirical, several: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The outcomes of some pairs: their pair, how often each was seen, and how often its pair was tried."""
    seen = data.seen
    at = several[seen.pair]
    count = data.evidence.counts.ravel()[seen.outcome].astype(float)
    return seen.pair[at], count[at], data.visits.ravel()[seen.pair[at]].astype(float)


def shows_one(pair: np.ndarray, count: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of tries n from 1, increasing, and the chance s(n) that a pair shows one outcome only in n tries.

    pair, count, total: an outcome's pair, how often it was seen, and how often its pair was tried, [outcome]
    """
    most = int(total.max(initial=1.0))
    coarse = np.unique((FINE * COARSE ** np.arange(80)).astype(np.int64))
    tries = np.concatenate([np.arange(1, FINE), coarse[coarse <= max(most, FINE)]])
    alike = np.ones(len(tries))
    log_total, log_count = gammaln(total + 1), gammaln(count + 1)
    for k, j in enumerate(tries):
        pairs = np.unique(pair[total >= j]).size
        if not pairs:
            alike[k:] = alike[k - 1] if k else 1.0
            break
        at = count >= j
        chance = log_count[at] - gammaln(count[at] - j + 1) - log_total[at] + gammaln(total[at] - j + 1)
        alike[k] = np.exp(chance).sum() / pairs
    return tries, np.minimum.accumulate(alike)
