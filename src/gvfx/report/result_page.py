"""Values at the start and which policy is better, on a page: forest plots, and tables sorted by rank."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.features.scaling import FAR
from gvfx.report.page import (
    SPARE,
    Curves,
    DataTable,
    Intervals,
    Page,
    Provenance,
    Section,
    Series,
    Summary,
    write_page,
)
from gvfx.running.comparing import Comparison, probability
from gvfx.running.result import Result, standard_error
from gvfx.running.summary import (
    ERROR_BARS,
    IntervalPanel,
    bars_of,
    collect_next,
    compared_panels,
    comparison_of,
    first_of,
    panels_of,
    untried_shares,
)
from gvfx.threads import one_thread

TEXT = (
    "Policies are compared by their values at the start, signal by signal, the highest first. A difference whose interval "
    "does not contain 0 is sure; the intervals of differences take into account that both values come from the same data."
)
UNBOUNDED, UNSURE = "unbounded", "not sure yet"
RANKS = 30  # columns with the probability of a rank


def start_plot(result: Result, origin: Provenance) -> Intervals:
    """The value at the start of every question, with its interval."""
    panels = [panel for row in panels_of(result) for panel in row]
    return Intervals("start-plot", "The value at the start of every question", "", panels, origin, _marks(panels))


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
    panels = compared_panels(comparison, signal)
    note = f"{_marks(panels)} Differences: {comparison.intervals}."
    return Intervals(f"forest-{k}", f"{signal}: values at the start and their differences", "", panels, origin, note)


def _ranking(comparison: Comparison, signal: str, k: int, origin: Provenance) -> DataTable:
    own, more = first_of(comparison.ranking, signal)
    columns = ["rank", "policy", "value", "interval", *(f"P({rank + 1})" for rank in range(min(len(own), RANKS)))]
    rows = [[str(r.rank), r.policy, f"{r.value:.4g}", _between(r.low, r.high), *map(_chance, r.ranks[:RANKS])] for r in own]
    note = "P(k): the probability of rank k."
    return DataTable(f"ranking-{k}", f"{signal}: policies by rank{more}", "", columns, rows, [(0, 1)], origin, note)


def _differences(comparison: Comparison, signal: str, k: int, origin: Provenance) -> DataTable:
    columns = ["policy", "minus", "difference", "interval", "P(better)"]
    own, more = first_of(comparison.differences, signal)
    rows = [[d.policy, d.other, f"{d.difference:.4g}", _between(d.low, d.high), _chance(d.better)] for d in own]
    title, note = f"{signal}: differences{more}", f"{comparison.intervals[0].upper()}{comparison.intervals[1:]}."
    return DataTable(f"differences-{k}", title, "", columns, rows, provenance=origin, note=note)


def _between(low: float, high: float, unknown: str = UNSURE) -> str:
    return f"{low:.4g} to {high:.4g}" if np.isfinite(low) and np.isfinite(high) else unknown


def _chance(p: float) -> str:
    return UNSURE if np.isnan(p) else f"{p:.3f}"


# --- The page of one saved result: questions, predictions with intervals, the error over time, and how steps were spent


SHOWN = 60  # rows of a table: states, or points
TABLES = 200  # questions with a table of their own
START_NOTE = "The expected value over the first states of episodes, one number per question."
SENTENCES = 6  # answers in the summary


def write_answers(path: Path, result: Result, source: Path) -> None:
    """Write the page of a stored result."""
    write_page(path, page_of(result, source))


@one_thread()
def page_of(result: Result, source: Path) -> Page:
    """The page as data."""
    digest = hashlib.sha256(np.ascontiguousarray(result.values).tobytes()).hexdigest()[:12]
    seeds = ", ".join(map(str, result.seeds))
    origin = Provenance(f"gvfx report {shlex.quote(str(source))}", seeds, "", digest)
    about = result.details.experiment
    where = about.get("environment", "a known world")
    comparison = comparison_of(result)
    sections = []
    if result.details.starts is not None:
        plot = () if comparison is not None else (start_plot(result, origin),)
        sections.append(Section("start", "Values at the start", START_NOTE, (*plot, _starts(result, origin))))
    if comparison is not None:
        sections.insert(0, compare_section(comparison, origin))
    count = len(result.names)
    means = f"Means are over the {'observations met' if result.details.points is not None else 'states'}, weighted by visits."
    rest = f" Shown are the first {TABLES} of {count:,} questions; the file has the others." * (count > TABLES)
    sections += [
        Section("questions", "Questions", means, (_questions(result, origin),)),
        Section("predictions", "Predictions", _note(result) + rest, _predictions(result, origin)),
    ]
    curves = _over_time(result, origin)
    if curves is not None:
        sections.append(Section("error", "Error over time", "", (curves,)))
    sections.append(Section("steps", "How the steps were spent", _spent(result), (_visits(result, origin),)))
    failed = [str(about["failed"])] if "failed" in about else []
    wanted = collect_next(result.details)
    untried = [f"{name}: {share:.0%} of its choices were never tried." for name, share in untried_shares(result.details).items()]
    missed: Any = about.get("not_resolved", {})
    headline, *more = [*_decided(result), *_answers(result, comparison), _error(result)]
    steps = result.details.snapshots[-1].step
    summary = Summary(
        f"{count} question{'s' * (count > 1)} about {where}, answered from {steps:,} steps of experience.",
        headline,
        (*([f"Collect next: {', '.join(wanted)}."] if wanted else []), *more),
        (*failed, *untried, *(f"{name}: {reason}" for name, reason in missed.items()), *_unsure(result)),
        failed_title="Warnings",
    )
    facts: dict[str, str] = {key: str(about[key]) for key in about if key in ("behaviour", "learner")}
    facts["error bars"] = result.details.error_bars
    return Page(f"Answers: {where}", str(source.name), summary, tuple(sections), facts | {"seeds": seeds})


def _decided(result: Result) -> list[str]:
    """What a rule that decides between policies found, if there was one."""
    each: Any = result.details.experiment.get("decided", [])
    found = [sentence for sentences in each for sentence in sentences]
    return [f"{s}{f' ({found.count(s)} of {len(each)} runs)' if len(each) > 1 else ''}." for s in dict.fromkeys(found)]


def _answers(result: Result, comparison: Comparison | None) -> list[str]:
    """The answers in sentences: the best policy of every signal, or else the values at the start."""
    if result.details.starts is None:
        return []
    values = result.value() if comparison is None else {}
    found = best_sentences(comparison) if comparison else [f"{name}: {value} at the start." for name, value in values.items()]
    return found if len(found) <= SENTENCES else [*found[:SENTENCES], f"{len(found) - SENTENCES} more below."]


def _unsure(result: Result) -> list[str]:
    """Which values at the start have no interval yet, in one sentence."""
    if result.details.starts is None:
        return []
    names = [name for name, v in result.value().items() if np.isinf(v.low) or np.isinf(v.high)]
    listed = ", ".join(names[:SENTENCES]) + (f" and {len(names) - SENTENCES} more" if len(names) > SENTENCES else "")
    return [f"Not sure yet at the start: {listed}."] if names else []


def _error(result: Result) -> str:
    """What is known of the error, in one sentence."""
    at = _counted(result)
    if not np.isnan(result.mse).any():
        return f"Mean squared error{at} {result.error[:, -1].mean():.3g} against the exact truth."
    if result.details.error_bars == "spread":
        at_start = "networks have intervals at the start alone, from audits"
        some = "networks give no intervals" if result.details.audits is None else at_start
        return f"The truth is not known, and {some}: the spread of their heads is a rough idea of the error."
    if result.details.expected is not None and not np.isnan(result.details.expected).any():
        share = result.details.weights / result.details.weights.sum()
        estimated = np.sqrt((result.details.expected[:, -1] @ share).mean())
        return f"Estimated root mean squared error{at} {estimated:.3g}; the truth is not known."
    if result.details.has_intervals:
        return "The truth is not known; the intervals below say how sure each answer is."
    return "The truth is not known, and this learner does not estimate its error."


def _counted(result: Result) -> str:
    """Where errors count, in words; empty if it is everywhere."""
    where = result.details.experiment.get("where")
    return "" if where is None else " of the value at the start" if where == "start" else f" over {where}"


def _starts(result: Result, origin: Provenance) -> DataTable:
    """The value at the start of every question."""
    values = result.value()
    known = not any(np.isnan(v.truth) for v in values.values())
    checks = result.audit() if result.details.audits is not None else {}
    sure = result.details.has_intervals or bool(checks)
    bars = ["interval"] if sure else ["spread"] if result.details.error_bars == "spread" else []
    rows = []
    for name, v in values.items():
        row = [name, _number(v.value)]
        row += [_between(v.low, v.high, UNBOUNDED) if sure else _number(v.spread)] if bars else []
        row += [_truth(v.truth, v.low, v.high)] if known else []
        rows.append(row + ([_number(checks[name].answer), f"{checks[name].rollouts:,}"] if checks else []))
    columns = ["question", "value", *bars, *(["truth"] if known else [])]
    columns += ["answer without audits", "rollouts"] if checks else []
    note = "Value and interval are those of the audits: rollouts of each policy, scored against the answers." if checks else ""
    return DataTable("start-values", "The value at the start of every question", "", columns, rows, provenance=origin, note=note)


def _truth(truth: float, low: float, high: float) -> str:
    """A true value, marked where an interval misses it."""
    return _number(truth) + (" (outside)" if truth < low or truth > high else "")


def _note(result: Result) -> str:
    if result.details.error_bars == "spread":
        return "Spread is the standard deviation of the networks' bootstrapped heads. It is not an interval."
    if not result.details.has_intervals:
        return "This learner gives no intervals."
    return f"{ERROR_BARS[result.details.error_bars]}; {UNBOUNDED} where an answer depends on something that was never tried."


def _number(x: float) -> str:
    return f"{x:.4g}" if np.isfinite(x) else UNBOUNDED


def _questions(result: Result, origin: Provenance) -> DataTable:
    visits = result.visits.sum(axis=(0, 2))
    share = visits / max(1, visits.sum())
    v = result.values.mean(axis=0)
    known = not np.isnan(result.details.truth).any()
    between, spread = bars_of(result)
    columns = ["question", "mean", "smallest", "largest", *(["mean half-width"] if between is not None else [])]
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
    if result.details.points is None:
        return str(result.details.predictor.label(s))
    shown = ", ".join(f"{x:.10g}" if abs(x) >= FAR else f"{x:.3g}" for x in result.details.points[s][:6])
    return f"({shown}{', ...' if result.details.points.shape[1] > 6 else ''})"


def _predictions(result: Result, origin: Provenance) -> tuple[DataTable, ...]:
    """One table per question, of the first ones: the states visited most."""
    visits = result.visits.sum(axis=(0, 2))
    most = np.argsort(-visits, kind="stable")[:SHOWN]
    most = np.sort(most[visits[most] > 0])
    v, truth = result.values.mean(axis=0), result.details.truth.mean(axis=0)
    between, spread = bars_of(result)
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
            row += [_between(between[i, s, 0], between[i, s, 1], UNBOUNDED)] if between is not None else []
            row += [_number(spread[i, s])] if spread is not None else []
            row += [_truth(truth[i, s], *(between[i, s] if between is not None else (-np.inf, np.inf)))] if known else []
            rows.append([*row, f"{visits[s]:,}"])
        out.append(DataTable(f"prediction-{i + 1}", name, "", columns, rows, provenance=origin, note=note))
    return tuple(out)


def _over_time(result: Result, origin: Provenance) -> Curves | None:
    """The error of every question, or its estimate where the truth is not known; None without either."""
    known = not np.isnan(result.mse).any()
    errors = result.mse if known else result.details.expected
    if errors is None or np.isnan(errors).any() or len(result.steps) < 2:
        return None
    series = []
    for i, name in enumerate(result.names[: len(SPARE)]):
        mean, half = errors[:, :, i].mean(axis=0), 1.96 * standard_error(errors[:, :, i])
        series.append(Series(name, mean, np.maximum(mean - half, 0), mean + half, SPARE[i]))
    what = ("mean squared error" if known else "estimated mean squared error") + _counted(result)
    note = "" if known else "Squared standard errors, averaged over visits; states whose interval is unbounded do not count."
    if result.details.error_bars == "spread" and not known:
        what, note = "mean squared spread", "Squared standard deviations of the networks' heads: not an estimate of the error."
    return Curves("error-curve", f"The {what} of every question", "", result.steps, series, what, origin, note)


def _spent(result: Result) -> str:
    spent = result.visits.sum(axis=(0, 1)) / max(1, result.visits.sum())
    shares = ", ".join(f"{name} {p:.0%}" for name, p in zip(_choices(result), spent, strict=True))
    episodes = result.details.episodes
    ended = f" {int(episodes[:, -1].mean()):,} episodes ended per seed." if episodes.size else ""
    near = " Visits are those of stored transitions, each counted at the nearest point." * (result.details.points is not None)
    return f"Of all steps: {shares}.{ended}{near}"


def _choices(result: Result) -> list[str]:
    """The columns of visits: actions, or the policies that were followed."""
    return [f"action {choice}" if choice.isdigit() else choice for choice in result.details.choices]


def _visits(result: Result, origin: Provenance) -> DataTable:
    per_action = result.visits.sum(axis=0)
    most = np.argsort(-per_action.sum(axis=1), kind="stable")[:SHOWN]
    most = most[per_action[most].sum(axis=1) > 0]
    mu = result.details.behaviour.mean(axis=0)
    columns = ["at", "visits", *_choices(result), "behaviour at the end"]
    counts = np.column_stack([per_action.sum(axis=1), per_action])
    rows = [[_label(result, s), *(f"{n:,}" for n in counts[s]), " ".join(f"{p:.2f}" for p in mu[s])] for s in most]
    return DataTable("visits-table", "Where the steps went, the most visited first", "", columns, rows, provenance=origin)
