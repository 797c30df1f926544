r"""A rule that ends a run when it is decided which policy is better.

Policies are compared by their values at the start (or minus them, where lower is better).  With the leader l, the policy with the
largest value so far, rival j is beaten if the upper confidence bound of $V_j - V_l$ is below 0, and does not matter if it is
below the margin; the run may end when this holds for every rival.  Against a threshold each policy's own interval counts.

**Errors under repeated looks.**  Look k (from 0) may be wrong with probability $(1 - confidence)/((k+1)(k+2))$, which adds up to
$1 - confidence$ over any number of looks; all looks at which every answer is known count.  A look makes several comparisons and
shares its probability equally among them.  For the best of K policies K - 1 one-sided comparisons are enough: what the rule says
can only be wrong if the truly best policy seems worse than it is, beside another one; in a tie with a margin too.

**What was never seen** keeps a decision open as it does with `error_below`: while a policy still in question depends on something
never tried, or may meet the unseen too often, and by the stake of the unseen (`Unseen.stake`) and of outcomes that pairs have not
shown yet (`stakes`), the larger of which is added to every bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from gvfx.errors import InputError, printable
from gvfx.evidence.counts import Empirical
from gvfx.evidence.posterior import posterior
from gvfx.evidence.uncertainty import (
    WIDER,
    WIDER_APART,
    WIDEST,
    ErrorModel,
    delta_start_errors,
    drawable,
    error_model,
    reaches,
    start_sides,
)
from gvfx.evidence.unseen import STOP_BELOW, stakes
from gvfx.inputs import check_fields, check_level, checked, is_real
from gvfx.questions.gvf import GVF, Contest, comparable
from gvfx.questions.where import START
from gvfx.theory.design import allowed_at, look_times
from gvfx.theory.importance import per_visit

# --- Several values at the start together: the errors of their differences, which share the data --------------------
# Two answers are estimated from the same transitions.  With $h_i(s,a) = f_i(s)\,\pi_i(a|s)$ (`reaches`) and the target
# $X_i = c_i + \gamma V_i(s')$ of one transition, the delta method says what one visit of a pair does to both: it moves answer i
# by $h_i (X_i - E X_i)/n$ and answer j by $h_j (X_j - E X_j)/n$.  Therefore
#
# $$\mathrm{Var}(\hat V_i - \hat V_j) \approx \sum_{s,a} \mathrm{Var}(h_i X_i - h_j X_j \mid s,a) / n(s,a). \quad (D8)$$
#
# The variances of the targets are those of single answers (`shared_noise`), so only their correlation is to be estimated: that
# of the pair's own outcomes, drawn towards the mean over pairs by `VISITS` visits.  Cumulants of the same signal are the same
# numbers and part of the correlated outcome, unless a world draws them for each question, as their sums tell: such noise is
# uncorrelated.
#
# As for a single value, the chance of the starts is added (of the difference), and a variance is widened by its own doubt.

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
    unshown: Callable[[], np.ndarray] | None = None  # gives [gvf] how much outcomes never shown may change it (`stakes`)

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


def joint_of_sums(values: np.ndarray, errors: np.ndarray) -> Joint:
    """Values at the start and their standard errors, [gvf] each, which add up in differences: their correlations are unknown."""
    both = np.where(np.eye(len(errors), dtype=bool), errors, errors[:, None] + errors)
    unsure = ~(np.isfinite(values) & np.isfinite(errors))
    return Joint(np.where(unsure, 0.0, values), both, unsure, unsure, np.zeros(len(values)))


def joint_of(data: Empirical, groups: Groups) -> Joint:
    """The values at the start of a run on tables; groups: lists of questions that are compared."""
    p, d = error_model(data), START.on(data.world)
    _, added = start_sides(data, p)
    values = data.values @ d.weights
    errors = np.full((len(values), len(values)), np.nan)
    if drawable(data):
        away = posterior(data).at_start - values
        square = away.T @ away / len(away)
        alone = np.diagonal(square)
        both = alone[:, None] + np.where(np.eye(len(alone), dtype=bool), 0.0, alone - 2 * square)
        for members in groups:
            at = np.ix_(members, members)
            errors[at] = WIDER_APART * np.sqrt(np.maximum(both[at], 0.0))
        np.fill_diagonal(errors, WIDER * np.sqrt(alone))
    else:
        for members in groups:
            errors[np.ix_(members, members)] = np.sqrt(_variances(data, p, list(members)))
        np.fill_diagonal(errors, delta_start_errors(data, p))
    bound = np.where(np.isfinite(added), added, 0.0).max(axis=1)  # of what was never seen
    errors += bound[:, None] + np.where(np.eye(len(bound), dtype=bool), 0.0, bound)
    untried = p.unknown[:, d.states].any(axis=1)
    return Joint(
        values=values,
        errors=errors,
        unsure=np.isinf(added).any(axis=1),
        open=untried | (p.unseen.over(d) > STOP_BELOW),
        stake=p.unseen.stake @ d.weights,
        unshown=lambda: stakes(data, d.weights),
    )


def _variances(data: Empirical, p: ErrorModel, members: list[int]) -> np.ndarray:
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
            found = per_visit(own, counts).sum()  # Eq. D8
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
    pairs, size, row = world.states * world.actions, len(members), seen.row
    mean = data.moments(v)[0].reshape(pairs, -1)
    away = [data.targets(i, v[i]) - mean[seen.pair, i] for i in members]
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


WHERE = "where: decided() compares values at the start; leave `where` out, or give 'start'."


@dataclass(frozen=True)
class Decided:
    """The stopping rule of `decided`, which explains the fields."""

    best: tuple[str, ...] | None = None
    signal: str | None = None
    threshold: float | None = None
    margin: float = 0.0
    confidence: float = 0.95
    lower_is_better: bool = field(default=False, metadata={"later": True})

    def __post_init__(self) -> None:
        check_fields(self, "until")
        check_level(self.confidence, "confidence")
        if not (is_real(self.margin) and self.margin >= 0):
            raise InputError(f"margin: {self.margin!r} is not a difference of values; give a finite number of at least 0.")
        if self.threshold is not None and not is_real(self.threshold):
            raise InputError(f"threshold: {self.threshold!r} is not a value; give a finite number.")

    def on(self, questions: Sequence[GVF]) -> Decision:
        """The rule for some questions; raises InputError if they leave nothing to decide."""
        alone = self.threshold is not None
        asked = comparable(questions, alone)
        if self.best is not None and len(set(self.best)) < 2 and not alone:
            raise InputError(
                f"best: {list(self.best)} is one policy, which is always the best; give two or more, or a threshold."
            )
        return Decision(self, asked.chosen(self.best, self.signal, 1 if alone else 2, field="best"))


@dataclass(frozen=True)
class Verdict:
    """What is decided in one signal, or still open: `best` leads (with a threshold: those above it), see `__str__`."""

    signal: str
    best: tuple[str, ...]
    beaten: tuple[str, ...]  # surely worse than the best, or than the threshold
    tied: tuple[str, ...]  # not surely worse, but by no more than the margin better
    open: tuple[str, ...]  # may still be better than the best by more than the margin
    margin: float = 0.0
    threshold: float | None = None
    both_ways: bool = False  # whether those that are tied are also not worse by more than the margin
    lower_is_better: bool = False

    def __str__(self) -> str:
        """One sentence about the signal."""
        return printable(self._sentence())

    def _sentence(self) -> str:
        if self.threshold is not None:
            within = f"within {self.margin:g} of"
            sides = (self.best, "above"), (self.beaten, "below"), (self.tied, within), (self.open, "not decided against")
            parts = [f"{_and(s)} {'are' if len(s) > 1 else 'is'} {word} {self.threshold:g}" for s, word in sides if s]
            return f"{self.signal}: {', '.join(parts)}"
        (best,) = self.best
        above = "below" if self.lower_is_better else "above"
        if self.open:
            return f"{self.signal}: not decided; {best} leads, and {_and(self.open)} may still be better"
        if not self.tied:
            return f"{self.signal}: {best} is the best, {above} {_and(self.beaten)}"
        if not self.beaten and self.both_ways:
            return f"{self.signal}: no difference above the margin of {self.margin:g} between {_and((best, *self.tied))}"
        rest = f", {above} {_and(self.beaten)}" if self.beaten else ""
        tied = f"no difference above the margin of {self.margin:g} in favour of {_and(self.tied)}"
        return f"{self.signal}: {best} is the best{rest}, with {tied}"


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


@dataclass(frozen=True)
class Decision:
    """A rule `Decided` together with the contests that it decides."""

    rule: Decided
    contests: tuple[Contest, ...]
    target = 0.0  # the gap below which a run may end

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The questions of each contest."""
        return tuple(contest.members for contest in self.contests)

    @property
    def comparisons(self) -> int:
        """Among how many comparisons a look shares its probability of being wrong."""
        less = 0 if self.rule.threshold is not None else 1
        return sum(len(contest.members) - less for contest in self.contests)

    looks = staticmethod(look_times)

    def bound(self, joint: Joint, looks: int) -> tuple[float, bool]:
        """How much is missing for a decision, below 0 if it is made; and whether this look counts.

        looks: number of earlier looks that count.
        """
        z = self._quantiles(joint, looks)
        gaps = self._all_gaps(joint, z, joint.stake)
        if gaps.max() < 0:  # otherwise it is open, whatever outcomes were never shown
            gaps = self._all_gaps(joint, z, joint.stakes)
        return float(gaps.max()), not np.isposinf(gaps).any()

    def weights(self, joint: Joint) -> np.ndarray:
        """The weight of every question in the design while a decision is open, [gvf]: 0 for what is settled.

        Settled by the standard of a first look; if that leaves nothing, what is missing most counts.
        """
        z, out = self._quantiles(joint, 0), np.zeros(len(joint.values))
        gaps = [self._gaps(joint, contest, z, joint.stake) for contest in self.contests]
        least = min(0.0, max(own.max() for own in gaps))
        for contest, own in zip(self.contests, gaps, strict=True):
            at, racing = np.array(contest.members), own >= least
            if racing.any() and self.rule.threshold is None:
                racing[(self._sign * joint.values[at]).argmax()] = True
            out[at[racing]] = 1.0
        return out

    def verdicts(self, joint: Joint, looks: int) -> tuple[Verdict, ...]:
        """What a look finds, per signal; `looks` as in `bound`."""
        z = self._quantiles(joint, looks)
        return tuple(self._verdict(joint, contest, z) for contest in self.contests)

    @property
    def _sign(self) -> float:
        """What values are multiplied by, so that more is better."""
        return -1.0 if self.rule.lower_is_better else 1.0

    def _quantiles(self, joint: Joint, looks: int) -> np.ndarray:
        """How many standard errors count at a look, [gvf, gvf]."""
        return joint.quantiles(allowed_at(looks, self.rule.confidence) / self.comparisons)

    def _all_gaps(self, joint: Joint, z: np.ndarray, stake: np.ndarray) -> np.ndarray:
        """The gaps of all contests, [comparison]."""
        return np.concatenate([self._gaps(joint, contest, z, stake) for contest in self.contests])

    def _gaps(self, joint: Joint, contest: Contest, z: np.ndarray, stake: np.ndarray) -> np.ndarray:
        """How much is missing for a decision about each policy, [member]; minus infinity for the leader."""
        low, high, margin = *self._bounds(joint, contest, z, stake), self.rule.margin
        if self.rule.threshold is None:
            return high - margin
        aside = np.minimum(high, -low)  # below 0 if it is on one side of the threshold
        return np.minimum(aside, np.maximum(high, -low) - margin) if margin > 0 else aside

    def _bounds(self, joint: Joint, contest: Contest, z: np.ndarray, stake: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of how much better each policy is than the leader, or larger than the threshold, [member]; minus infinity for
        the leader."""
        at = np.array(contest.members)
        values, open_ = joint.values[at], joint.open[at]
        if self.rule.threshold is not None:
            away, half = values - self.rule.threshold, z[at, at] * joint.errors[at, at] + stake[at]
            half = np.where(open_, np.inf, half)
            return away - half, away + half
        values = self._sign * values
        leader = int(values.argmax())
        half = z[at[leader], at] * joint.errors[at[leader], at] + np.maximum(stake[at], stake[at[leader]])
        half = np.where(open_ | open_[leader], np.inf, half)
        low, high = values - values[leader] - half, values - values[leader] + half
        low[leader] = high[leader] = -np.inf
        return low, high

    def _verdict(self, joint: Joint, contest: Contest, z: np.ndarray) -> Verdict:
        low, high = self._bounds(joint, contest, z, joint.stakes)
        settled = self._gaps(joint, contest, z, joint.stakes) < 0
        shared: dict[str, Any] = {"signal": contest.signal, "margin": self.rule.margin, "threshold": self.rule.threshold}

        def named(mask: np.ndarray) -> tuple[str, ...]:
            return tuple(name for name, own in zip(contest.policies, mask, strict=True) if own)

        if self.rule.threshold is not None:
            sides = {"best": low > 0, "beaten": high < 0, "tied": settled & (low <= 0) & (high >= 0), "open": ~settled}
            return Verdict(**shared | {word: named(mask) for word, mask in sides.items()})
        leads = np.isneginf(high)
        tied = settled & (high >= 0)
        sides = {"best": leads, "beaten": (high < 0) & ~leads, "tied": tied, "open": ~settled}
        around = bool((low[tied] > -self.rule.margin).all())
        names = {word: named(mask) for word, mask in sides.items()}
        return Verdict(**shared | names, both_ways=around, lower_is_better=self.rule.lower_is_better)


@checked
def decided(
    best: Sequence[str] | None = None,
    *,
    signal: str | None = None,
    threshold: float | None = None,
    margin: float = 0.0,
    confidence: float = 0.95,
    lower_is_better: bool = False,
) -> Decided:
    """A rule for `evaluate(..., until=...)`: stop when it is decided, with `confidence`, which policy has the best start value.

    best:      the policies to choose from, by their names or those of their questions; by default all.
    signal:    the signal to decide about; by default every signal that several policies are asked for.
    threshold: decide instead whether each of the policies is above or below this value.
    margin:    differences up to this do not matter: the run also ends when no policy can be better than the leader by more (or
               when a value is within the margin of the threshold).  Without it a tie never ends.
    lower_is_better: the policy with the smallest value is the best, as for costs, falls or waiting times.
    """
    return Decided(None if best is None else tuple(best), signal, threshold, margin, confidence, lower_is_better)
