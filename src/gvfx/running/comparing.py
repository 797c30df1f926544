r"""Which policy is better: differences of values at the start per signal, and a ranking with the probability of each rank.

Over several seeds values and variances are those of the mean.  Ranks are counted in draws from the joint distribution of the
values, which has the variances of the values and of all their differences: $2\,Cov(i,j) = Var_i + Var_j - Var(i-j)$.  With
`simultaneous`, intervals are as wide as the largest standardised difference of a signal in those draws (Tukey's idea, for unequal
variances), and signals share the probability of an error equally (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from gvfx.errors import InputError, printable
from gvfx.evidence.decisions import joint_of, quantile, quantiles, unpaired
from gvfx.evidence.episodes import differences_over_seeds
from gvfx.evidence.uncertainty import refusal
from gvfx.inputs import check_level
from gvfx.questions.gvf import NOTHING, Comparable
from gvfx.running.starts import values_at_start
from gvfx.threads import one_thread
from gvfx.types import Described

if TYPE_CHECKING:
    from gvfx.running.result import Details

DRAWS = 20_000
NO_INTERVALS = (
    "compare: this learner has no intervals of start values, so none of differences; use gvfx.CertaintyEquivalence() on tables, "
    "gvfx.LinearCertaintyEquivalence(), or audits (audit=0.15)."
)


class Difference(NamedTuple):
    """The value at the start of one policy minus that of another."""

    signal: str
    policy: str
    other: str
    difference: float
    low: float  # of its interval; infinite if one of the values may rest on what was never seen or tried
    high: float
    better: float  # the probability that the first policy is better; NaN if the interval is infinite
    truth: float  # NaN where the truth is not known

    def __str__(self) -> str:
        text = printable(f"{self.policy} - {self.other}: {self.difference:.4g}")
        if not np.isfinite(self.high):
            return f"{text} (not sure yet)"
        return f"{text} ± {(self.high - self.low) / 2:.2g}, better with probability {probability(self.better)}"


class Ranked(NamedTuple):
    """One policy's place in a signal."""

    signal: str
    policy: str
    question: str
    rank: int  # by its value; 1 is the best
    value: float
    low: float
    high: float
    ranks: tuple[float, ...]  # the probability of every rank, the first first; NaN while a policy of the signal is not sure
    truth: float

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        sure = f"± {half:.2g}" if np.isfinite(half) else "(not sure yet)"
        chance = "" if np.isnan(self.ranks[0]) else f", the best with probability {probability(self.ranks[0])}"
        return f"{self.rank}. {printable(self.policy)}: {self.value:.4g} {sure}{chance}"


@dataclass(frozen=True)
class Comparison:
    """All pairs of policies per signal, and the policies in the order of their values."""

    differences: tuple[Difference, ...]
    ranking: tuple[Ranked, ...]
    level: float
    simultaneous: bool
    lower_is_better: bool = False

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals in which policies are compared."""
        return tuple(dict.fromkeys(r.signal for r in self.ranking))

    @property
    def intervals(self) -> str:
        """What the intervals of the differences promise, in words."""
        count, level = len(self.differences), f"{100 * self.level:.4g} %"
        if count < 2 or not self.simultaneous:
            several = "" if count < 2 else f", not for all {count} together (simultaneous=True)"
            return f"each interval of a difference holds with {level}{several}"
        return f"the intervals hold for all {count} differences together with {level}"

    def difference(self, policy: str, other: str, signal: str | None = None) -> Difference:
        """One policy minus another; signal: needed if there are several."""
        for d in self.differences:
            if signal in (None, d.signal) and {policy, other} == {d.policy, d.other}:
                if d.policy == policy:
                    return d
                return Difference(d.signal, policy, other, -d.difference, -d.high, -d.low, 1 - d.better, -d.truth)
        known = ", ".join(dict.fromkeys(r.policy for r in self.ranking))
        raise InputError(f"policy: {policy!r} and {other!r} are not compared here; choose two of {known}.")

    def rows(self) -> list[Described]:
        """One row per difference, as plain data."""
        return [d._asdict() for d in self.differences]

    def __str__(self) -> str:
        lines = []
        for signal in self.signals:
            lines += [
                signal + " (lower is better)" * self.lower_is_better,
                *(f"  {r}" for r in self.ranking if r.signal == signal),
            ]
            lines += [f"  {d}" for d in self.differences if d.signal == signal]
        return "\n".join([*map(printable, lines), f"±: half-width; {self.intervals}"])


def probability(p: float) -> str:
    """A probability in words, without saying 0 or 1."""
    return "above 0.999" if p > 0.999 else "below 0.001" if p < 0.001 else f"{p:.3f}"


def comparable_in(details: Details) -> Comparable:
    """What can be compared in a result."""
    kept: Any = details.experiment.get("compared")
    if kept is None:
        raise InputError(NOTHING)
    return Comparable(details.names, tuple(kept["policies"]), tuple(kept["signals"]))


@one_thread()
def difference_errors(details: Details) -> np.ndarray | None:
    """The standard errors of differences at the start, [seed, gvf, gvf], kept or from the counts; None without either."""
    if "compared" not in details.experiment:
        return None
    if details.differences is not None:
        return details.differences
    if not details.models or any(map(refusal, details.models)) or details.starts is None:
        return None
    groups = [contest.members for contest in comparable_in(details).contests]
    return np.stack([joint_of(model, groups).known for model in details.models])


class Ground(NamedTuple):
    """What a comparison rests on: values at the start, the errors of their differences, and the degrees of freedom of those."""

    value: np.ndarray  # [gvf] mean over seeds
    error: np.ndarray  # [gvf, gvf] of that mean; of the values themselves on the diagonal
    freedom: np.ndarray  # [gvf, gvf]; 0: Gaussian
    truth: np.ndarray  # [gvf]


def ground_of(details: Details) -> Ground:
    """The standard errors of the learner where it has some, or else those of audits; InputError without either.

    Where a result's values are those of audits, so are the errors."""
    if details.starts is None:
        raise InputError(NO_INTERVALS)
    value, truth = details.starts.mean(axis=0)[:, [0, 2]].T
    errors = difference_errors(details)
    whose = details.audits is not None and "audit" in details.experiment and "blended" not in details.experiment
    if errors is not None and not (whose and np.isfinite(details.audits[:, :, 1]).all()):
        error = np.sqrt((errors**2).sum(axis=0)) / len(errors)  # of the mean over seeds
        return Ground(value, error, np.full(error.shape, float(details.predictor.bars.freedom)), truth)
    if details.audits is None:
        raise InputError(NO_INTERVALS)
    each = details.audit_differences
    if each is None:
        each = np.stack([np.stack(unpaired(own[:, 1], own[:, 2]), axis=-1) for own in details.audits])
    (error, freedom), audited = differences_over_seeds(each), details.audits[:, :, 0].mean(axis=0)
    known = np.isfinite(audited)
    error = np.where(known[:, None] & known, error, np.inf)
    return Ground(np.where(known, audited, value), error, freedom, truth)


@one_thread()
def compared(
    details: Details, policies: Sequence[str] | None, signal: str | None, level: float, simultaneous: bool, lower_is_better: bool
) -> Comparison:
    """The comparison of a result; the arguments are those of `Result.compare`."""
    check_level(level)
    contests = comparable_in(details).chosen(policies, signal)
    value, error, freedom, truth = ground_of(details)
    shown = values_at_start(details, level)
    tail = (1 - level) / (len(contests) if simultaneous else 1)
    sign = -1.0 if lower_is_better else 1.0  # what values are multiplied by, so that more is better
    differences: list[Difference] = []
    ranking: list[Ranked] = []
    for contest in contests:
        at = np.array(contest.members)
        own, free = error[np.ix_(at, at)], freedom[np.ix_(at, at)]
        draws = _draws(own, float(free.min()))
        wide = quantiles(tail / 2, free)
        if simultaneous and draws is not None and len(at) > 2:
            wide = np.full(own.shape, _largest(draws, own, 1 - tail))
        order = np.argsort(-sign * value[at], kind="stable")
        ranks = _ranks(sign * value[at], draws)
        for rank, k in enumerate(order):
            i, half = at[k], quantile((1 - level) / 2, free[k, k]) * own[k, k]
            (low, high), alone = _around(value[i], half), shown[details.names[i]]
            if alone.value == value[i] and np.isfinite(half):  # the two sides of its own interval may differ
                low, high = alone.low, alone.high
            place = (contest.signal, contest.policies[k], details.names[i], rank + 1)
            ranking.append(Ranked(*place, value[i], low, high, tuple(ranks[k].tolist()), truth[i]))
        for a, k in enumerate(order):
            for m in order[a + 1 :]:
                away, true = (float(column[at[k]] - column[at[m]]) for column in (value, truth))
                better = _better(sign * away, float(own[k, m]), free[k, m])
                names = (contest.signal, contest.policies[k], contest.policies[m])
                differences.append(Difference(*names, away, *_around(away, float(wide[k, m] * own[k, m])), better, true))
    return Comparison(tuple(differences), tuple(ranking), level, simultaneous, lower_is_better)


def _around(value: float, half: float) -> tuple[float, float]:
    """An interval around a value, which may not be known."""
    return (value - half, value + half) if np.isfinite(half) else (-np.inf, np.inf)


def _better(away: float, error: float, freedom: float) -> float:
    """The probability that a difference is above 0."""
    if not np.isfinite(error):
        return float("nan")
    if error == 0:
        return 0.5 + 0.5 * float(np.sign(away))
    t = away / error
    return float(scipy.special.stdtr(freedom, t) if freedom else scipy.special.ndtr(t))


def _draws(errors: np.ndarray, freedom: float) -> np.ndarray | None:
    """Draws of the values around their estimates, [draw, member], from standard errors of differences [member, member].

    None if one of them is infinite.
    """
    if not np.isfinite(errors).all():
        return None
    square = errors**2
    own = np.diagonal(square)
    apart = np.where(np.eye(len(own), dtype=bool), 0.0, square)
    size, axes = np.linalg.eigh((own[:, None] + own - apart) / 2)
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((DRAWS, len(own))) * np.sqrt(np.maximum(size, 0.0)) @ axes.T
    return drawn * np.sqrt(freedom / rng.chisquare(freedom, (DRAWS, 1))) if freedom else drawn


def _largest(draws: np.ndarray, errors: np.ndarray, level: float) -> float:
    """The quantile of the largest standardised difference in draws."""
    most, by_member = np.zeros(len(draws)), np.ascontiguousarray(draws.T)
    for k, own in enumerate(errors):  # one member at a time: all pairs of many members would not fit into memory
        others = k + 1 + np.flatnonzero(own[k + 1 :] > 0)
        if others.size:
            away = np.abs(by_member[k] - by_member[others]) / own[others, None]
            np.maximum(most, away.max(axis=0), out=most)
    return float(np.quantile(most, level))


def _ranks(value: np.ndarray, draws: np.ndarray | None) -> np.ndarray:
    """The probability that each member has each rank, [member, rank]."""
    if draws is None:
        return np.full((len(value), len(value)), np.nan)
    order, count = np.argsort(-(value + draws), axis=1), len(value)  # [draw, rank] members
    met = np.bincount((order * count + np.arange(count)).ravel(), minlength=count**2)
    return met.reshape(count, count) / len(draws)
