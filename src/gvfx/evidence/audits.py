r"""Audits: the value at the start from rollouts that follow a target policy, scored against answers fixed before them.

A rollout of policy $\pi$ begins with a reset and goes on after each step with probability $\gamma$.  With answers $\hat Q$ that
were fixed before it, and $\hat V(s) = \sum_a \pi(a|s) \hat Q(s,a)$, its score is

$$Y = \hat V(s_0) + \sum_t [c_t + \gamma \hat V(s_{t+1}) - \hat Q(s_t, a_t)]. \quad (A1)$$

The sum telescopes: $E[Y] = V(d_0)$ for *any* $\hat Q$.  The better the answers, the less $Y$ varies; what is left is the chance
of the environment's own outcomes.  Several discounts share a rollout: it goes on with the largest one, $\bar\gamma$, and the
terms of question i count $\prod_{k<t} \gamma_i / \bar\gamma$.

**Blocks.**  Answers change during a run, so rollouts come in blocks with the same answers.  A block of n rollouts and m further
resets has the unbiased mean

$$\hat v = \frac{1}{n+m} \sum_{j \le n+m} \hat V(s_0^j) + \frac1n \sum_{j \le n} G_j, \qquad G = Y - \hat V(s_0). \quad (A2)$$

Blocks are weighted by n over the mean squared temporal-difference error of their answers on earlier data.  Both are known before
the block's first rollout, so the weighted mean stays unbiased, whatever the scores.

**The chance of stopping** has a known mean: $X = \sum_t (1[\text{went on}] - \bar\gamma)$, over the steps after which a rollout
could go on and weighted like Eq. A1, has mean 0.  The regression of the scores on it is subtracted; it takes away what answers
that are off by the same amount everywhere add to their spread.

**Rare events.**  If a few transitions carry most of the squared temporal-difference errors, rollouts may not have met any of
them, and their spread says nothing.  Where fewer than `FEW` of them are expected among the steps of a block, its variance is at
least what the errors on earlier data imply: rollouts' mean length times their mean square.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special

ENOUGH = 8  # rollouts in a block from which the scores' regression on X is subtracted
FEW = 20.0  # expected effective number of surprises below which the spread of scores is not trusted alone


class Scores(NamedTuple):
    """Everything that was scored in one run; the questions of a rollout's own policy have scores, the others NaN."""

    block: np.ndarray  # int64 [rollout]
    steps: np.ndarray  # int64 [rollout]
    cut: np.ndarray  # bool [rollout]: ended by a time limit or by the end of the run
    start: np.ndarray  # [rollout, gvf] V(s_0)
    gain: np.ndarray  # [rollout, gvf] Y - V(s_0)
    control: np.ndarray  # [rollout, gvf] X
    resets: np.ndarray  # int64 [block] further resets
    reset_mean: np.ndarray  # [block, gvf] of V(s_0) over them
    reset_variance: np.ndarray  # [block, gvf]
    surprise: np.ndarray  # [block, gvf] mean squared temporal-difference error on earlier data
    common: np.ndarray  # [block, gvf] the share of transitions that carry it

    @classmethod
    def none(cls, gvfs: int) -> Scores:
        """No scores yet."""
        return cls(
            block=np.zeros(0, np.int64),
            steps=np.zeros(0, np.int64),
            cut=np.zeros(0, bool),
            start=np.zeros((0, gvfs)),
            gain=np.zeros((0, gvfs)),
            control=np.zeros((0, gvfs)),
            resets=np.zeros(0, np.int64),
            reset_mean=np.zeros((0, gvfs)),
            reset_variance=np.zeros((0, gvfs)),
            surprise=np.zeros((0, gvfs)),
            common=np.zeros((0, gvfs)),
        )


class Audit(NamedTuple):
    """What the audits of one run say about each question, [gvf] each."""

    value: np.ndarray  # NaN without a block of two rollouts
    error: np.ndarray  # standard error; infinite likewise
    freedom: np.ndarray  # degrees of freedom of the standard error
    rollouts: np.ndarray
    steps: np.ndarray
    cut: np.ndarray  # rollouts that ended at a time limit or at the end of the run

    @property
    def columns(self) -> np.ndarray:
        """All of it as one array, [gvf, 6]."""
        return np.stack(self, axis=1).astype(float)


def rollout_score(
    values: np.ndarray,
    taken: np.ndarray,
    cumulants: np.ndarray,
    discounts: np.ndarray,
    going_on: np.ndarray,
    went_on: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V(s_0), G and X of a rollout, each [gvf].

    values:    frozen V at its states, [step + 1, gvf].
    taken:     frozen Q of the actions taken, [step, gvf].
    cumulants, discounts: [step, gvf]; the discount is 0 on termination.
    going_on:  the probability with which the rollout went on after each step, [step].
    went_on:   whether it would have gone on after the last one too.
    """
    ratio = np.divide(discounts, going_on[:, None], out=np.zeros_like(discounts), where=going_on[:, None] > 0)
    weight = np.cumprod(np.vstack([np.ones((1, values.shape[1])), ratio]), axis=0)
    errors = cumulants + discounts * values[1:] - taken
    on = np.append(np.ones(len(taken) - 1), float(went_on)) - going_on
    return values[0], (weight[:-1] * errors).sum(axis=0), (weight[1:] * on[:, None]).sum(axis=0)  # Eq. A1


def surprises(errors: np.ndarray, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Of temporal-difference errors [n, gvf]: the mean square, and the share of transitions that carry it, each [gvf].

    times [n]: how often each occurred, if not once.
    """
    n = np.ones(len(errors)) if times is None else times.astype(float)
    squares, many = errors**2, max(1.0, n.sum())
    total, fourth = n @ squares, n @ squares**2
    common = np.divide(total**2, fourth, out=np.full(len(total), many), where=fourth > 0) / many
    return total / many, common


def audited(scores: Scores) -> Audit:
    """The value at the start of every question by its audits, with standard errors."""
    gvfs = scores.start.shape[1]
    out = Audit(np.full(gvfs, np.nan), np.full(gvfs, np.inf), np.ones(gvfs), *np.zeros((3, gvfs)))
    for i in range(gvfs):
        own = ~np.isnan(scores.gain[:, i])
        out.rollouts[i], out.steps[i], out.cut[i] = own.sum(), scores.steps[own].sum(), scores.cut[own].sum()
        blocks = (_block(scores, b, i, own & (scores.block == b)) for b in range(len(scores.resets)))
        found = [block for block in blocks if block is not None]
        if not found:
            continue
        value, n, expected = (np.array([getattr(block, name) for block in found]) for name in ("value", "rollouts", "expected"))
        weight = n / expected if (expected > 0).all() else n
        share = weight / weight.sum()
        parts = np.array([s**2 * v for s, block in zip(share, found, strict=True) for v in block.variances])
        freedoms = np.array([f for block in found for f in block.freedoms])
        variance = parts.sum()
        out.value[i], out.error[i] = share @ value, np.sqrt(variance)
        out.freedom[i] = variance**2 / (parts**2 / freedoms).sum() if variance > 0 else freedoms.sum()  # Welch-Satterthwaite
    return out


class _Block(NamedTuple):
    """One question in one block: the mean, what its weight depends on, and the parts of its variance with their freedom."""

    value: float
    rollouts: int
    expected: float
    variances: tuple[float, ...]
    freedoms: tuple[float, ...]


def _block(scores: Scores, b: int, i: int, rows: np.ndarray) -> _Block | None:
    """Question i in block b, from its rollouts [rollout] bool; None with fewer than two."""
    n, m = int(rows.sum()), int(scores.resets[b])
    if n < 2:
        return None
    start, gain, steps = scores.start[rows, i], scores.gain[rows, i], scores.steps[rows]
    share, expected = n / (n + m), float(scores.surprise[b, i])
    own = share * start + gain
    off = scores.control[rows, i] - scores.control[rows, i].mean()
    spread, freedom, lever = float(off @ off), n - 1.0, 0.0
    if n >= ENOUGH and spread > 0:
        slope, freedom = float(off @ own) / spread, n - 2.0
        own, lever = own - slope * scores.control[rows, i], float(scores.control[rows, i].mean()) ** 2 / spread
        variance = float(((own - own.mean()) ** 2).sum()) / freedom
    else:
        variance = float(own.var(ddof=1))
    if scores.common[b, i] * steps.sum() < FEW:  # rare events
        variance = max(variance, float(steps.mean()) * expected + share**2 * float(start.var(ddof=1)))
    value, variances, freedoms = float(own.mean()), [variance * (1 / n + lever)], [freedom]
    if m > 1:
        value += (1 - share) * float(scores.reset_mean[b, i])  # Eq. A2
        variances.append((1 - share) ** 2 * float(scores.reset_variance[b, i]) / m)
        freedoms.append(m - 1.0)
    return _Block(value, n, expected, tuple(variances), tuple(freedoms))


def quantile(freedom: np.ndarray, level: float) -> np.ndarray:
    """Student's t beyond which an error lies with probability (1 - level) / 2 on either side."""
    return np.asarray(-scipy.special.stdtrit(np.maximum(freedom, 1.0), (1 - level) / 2))


def over_seeds(audits: np.ndarray) -> np.ndarray:
    """Audits [seed, gvf, 6] of several seeds as one of their mean, [gvf, 6]; rollouts and steps are added up."""
    value, error, freedom = audits[:, :, 0].mean(axis=0), audits[:, :, 1], audits[:, :, 2]
    variance = (error**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = np.where(variance > 0, variance**2 / (error**4 / freedom).sum(axis=0), freedom.sum(axis=0))
    joint = np.where(np.isfinite(variance), joint, 1.0)
    return np.column_stack([value, np.sqrt(variance) / len(audits), joint, audits[:, :, 3:].sum(axis=0)])
