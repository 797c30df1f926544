r"""A rule that ends a run when it is decided which policy is better.

Policies are compared by their values at the start (or minus them, where lower is better).  With the leader l, the policy with the
largest value so far, rival j is beaten if the upper confidence bound of $V_j - V_l$ is below 0, and does not matter if it is
below the margin; the run may end when this holds for every rival.  Against a threshold each policy's own interval counts.

**Errors under repeated looks.**  Look k (from 0) may be wrong with probability $(1 - confidence)/((k+1)(k+2))$, which adds up to
$1 - confidence$ over any number of looks; all looks at which every answer is known count.  A look makes several comparisons and
shares its probability equally among them.  For the best of K policies K - 1 one-sided comparisons are enough: what the rule says
can only be wrong if the truly best policy seems worse than it is, beside another one; in a tie with a margin too.

**What was never seen** keeps a decision open as it does with `error_below`: while a policy still in question depends on something
never tried, or may meet the unseen too often, and by the stake of the unseen (`unseen`) and of outcomes that pairs have not shown
yet (`unshown`), the larger of which is added to every bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.joint import Joint
from gvfx.inputs import check_fields, checked, is_real
from gvfx.questions.comparable import Contest, comparable
from gvfx.questions.gvf import GVF
from gvfx.schedules import growing
from gvfx.text import printable
from gvfx.theory.forecast import LOOK_GROWTH

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
        if not (is_real(self.confidence) and 0 < self.confidence < 1):
            raise InputError(f"confidence: {self.confidence!r} lies outside (0, 1); give a number such as 0.95.")
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
            parts = [f"{_and(names)} {_is(names)} {word} {self.threshold:g}" for names, word in self._sides() if names]
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

    def _sides(self) -> list[tuple[tuple[str, ...], str]]:
        within = f"within {self.margin:g} of"
        return [(self.best, "above"), (self.beaten, "below"), (self.tied, within), (self.open, "not decided against")]


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _is(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"


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

    def looks(self, steps: int, pairs: int, growth: float = LOOK_GROWTH) -> Sequence[int]:
        """Steps at which to look: first after one step per state and action, then each time the data have grown."""
        return [*growing(max(100, pairs), growth, steps), steps]

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
        return joint.quantiles((1 - self.rule.confidence) / ((looks + 1) * (looks + 2)) / self.comparisons)

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
        told = {word: named(mask) for word, mask in sides.items()}
        return Verdict(**shared | told, both_ways=around, lower_is_better=self.rule.lower_is_better)


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
