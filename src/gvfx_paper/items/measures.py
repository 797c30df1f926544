"""Numbers taken from results: errors at the end, how they compare with the printed ones, who is ahead, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property

import numpy as np

from gvfx.report.page import DataTable
from gvfx.running.result import Result
from gvfx_paper.items.curves import AnyCurve
from gvfx_paper.items.exhibits import Build, Errors, Source
from gvfx_paper.report import statistics
from gvfx_paper.report.statistics import Estimate
from gvfx_paper.settings.continuous import OURS as OURS


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
    sentence = f"{statistics.MEANS} of the MSE at {int(next(iter(results.values())).steps[-1]):,} steps."
    return b.table(key, b.item.title, [head, "MSE", "median seed"], rows, " ".join(filter(None, (sentence, note))))


def lowest(errors: Sequence[Sequence[np.ndarray]], at: tuple[int, int], of_columns: bool = False) -> list[tuple[int, int]]:
    """The cells with the lowest mean of each row (or column) of errors [row][column], the first of which stands in cell `at`."""
    centres, (r, c) = np.array([[statistics.centre(e) for e in row] for row in errors]), at
    if of_columns:
        return [(r + int(k), c + j) for j, k in enumerate(centres.argmin(axis=0))]
    return [(r + i, c + int(k)) for i, k in enumerate(centres.argmin(axis=1))]


def mean_or_only(errors: np.ndarray) -> str:
    """The mean over seeds with its interval, or the number itself if there is one seed."""
    return str(statistics.mean(errors)) if len(errors) > 1 else statistics.short(float(errors[0]))


def of_seeds(final: np.ndarray, measure: Callable[[np.ndarray], float]) -> str:
    """The median or largest error of the seeds that did not diverge, with the count of those that did."""
    left = statistics.finished(final)
    return statistics.short(float(measure(left))) + statistics.count(final) if len(left) else statistics.DIVERGED


def final_errors(source: Source, curves: Iterable[AnyCurve]) -> dict[str, np.ndarray]:
    """Error at the end of every method, [seed]; NaN where a run diverged."""
    return {c.method: source.errors(c).error[:, -1] for c in curves}


def outside_goals(r: Result) -> np.ndarray:
    """The continuous grid: the mean over GVFs of the MSE at the points outside the goals, [seed, t]."""
    return r.details.extra["mse_outside"].mean(axis=2)


def drifter_error(r: Result) -> np.ndarray:
    """FourRooms: the drifting GVF's MSE over its squared level, [seed, t]."""
    return r.mse[:, :, 1] / r.details.extra["levels"][:, :, 1] ** 2


def steps_reached(r: Result | Errors, error: float) -> str:
    """The steps after which the mean error stays at or below `error`, in words."""
    reached = statistics.steps_to_reach(r.steps, r.error, error)
    return (f"{reached:,.0f}" if reached else "not reached") + statistics.count(r.error)


# --- RoundRobin and GVFExplorer compared cell by cell, over a whole map and over parts of it ---------------------------

SHOWN = ("RoundRobin", OURS)  # the methods of the maps
ERRORS = {"mean over GVFs": slice(None), "GVF 1 (left goal)": slice(0, 1), "GVF 2 (right goal)": slice(1, 2)}  # GVFs of each
COLUMNS = [f"{OURS} is lower in", *(f"{what} cell, {m}" for what in ("median", "mean") for m in SHOWN)]
CellErrors = Mapping[str, np.ndarray]  # absolute errors by method, [seed, gvf, cell]


def by_part(b: Build, key: str, title: str, errors: CellErrors, parts: Mapping[str, np.ndarray], note: str) -> DataTable:
    """Who has the lower error in which parts of a map, and how much of the error lies there; parts[name] is bool [cell]."""
    rows = []
    for which, gvfs in ERRORS.items():
        means, squares = ([(errors[m][:, gvfs] ** power).mean(axis=(0, 1)) for m in SHOWN] for power in (1, 2))
        for part, cells in parts.items():
            shares = [f"{100 * e[cells].sum() / e.sum():.0f} %" for e in (*means, *squares)]
            rows.append([which, part, f"{cells.sum()}", *_beside(means, cells), *shares])
    columns = ["absolute error", "where", "cells", *COLUMNS]
    columns += [f"share of the {what}, {m}" for what in ("absolute error", "squared error") for m in SHOWN]
    return b.table(key, title, columns, rows, f"Means over seeds, as in the maps. {note}")


def over_time(b: Build, key: str, title: str, errors: Mapping[int, CellErrors]) -> DataTable:
    """Who has the lower error in how many cells of a map, at the steps of its snapshots."""
    rows = []
    for step, found in errors.items():
        means = [found[m].mean(axis=(0, 1)) for m in SHOWN]
        rows.append([f"{step:,}", *_beside(means, np.ones(means[0].shape, dtype=bool))])
    return b.table(key, title, ["steps", *COLUMNS], rows, "Means over seeds and GVFs, as in the maps.")


def _beside(means: list[np.ndarray], cells: np.ndarray) -> list[str]:
    """In how many of some cells GVFExplorer's error is lower, and the median and mean cell of both methods."""
    robin, ours = (e[cells] for e in means)
    numbers = (np.median(robin), np.median(ours), robin.mean(), ours.mean())
    return [f"{100 * (ours < robin).mean():.0f} %", *(f"{v:.3g}" for v in numbers)]
