r"""Audits: the value at the start from rollouts that follow a target policy, scored against answers fixed before them.

A rollout of policy $\pi$ begins with a reset and goes on after each step with probability $\gamma$.  With answers $\hat Q$ that
were fixed before it, and $\hat V(s) = \sum_a \pi(a|s) \hat Q(s,a)$, its score is

$$Y = \hat V(s_0) + \sum_t [c_t + \gamma \hat V(s_{t+1}) - \hat Q(s_t, a_t)]. \quad (A1)$$

The sum telescopes: $E[Y] = V(d_0)$ for *any* $\hat Q$.  The better the answers, the less $Y$ varies; what is left is the chance
of the environment's own outcomes.  A rollout may go on with a probability $\bar\gamma$ of at least $\gamma$, such as the largest
of several discounts: the terms of question i then count $\prod_{k<t} \gamma_i / \bar\gamma$.

**Blocks.**  Answers change during a run, so rollouts come in blocks with the same answers.  A block of n rollouts and m further
resets has the unbiased mean

$$\hat v = \frac{1}{n+m} \sum_{j \le n+m} \hat V(s_0^j) + \frac1n \sum_{j \le n} G_j, \qquad G = Y - \hat V(s_0). \quad (A2)$$

Blocks are weighted by n over the mean squared temporal-difference error of their answers on earlier data.  Both are known before
the block's first rollout, so the weighted mean stays unbiased, whatever the scores.

**The chance of stopping** is spread evenly: a rollout stops as soon as the product of the probabilities of going on falls below
its number v, uniform on (0, 1), and the n rollouts of a policy in a block have one v in each of n equal strata, in random order.
Each of them has the right chance, so that the mean stays unbiased.  What $-\log v$ differs from its mean in the stratum is
subtracted from the score, times the slope of the *other* rollouts' scores, which is independent of it: no bias either.  So what
is linear in $-\log v$, such as what answers that are off by one amount everywhere add, is no part of the variance of the
mean, and is left out of its estimate by regression on the means of the strata.  With fewer than `ENOUGH` rollouts, and in a block
that the end of the run left incomplete, nothing is subtracted or left out.

**Rare events.**  If a few transitions carry most of the squared temporal-difference errors, rollouts may not have met any of
them, and their spread says nothing.  Earlier data say what was to be expected at the states that the rollouts passed: the sum
of squares $D$ and of fourth powers $F$ make $\lambda = D^2/F$ events of the size $F/D$.  The rollouts met $m$ of them, their
own sum of squares over that size, and m events are compatible with a Poisson mean of up to $u(m)$, its upper limit of 97.5 %.
Where $\lambda$ is below `FEW`, the variance of a score is at least $\min(\lambda, u(m)) F / (D n)$: where the events were met,
this is about what the scores say themselves.

**Differences** between questions have the covariance of their means: questions of one policy share its rollouts, and rollouts of
different policies with the same number in a block have the same draws (`Scores.pair`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special

# --- Intervals of audited values that hold with any number of rollouts, for cumulants in a known range --------------
# The last cumulant of a rollout that stops with probability $1 - \gamma$ after each step (0 if the episode ended before) has the
# expectation $(1 - \gamma) V(d_0)$, and lies in the range.  Its mean is bounded by betting (Waudby-Smith and Ramdas, 2024): if x
# in [0, 1] has mean m, the capital $\prod_j (1 + f (x_j / m - 1))$ of a gambler who bets a fraction f has an expectation of at
# most 1, and so has its average over several f; it exceeds $2/\alpha$ with probability at most $\alpha/2$.  All m where it does
# not are above the lower bound, since it decreases in m.  Numbers v from strata (`gvfx.evidence.audits`) keep this: the x are
# independent, their means differ and have the mean m, and the product of the $1 + f (m_j / m - 1)$ is at most 1.

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


ENOUGH = 20  # rollouts in a block from which what is linear in -log v is subtracted
RIDGE = 1.0  # rollouts without a slope, by which slopes are shrunk
FEW = 100.0  # expected number of rare events below which the spread of scores is not trusted alone
UPPER = 0.975  # the level of a Poisson mean's upper limit


class Scores(NamedTuple):
    """Everything that was scored in one run; the questions of a rollout's own policy have scores, the others NaN."""

    block: np.ndarray  # int64 [rollout]
    steps: np.ndarray  # int64 [rollout]
    cut: np.ndarray  # bool [rollout]: ended by a time limit or by the end of the run
    pair: np.ndarray  # int64 [rollout]: those of different policies with the same number in a block have the same draws
    stop: np.ndarray  # [rollout] v, the number that decided when it stopped
    planned: np.ndarray  # int64 [rollout] rollouts of its policy that were planned in the block
    last: np.ndarray  # [rollout, gvf] `gvfx.evidence.audits.last_cumulants`; NaN where a cut leaves it unknown
    start: np.ndarray  # [rollout, gvf] V(s_0)
    gain: np.ndarray  # [rollout, gvf] Y - V(s_0)
    squares: np.ndarray  # [rollout, gvf] sum of the squared terms of the gain
    implied: np.ndarray  # [rollout, gvf] what earlier data imply for it
    implied_fourth: np.ndarray  # [rollout, gvf] and for the sum of fourth powers
    resets: np.ndarray  # int64 [block] further resets
    reset_mean: np.ndarray  # [block, gvf] of V(s_0) over them
    reset_covariance: np.ndarray  # [block, gvf, gvf]
    surprise: np.ndarray  # [block, gvf] mean squared temporal-difference error on earlier data

    @classmethod
    def none(cls, gvfs: int) -> Scores:
        """No scores yet."""
        own: dict[str, np.ndarray] = {name: np.zeros(0, np.int64) for name in ("block", "steps", "pair", "planned", "resets")}
        own |= {"cut": np.zeros(0, bool), "stop": np.zeros(0), "reset_covariance": np.zeros((0, gvfs, gvfs))}
        return cls(**{name: np.zeros((0, gvfs)) for name in cls._fields} | own)


PER_ROLLOUT = Scores._fields[: Scores._fields.index("resets")]


class AuditedValues(NamedTuple):
    """What the audits of one run say about each question, [gvf] each, and about differences between two."""

    value: np.ndarray  # NaN without a block of two rollouts
    error: np.ndarray  # standard error; infinite likewise
    freedom: np.ndarray  # degrees of freedom of the standard error
    rollouts: np.ndarray
    steps: np.ndarray
    cut: np.ndarray  # rollouts that ended at a time limit or at the end of the run
    differences: np.ndarray  # [gvf, gvf] standard errors of differences
    differences_freedom: np.ndarray  # [gvf, gvf]

    @property
    def columns(self) -> np.ndarray:
        """What it says about each question as one array, [gvf, 6]."""
        return np.stack(self[:6], axis=1).astype(float)


class Scored(NamedTuple):
    """One rollout, [gvf] each, as in `Scores`."""

    start: np.ndarray
    gain: np.ndarray
    squares: np.ndarray
    implied: np.ndarray
    implied_fourth: np.ndarray


def rollout_score(
    values: np.ndarray,
    taken: np.ndarray,
    cumulants: np.ndarray,
    discounts: np.ndarray,
    going_on: np.ndarray,
    implied: tuple[np.ndarray, np.ndarray] | None = None,
) -> Scored:
    """The score of a rollout.

    values:    frozen V at its states, [step + 1, gvf].
    taken:     frozen Q of the actions taken, [step, gvf].
    cumulants, discounts: [step, gvf]; the discount is 0 on termination.
    going_on:  the probability with which the rollout went on after each step, [step].
    implied:   mean squared temporal-difference errors, and mean fourth powers, of earlier data at its states, [step, gvf] each.
    """
    ratio = np.divide(discounts, going_on[:, None], out=np.zeros_like(discounts), where=going_on[:, None] > 0)
    weight = np.cumprod(np.vstack([np.ones((1, values.shape[1])), ratio]), axis=0)
    terms = weight[:-1] * (cumulants + discounts * values[1:] - taken)
    second, fourth = implied or np.zeros((2, *terms.shape))
    earlier = (weight[:-1] ** 2 * second).sum(axis=0), (weight[:-1] ** 4 * fourth).sum(axis=0)
    return Scored(values[0], terms.sum(axis=0), (terms**2).sum(axis=0), *earlier)  # Eq. A1


class _Block(NamedTuple):
    """One block, [gvf] each: its means and parts of their variances, from the rollouts and from further resets."""

    value: np.ndarray
    rollouts: np.ndarray
    freedom: np.ndarray  # of the rollouts' variance
    covariance: np.ndarray  # [gvf, gvf] of the means, by the rollouts
    resets: np.ndarray  # [gvf, gvf] likewise, by the further resets
    resets_freedom: float


def audited(scores: Scores) -> AuditedValues:
    """The value at the start of every question by its audits, with standard errors, also of differences."""
    gvfs = scores.start.shape[1]
    own = ~np.isnan(scores.gain)
    counted = own.sum(axis=0), own.T @ scores.steps, own.T @ scores.cut.astype(float)
    blocks = [_block(scores, b) for b in range(len(scores.resets))]
    n = np.array([block.rollouts * (block.rollouts > 1) for block in blocks]).reshape(-1, gvfs)  # [block, gvf]
    expected = np.where(n > 0, scores.surprise, np.inf)
    weight = np.where((expected > 0).all(axis=0), n / np.where(expected > 0, expected, 1.0), n)
    found = n.sum(axis=0) > 0
    share = np.divide(weight, weight.sum(axis=0), out=np.zeros_like(weight), where=found)
    value = np.where(found, sum((s * block.value for s, block in zip(share, blocks, strict=True)), np.zeros(gvfs)), np.nan)
    parts = [part for s, block in zip(share, blocks, strict=True) for part in _parts(block, s)]
    both = np.array(parts).reshape(-1, 2, gvfs, gvfs)
    variance, freedom = _welch(both[:, 0].copy(), both[:, 1].copy())
    known = found[:, None] & found
    errors, freedom = np.where(known, np.sqrt(variance), np.inf), np.where(known, freedom, 1.0)
    return AuditedValues(value, errors.diagonal().copy(), freedom.diagonal().copy(), *counted, errors, freedom)


def _parts(block: _Block, share: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parts of the variance of all differences [gvf, gvf], and of the values themselves on the diagonal, with their freedom."""
    weighted, resets = (each * share[:, None] * share for each in (block.covariance, block.resets))
    alone, away = np.diagonal(weighted), np.diagonal(resets)
    paired = weighted != 0
    np.fill_diagonal(paired, True)
    joint = np.where(paired, np.maximum(alone[:, None] + alone - 2 * weighted, 0.0), 0.0)
    np.fill_diagonal(joint, alone)
    row = np.where(paired, 0.0, alone[:, None])
    over = np.maximum(away[:, None] + away - 2 * resets, 0.0)
    np.fill_diagonal(over, away)
    least = np.minimum(block.freedom[:, None], block.freedom)
    ones = np.ones_like(least)
    of_rows = block.freedom[:, None] * ones
    return [(joint, least), (row, of_rows), (row.T, of_rows.T), (over, block.resets_freedom * ones)]


def _welch(parts: np.ndarray, freedoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of variances [part, ...] and its degrees of freedom, by Welch and Satterthwaite."""
    variance, divisor = parts.sum(axis=0), (parts**2 / np.maximum(freedoms, 1.0)).sum(axis=0)
    if not len(parts):
        return variance, np.ones_like(variance)
    return variance, np.where(divisor > 0, variance**2 / np.where(divisor > 0, divisor, 1.0), freedoms.max(axis=0))


def _block(scores: Scores, b: int) -> _Block:
    """All questions in block b."""
    gvfs, rows, m = scores.start.shape[1], scores.block == b, int(scores.resets[b])
    places = int(scores.pair[rows].max(initial=-1)) + 1
    z, left = np.full((2, places, gvfs), np.nan)  # [pair, gvf] scores, and what strata leave of their differences from the mean
    floor, freedom = np.zeros(gvfs), np.zeros(gvfs)
    n = (~np.isnan(scores.gain[rows])).sum(axis=0)
    share = np.divide(n, n + m, out=np.ones(gvfs), where=n > 0)
    for i in range(gvfs):
        own = rows & ~np.isnan(scores.gain[:, i])
        complete = n[i] >= ENOUGH and (scores.planned[own] == n[i]).all()
        score, off, freedom[i] = _less_stopping(
            share[i] * scores.start[own, i] + scores.gain[own, i], scores.stop[own] if complete else None
        )
        z[scores.pair[own], i], left[scores.pair[own], i] = score, off
        floor[i] = _rare(scores, own, i)
        if n[i] > 1:
            floor[i] += share[i] ** 2 * scores.start[own, i].var(ddof=1) * (floor[i] > 0)
    here = ~np.isnan(z)
    mean = np.divide(np.nansum(z, axis=0), n, out=np.zeros(gvfs), where=n > 0)
    off = np.where(here, left, 0.0)
    both = here.T.astype(float) @ here
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.minimum(freedom[:, None] - n[:, None], freedom - n) + both  # n - 1 or n - 2, of the rollouts of both
        covariance = np.where(least > 0, off.T @ off / least * both / (n[:, None] * n), 0.0)
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), np.where(n > 1, floor / n, 0.0)))
    rest, resets = 1 - share, np.zeros((gvfs, gvfs))
    if m > 1:
        mean = mean + rest * scores.reset_mean[b]  # Eq. A2
        resets = rest[:, None] * rest * scores.reset_covariance[b] / m
    return _Block(mean, n, freedom, covariance, resets, m - 1.0)


def _less_stopping(score: np.ndarray, stop: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores less the chance within strata, what strata leave of their differences from the mean, [rollout] each, and the freedom
    of the variance of the latter.

    stop: v, [rollout], one in each stratum; None: nothing is subtracted.
    """
    n = len(score)
    if stop is None:
        return score, score - score.mean() if n else score, n - 1.0
    x, edges = -np.log(stop), np.arange(n + 1) / n
    steps = scipy.special.xlogy(edges, edges)
    middle = (1 - n * (steps[1:] - steps[:-1]))[np.ceil(stop * n).astype(int) - 1]  # the mean of -log v in each stratum
    away, y, part = x - x.mean(), score - score.mean(), n / (n - 1.0)
    slope = (away @ y - part * away * y) / (away @ away - part * away**2 + RIDGE)  # of all *other* rollouts
    score = score - slope * (x - middle)
    off, level = score - score.mean(), middle - middle.mean()
    return score, off - (level @ off) / (level @ level) * level, n - 2.0


def _rare(scores: Scores, own: np.ndarray, i: int) -> float:
    """The least variance of question i's scores in rollouts `own` that rare events allow; 0 if events are not rare."""
    n = int(own.sum())
    total, fourth = scores.implied[own, i].sum(), scores.implied_fourth[own, i].sum()
    if n < 2 or not fourth > 0 or total**2 / fourth >= FEW:
        return 0.0
    size = fourth / total
    return float(min(total**2 / fourth, poisson_upper(scores.squares[own, i].sum() / size)) * size / n)


def poisson_upper(met: float) -> float:
    """The upper confidence limit of a Poisson mean, given the number of events met."""
    return float(scipy.special.gammaincinv(met + 1, UPPER))


def quantile(freedom: np.ndarray, level: float) -> np.ndarray:
    """Student's t beyond which an error lies with probability (1 - level) / 2 on either side."""
    return np.asarray(-scipy.special.stdtrit(np.maximum(freedom, 1.0), (1 - level) / 2))


def over_seeds(audits: np.ndarray) -> np.ndarray:
    """Audits [seed, gvf, 6] of several seeds as one of their mean, [gvf, 6]; rollouts and steps are added up."""
    value, error, freedom = audits[:, :, 0].mean(axis=0), audits[:, :, 1], audits[:, :, 2]
    variance, joint = _over_seeds(error, freedom)
    return np.column_stack([value, np.sqrt(variance) / len(audits), joint, audits[:, :, 3:].sum(axis=0)])


def differences_over_seeds(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and freedom of differences, [seed, gvf, gvf, 2], as those of the mean over seeds, [gvf, gvf] each."""
    variance, joint = _over_seeds(differences[..., 0], differences[..., 1])
    return np.sqrt(variance) / len(differences), joint


def _over_seeds(error: np.ndarray, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the seeds' variances and its freedom, from [seed, ...]."""
    with np.errstate(invalid="ignore"):
        variance, joint = _welch(error**2, freedom)
    return variance, np.where(np.isfinite(variance), joint, 1.0)


# --- The value at the start from recorded episodes of a target policy, scored against answers that were fitted without them
# The episodes of a log are divided into folds.  With answers $\hat Q$ fitted without the fold of an episode that followed $\pi$,
# and $\hat V(s) = \sum_a \pi(a|s) \hat Q(s,a)$, the score of the episode is
#
# $$Y = \hat V(s_0) + \sum_t w_t\,[c_t + \gamma \hat V(s_{t+1}) - \hat Q(s_t, a_t)], \qquad w_t = \prod_{k<t} \gamma_k, \quad
# (A3)$$
#
# which is Eq. A1 discounted to the end of the episode, in place of stopping by chance.  $E[Y] = V(d_0)$ in every fold, so that
# all scores are one sample.
#
# **Starts.**  All episodes of the log have the same distribution of starts.  The mean of $\hat V(s_0)$ over the episodes of $\pi$
# is therefore moved to that over all episodes, fold by fold, by the slope of Y on $\hat V(s_0)$ (1 with few episodes).
#
# **Rare events.**  If a few transitions of the log carry most of the squared temporal-difference errors, and fewer than `FEW` of
# them are expected in the episodes of $\pi$, the variance of a score is at least what these errors imply, their mean square times
# the mean of $\sum_t w_t^2$.

CROSS_FITTING_ENOUGH = 8  # episodes from which the slope on V(s_0) is estimated
CROSS_FITTING_FEW = 20.0  # expected effective number of surprises below which the spread of scores is not trusted alone
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


def cross_fitted(episodes: Episodes) -> AuditedValues:
    """The value at the start of every question by the episodes that followed its policy, with standard errors."""
    gvfs = episodes.start.shape[1]
    none = np.full(gvfs, np.nan), np.full(gvfs, np.inf), np.ones(gvfs)
    apart = np.full((gvfs, gvfs), np.inf), np.ones((gvfs, gvfs))  # differences are not scored
    out = AuditedValues(*none, np.zeros(gvfs), np.zeros(gvfs), np.zeros(gvfs), *apart)
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
        if n >= CROSS_FITTING_ENOUGH and spread > least:
            slope, freedom, lever = float(away @ y) / spread, n - 2.0, moved**2 / spread
    apart = start[own] - episodes.level[fold[own], i]
    z = y - slope * rest[fold[own]] * apart
    variance = float(((z - z.mean()) ** 2).sum()) / freedom
    if episodes.common[i] * episodes.length[own, i].sum() < CROSS_FITTING_FEW:  # rare events
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
