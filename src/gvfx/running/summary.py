"""A result in a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gvfx.running.predictor import ERROR_BARS
from gvfx.running.starts import UNKNOWN, start_lines
from gvfx.running.story import PLUS_MINUS, decided_lines, until_line
from gvfx.text import printable

if TYPE_CHECKING:
    from gvfx.running.result import Result

SAID = ("environment", "behaviour", "learner", "chosen", "inputs", "kept", "failed", "run", "where")  # shown in a summary
NEXT = 5  # choices that are named as worth collecting


def leads(result: Result) -> bool:
    """Whether the value at the start is what was asked for."""
    return result.experiment.get("where") == "start" and result.starts is not None


def summary_of(result: Result) -> str:
    """A few lines of text: the method, the predictions, and how the steps were spent; names are made printable."""
    visits = result.visits.sum(axis=(0, 2))
    share = visits / max(1, visits.sum())
    spent = result.visits.sum(axis=(0, 1)) / max(1, visits.sum())
    kept = [f"{k} {v}" for k, v in result.experiment.items() if k in SAID]
    steps, seeds = result.snapshots[-1].step, len(result.seeds)
    lines = [*kept, f"{steps:,} steps, {seeds} seed{'s' * (seeds > 1)}, {_reached(result, visits)}"]
    if "log" in result.experiment:
        lines.append(f"started from a log of {result.experiment['log']:,} transitions, which visits include")
    bars = ERROR_BARS[result.error_bars]
    if result.audits is not None and not result.has_intervals:
        bars = f"95 % intervals at the start, from audits; elsewhere {bars}"
    lines += [_spent(result, spent), f"error bars: {bars}"]
    if result.stopped is not None and result.bounds is not None and result.reached is not None and "target" in result.experiment:
        lines.append(until_line(float(str(result.experiment["target"])), result.stopped, result.bounds, result.reached))
    if "decided" in result.experiment and result.stopped is not None and result.reached is not None:
        lines += decided_lines(result.experiment["decided"], result.stopped, result.reached)  # type: ignore[arg-type]
    starts = [] if result.starts is None else start_lines(result.value(), None if result.audits is None else result.audit())
    lines += starts if leads(result) else []
    chance = result.unseen
    known, answers = not np.isnan(result.truth).any(), result.answers
    between = result.intervals() if result.has_intervals else None
    spread = result.spread() if result.error_bars == "spread" else None
    width = max(len(printable(name)) for name in result.names)
    supports: Any = result.experiment.get("support", {})
    missed: Any = result.experiment.get("not_resolved", {})
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
            line += f", chance of the unseen {chance[i]:.2g}"
        line += f", spread {spread[i] @ share:.2g}" if spread is not None else ""
        support = supports.get(name, 1.0)
        line += f", WARNING: {1 - support:.0%} of its choices were never tried" if support < 0.995 else ""
        line += f", {missed[name]}" if name in missed else ""
        lines.append(line + (f", MSE {result.mse[:, -1, i].mean():.3g}" if known else ""))
    lines += [] if leads(result) else starts
    if between is not None and result.points is None:
        lines.append(PLUS_MINUS)
    if "frontier" in result.experiment:
        lines.append(str(result.experiment["frontier"]))
    collect: Any = result.experiment.get("collect")
    if collect:
        wanted = (f"action {c['action']} in {c['observation']} (seen {c['seen']} times)" for c in collect[:NEXT])
        lines.append("collect next: " + ", ".join(wanted))
    return "\n".join(map(printable, lines))


def _spent(result: Result, shares: np.ndarray) -> str:
    if all(choice.isdigit() for choice in result.choices):
        return "actions " + " ".join(f"{a}: {p:.0%}" for a, p in enumerate(shares))
    return "steps " + ", ".join(f"{choice} {p:.0%}" for choice, p in zip(result.choices, shares, strict=True))


def _reached(result: Result, visits: np.ndarray) -> str:
    if result.points is not None:
        return f"shown at {len(visits)} observations met"
    return f"{(visits > 0).sum()} of {len(visits)} states visited"
