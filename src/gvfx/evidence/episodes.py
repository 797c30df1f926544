r"""Whole episodes of the target policies as evidence for the values at the start, whatever made the answers.

An episode follows its policy to its end, or until what would follow counts less than `CUT`.  With answers $\hat Q$ that were not
fitted to it, and $\hat V(s) = \sum_a \pi(a|s) \hat Q(s,a)$, its score is

$$Y = \hat V(s_0) + \sum_t w_t\,\delta_t, \qquad \delta_t = c_t + \gamma_t \hat V(s_{t+1}) - \hat Q(s_t, a_t), \qquad w_t =
\prod_{k<t} \gamma_k. \quad (E1)$$

The sum telescopes, so that $E[Y] = V(d_0)$ for *any* $\hat Q$ (doubly robust): with $\hat Q = 0$ it is the return, and the
better the answers, the less it varies.  What follows a cut is left to the answer, with a weight below `CUT`.  Answers come from
cross-fitting: episodes are in folds, and those of a fold are scored against a fit to the others.

**Returns.**  Bad answers can make scores vary more than returns do, which have the same mean.  Each fold, or block in time,
counts whichever varied less in the others, or in those before.  Where returns count, the standard error is at least `ALIKE` times
that of the scores: episodes that all went alike do not show what else may happen.  Where the paired episodes of two policies all
had the same return, a pair may still differ in up to u / n of the cases, as if the two were not paired.

**Starts.**  With m further resets beside the n episodes, $\hat V$ at all n + m starts takes the place of $\hat V$ at the n:

$$\hat v = \frac{1}{n} \sum_{j \le n} \Big[\frac{n}{n+m} \hat V(s_0^j) + G_j\Big] + \frac{1}{n+m} \sum_{j \le m} \hat V(s_0^j),
\qquad G = Y - \hat V(s_0). \quad (E2)$$

**Pairs.**  Episodes of different policies with the same number begin with the same seed and have the same draws.  Variances of
differences are those of the paired scores, which are right whether or not the environment heeds seeds.

**Rare events.**  If few transitions carry most of the squared errors of the answers, the episodes of one policy may not have met
any of them, and their spread says nothing.  With the means of squares and fourth powers of the errors in all data, an event has
the size $s = \overline{\delta^4} / \overline{\delta^2}$, and $\lambda = \overline{\delta^2} \sum_{j,t} w_t^2 / s$ are expected.
Where $\lambda$ is below `FEW`, the variance of their mean is at least $\min(\lambda, u)\,s/n^2$, with u the upper limit of a
Poisson mean of which as many events were met as the episodes' own squares make up.

**Model and episodes together.**  The model answers the same question, often with less chance, but with an error that its
half-samples may not show.  Its half-width is theirs, in quadrature with twice what the difference of the two leaves beyond the
chance of the episodes, and at least `SUPPORT` times that of the episodes.  Weights are inverse squares of the half-widths, and
the half-width of the mean is the weighted mean of both, as if the two erred together.

**Does the observation determine what follows?**  If it does and the answers are right, the errors $\delta_t$ along an episode are
uncorrelated.  Errors of the answers make them agree: with $H_t = \sum_k \gamma^k \delta_{t+k}$ and $D_t = \sum_k \gamma^{2k}
\delta_{t+k}^2$, the mean of $H_t^2 - D_t$ is the mean square of what the answers miss; Student's test compares it with 0.
What follows must not depend on where the episode was one step before, either: the sums of $\delta_t (o_t - o_{t-1})$ over the
episodes of all policies have the mean 0 (Hotelling's test).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special
import scipy.stats

CUT = 0.003  # the weight of what follows, below which an episode is cut
FOLDS = 4
ALIKE = 0.25  # of the standard error of scores: the least of returns
SAME = 1e-12  # relative difference of equal returns
NONE = 3.69  # the upper limit of 97.5 % of a Poisson mean if there was no event
FEW = 20.0  # expected number of rare events below which the spread of scores is not trusted alone
UPPER = 0.975  # of the half-widths that weights are made of
SUPPORT = 0.5  # of the episodes' half-width: the least that the model's counts as


Surprise = tuple[np.ndarray, np.ndarray]  # the mean square of temporal-difference errors and the size of an event, `surprises`


class Scores(NamedTuple):
    """Episodes that followed target policies; a question's own are those of its policy, and have NaN for the others."""

    pair: np.ndarray  # int64 [episode]: those of different policies with the same number had the same draws
    fold: np.ndarray  # int64 [episode]
    steps: np.ndarray  # int64 [episode]
    cut: np.ndarray  # bool [episode]: ended where what follows counts more than `CUT`
    start: np.ndarray  # [episode, gvf] V(s_0)
    gain: np.ndarray  # [episode, gvf] Y - V(s_0)
    length: np.ndarray  # [episode, gvf] sum of the squares of w
    squares: np.ndarray  # [episode, gvf] and of w_t delta_t
    agreeing: np.ndarray  # [episode, gvf] sum of H^2 - D over its first half
    counted: np.ndarray  # int64 [episode] steps in its first half
    lagged: np.ndarray  # [episode, gvf, o] sum of delta_t (o_t - o_{t-1})
    paid: np.ndarray  # [episode, gvf] sum of w_t c_t
    left: np.ndarray  # [episode, gvf] w after the last step: how much counts what follows it
    after: np.ndarray  # [episode, gvf] V of what follows it

    @property
    def returns(self) -> np.ndarray:
        """The discounted returns [episode, gvf], with the answer where an episode was cut."""
        return self.paid + self.left * self.after

    @classmethod
    def of_returns(cls, returns: np.ndarray, pair: np.ndarray, steps: np.ndarray) -> Scores:
        """Episodes whose scores are their returns [episode, gvf]."""
        none, zeros = np.zeros(len(returns), np.int64), np.zeros_like(returns)
        along = (zeros, returns, zeros, zeros, zeros, none, zeros[:, :, None])
        return cls(pair, none, steps, none > 0, *along, returns, zeros, zeros)


def scores(
    errors: np.ndarray,
    cumulant: np.ndarray,
    discount: np.ndarray,
    observation: np.ndarray,
    first: np.ndarray,
    start: np.ndarray,
    after: np.ndarray,
    policy: np.ndarray,
    member: np.ndarray,
    pair: np.ndarray,
    fold: np.ndarray,
) -> Scores:
    """The scores of episodes whose transitions follow each other.

    errors:   temporal-difference errors of answers that were not fitted to them, [n, gvf].
    cumulant, discount: [n, gvf], the discount 0 on termination; observation [n, o].
    first:    the index of each episode's first transition, [episode].
    start, after: V(s_0), and V of what follows the last step, [episode, gvf].
    policy:   of each episode; member [gvf]: of each question.
    """
    many, (gvfs, size) = len(first), (errors.shape[1], observation.shape[1])
    gain, length, met, agreeing, paid, left = np.zeros((6, many, gvfs))
    lagged, last = np.zeros((many, gvfs, size)), np.append(first[1:], len(errors))
    for j, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        delta = errors[a:b]
        w = np.cumprod(np.vstack([np.ones((1, gvfs)), discount[a:b]]), axis=0)
        w, left[j] = w[:-1], w[-1]
        terms, half, paid[j] = w * delta, (b - a + 1) // 2, (w * cumulant[a:b]).sum(axis=0)
        gain[j], length[j] = terms.sum(axis=0), (w**2).sum(axis=0)  # Eq. E1
        onward, squares = terms[::-1].cumsum(axis=0)[::-1], (terms**2)[::-1].cumsum(axis=0)[::-1]
        met[j] = squares[0]
        here = np.maximum(w[:half], np.sqrt(np.finfo(float).tiny))  # whose square is above 0
        agreeing[j] = ((onward[:half] ** 2 - squares[:half]) / here**2).sum(axis=0)
        lagged[j] = delta[1:].T @ (observation[a + 1 : b] - observation[a : b - 1])
    others = policy[:, None] != member
    for each in (gain, length, met, agreeing, paid, left):
        each[others] = np.nan
    steps = last - first
    cut, first_half = np.nan_to_num(left).max(axis=1, initial=0.0) > CUT, (steps + 1) // 2
    return Scores(pair, fold, steps, cut, start, gain, length, met, agreeing, first_half, lagged, paid, left, after)


def surprises(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of temporal-difference errors [n, gvf]: the mean square, and the size of an event that carries it, each [gvf]."""
    second, fourth = (errors**2).mean(axis=0), (errors**4).mean(axis=0)
    return second, np.divide(fourth, second, out=np.zeros(len(second)), where=second > 0)


class Estimate(NamedTuple):
    """Values at the start by episodes alone, [gvf] each, with the variances of all differences."""

    value: np.ndarray  # NaN without an episode
    variance: np.ndarray  # [gvf, gvf] of differences, of the values on the diagonal; infinite without two episodes
    freedom: np.ndarray  # [gvf, gvf] degrees of freedom
    episodes: np.ndarray
    steps: np.ndarray
    cut: np.ndarray

    @classmethod
    def none(cls, gvfs: int) -> Estimate:
        """Without episodes."""
        both, zeros = np.ones((gvfs, gvfs)), np.zeros(gvfs)
        return cls(np.nan * zeros, np.inf * both, both, zeros, zeros, zeros)

    @property
    def error(self) -> np.ndarray:
        """The standard error of every value, [gvf]."""
        return np.sqrt(self.variance.diagonal())

    def arrays(self) -> dict[str, np.ndarray]:
        """As fields of a seed's part: each value with its error, freedom and counts [gvf, 6], and differences [gvf, gvf, 2]."""
        own = (self.value, self.error, self.freedom.diagonal(), self.episodes, self.steps, self.cut)
        both = np.stack([np.sqrt(self.variance), self.freedom], axis=-1)
        return {"audit": np.stack(own, axis=1).astype(float), "audit_differences": both}

    def halves(self, tail: float = 1 - UPPER) -> np.ndarray:
        """Half-widths of the intervals of all differences, of the values on the diagonal, [gvf, gvf]."""
        return -scipy.special.stdtrit(self.freedom, tail) * np.sqrt(self.variance)


def steadier(of: Scores, folds: int, before: bool = False) -> np.ndarray:
    """Whether scores varied less than returns in the other folds of episodes, or in those before, bool [fold, gvf]."""
    counted = [of.fold < k if before else of.fold != k for k in range(folds)]
    return np.array([np.less(*(_variances(each[own]) for each in (of.start + of.gain, of.returns))) for own in counted])


def _variances(of: np.ndarray) -> np.ndarray:
    """Variances [gvf] over episodes [episode, gvf] that are not NaN; NaN for fewer than two."""
    many = (~np.isnan(of)).sum(axis=0)
    off = of - np.nansum(of, axis=0) / np.maximum(many, 1)
    return np.where(many > 1, np.nansum(off**2, axis=0) / np.maximum(many - 1, 1), np.nan)


def mixed(of: Scores, robust: np.ndarray, surprise: Surprise | None = None, further: np.ndarray | None = None) -> Estimate:
    """As `estimate`, from scores where they are `steadier` [fold, gvf] and from returns elsewhere."""
    chosen = robust[of.fold]
    counted = of._replace(start=of.start * chosen, gain=np.where(chosen, of.gain, of.returns))
    found = estimate(counted, surprise, None if further is None else further * robust[:, None])
    many = np.maximum(found.episodes, 1)
    by_returns = (~chosen & ~np.isnan(of.gain)).sum(axis=0) / many
    least = by_returns * ALIKE**2 * np.nan_to_num(_variances(of.start + of.gain)) / many
    more = np.maximum(0.0, least - found.variance.diagonal())
    own, pair = ~np.isnan(of.gain), of.pair
    apart = own.T.astype(int) @ own == 0  # questions of different policies
    returns = np.full((int(pair.max(initial=-1)) + 1, len(more)), np.nan)
    for i in range(len(more)):
        returns[pair[own[:, i]], i] = of.returns[own[:, i], i]
    differ = np.abs(returns[:, :, None] - returns[:, None]) > SAME * (np.abs(returns[:, :, None]) + SAME)
    alone = found.variance.diagonal() + more
    rare = np.where(apart & ~differ.any(axis=0), np.minimum(1.0, NONE / np.maximum(1, np.minimum(many[:, None], many))), 0.0)
    known = np.where(np.isfinite(alone), alone, 0.0)
    variance = np.maximum(found.variance + more[:, None] + more, rare * (known[:, None] + known))
    np.fill_diagonal(variance, alone)
    return found._replace(variance=variance)


def estimate(of: Scores, surprise: Surprise | None = None, further: np.ndarray | None = None) -> Estimate:
    """The values at the start by episodes alone.

    surprise: as `surprises` of all data by the answers of every fold, [fold, gvf] each.  further: V(s_0) at further resets by
    the answers of every fold, [fold, m, gvf]; NaN where a reset is none for a question.
    """
    own = ~np.isnan(of.gain)
    n = own.sum(axis=0)
    many = np.maximum(n, 1)
    further = np.zeros((1, 0, len(n))) if further is None else further
    there = np.asarray(~np.isnan(further).any(axis=0))
    m = there.sum(axis=0) * (there.sum(axis=0) > 1)
    share, times = n / np.maximum(n + m, 1), np.maximum(m, 1)
    at = np.where(there, further, 0.0)  # [fold, m, gvf]
    rest = (1 - share) * at.sum(axis=1) / times  # [fold, gvf]
    z = np.full((int(of.pair.max(initial=-1)) + 1, len(n)), np.nan)
    fold = of.fold if len(rest) > 1 else 0 * of.fold
    score = share * of.start + of.gain + rest[fold]  # Eq. E2
    for i in range(len(n)):
        z[of.pair[own[:, i]], i] = score[own[:, i], i]
    here = ~np.isnan(z)
    value = np.where(n > 0, np.nansum(z, axis=0) / many, np.nan)
    off = np.where(here, z - value, 0.0)
    both = here.T.astype(float) @ here
    covariance = off.T @ off / np.maximum(np.minimum(both, np.minimum(n[:, None], n)) - 1, 1) * both / (many[:, None] * many)
    covariance[both < 2] = 0.0
    apart = np.zeros_like(covariance)
    if m.any():
        folds = np.stack([np.bincount(fold[own[:, i]], minlength=len(rest)) for i in range(len(n))], axis=1) / many
        mean = np.einsum("fmi,fi->mi", at, folds)
        away = np.where(there, mean - mean.sum(axis=0) / times, 0.0)
        apart = (1 - share)[:, None] * (1 - share) * (away.T @ away) / (times[:, None] * times) * len(there) / (len(there) - 1)
    if surprise is not None:
        met, fold = np.nansum(of.squares, axis=0), of.fold if len(surprise[0]) > 1 else 0 * of.fold
        expected = np.nansum(surprise[0][fold] * of.length, axis=0)
        size = np.where(own, surprise[1][fold], 0.0).max(axis=0, initial=0.0)
        most = size * scipy.special.gammaincinv(met / np.where(size > 0, size, 1.0) + 1, UPPER)
        least = np.where(expected < FEW * size, np.minimum(expected, most), 0.0) / many**2
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), least))
    alone = (covariance + apart).diagonal()
    variance = np.maximum(alone[:, None] + alone - 2 * (covariance + apart), 0.0)
    np.fill_diagonal(variance, alone)
    known = n > 1
    freedom = np.maximum(np.minimum(n[:, None], n) - 1.0, 1.0)
    counted = own.T.astype(float) @ of.steps, own.T.astype(float) @ of.cut
    return Estimate(value, np.where(known[:, None] & known, variance, np.inf), freedom, n, *counted)


def over_seeds(audits: np.ndarray) -> np.ndarray:
    """Those of several seeds [seed, gvf, 6] as one of their mean, [gvf, 6]; episodes and steps are added up."""
    variance, freedom = _over_seeds(audits[:, :, 1], audits[:, :, 2])
    own = (audits[:, :, 0].mean(axis=0), np.sqrt(variance) / len(audits), freedom)
    return np.column_stack([*own, audits[:, :, 3:].sum(axis=0)])


def differences_over_seeds(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and freedom of differences, [seed, gvf, gvf, 2], as those of the mean over seeds, [gvf, gvf] each."""
    variance, freedom = _over_seeds(differences[..., 0], differences[..., 1])
    return np.sqrt(variance) / len(differences), freedom


def _over_seeds(error: np.ndarray, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the seeds' variances [seed, ...] and its degrees of freedom, by Welch and Satterthwaite."""
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (error**2).sum(axis=0)
        joint = variance**2 / (error**4 / np.maximum(freedom, 1.0)).sum(axis=0)
    return variance, np.where(np.isfinite(variance), np.where(variance > 0, joint, freedom.max(axis=0)), 1.0)


# --- model and episodes together -------------------------------------------------------------------------------------


class Blend(NamedTuple):
    """Values at the start by model and episodes together."""

    value: np.ndarray  # [gvf]
    half: np.ndarray  # [gvf, gvf] half-widths of differences at the level of `UPPER`, of the values on the diagonal
    weight: np.ndarray  # [gvf] of the model


def blended(found: Estimate, value: np.ndarray, halves: np.ndarray, trusted: np.ndarray | bool = True) -> Blend:
    """Both together.

    value [gvf] and half-widths [gvf, gvf]: the model's, as in `Estimate`.  trusted [gvf]: False: episodes alone.
    """
    own = found.halves()
    alone, off = own.diagonal(), value - found.value
    known = np.isfinite(alone) & np.isfinite(off)
    beyond = np.where(known, np.maximum(0.0, off**2 - np.where(known, found.variance.diagonal(), 0.0)), 0.0)
    floor = np.where(known[:, None] & known, SUPPORT * np.where(np.isfinite(own), own, 0.0), 0.0)
    widened = np.maximum(np.sqrt(np.where(np.isnan(halves), np.inf, halves) ** 2 + 4 * beyond[:, None]), floor)
    model = np.where(trusted & np.isfinite(value), widened.diagonal(), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.asarray(1 / (1 + (model / alone) ** 2))  # NaN if both are infinite, or 0
    weight = np.where(np.isnan(weight), np.where(np.isnan(found.value), 1.0, 0.5 * (alone == 0)), weight)
    half = _mean(weight, model, alone)
    # a difference has the mean of two weights; what they differ by counts as the four errors would add up at worst, but no
    # difference errs by more than both values
    odd = np.abs(weight[:, None] - weight) / 2
    worst = np.where(np.isfinite(model), model, 0.0) + np.where(np.isfinite(alone), alone, 0.0)
    sides = odd * (worst[:, None] + worst)
    pairs = np.maximum(np.sqrt(widened**2 + 4 * beyond), floor)
    out = _mean((weight[:, None] + weight) / 2, pairs, own) + sides
    out = np.minimum(out, half[:, None] + half)
    out[~np.isfinite(half), :] = out[:, ~np.isfinite(half)] = np.inf
    np.fill_diagonal(out, half)
    return Blend(_mean(weight, value, found.value), out, weight)


def _mean(weight: np.ndarray, model: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The weighted mean of two numbers, either of which may be anything if its weight is 0."""
    return weight * np.where(weight > 0, model, 0.0) + (1 - weight) * np.where(weight < 1, own, 0.0)


# --- does the observation determine what follows? ---------------------------------------------------------------------


def missed(of: Scores) -> np.ndarray:
    """The mean square of what the answers miss along the episodes, [gvf]; NaN without episodes."""
    own = ~np.isnan(of.agreeing)
    steps = own.T.astype(float) @ of.counted
    return np.divide(np.nansum(of.agreeing, axis=0), steps, out=np.full(len(steps), np.nan), where=steps > 0)


def errors_agree(of: Scores) -> float:
    """The probability that temporal-difference errors agree as much as these along episodes if answers are right, over all
    questions."""
    out = 1.0
    for column in of.agreeing.T:
        x = column[~np.isnan(column)]
        if len(x) > 2 and (spread := x.std(ddof=1)) > 0:
            out = min(out, float(scipy.stats.t.sf(x.mean() / spread * np.sqrt(len(x)), len(x) - 1)))
    return min(1.0, out * of.agreeing.shape[1])


def depends_on_before(of: Scores) -> float:
    """The probability of sums like these if what follows did not depend on the observation before, over all questions.

    Those of questions, which share episodes, are combined as Cauchy variables (Liu and Xie, 2020), whatever their dependence.
    """
    found = []
    for x in of.lagged.swapaxes(0, 1):
        x = x[:, x.std(axis=0) > 0]
        n, size = x.shape
        if n < 2 * size + 2 or not size:
            continue
        mean, spread = x.mean(axis=0), np.cov(x, rowvar=False).reshape(size, size)
        squared = n * float(mean @ np.linalg.lstsq(spread, mean, rcond=1e-10)[0])
        found.append(float(scipy.stats.f.sf(squared * (n - size) / (size * (n - 1)), size, n - size)))
    return float(scipy.stats.cauchy.sf(scipy.stats.cauchy.isf(np.minimum(found, 0.99)).mean())) if found else 1.0
