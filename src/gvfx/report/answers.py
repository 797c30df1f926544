"""The page of one saved result: questions, predictions with intervals, the error over time, and how steps were spent."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.report.colours import SPARE
from gvfx.report.forest import best_sentences, compare_section, start_plot
from gvfx.report.page import Curves, DataTable, Page, Provenance, Section, Series, Summary, write_page
from gvfx.running.comparing import Comparison
from gvfx.running.plotting import comparison_of
from gvfx.running.predictor import ERROR_BARS
from gvfx.running.result import Result, standard_error
from gvfx.running.summary import NEXT
from gvfx.threads import one_thread

SHOWN = 60  # rows of a table: states, or points
TABLES = 200  # questions with a table of their own
UNBOUNDED = "unbounded"
START_NOTE = "The expected value over the first states of episodes, one number per question."
SENTENCES = 6  # answers in the summary
SUPPORTED = 0.995  # a question is warned about if less than this share of its choices was ever tried


@dataclass(frozen=True)
class Untried:
    """A warning: the share of a question's choices that were never tried."""

    question: str
    share: float

    def __str__(self) -> str:
        return f"{self.question}: {self.share:.0%} of its choices were never tried."


@dataclass(frozen=True)
class Wanted:
    """A choice of which one more sample would reduce the error most."""

    action: Any
    observation: Any
    seen: int

    def __str__(self) -> str:
        return f"action {self.action} in {self.observation} (seen {self.seen} times)"


def warnings_of(result: Result) -> list[Untried]:
    """The questions that ask about choices which the data hardly have."""
    support: Any = result.experiment.get("support", {})
    return [Untried(name, 1 - support[name]) for name in result.names if support.get(name, 1.0) < SUPPORTED]


def _unresolved(result: Result) -> list[str]:
    """The questions that the data do not resolve, each with the reason."""
    missed: Any = result.experiment.get("not_resolved", {})
    return [f"{name}: {reason}" for name, reason in missed.items()]


def wanted_by(result: Result) -> list[Wanted]:
    """What to collect next, most useful first; only a log's answers say it."""
    collect: Any = result.experiment.get("collect", [])
    return [Wanted(c["action"], c["observation"], c["seen"]) for c in collect[:NEXT]]


def write_answers(path: Path, result: Result, source: Path) -> None:
    """Write the page of a stored result."""
    write_page(path, page_of(result, source))


@one_thread()
def page_of(result: Result, source: Path) -> Page:
    """The page as data."""
    digest = hashlib.sha256(np.ascontiguousarray(result.values).tobytes()).hexdigest()[:12]
    seeds = ", ".join(map(str, result.seeds))
    origin = Provenance(f"gvfx report {shlex.quote(str(source))}", seeds, "", digest)
    about = result.experiment
    where = about.get("environment", "a known world")
    comparison = comparison_of(result)
    sections = []
    if result.starts is not None:
        plot = () if comparison is not None else (start_plot(result, origin),)
        sections.append(Section("start", "Values at the start", START_NOTE, (*plot, _starts(result, origin))))
    if comparison is not None:
        sections.insert(0, compare_section(comparison, origin))
    sections += [
        Section("questions", "Questions", _asked(result), (_questions(result, origin),)),
        Section("predictions", "Predictions", _note(result) + _left_out(result), _predictions(result, origin)),
    ]
    curves = _over_time(result, origin)
    if curves is not None:
        sections.append(Section("error", "Error over time", "", (curves,)))
    sections.append(Section("steps", "How the steps were spent", _spent(result), (_visits(result, origin),)))
    failed = [str(about["failed"])] if "failed" in about else []
    wanted = wanted_by(result)
    headline, *more = [*_decided(result), *_answers(result, comparison), _error(result)]
    count = len(result.names)
    summary = Summary(
        f"{count} question{'s' * (count > 1)} about {where}, answered from {result.snapshots[-1].step:,} steps of experience.",
        headline,
        (*([f"Collect next: {', '.join(map(str, wanted))}."] if wanted else []), *more),
        (*failed, *map(str, warnings_of(result)), *_unresolved(result), *_unsure(result)),
        failed_title="Warnings",
    )
    facts: dict[str, str] = {key: str(about[key]) for key in about if key in ("behaviour", "learner")}
    facts["error bars"] = result.error_bars
    return Page(f"Answers: {where}", str(source.name), summary, tuple(sections), facts | {"seeds": seeds})


def _decided(result: Result) -> list[str]:
    """What a rule that decides between policies found, if there was one."""
    said: Any = result.experiment.get("decided", [])
    runs = [sentence for each in said for sentence in each]
    return [f"{s}{f' ({runs.count(s)} of {len(said)} runs)' if len(said) > 1 else ''}." for s in dict.fromkeys(runs)]


def _answers(result: Result, comparison: Comparison | None) -> list[str]:
    """The answers in sentences: the best policy of every signal, or else the values at the start."""
    if result.starts is None:
        return []
    said = (
        best_sentences(comparison) if comparison is not None else [f"{k}: {v} at the start." for k, v in result.value().items()]
    )
    return said if len(said) <= SENTENCES else [*said[:SENTENCES], f"{len(said) - SENTENCES} more below."]


def _unsure(result: Result) -> list[str]:
    """Which values at the start have no interval yet, in one sentence."""
    if result.starts is None:
        return []
    names = [name for name, v in result.value().items() if np.isinf(v.low) or np.isinf(v.high)]
    listed = ", ".join(names[:SENTENCES]) + (f" and {len(names) - SENTENCES} more" if len(names) > SENTENCES else "")
    return [f"Not sure yet at the start: {listed}."] if names else []


def _error(result: Result) -> str:
    """What is known of the error, in one sentence."""
    at = _counted(result)
    if not np.isnan(result.mse).any():
        return f"Mean squared error{at} {result.error[:, -1].mean():.3g} against the exact truth."
    if result.error_bars == "spread":
        some = (
            "networks have intervals at the start alone, from audits"
            if result.audits is not None
            else "networks give no intervals"
        )
        return f"The truth is not known, and {some}: the spread of their heads is a rough idea of the error."
    if result.expected is not None and not np.isnan(result.expected).any():
        share = result.weights / result.weights.sum()
        estimated = np.sqrt((result.expected[:, -1] @ share).mean())
        return f"Estimated root mean squared error{at} {estimated:.3g}; the truth is not known."
    if result.has_intervals:
        return "The truth is not known; the intervals below say how sure each answer is."
    return "The truth is not known, and this learner does not estimate its error."


def _counted(result: Result) -> str:
    """Where errors count, in words; empty if it is everywhere."""
    where = result.experiment.get("where")
    return "" if where is None else " of the value at the start" if where == "start" else f" over {where}"


def _starts(result: Result, origin: Provenance) -> DataTable:
    """The value at the start of every question."""
    values = result.value()
    known = not any(np.isnan(v.truth) for v in values.values())
    checks = result.audit() if result.audits is not None else {}
    sure = result.has_intervals or bool(checks)
    bars = ["interval"] if sure else ["spread"] if result.error_bars == "spread" else []
    rows = []
    for name, v in values.items():
        row = [name, _number(v.value)]
        row += [_between(v.low, v.high) if sure else _number(v.spread)] if bars else []
        row += [_truth(v.truth, v.low, v.high)] if known else []
        rows.append(row + ([_number(checks[name].answer), f"{checks[name].rollouts:,}"] if checks else []))
    columns = [
        "question",
        "value",
        *bars,
        *(["truth"] if known else []),
        *(["answer without audits", "rollouts"] if checks else []),
    ]
    note = "Value and interval are those of the audits: rollouts of each policy, scored against the answers." if checks else ""
    return DataTable("start-values", "The value at the start of every question", "", columns, rows, provenance=origin, note=note)


def _truth(truth: float, low: float, high: float) -> str:
    """A true value, marked where an interval misses it."""
    return _number(truth) + (" (outside)" if truth < low or truth > high else "")


def _asked(result: Result) -> str:
    kind = "observations met" if result.points is not None else "states"
    return f"Means are over the {kind}, weighted by visits."


def _note(result: Result) -> str:
    if result.error_bars == "spread":
        return "Spread is the standard deviation of the networks' bootstrapped heads. It is not an interval."
    if not result.has_intervals:
        return "This learner gives no intervals."
    return f"{ERROR_BARS[result.error_bars]}; {UNBOUNDED} where an answer depends on something that was never tried."


def _left_out(result: Result) -> str:
    """How many questions have no table of their own, in a sentence."""
    count = len(result.names)
    return f" Shown are the first {TABLES} of {count:,} questions; the file has the others." if count > TABLES else ""


def _number(x: float) -> str:
    return f"{x:.4g}" if np.isfinite(x) else UNBOUNDED


def _between(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}" if np.isfinite(low) and np.isfinite(high) else UNBOUNDED


def _questions(result: Result, origin: Provenance) -> DataTable:
    visits = result.visits.sum(axis=(0, 2))
    share = visits / max(1, visits.sum())
    v = result.values.mean(axis=0)
    known = not np.isnan(result.truth).any()
    between = result.intervals() if result.has_intervals else None
    spread = result.spread() if result.error_bars == "spread" else None
    columns = ["question", "mean", "smallest", "largest", *(["mean half width"] if between is not None else [])]
    columns += ["mean spread"] if spread is not None else []
    columns += ["MSE"] if known else []
    rows = []
    for i, name in enumerate(result.names):
        row = [name, *(_number(x) for x in (v[i] @ share, v[i][share > 0].min(), v[i][share > 0].max()))]
        if between is not None:
            wide = np.diff(between[i][share > 0], axis=1) / 2
            row.append(_number(wide[np.isfinite(wide)].mean()) if np.isfinite(wide).any() else UNBOUNDED)
        row += [_number(spread[i] @ share)] if spread is not None else []
        rows.append(row + ([_number(result.mse[:, -1, i].mean())] if known else []))
    return DataTable("asked", "What was asked and answered", "", columns, rows, provenance=origin)


def _label(result: Result, s: int) -> str:
    if result.points is None:
        return str(result.predictor.label(s))
    shown = ", ".join(f"{x:.3g}" for x in result.points[s][:6])
    return f"({shown}{', ...' if result.points.shape[1] > 6 else ''})"


def _predictions(result: Result, origin: Provenance) -> tuple[DataTable, ...]:
    """One table per question, of the first ones: the states visited most."""
    visits = result.visits.sum(axis=(0, 2))
    most = np.argsort(-visits, kind="stable")[:SHOWN]
    most = np.sort(most[visits[most] > 0])
    v, truth = result.values.mean(axis=0), result.truth.mean(axis=0)
    between = result.intervals() if result.has_intervals else None
    spread = result.spread() if result.error_bars == "spread" else None
    known = not np.isnan(truth).any()
    bars = ["interval"] if between is not None else ["spread"] if spread is not None else []
    columns = ["at", "prediction", *bars, *(["truth"] if known else []), "visits"]
    left = int((visits > 0).sum()) - len(most)
    note = f"The {len(most)} visited most often; the file has {left} more." if left > 0 else ""
    out = []
    for i, name in enumerate(result.names[:TABLES]):
        rows = []
        for s in most:
            row = [_label(result, s), _number(v[i, s])]
            row += [_between(*between[i, s])] if between is not None else []
            row += [_number(spread[i, s])] if spread is not None else []
            row += [_truth(truth[i, s], *(between[i, s] if between is not None else (-np.inf, np.inf)))] if known else []
            rows.append([*row, f"{visits[s]:,}"])
        out.append(DataTable(f"prediction-{i + 1}", name, "", columns, rows, provenance=origin, note=note))
    return tuple(out)


def _over_time(result: Result, origin: Provenance) -> Curves | None:
    """The error of every question, or its estimate where the truth is not known; None without either."""
    known = not np.isnan(result.mse).any()
    errors = result.mse if known else result.expected
    if errors is None or np.isnan(errors).any() or len(result.steps) < 2:
        return None
    series = []
    for i, name in enumerate(result.names[: len(SPARE)]):
        mean, half = errors[:, :, i].mean(axis=0), 1.96 * standard_error(errors[:, :, i])
        series.append(Series(name, mean, np.maximum(mean - half, 0), mean + half, SPARE[i]))
    what = ("mean squared error" if known else "estimated mean squared error") + _counted(result)
    note = "" if known else "Squared standard errors, averaged over visits; states whose interval is unbounded do not count."
    if result.error_bars == "spread" and not known:
        what, note = "mean squared spread", "Squared standard deviations of the networks' heads: not an estimate of the error."
    return Curves("error-curve", f"The {what} of every question", "", result.steps, series, what, origin, note)


def _spent(result: Result) -> str:
    spent = result.visits.sum(axis=(0, 1)) / max(1, result.visits.sum())
    shares = ", ".join(f"{name} {p:.0%}" for name, p in zip(_choices(result), spent, strict=True))
    ended = f" {int(result.episodes[:, -1].mean()):,} episodes ended per seed." if result.episodes.size else ""
    near = " Visits are those of stored transitions, each counted at the nearest point." if result.points is not None else ""
    return f"Of all steps: {shares}.{ended}{near}"


def _choices(result: Result) -> list[str]:
    """The columns of visits: actions, or the policies that were followed."""
    return [f"action {choice}" if choice.isdigit() else choice for choice in result.choices]


def _visits(result: Result, origin: Provenance) -> DataTable:
    per_action = result.visits.sum(axis=0)
    most = np.argsort(-per_action.sum(axis=1), kind="stable")[:SHOWN]
    most = most[per_action[most].sum(axis=1) > 0]
    mu = result.behaviour.mean(axis=0)
    columns = ["at", "visits", *_choices(result), "behaviour at the end"]
    rows = [
        [
            _label(result, s),
            f"{per_action[s].sum():,}",
            *(f"{n:,}" for n in per_action[s]),
            " ".join(f"{p:.2f}" for p in mu[s]),
        ]
        for s in most
    ]
    return DataTable("visits-table", "Where the steps went, the most visited first", "", columns, rows, provenance=origin)
