r"""Several values at the start together: the errors of their differences, which share the data.

Two answers are estimated from the same transitions.  With $h_i(s,a) = f_i(s)\,\pi_i(a|s)$ (`starts`) and the target
$X_i = c_i + \gamma V_i(s')$ of one transition, the delta method says what one visit of a pair does to both: it moves answer i by
$h_i (X_i - E X_i)/n$ and answer j by $h_j (X_j - E X_j)/n$.  Therefore

$$\mathrm{Var}(\hat V_i - \hat V_j) \approx \sum_{s,a} \mathrm{Var}(h_i X_i - h_j X_j \mid s,a) / n(s,a). \quad (D7)$$

The variances of the targets are those of single answers (`noise`), so what remains to be estimated is their correlation: that of
the pair's own outcomes, drawn towards the mean over pairs by `VISITS` visits.  Cumulants of the same signal are the same numbers
and part of the correlated outcome, unless a world draws them for each question, as their sums tell: such noise is uncorrelated.

As in `starts`, the chance of the starts is added (of the difference), and a variance is widened by what is not known about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from gvfx.evidence.counts import Empirical
from gvfx.evidence.noise import WIDEST
from gvfx.evidence.starts import reaches, start_errors
from gvfx.evidence.uncertainty import Parts, parts_of
from gvfx.evidence.unseen import STOP_BELOW
from gvfx.evidence.unshown import stakes
from gvfx.questions.where import START
from gvfx.theory.importance import per_visit

VISITS = 10.0  # of all pairs' correlation, added to each pair's own
Groups = Sequence[Sequence[int]]  # questions that are compared with each other


@dataclass(frozen=True, eq=False)
class Joint:
    """Values at the start and the standard errors of their differences; NaN between questions that are not compared."""

    values: np.ndarray  # [gvf]
    errors: np.ndarray  # [gvf, gvf] of differences; of the values themselves on the diagonal
    unsure: np.ndarray  # bool [gvf]: whether a value has no interval, because of what was never tried or seen
    open: np.ndarray  # bool [gvf]: whether a run may not stop for that reason
    stake: np.ndarray  # [gvf] how much states never seen may change a value
    freedom: float | np.ndarray = 0.0  # degrees of freedom of the errors, of all or [gvf, gvf]; 0: Gaussian
    unshown: Callable[[], np.ndarray] | None = None  # gives [gvf] how much outcomes never shown may change it (`unshown`)

    @cached_property
    def stakes(self) -> np.ndarray:
        """How much states never seen and outcomes never shown may change a value, [gvf]; takes a while."""
        return self.stake if self.unshown is None else np.maximum(self.stake, self.unshown())

    def quantiles(self, tail: float) -> np.ndarray:
        """The number of standard errors of each difference that is exceeded with probability `tail`, [gvf, gvf]."""
        return np.broadcast_to(quantiles(tail, np.asarray(self.freedom)), self.errors.shape)

    @property
    def known(self) -> np.ndarray:
        """The errors, infinite where a value is unsure, [gvf, gvf]."""
        return np.where(self.unsure[:, None] | self.unsure, np.inf, self.errors)


def quantile(tail: float, freedom: float = 0.0) -> float:
    """The quantile of Student's t, or of the normal distribution without degrees of freedom, that is exceeded with `tail`."""
    return float(quantiles(tail, np.asarray(freedom)))


def quantiles(tail: float, freedom: np.ndarray) -> np.ndarray:
    """As `quantile`, for degrees of freedom [...]."""
    student = scipy.special.stdtrit(np.where(freedom > 0, freedom, 1.0), tail)
    return -np.where(freedom > 0, student, scipy.special.ndtri(tail))


def unpaired(error: np.ndarray, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and freedom of differences between independent values, [gvf, gvf] each, from their own, [gvf] each.

    On the diagonal are their own.  The freedom is Welch's and Satterthwaite's.
    """
    square = error**2
    both = square[:, None] + square
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = both**2 / (square[:, None] ** 2 / freedom[:, None] + square**2 / freedom)
    joint = np.where(np.isfinite(joint), joint, np.minimum(freedom[:, None], freedom))
    own = np.eye(len(error), dtype=bool)
    return np.where(own, error, np.sqrt(both)), np.where(own, freedom, joint)


def joint_of_audits(values: np.ndarray, errors: np.ndarray, freedom: np.ndarray) -> Joint:
    """Audited values at the start [gvf], standard errors of their differences and their freedom, [gvf, gvf] each.

    On the diagonals are those of the values.  What has no error yet keeps a decision open.
    """
    unsure = ~(np.isfinite(values) & np.isfinite(np.diagonal(errors)))
    return Joint(np.where(unsure, 0.0, values), errors, unsure, unsure, np.zeros(len(values)), freedom)


def joint_of(data: Empirical, groups: Groups) -> Joint:
    """The values at the start of a run on tables; groups: lists of questions that are compared."""
    p, d = parts_of(data), START.on(data.world)
    own = start_errors(data, p)
    values = data.values @ d.weights
    errors = np.full((len(own), len(own)), np.nan)
    for members in groups:
        errors[np.ix_(members, members)] = np.sqrt(_variances(data, p, list(members)))
    np.fill_diagonal(errors, start_errors(data, p, sure=True))
    untried = p.unknown[:, d.states].any(axis=1)
    return Joint(
        values=values,
        errors=errors,
        unsure=np.isinf(own),
        open=untried | (p.unseen.over(d) > STOP_BELOW),
        stake=p.unseen.stake @ d.weights,
        unshown=lambda: stakes(data, d.weights),
    )


def _variances(data: Empirical, p: Parts, members: list[int]) -> np.ndarray:
    """Variances of the differences between the values at the start of some questions, [member, member]."""
    counts = data.visits
    related = correlations(data, members)
    reach = dict(reaches(data, p))
    scale = {i: reach[i] * np.sqrt(np.where(counts > 0, p.noise[:, :, i], 0.0)) for i in members}
    with np.errstate(divide="ignore", invalid="ignore"):
        rough = {i: np.where(p.noise[:, :, i] > 0, p.doubt[:, :, i] / p.noise[:, :, i] ** 2, 0.0) for i in members}
    out = np.zeros((len(members), len(members)))
    for k, i in enumerate(members):
        for m, j in enumerate(members[:k]):
            own = scale[i] ** 2 + scale[j] ** 2 - 2 * related[:, :, k, m] * scale[i] * scale[j]
            own = np.maximum(own, 0.0)
            found = per_visit(own, counts).sum()  # Eq. D7
            doubt = per_visit(own**2 * np.maximum(rough[i], rough[j]), counts.astype(float) ** 2).sum()
            widened = 1 + min(doubt / (4 * found**2), WIDEST) if found > 0 else 1.0
            apart = data.starts_variance_of((data.values[i] - data.values[j])[None])[0]
            out[k, m] = out[m, k] = found * widened + apart
    return out


def correlations(data: Empirical, members: Sequence[int]) -> np.ndarray:
    """Correlations of the targets c + gamma V(s') of some questions given s, a, [state, action, member, member].

    Each pair's own, joined by `VISITS` visits of the mean over all pairs.
    """
    world, seen, e, v = data.world, data.seen, data.evidence, data.values
    pairs, size = world.states * world.actions, len(members)
    row, arrived = e.row.ravel()[seen.outcome], world.next.ravel()[seen.outcome]
    mean = data.moments(v)[0].reshape(pairs, -1)
    away = [data.means[row, i] + data.discounts(i) * v[i][arrived] - mean[seen.pair, i] for i in members]
    first = members[0]
    shared = all(
        np.array_equal(e.sums[:, i], e.sums[:, first]) and np.array_equal(e.squares[:, i], e.squares[:, first]) for i in members
    )
    own = np.zeros((pairs, size, size))
    for k in range(size):
        for m in range(k + 1):
            both = away[k] * away[m] + (data.spreads[row, first] if shared else 0.0)
            own[:, k, m] = own[:, m, k] = np.bincount(seen.pair, seen.prob * both, pairs)
    n, related = data.visits.ravel().astype(float)[:, None, None], _normalised(own)
    everywhere = _normalised((n * related).sum(axis=0))
    everywhere[np.arange(size), np.arange(size)] = 1.0
    related = _normalised(n * related + VISITS * everywhere)
    if not shared:  # noise within an outcome is each question's own
        between = np.diagonal(own, axis1=1, axis2=2)
        inner = np.stack([np.bincount(seen.pair, seen.prob * data.spreads[row, i], pairs) for i in members], axis=1)
        share = np.sqrt(np.divide(between, between + inner, out=np.ones(between.shape), where=between + inner > 0))
        related = np.where(np.eye(size, dtype=bool), related, related * share[:, :, None] * share[:, None, :])
    return related.reshape(world.states, world.actions, size, size)


def _normalised(covariance: np.ndarray) -> np.ndarray:
    """Covariances [..., k, k] as correlations; 0 where a variance is 0."""
    deviation = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    below = deviation[..., :, None] * deviation[..., None, :]
    return np.divide(covariance, below, out=np.zeros(covariance.shape), where=below > 0)
