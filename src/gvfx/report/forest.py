"""Values at the start and which policy is better, on a page: forest plots, and tables sorted by rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gvfx.report.page import DataTable, Interval, IntervalPanel, Intervals, Provenance, Section
from gvfx.running.comparing import Comparison, Difference, Ranked, probability
from gvfx.running.plotting import Panel, compared_panels, first_of, panels_of
from gvfx.running.result import Result

TEXT = (
    "Policies are compared by their values at the start, signal by signal, the highest first. A difference whose interval "
    "does not contain 0 is sure; the intervals of differences take into account that both values come from the same data."
)
RANKS = 30  # columns with the probability of a rank


def start_plot(result: Result, origin: Provenance) -> Intervals:
    """The value at the start of every question, with its interval."""
    panels = [_drawn(panel) for row in panels_of(result) for panel in row]
    return Intervals("start-plot", "The value at the start of every question", "", panels, origin, _marks(panels))


def _drawn(panel: Panel) -> IntervalPanel:
    rows = [Interval(b.name, b.value, *_bounds(b.low, b.high), b.truth) for b in panel.bars]
    return IntervalPanel(panel.title, rows, panel.colour, panel.zero)


def _marks(panels: Sequence[IntervalPanel]) -> str:
    """What the marks of a forest plot are."""
    known = any(np.isfinite(row.truth) for panel in panels for row in panel.rows)
    truth = ", circles the truth (bold where an interval misses it)" if known else ""
    return f"Squares are estimates with 95 % intervals{truth}; dotted: not sure yet."


def compare_section(comparison: Comparison, origin: Provenance) -> Section:
    """Which policy is better: per signal a forest plot, the ranking and all differences."""
    items: list[Intervals | DataTable] = []
    for k, signal in enumerate(comparison.signals):
        items += [
            _forest(comparison, signal, k + 1, origin),
            _ranking(comparison, signal, k + 1, origin),
            _differences(comparison, signal, k + 1, origin),
        ]
    return Section("compare", "Which policy is better", TEXT, tuple(items))


def best_sentences(comparison: Comparison) -> list[str]:
    """One sentence per signal: which policy is the best, and how sure that is."""
    out = []
    for signal in comparison.signals:
        first, *_ = (r for r in comparison.ranking if r.signal == signal)
        half = (first.high - first.low) / 2
        value = f"{first.value:.4g}" + (f" \N{PLUS-MINUS SIGN} {half:.2g}" if np.isfinite(half) else "")
        chance = first.ranks[0]
        if np.isnan(chance):
            out.append(
                f"{signal}: not sure yet which policy has the highest value; {first.policy} leads with {value} at the start."
            )
        elif chance < comparison.level:
            how = f"the highest with probability {probability(chance)}"
            out.append(f"{signal}: {first.policy} leads with {value} at the start, {how}.")
        else:
            how = f"(probability {probability(chance)})"
            out.append(f"{signal}: {first.policy} has the highest value {how}, {value} at the start.")
    return out


def _forest(comparison: Comparison, signal: str, k: int, origin: Provenance) -> Intervals:
    panels = [_drawn(panel) for panel in compared_panels(comparison, signal)]
    note = f"{_marks(panels)} Differences: {comparison.intervals}."
    return Intervals(f"forest-{k}", f"{signal}: values at the start and their differences", "", panels, origin, note)


def _ranking(comparison: Comparison, signal: str, k: int, origin: Provenance) -> DataTable:
    own, more = first_of(comparison.ranking, signal)
    columns = ["rank", "policy", "value", "interval", *(f"P({rank + 1})" for rank in range(min(len(own), RANKS)))]
    rows = [[str(r.rank), r.policy, f"{r.value:.4g}", _between(r), *map(_chance, r.ranks[:RANKS])] for r in own]
    note = "P(k): the probability of rank k."
    return DataTable(f"ranking-{k}", f"{signal}: policies by rank{more}", "", columns, rows, [(0, 1)], origin, note)


def _differences(comparison: Comparison, signal: str, k: int, origin: Provenance) -> DataTable:
    columns = ["policy", "minus", "difference", "interval", "P(better)"]
    own, more = first_of(comparison.differences, signal)
    rows = [[d.policy, d.other, f"{d.difference:.4g}", _between(d), _chance(d.better)] for d in own]
    title = f"{signal}: differences{more}"
    return DataTable(
        f"differences-{k}",
        title,
        "",
        columns,
        rows,
        provenance=origin,
        note=f"{comparison.intervals[0].upper()}{comparison.intervals[1:]}.",
    )


def _bounds(low: float, high: float) -> tuple[float, float]:
    return (low, high) if np.isfinite(low) and np.isfinite(high) else (np.nan, np.nan)


def _between(row: Ranked | Difference) -> str:
    return f"{row.low:.4g} to {row.high:.4g}" if np.isfinite(row.low) and np.isfinite(row.high) else "not sure yet"


def _chance(p: float) -> str:
    return "not sure yet" if np.isnan(p) else f"{p:.3f}"
