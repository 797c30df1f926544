r"""The value at the start, $V(d_0) = \sum_s d_0(s)\,V(s)$, and its standard error.

It is one linear function of the answers, so its variance is not the mean of theirs: with $F$ as in Eq. D1 and
$f_i(s) = \sum_{s_0} d_0(s_0) F_i(s_0,s)$,

$$\mathrm{Var}\,\hat V_i(d_0) \approx \sum_{s,a} f_i(s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a) / n(s,a). \quad (D6)$$

Two things are added for visits that adapt to the data (`OptimalDesign`).  The answers are then biased, and what regression to the
mean would change in them (`selection`) counts as an error: $e^2 = \mathrm{Var} + (\tilde V(d_0) - \hat V(d_0))^2$, with the
variance that of the regressed model.  And the standard error is that at either end of the interval (`tilting`), so that an
interval reaches further on the side on which the value would be noisier; what regression to the mean changes is added on its own
side.

Where the starts are not known, $d_0$ is the share of episodes that began in each state.  With k episodes that adds the
variance of a mean over k starts, $(\sum_j (V(s_j) - \bar V)^2 + p) / k^2$, where the starts are joined by one more that is as
far away as the states are on average, $p$: a run that has always begun in the same state does not show that it always will.

The standard error is infinite if a start's answer depends on an action never tried, or if the mean chance of the unseen over
starts, or its stake, is too large (`unseen`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from gvfx.evidence.counts import Empirical
from gvfx.evidence.noise import WIDEST, shared_noise
from gvfx.evidence.selection import regressed
from gvfx.evidence.tilting import side_factors
from gvfx.evidence.uncertainty import Parts, parts_of, refusal
from gvfx.questions.where import START
from gvfx.theory.importance import per_visit, resolvent
from gvfx.theory.systems import factorised, groups


def start_values(data: Empirical, values: np.ndarray | None = None, truth: np.ndarray | None = None) -> np.ndarray:
    """The value at the start, its standard error, the truth, and the standard errors towards lower and higher values, [gvf, 5].

    NaN in place of what is not available.
    values [gvf, state]: of a learner other than certainty equivalence, whose errors are not known;  truth [gvf]
    """
    d = START.on(data.world).weights
    own = (data.values if values is None else values) @ d
    truth = np.full(len(own), np.nan) if truth is None else truth
    if values is not None or refusal(data):
        nothing = np.full(len(own), np.nan)
        return np.stack([own, nothing, truth, nothing, nothing], axis=1)
    p = parts_of(data)
    deviation, shift = _deviation_and_shift(data, p)
    factors = side_factors(data, p)
    lower = _total(data, deviation * factors[:, 0], np.minimum(shift, 0.0))
    upper = _total(data, deviation * factors[:, 1], np.maximum(shift, 0.0))
    errors = _total(data, deviation, shift)
    unknown = _unknown(data, p, errors)
    errors, lower, upper = (np.where(unknown, np.inf, x) for x in (errors, lower, upper))
    return np.stack([own, errors, truth, lower, upper], axis=1)


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
    errors = _total(data, *_deviation_and_shift(data, p))
    return errors if sure else np.where(_unknown(data, p, errors), np.inf, errors)


def _deviation_and_shift(data: Empirical, p: Parts) -> tuple[np.ndarray, np.ndarray]:
    """The standard deviation of the value at the start (Eq. D6), and what regression to the mean adds to it, [gvf] each."""
    other, counts = regressed(data, p.noise), data.visits
    noise, doubt = shared_noise(other)
    found, spread = np.empty((2, noise.shape[2]))
    policies = np.stack([other.policy(i) for i in range(noise.shape[2])], axis=-1)
    for i, reach in reaches(data, dataclasses.replace(p, pi=policies)):
        own = reach.sum(axis=1, keepdims=True) * p.pi[:, :, i]
        known, rough = (np.where(counts > 0, x[:, :, i], 0.0) for x in (noise, doubt))  # never tried: `_unknown`
        found[i] = per_visit(own**2 * known, counts).sum()  # Eq. D6
        spread[i] = per_visit(own**4 * rough, counts.astype(float) ** 2).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        widened = 1 + np.minimum(np.where(spread > 0, spread / (4 * found**2), 0.0), WIDEST)
    return np.sqrt(found * widened), (other.values - data.values) @ START.on(data.world).weights


def _total(data: Empirical, deviation: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The standard error from its parts and the chance of the starts."""
    return np.sqrt(deviation**2 + shift**2 + data.starts_variance)


def _unknown(data: Empirical, p: Parts, errors: np.ndarray) -> np.ndarray:
    """Whether the value at the start may rest on what was never tried or seen, [gvf] bool."""
    d = START.on(data.world).weights
    return np.asarray(p.unknown[:, d > 0].any(axis=1) | p.unseen.unknown(1.96 * errors[:, None], d[:, None])[:, 0])
