"""Which policy is better, on a page: a forest plot of values and differences per signal, and tables sorted by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.report.colours import SPARE
from gvfx.report.page import DataTable, Pictures, Provenance, Section
from gvfx.report.style import figure, pixels, styled
from gvfx.running.comparing import Comparison, Difference, Ranked
from gvfx.running.result import Result

TEXT = (
    "Policies are compared by their values at the start, signal by signal. A difference whose interval does not contain 0 is "
    "sure by itself; the intervals are narrower than two separate ones, because both values come from the same data."
)


@styled
def forest(comparison: Comparison, signal: str) -> Any:
    """A figure of one signal: the values at the start with intervals, best first, and all differences with intervals."""
    ranking = [r for r in comparison.ranking if r.signal == signal]
    differences = [d for d in comparison.differences if d.signal == signal]
    rows = max(len(ranking), len(differences))
    fig, (left, right) = figure(columns=2, width=4.6, height=1.1 + 0.34 * rows)
    _bars(left, [r.policy for r in ranking], [(r.value, r.low, r.high, r.truth) for r in ranking], SPARE[3])
    left.set_title("value at the start", loc="left")
    named = [f"{d.policy} \N{MINUS SIGN} {d.other}" for d in differences]
    _bars(right, named, [(d.difference, d.low, d.high, d.truth) for d in differences], SPARE[2])
    right.axvline(0, color="#495057", linewidth=1.0)
    right.set_title("difference" + (", all together" if comparison.simultaneous else ""), loc="left")
    return fig


def _bars(ax: Any, names: Sequence[str], numbers: Sequence[tuple[float, float, float, float]], hue: str) -> None:
    """Values with their intervals from the top down; an open circle is the truth, a dotted line an interval without bounds."""
    for k, (value, low, high, truth) in enumerate(numbers):
        if np.isfinite(low) and np.isfinite(high):
            ax.plot([low, high], [k, k], color=hue, linewidth=2.2, solid_capstyle="butt")
        else:
            ax.axhline(k, color=hue, linewidth=1.0, linestyle=":")
        ax.plot(value, k, "s", color=hue, markersize=6)
        if np.isfinite(truth):
            ax.plot(truth, k, "o", markersize=9, markerfacecolor="none", markeredgecolor="#343a40")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")


def compare_section(result: Result, origin: Provenance) -> Section | None:
    """The section of a page; None if a result compares nothing."""
    try:
        comparison = result.compare(simultaneous=True)
    except InputError:
        return None
    shown = tuple((signal, [pixels(forest(comparison, signal))]) for signal in comparison.signals)
    known = any(np.isfinite(r.truth) for r in comparison.ranking)
    note = f"Squares are estimates{', circles the truth' * known}; dotted: not sure yet. {comparison.intervals}."
    plot = Pictures("forest", "Values at the start and their differences", "", ["values and differences"], shown, origin, note)
    tables: list[Any] = []
    for k, signal in enumerate(comparison.signals):
        tables.append(_ranking(comparison, signal, k + 1, origin))
        tables.append(_differences(comparison, signal, k + 1, origin))
    return Section("compare", "Which policy is better", TEXT, (plot, *tables))


def _ranking(comparison: Comparison, signal: str, k: int, origin: Provenance) -> DataTable:
    own = [r for r in comparison.ranking if r.signal == signal]
    columns = ["rank", "policy", "value", "interval", *(f"P(rank {rank + 1})" for rank in range(len(own)))]
    rows = [[str(r.rank), r.policy, f"{r.value:.4g}", _between(r), *map(_chance, r.ranks)] for r in own]
    return DataTable(f"ranking-{k}", f"{signal}: policies by rank", "", columns, rows, [(0, 1)], origin)


def _differences(comparison: Comparison, signal: str, k: int, origin: Provenance) -> DataTable:
    own = [d for d in comparison.differences if d.signal == signal]
    columns = ["policy", "minus", "difference", "interval", "P(better)"]
    rows = [[d.policy, d.other, f"{d.difference:.4g}", _between(d), _chance(d.better)] for d in own]
    title = f"{signal}: differences"
    return DataTable(f"differences-{k}", title, "", columns, rows, provenance=origin, note=f"{comparison.intervals}.")


def _between(row: Ranked | Difference) -> str:
    return f"{row.low:.4g} to {row.high:.4g}" if np.isfinite(row.low) and np.isfinite(row.high) else "not sure yet"


def _chance(p: float) -> str:
    return "not sure yet" if np.isnan(p) else f"{p:.3f}"
