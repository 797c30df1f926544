r"""The value at the start, $V(d_0) = \sum_s d_0(s)\,V(s)$, and its standard error.

It is one linear function of the answers, so its variance is not the mean of theirs: with $F$ as in Eq. D1 and
$f_i(s) = \sum_{s_0} d_0(s_0) F_i(s_0,s)$,

$$\mathrm{Var}\,\hat V_i(d_0) \approx \sum_{s,a} f_i(s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a) / n(s,a). \quad (D6)$$

Where the starts are not known, $d_0$ is the share of episodes that began in each state.  With k episodes that adds the
variance of a mean over k starts, $(\sum_j (V(s_j) - \bar V)^2 + p) / k^2$, where the starts are joined by one more that is as
far away as the states are on average, $p$: a run that has always begun in the same state does not show that it always will.

The standard error is infinite if a start's answer depends on an action never tried, or if the mean chance of the unseen over
starts, or its stake, is too large (`unseen`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from gvfx.evidence.counts import Empirical
from gvfx.evidence.noise import WIDEST
from gvfx.evidence.uncertainty import Parts, parts_of, refusal
from gvfx.questions.where import START
from gvfx.theory.importance import per_visit, resolvent
from gvfx.theory.systems import factorised, groups


def start_values(data: Empirical, values: np.ndarray | None = None) -> np.ndarray:
    """The value at the start and its standard error, [gvf, 2]; NaN in place of errors that are not available.

    values [gvf, state]: of a learner other than certainty equivalence, whose errors are not known.
    """
    d = START.on(data.world).weights
    if values is not None or refusal(data):
        own = (data.values if values is None else values) @ d
        return np.stack([own, np.full(len(own), np.nan)], axis=1)
    return np.stack([data.values @ d, start_errors(data, parts_of(data))], axis=1)


def reaches(data: Empirical, p: Parts) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs of a GVF's index and its f(s) pi(a|s), what a target of the pair moves the value at the start by, [state, action]."""
    d = START.on(data.world).weights
    for members in groups(p.pi, p.gamma):
        system = resolvent(p.model, p.pi[:, :, members[0]], p.gamma[:, members[0]])
        reach = factorised(sp.csr_array(system.T))(d)[:, None] * p.pi[:, :, members[0]]
        for i in members:
            yield i, reach


def start_errors(data: Empirical, p: Parts, sure: bool = False) -> np.ndarray:
    """The standard error of the value at the start, [gvf]; sure: whatever was never tried or seen."""
    d, counts = START.on(data.world).weights, data.visits
    found, doubt = np.empty((2, p.noise.shape[2]))
    for i, reach in reaches(data, p):
        known = np.where(counts > 0, p.noise[:, :, i], 0.0)  # what was never tried makes an answer unknown, below
        found[i] = per_visit(reach**2 * known, counts).sum()  # Eq. D6
        doubt[i] = per_visit(reach**4 * np.where(counts > 0, p.doubt[:, :, i], 0.0), counts.astype(float) ** 2).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        widened = 1 + np.minimum(np.where(doubt > 0, doubt / (4 * found**2), 0.0), WIDEST)
    errors = np.sqrt(found * widened + data.starts_variance)
    if sure:
        return errors
    unknown = p.unknown[:, d > 0].any(axis=1) | p.unseen.unknown(1.96 * errors[:, None], d[:, None])[:, 0]
    return np.where(unknown, np.inf, errors)
