r"""How the standard error of the value at the start changes along its own interval.

Where a value rests on rare outcomes, such as a goal that is seldom reached, its noise grows with it: an estimate that is half the
truth has a standard error that is too small as well, and an interval of the same length on both sides misses far more values
above it than below.  The remedy for a proportion is Wilson's interval, which takes the standard error at the end of the
interval; the same is done here along the least favourable family (Efron 1987): every pair's outcomes are tilted so that the value
moves as far as it can for their likelihood,

$$P_t(o|s,a) \propto \hat P(o|s,a)\,\exp\!\Big(t\,\frac{h(s,a)\,(X_o - \bar X(s,a))}{n(s,a)\,\mathrm{se}}\Big),$$

with X the target of an outcome and h(s,a) what it moves the value at the start by (`starts`), and the variance (D6) is computed
anew in the tilted model, values and all.  t = 1.96 is the upper end of a 95 % interval.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.counts import Empirical
from gvfx.evidence.uncertainty import Parts
from gvfx.questions.where import START
from gvfx.theory.flow import Model
from gvfx.theory.importance import discounts, per_visit, resolvent
from gvfx.theory.systems import DENSE_BELOW

FURTHEST = 1.96  # t
LARGEST_TILT = 5.0  # of an outcome's log probability
MOST = 4.0  # factor by which a standard error changes


def side_factors(data: Empirical, p: Parts) -> np.ndarray:
    """The standard error at the lower and the upper end of an interval, over that at its centre, [gvf, 2].

    1 in worlds with `DENSE_BELOW` or more states.
    """
    gvfs, n = p.noise.shape[2], np.maximum(data.visits, 1)
    out = np.ones((gvfs, 2))
    if data.world.states >= DENSE_BELOW:
        return out
    row, d = data.evidence.row.reshape(data.world.next.shape), START.on(data.world).weights
    for i in range(gvfs):
        pi, gamma, paid, inner = p.pi[:, :, i], p.gamma[:, i], data.means[row, i], data.spreads[row, i]
        found, reach, away = _variance(p.model, pi, gamma, paid, inner, d, n)
        if not found > 0:
            continue
        for side, t in enumerate((-FURTHEST, FURTHEST)):
            move = t * (reach / n)[:, :, None] / np.sqrt(found)
            prob = p.model.prob * np.exp(np.clip(move * away, -LARGEST_TILT, LARGEST_TILT))
            tilted = p.model._replace(prob=prob / np.maximum(prob.sum(axis=2, keepdims=True), 1e-300))
            at_end = _variance(tilted, pi, gamma, paid + move * inner, inner, d, n)[0]
            out[i, side] = np.clip(np.sqrt(at_end / found), 1 / MOST, MOST)
    return out


def _variance(
    model: Model, pi: np.ndarray, gamma: np.ndarray, paid: np.ndarray, inner: np.ndarray, d: np.ndarray, n: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Eq. D6 with each pair's own noise, h [state, action], and the targets less their means [state, action, successor].

    paid, inner [state, action, successor]: mean and variance of the outcomes' cumulants;  d [state]: the starts.
    """
    system = scipy.sparse.linalg.splu(sp.csc_array(resolvent(model, pi, gamma)))
    v = system.solve((pi * (model.prob * paid).sum(axis=2)).sum(axis=1))
    reach = system.solve(d, trans="T")[:, None] * pi
    target = paid + discounts(model, gamma) * v[model.next]
    away = target - (model.prob * target).sum(axis=2, keepdims=True)
    noise = (model.prob * (away**2 + inner)).sum(axis=2)
    return float(per_visit(reach**2 * noise, n).sum()), reach, away
