"""A result as a matplotlib figure and as HTML for a notebook: values at the start with their intervals, policies compared."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gvfx.errors import InputError, printable
from gvfx.running.comparing import Comparison, Difference, Ranked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gvfx.running.result import Result

VALUES, DIFFERENCES = "#0b7285", "#a61e4d"
MOST = 60  # states or points of a question that are drawn
ROWS = 200  # policies or differences of a signal that are shown
Compared = TypeVar("Compared", Ranked, Difference)
STYLE = "text-align:right;padding:2px 12px"


@dataclass(frozen=True)
class Interval:
    """One value with its interval, which is infinite while nothing is sure; truth: NaN where it is not known."""

    name: str
    value: float
    low: float
    high: float
    truth: float = math.nan


@dataclass(frozen=True)
class IntervalPanel:
    """Values with intervals on one axis; zero: whether 0 is marked on it."""

    title: str
    rows: Sequence[Interval]
    colour: str
    zero: bool = False


def plotted(result: Result) -> Figure:
    """Values at the start and their differences per signal; without starts, the predictions of every question."""
    from matplotlib.figure import Figure  # here, because it takes longer to import than all of gvfx

    rows = panels_of(result)
    heights = [max(len(panel.rows) for panel in row) for row in rows]
    columns = max(map(len, rows))
    fig = Figure(figsize=(4.8 * columns, sum(0.9 + 0.3 * h for h in heights)), layout="constrained")
    axes: Any = fig.subplots(len(rows), columns, squeeze=False, height_ratios=[1 + h for h in heights])
    for row, places in zip(rows, axes, strict=True):
        for panel, ax in zip(row, places, strict=False):
            _draw(ax, panel)
    return fig


def panels_of(result: Result) -> list[list[IntervalPanel]]:
    """Rows of panels."""
    if result.details.starts is None:
        return [[IntervalPanel(name, _predictions(result, i), VALUES)] for i, name in enumerate(result.names)]
    comparison = comparison_of(result)
    if comparison is None:
        bars = [Interval(name, v.value, v.low, v.high, v.truth) for name, v in result.value().items()]
        return [[IntervalPanel("value at the start", bars, VALUES)]]
    return [compared_panels(comparison, signal) for signal in comparison.signals]


def comparison_of(result: Result) -> Comparison | None:
    """All differences with intervals that hold together; None if a result compares nothing."""
    try:
        return result.compare(simultaneous=True)
    except InputError:
        return None


def first_of(rows: Sequence[Compared], signal: str) -> tuple[list[Compared], str]:
    """The first rows of a signal, as many as can be shown, and words that say so if there are more."""
    own = [row for row in rows if row.signal == signal]
    return own[:ROWS], f", the first {ROWS} of {len(own):,}" if len(own) > ROWS else ""


def compared_panels(comparison: Comparison, signal: str) -> list[IntervalPanel]:
    """One signal: the values at the start, best first, and all differences."""
    ranking, more = first_of(comparison.ranking, signal)
    differences, further = first_of(comparison.differences, signal)
    named = [f"{d.policy} \N{MINUS SIGN} {d.other}" for d in differences]
    return [
        IntervalPanel(
            f"{signal}: value at the start{more}",
            [Interval(r.policy, r.value, r.low, r.high, r.truth) for r in ranking],
            VALUES,
        ),
        IntervalPanel(
            f"{signal}: difference{further}",
            [Interval(name, d.difference, d.low, d.high, d.truth) for name, d in zip(named, differences, strict=True)],
            DIFFERENCES,
            zero=True,
        ),
    ]


def _predictions(result: Result, i: int) -> list[Interval]:
    """The states (or points) visited most."""
    visits = result.visits.sum(axis=(0, 2))
    most = np.sort(np.argsort(-visits, kind="stable")[:MOST])
    value, truth = result.values[:, i].mean(axis=0), result.details.truth[:, i].mean(axis=0)
    between = result.intervals()[i] if result.details.has_intervals else np.full((len(value), 2), np.nan)
    low, high = between.T
    return [Interval(str(result.details.predictor.label(s)), value[s], low[s], high[s], truth[s]) for s in most if visits[s]]


def _draw(ax: Any, panel: IntervalPanel) -> None:
    """Values with their intervals from the top down; an open circle is the truth, a dotted line an interval without bounds."""
    for k, bar in enumerate(panel.rows):
        if np.isfinite(bar.low) and np.isfinite(bar.high):
            ax.plot([bar.low, bar.high], [k, k], color=panel.colour, linewidth=2.2, solid_capstyle="butt")
        elif np.isinf(bar.low) or np.isinf(bar.high):
            ax.axhline(k, color=panel.colour, linewidth=1.0, linestyle=":")
        ax.plot(bar.value, k, "s", color=panel.colour, markersize=5)
        if np.isfinite(bar.truth):
            ax.plot(bar.truth, k, "o", markersize=8, markerfacecolor="none", markeredgecolor="#343a40")
    if panel.zero:
        ax.axvline(0, color="#495057", linewidth=1.0)
    ax.set_yticks(range(len(panel.rows)), [printable(bar.name) for bar in panel.rows], parse_math=False)
    ax.set_ylim(len(panel.rows) - 0.4, -0.6)
    ax.set_title(printable(panel.title), loc="left", fontsize=10, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="#e9ecef")


def notebook(result: Result) -> str:
    """What a notebook shows of a result: a table per panel, and the summary to unfold."""
    tables = "".join(_table(panel.title, panel.rows) for row in panels_of(result) for panel in row)
    return f"<div>{tables}<details><summary>Summary</summary><pre>{html.escape(result.summary())}</pre></details></div>"


def _table(title: str, bars: Sequence[Interval]) -> str:
    known = any(np.isfinite(bar.truth) for bar in bars)
    head = "".join(f"<th style='{STYLE}'>{name}</th>" for name in ("value", "interval", *(["truth"] if known else [])))
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(bar.name)}</th>"
        + "".join(f"<td style='{STYLE}'>{cell}</td>" for cell in _cells(bar, known))
        + "</tr>"
        for bar in bars
    )
    return (
        f"<table><thead><tr><th style='text-align:left'>{html.escape(title)}</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _cells(bar: Interval, known: bool) -> list[str]:
    sure = np.isfinite(bar.low) and np.isfinite(bar.high)
    between = f"{bar.low:.4g} to {bar.high:.4g}" if sure else "none" if np.isnan(bar.low) else "not sure yet"
    truth = f"{bar.truth:.4g}" if np.isfinite(bar.truth) else ""
    return [f"{bar.value:.4g}", between, *([truth] if known else [])]
