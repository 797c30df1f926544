r"""Outcomes that a pair has not shown yet: how far they could move the value at the start.

Standard errors are those of small changes of the estimated model.  Early in a run the changes are not small: where the next step
towards a reward was tried once, without success, everything behind it seems out of reach, its noise counts nothing, and a value
near 0 looks sure.  A decision therefore also asks what the value could be.

Let h(n) be the mean chance that a pair tried n times shows an outcome that it has not shown before (the discovery curve of
`unseen`, of outcomes instead of states).  With the chances p of a pair's outcomes, $h(n) = E \sum p (1-p)^n$, so the fall of the
curve, $h(n) - h(n+1) = E \sum p^2 (1-p)^n$, is about the variance of a single pair's chance around it: a pair lacks nothing, or a
whole outcome.  In the **favourable model** every pair, with the chance $m = h + \sqrt{h(n) - h(n+1)}$, does the best that any
action of its state has ever done; in the unfavourable one the worst:

$$V^\pm(s) = \sum_a \pi(a|s)\,[(1-m)\,E(c + \gamma V^\pm(s')) + m \max_o / \min_o (c_o + \gamma V^\pm(s'_o))].$$

Both are solved by policy iteration.  The stake is the larger distance of the two from the answer.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.counts import Empirical
from gvfx.evidence.unseen import discovery
from gvfx.theory.flow import ENDLESS

ROUNDS = 20  # of policy iteration; each extends the good (or bad) news by one state at least


def chances(data: Empirical) -> np.ndarray:
    """m: how likely a pair's next outcome may be one that it has not shown before, [state, action]; 0 in terminal states."""
    seen, total = data.seen, data.visits.ravel().astype(float)
    tries, h = discovery(seen.pair, seen.prob * total[seen.pair], total, np.zeros(len(seen.pair)))
    square = np.maximum(h / (tries + 1), np.append(-np.diff(h) / np.diff(tries), 0.0))
    mass = np.minimum(h + np.sqrt(square), 1.0)[np.searchsorted(tries, data.visits, side="right") - 1]
    return np.where(data.world.terminal[:, None], 0.0, mass)


def stakes(data: Empirical, at: np.ndarray) -> np.ndarray:
    """How much outcomes never shown could change the mean answer over states with the weights `at` [state], [gvf]."""
    mass = chances(data)
    out = np.empty(len(data.values))
    for i, answer in enumerate(data.values):
        out[i] = max(abs(float((extreme(data, mass, i, sign) - answer) @ at)) for sign in (1.0, -1.0))
    return out


def extreme(data: Empirical, mass: np.ndarray, i: int, sign: float) -> np.ndarray:
    """GVF i in the favourable model (sign 1) or the unfavourable one (-1), [state]; mass: m [state, action]."""
    world, seen, pi = data.world, data.seen, data.policy(i)
    state, arrived = seen.pair // world.actions, world.next.ravel()[seen.outcome]
    paid, gamma = data.means[data.evidence.row.ravel()[seen.outcome], i], np.minimum(data.discounts(i), 1 - ENDLESS)
    usual = ((1 - mass) * pi).ravel()[seen.pair] * seen.prob
    rest = np.where(data.tried, pi * mass, 0.0).sum(axis=1)
    shape, value, chosen = (world.states, world.states), data.values[i], np.zeros(0, np.intp)
    for _ in range(ROUNDS):
        target = sign * (paid + gamma * value[arrived])
        best = np.full(world.states, -np.inf)
        np.maximum.at(best, state, target)
        last, chosen = chosen, np.flatnonzero(target == best[state])
        chosen = chosen[np.unique(state[chosen], return_index=True)[1]]  # one outcome per state
        if np.array_equal(last, chosen):
            break
        weight = usual.copy()
        weight[chosen] += rest[state[chosen]]
        kernel = sp.csc_array(sp.coo_array((weight * gamma, (state, arrived)), shape=shape))
        own = np.bincount(state, weight * paid, world.states)
        value = scipy.sparse.linalg.splu(sp.csc_array(sp.eye_array(world.states) - kernel)).solve(own)
    return value
