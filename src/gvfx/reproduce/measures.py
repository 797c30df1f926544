"""Numbers taken from results: errors at the end, how they compare with the printed ones, and who is ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property

import numpy as np

from gvfx.experiments.settings.grid import OURS as OURS
from gvfx.report import statistics
from gvfx.report.colours import SPARE
from gvfx.report.page import DataTable, Series
from gvfx.report.statistics import Estimate
from gvfx.reproduce.base import Build
from gvfx.reproduce.curves import AnyCurve
from gvfx.reproduce.source import Errors, Source
from gvfx.running.result import Result


class Verdict(StrEnum):
    """Our error beside the printed one."""

    INSIDE = "inside CI"
    BETTER = "better"
    WORSE = "worse"
    DIVERGED = statistics.DIVERGED


VERDICTS = "inside CI: the printed number lies in our 95 % interval; better or worse: ours is lower or higher."


def verdict(published: float, ours: Estimate) -> Verdict:
    """Whether the printed number lies in our interval, ours is lower (better) or higher (worse), or all our runs diverged."""
    if ours.diverged:
        return Verdict.DIVERGED
    if ours.contains(published):
        return Verdict.INSIDE
    return Verdict.BETTER if ours.high < published else Verdict.WORSE


class Outcome(Enum):
    """Whether the claim that GVFExplorer has the lowest error holds; the value is how Table 1's verdicts say it."""

    HOLDS = "as claimed"
    DIFFERS = "ranking differs"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Ranking:
    """GVFExplorer against the baseline with the lowest error: by how many percent its error is lower.

    The gain is minus infinity if all runs of GVFExplorer diverged, infinity if all those of the baselines did.
    """

    baseline: str
    gain: Estimate

    @property
    def outcome(self) -> Outcome:
        if self.gain.low > 0:
            return Outcome.HOLDS
        return Outcome.DIFFERS if self.gain.high < 0 else Outcome.UNDECIDED

    @property
    def detail(self) -> str:
        """By how much, without the outcome."""
        gain = self.gain
        if gain.diverged:
            return {-np.inf: f"all runs of {OURS} diverged", np.inf: "all runs of the baselines diverged"}.get(
                gain.value, f"no seed finished with both {OURS} and {self.baseline}"
            )
        if self.outcome is Outcome.DIFFERS:
            return f"{self.baseline} is lower, by {-gain.value / (100 - gain.value) * 100:.0f} %{gain.count}"
        word = "below" if self.outcome is Outcome.HOLDS else "against"
        return f"{gain.value:.0f} % {word} {self.baseline} [{gain.low:.0f}, {gain.high:.0f}]{gain.count}"

    def __str__(self) -> str:
        """For a cell of a table: 'holds: 90 % below Mixture [86, 92]'."""
        return f"{self.outcome.name.lower()}: {self.detail}"

    @property
    def clause(self) -> str:
        """For a sentence: 'GVFExplorer is 90 % below Mixture [86, 92]'."""
        if self.outcome is Outcome.UNDECIDED:
            return f"undecided ({self.detail})"
        return f"{OURS} is {self.detail}" if self.outcome is Outcome.HOLDS and not self.gain.diverged else self.detail


def ranking(errors: Mapping[str, np.ndarray]) -> Ranking:
    """GVFExplorer against the best baseline, from final errors [seed] by method."""
    best = min((m for m in errors if m != OURS), key=lambda m: statistics.centre(errors[m]))
    lost = [not np.isfinite(statistics.centre(errors[m])) for m in (OURS, best)]
    if any(lost):
        value = -np.inf if lost[0] else np.inf
        return Ranking(best, Estimate(value, value, value))
    gain = statistics.improvement(errors[OURS], errors[best])
    return Ranking(best, Estimate(np.nan, np.nan, np.nan) if gain.diverged else gain)


# --- tables of errors at the end ---------------------------------------------------------------------------------

LEAD = f"{OURS} against the best baseline"  # the heading of the last column of Tables 1 and 3


def printed_row(setting: str, printed: Mapping[str, float], lead: float | None, methods: Sequence[str]) -> list[str]:
    """The paper's row of a table: setting, its numbers by method, and the lead in percent that it prints."""
    cells = [f"{printed[m]:g}" if m in printed else "-" for m in methods]
    return [setting, "paper, as printed", *cells, "-" if lead is None else f"{lead:g} % below"]


@dataclass(frozen=True)
class Finals:
    """Errors at the end of one setting, [seed] by method, NaN where a run diverged: a row of Tables 1 and 3."""

    errors: Mapping[str, np.ndarray]

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        return {m: statistics.mean(e) for m, e in self.errors.items()}

    @cached_property
    def ranking(self) -> Ranking:
        return ranking(self.errors)

    @property
    def lowest(self) -> str:
        """The method with the lowest mean."""
        return min(self.estimates, key=lambda m: self.estimates[m].value)

    def row(self, setting: str, name: str, methods: Sequence[str]) -> list[str]:
        cells = [str(self.estimates[m]) if m in self.errors else "-" for m in methods]
        return [setting, name, *cells, str(self.ranking)]


def final_table(b: Build, key: str, head: str, results: Mapping[str, Result], note: str = "") -> DataTable:
    """The mean error at the end and the median seed of each result."""
    finals = {name: r.error[:, -1] for name, r in results.items()}
    rows = [[name, str(statistics.mean(e)), of_seeds(e, np.median)] for name, e in finals.items()]
    said = f"MSE at {int(next(iter(results.values())).steps[-1]):,} steps, mean over seeds with a bootstrap 95 % interval."
    return b.table(key, b.item.title, [head, "MSE", "median seed"], rows, " ".join(filter(None, (said, note))))


def spare_series(b: Build, results: Mapping[str, Result]) -> list[Series]:
    """The mean error of each result over time, in spare colours."""
    return [b.series(name, r.error, SPARE[k]) for k, (name, r) in enumerate(results.items())]


def of_seeds(final: np.ndarray, measure: Callable[[np.ndarray], float]) -> str:
    """The median or largest error of the seeds that did not diverge, with the count of those that did."""
    left = statistics.finished(final)
    return statistics.short(float(measure(left))) + statistics.count(final) if len(left) else statistics.DIVERGED


def final_errors(source: Source, curves: Iterable[AnyCurve], seeds: int) -> dict[str, np.ndarray]:
    """Error at the end of every method, [seed]; NaN where a run diverged."""
    return {c.method: source.errors(c, seeds).error[:, -1] for c in curves}


def drifter_error(r: Result) -> np.ndarray:
    """FourRooms: the drifting GVF's MSE over its squared level, [seed, t]."""
    return r.mse[:, :, 1] / r.levels[:, :, 1] ** 2


def steps_reached(r: Result | Errors, error: float) -> str:
    """The steps after which the mean error stays at or below `error`, in words."""
    reached = statistics.steps_to_reach(r.steps, r.error, error)
    return (f"{reached:,.0f}" if reached else "not reached") + statistics.count(r.error)
