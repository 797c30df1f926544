"""A result as text, as a matplotlib figure and in a notebook; and what happened in a run, in words."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gvfx.errors import InputError, printable
from gvfx.evidence.uncertainty import ErrorBelow, refusal
from gvfx.evidence.unseen import STOP_BELOW, Unseen, endless, frontier
from gvfx.running.comparing import Comparison, Difference, Ranked
from gvfx.running.schema import Part
from gvfx.running.starts import UNKNOWN, start_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gvfx.running.result import Details, Result


# --- What happened in a run, in words: whether its rule to stop was met, and how far it got ----


PLUS_MINUS = "±: half the width of the 95 % interval, averaged over the visited states where it is finite"


def unread(names: Sequence[str]) -> str:
    """A warning: entries of the observations that learners do not read."""
    what = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} left out of what is learned from"
    return f"observation_space: {what}, because only numbers can be read; policies and signals still see the whole observation."


def until_line(target: float, stopped: np.ndarray, bounds: np.ndarray, reached: np.ndarray) -> str:
    """One line about a rule to stop: in how many runs it was met, when, and with which bound on the error."""
    met = int(reached.sum())
    of = f"{met} of {len(reached)} runs" if len(reached) > 1 else "this run"
    if not met:
        least = bounds.min()
        bound = f"the bound is {least:.3g}" if np.isfinite(least) else "the error cannot be bounded yet"
        return f"until: an error below {target:g} was not reached within {int(stopped.max()):,} steps ({bound})"
    steps, bound = int(np.median(stopped[reached])), bounds[reached].max()
    when = f"after {steps:,} steps" if met == 1 else f"after {steps:,} steps in the median"
    return f"until: met in {of} {when}: the error is below {bound:.3g} (target {target:g}), with the rule's confidence"


def decisions(parts: Sequence[Part]) -> list[list[str]]:
    """What a rule that decides between policies found, one sentence per signal, of each run."""
    return [[str(verdict) for verdict in part.verdicts] for part in parts]


def decided_lines(sentences: Sequence[Sequence[str]], stopped: np.ndarray, reached: np.ndarray) -> list[str]:
    """Lines of a summary about a rule that decides: the sentences of `decisions`, and in how many runs they were found."""
    lines = [f"until: decided in {int(reached.sum())} of {len(reached)} runs" if len(reached) > 1 else ""]
    for sentence in dict.fromkeys(sentence for each in sentences for sentence in each):
        steps = [int(n) for n, each in zip(stopped, sentences, strict=True) if sentence in each]
        of = f"{len(steps)} runs, {int(np.median(steps)):,} steps in the median" if len(reached) > 1 else f"{steps[0]:,} steps"
        lines.append(f"until: {sentence} ({of})")
    return [line for line in lines if line]


def undecided(parts: Sequence[Part]) -> str:
    """The warning for runs whose steps ended before a decision."""
    late = [part for part in parts if not part.reached]
    worst = max(late, key=lambda part: part.bound)
    reason = f"{worst.bound:.3g} is missing" if np.isfinite(worst.bound) else why_unbounded(worst)
    open_ = next((str(verdict) for verdict in worst.verdicts if verdict.open), "")
    return (
        f"until: {len(late)} of {len(parts)} runs ended before a decision ({open_}: {reason}); give more steps, or a margin "
        "below which a difference does not matter."
    )


def why_unbounded(part: Part) -> str:
    """Why a run's error has no finite bound."""
    data = part.model
    if data is None or refusal(data):
        return "some answers depend on actions that were never tried"
    unseen = Unseen(data)
    worst = unseen.over(data.evaluation)
    i = int(worst.argmax())
    name = data.asked.names[i]
    if endless(data):
        return "nearly every state was met once, so a table cannot answer; give an observation that repeats, or a network"
    if unseen.silent[i]:
        return f"{name} has never seen a cumulant other than 0"
    if data.visits[data.world.live].min(initial=1) > 0 or (worst[i] > STOP_BELOW and unseen.open):
        return f"{name} may rest on states that were never seen, with a chance of {worst[i]:.2g}: {frontier(data)}"
    return "some answers depend on actions that were never tried"


def unreached(until: ErrorBelow, parts: Sequence[Part]) -> str:
    """The warning for runs whose steps ended before the error was known to be below the target."""
    late = [part for part in parts if not part.reached]
    worst = max(late, key=lambda part: part.bound)
    reason = f"the bound is {worst.bound:.3g}" if np.isfinite(worst.bound) else why_unbounded(worst)
    return (
        f"until: {len(late)} of {len(parts)} runs ended before their error was known to be below {until.target:g} ({reason}); "
        "the answers are the best so far; give more steps or a larger error."
    )


SHOWN = ["environment", "behaviour", "learner", "chosen", "inputs", "observation"]  # entries of `experiment`
SHOWN += ["starts", "kept", "failed", "run", "where"]
ERROR_BARS = {
    "posterior": "95 % intervals (posterior)",
    "asymptotic": "95 % intervals (asymptotic)",
    "half-samples": "95 % intervals (half-samples)",
    "spread": "none; spread, the disagreement of the networks' heads, is not an interval",
    "none": "none",
}
NEXT = 5  # choices that are named as worth collecting
SUPPORTED = 0.995  # a question is warned about if less than this share of its choices was ever tried


def start_comes_first(details: Details) -> bool:
    """Whether the value at the start is what was asked for."""
    return details.experiment.get("where") == "start" and details.starts is not None


def untried_shares(details: Details) -> dict[str, float]:
    """The questions that ask about choices which the data hardly have, with the share that was never tried."""
    support: Any = details.experiment.get("support", {})
    return {name: 1 - support[name] for name in details.names if support.get(name, 1.0) < SUPPORTED}


def collect_next(details: Details) -> list[str]:
    """The choices of which one more sample would reduce the error most, the first first."""
    return [f"action {c['action']} in {c['observation']} (seen {c['seen']} times)" for c in details.collect[:NEXT]]


def bars_of(result: Result) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Intervals [gvf, state, 2] and spreads [gvf, state] at all states; None instead of those that the learner does not have."""
    kind = result.details.error_bars
    return result.intervals() if result.details.has_intervals else None, result.details.spread() if kind == "spread" else None


def summary_of(result: Result) -> str:
    """A few lines of text: the method, the predictions, and how the steps were spent; names are made printable."""
    details, visits = result.details, result.visits.sum(axis=(0, 2))
    share = visits / max(1, visits.sum())
    spent = result.visits.sum(axis=(0, 1)) / max(1, visits.sum())
    kept = [f"{k} {v}" for k, v in details.experiment.items() if k in SHOWN]
    steps, seeds = details.snapshots[-1].step, len(result.seeds)
    lines = [*kept, f"{steps:,} steps, {seeds} seed{'s' * (seeds > 1)}, {_reached(result, visits)}"]
    if "log" in details.experiment:
        lines.append(f"started from a log of {details.experiment['log']:,} transitions, which visits include")
    bars = ERROR_BARS[details.error_bars]
    if details.audits is not None and not details.has_intervals:
        bars = f"95 % intervals at the start, from audits; elsewhere {bars}"
    lines += [_steps_line(result, spent), f"error bars: {bars}"]
    if details.stopped is not None and "target" in details.experiment:
        lines.append(until_line(float(str(details.experiment["target"])), details.stopped, details.bounds, details.reached))
    if details.stopped is not None and "decided" in details.experiment:
        lines += decided_lines(details.experiment["decided"], details.stopped, details.reached)  # type: ignore[arg-type]
    starts = [] if details.starts is None else start_lines(result.value(), None if details.audits is None else result.audit())
    lines += starts if start_comes_first(details) else []
    chance = details.unseen
    known, answers = not np.isnan(details.truth).any(), details.answers
    between, spread = bars_of(result)
    width = max(len(printable(name)) for name in result.names)
    untried, collect = untried_shares(details), collect_next(details)
    missed: Any = details.experiment.get("not_resolved", {})
    for i, name in enumerate(result.names):
        v = answers[:, i].mean(axis=0)
        met = (share > 0) & ~np.isnan(v)
        line = f"{printable(name):<{width}}  {UNKNOWN}"
        if met.any():
            mean = v[met] @ share[met] / share[met].sum()
            line = f"{printable(name):<{width}}  mean over visits {mean:.4g}, from {v[met].min():.4g} to {v[met].max():.4g}"
        if between is not None:
            wide = np.diff(between[i], axis=1)[share > 0, 0] / 2
            sure = np.isfinite(wide)
            line += f", ± {wide[sure].mean():.2g}" if sure.any() else ""
            line += f" (unsure in {(~sure).sum()} states)" if not sure.all() else ""
        if chance is not None:
            line += f", missing mass ahead {chance[i]:.2g}"
        line += f", spread {spread[i] @ share:.2g}" if spread is not None else ""
        line += f", WARNING: {untried[name]:.0%} of its choices were never tried" if name in untried else ""
        line += f", {missed[name]}" if name in missed else ""
        lines.append(line + (f", MSE {result.mse[:, -1, i].mean():.3g}" if known else ""))
    lines += [] if start_comes_first(details) else starts
    if between is not None and details.points is None:
        lines.append(PLUS_MINUS)
    if "frontier" in details.experiment:
        lines.append(str(details.experiment["frontier"]))
    lines += [f"collect next: {', '.join(collect)}"] if collect else []
    return "\n".join(map(printable, lines))


def _steps_line(result: Result, shares: np.ndarray) -> str:
    if all(choice.isdigit() for choice in result.details.choices):
        return "actions " + " ".join(f"{a}: {p:.0%}" for a, p in enumerate(shares))
    return "steps " + ", ".join(f"{choice} {p:.0%}" for choice, p in zip(result.details.choices, shares, strict=True))


def _reached(result: Result, visits: np.ndarray) -> str:
    if result.details.points is not None:
        return f"shown at {len(visits)} observations met"
    return f"{(visits > 0).sum()} of {len(visits)} states visited"


# --- Values at the start with their intervals and policies compared, as a figure and in a notebook --------------------


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
