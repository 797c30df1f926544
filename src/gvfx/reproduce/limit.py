"""How close to the statistical limit: MSE times steps over the optimum, steps to a common error, intervals and stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from gvfx.experiments.settings.limit import (
    AVERAGED,
    CE,
    COVERAGE_RUNS,
    DRIFTING,
    SARSA,
    STATIONARY,
    STOPS,
    TIMES,
    LimitCurve,
    coverage_curves,
    drift_curves,
    main_pairs,
    optimum,
    predicted,
    stationary_curves,
    stop_curves,
)
from gvfx.report import statistics
from gvfx.report.colours import colour, steps_label
from gvfx.report.page import Series
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.curves import ABLATION_SEEDS, main_curves
from gvfx.reproduce.measures import drifter_error
from gvfx.reproduce.sections import LIMIT
from gvfx.running.result import Result

SHORT = {CE: "CE", SARSA: "Expected Sarsa"}
Results = Mapping[tuple[str, str], Result]  # (behaviour, learner) -> result


def _against_the_optimum(b: Build, curves: Sequence[LimitCurve]) -> list[Exhibit]:
    """Every stationary setting: how many times the optimum's error each method has, and how soon it reaches a common one."""
    results = {s: _results(b, [c for c in curves if c.setting == s]) for s in STATIONARY}
    return [_ratios(b, results), _steps(b, results), *(_curves(b, setting, found) for setting, found in results.items())]


def _results(b: Build, curves: Sequence[LimitCurve]) -> Results:
    return {(c.method, c.learner): b.result(c) for c in curves}


def over_optimum(setting: str, r: Result) -> np.ndarray:
    """MSE times steps over the optimum's constant, [seed, t]: 1 is the limit."""
    return r.error * r.steps / optimum(setting)


def _at(r: Result, time: int, samples: np.ndarray) -> np.ndarray:
    """Samples [seed, t] at one time of measurement, [seed]."""
    return samples[:, int(np.flatnonzero(r.steps == time)[0])]


def _ratios(b: Build, results: Mapping[str, Results]) -> Exhibit:
    pairs = list(results[STATIONARY[0]])
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []

    def add(setting: str, samples: Mapping[tuple[str, str], Sequence[np.ndarray]], tends: Mapping[tuple[str, str], str]) -> None:
        for k in range(len(TIMES)):
            lowest = min(range(len(pairs)), key=lambda j: statistics.centre(samples[pairs[j]][k]))
            best.append((len(rows) + lowest, 3 + k))
        for pair in pairs:
            cells = [str(statistics.mean(s)) for s in samples[pair]]
            rows.append([setting, pair[0], SHORT[pair[1]], *cells, tends[pair]])

    measured = {
        setting: {pair: [_at(r, time, over_optimum(setting, r)) for time in TIMES] for pair, r in found.items()}
        for setting, found in results.items()
    }
    averages = {pair: [np.mean([measured[s][pair][k] for s in AVERAGED], axis=0) for k in range(len(TIMES))] for pair in pairs}
    add(f"average of {len(AVERAGED)}", averages, dict.fromkeys(pairs, ""))
    for setting in STATIONARY:
        add(setting, measured[setting], {pair: _tends(setting, *pair) for pair in pairs})
    columns = ["setting", "behaviour", "learner", *(f"{steps_label(t)} steps" for t in TIMES), "predicted for many steps"]
    note = (
        f"Mean over seeds of MSE times steps over the optimum's constant, with a bootstrap 95 % interval; 1 is the limit. The "
        f"average is over {', '.join(AVERAGED)}. Predicted: what the theory says a fixed behaviour tends to; Expected Sarsa's "
        "rates stay above zero, so its ratio grows with the steps."
    )
    return b.table(b.item.name, b.item.title, columns, rows, note, best)


def _tends(setting: str, method: str, learner: str) -> str:
    ratio = predicted(setting, method) if learner == CE else None
    return "-" if ratio is None else statistics.short(ratio)


def _steps(b: Build, results: Mapping[str, Results]) -> Exhibit:
    """Steps to the error that the paper's method has at its end."""
    rows = []
    for setting, found in results.items():
        reference = found["GVFExplorer", SARSA]
        target, total = statistics.centre(reference.error[:, -1]), int(reference.steps[-1])
        for (method, learner), r in found.items():
            reached = statistics.steps_to_reach(r.steps, r.error, target)
            words = "not reached" if reached is None else f"{reached:,.0f}" if reached > r.steps[0] else f"<= {reached:,.0f}"
            share = "-" if reached is None else f"1/{total / reached:.3g}"
            rows.append([setting, statistics.short(target), method, SHORT[learner], words + statistics.count(r.error), share])
    columns = ["setting", "MSE", "behaviour", "learner", "steps", "of GVFExplorer's"]
    note = (
        "The MSE that GVFExplorer with Expected Sarsa at the published rates has at the end, and the first measurement from "
        "which the mean over seeds stays at or below it (every 10,000 steps for OptimalDesign with CE and GVFExplorer with "
        "Expected Sarsa, every 100,000 for the others)."
    )
    return b.table(f"{b.item.name}-steps", "Steps to the error that the paper's method ends with", columns, rows, note)


def _curves(b: Build, setting: str, found: Results) -> Exhibit:
    steps = _common(found)
    series = [_line(b, pair, over_optimum(setting, r)[:, np.isin(r.steps, steps)]) for pair, r in found.items()]
    note = (
        "1 is what the best behaviour tends to; early on, when little was seen, every error is bounded and the ratio is small. "
        "Solid: certainty equivalence; dashed: Expected Sarsa."
    )
    return b.curves(f"{b.item.name}-{setting}", f"{b.item.title}, {setting}", steps, series, "MSE × steps / optimum", note)


def _common(found: Results) -> np.ndarray:
    """The times at which all were measured."""
    return min((r.steps for r in found.values()), key=len)


def _line(b: Build, pair: tuple[str, str], samples: np.ndarray) -> Series:
    method, learner = pair
    return b.series(f"{method}, {SHORT[learner]}", samples, colour(method), learner == SARSA)


def _drift(b: Build) -> list[Exhibit]:
    """FourRooms with the drifter: certainty equivalence beside every method of the paper."""
    ours = _results(b, drift_curves())
    theirs = {(c.method, SARSA): b.result(c) for c in main_curves(DRIFTING)}
    best = min(statistics.centre(r.error[:, -1]) for r in theirs.values())
    rows = []
    for (method, learner), r in {**ours, **theirs}.items():
        final = statistics.mean(r.error[:, -1])
        relative = statistics.mean(drifter_error(r)[:, -1])
        rows.append([method, SHORT[learner], str(final), str(relative), "-" if final.diverged else f"{best / final.value:.3g}"])
    columns = ["behaviour", "learner", "MSE", "drifter's MSE / level²", "times below the paper's best"]
    steps = _common(ours)
    note = f"After {int(steps[-1]):,} steps, mean over seeds with a bootstrap 95 % interval. Drift paths are the same for all."
    return [
        b.table("limit-drift", b.item.title, columns, rows, note),
        b.curves(
            "limit-drift-curves",
            "FourRooms with a drifting cumulant: average MSE",
            steps,
            [_line(b, pair, r.error[:, np.isin(r.steps, steps)]) for pair, r in ours.items()],
        ),
    ]


def _coverage(b: Build) -> list[Exhibit]:
    """How many of the 95 % intervals hold the truth, averaged over the states whose answers have a variance."""
    rows = []
    for curve in coverage_curves():
        r, lost = b.finished(curve), statistics.count(b.result(curve).error)
        held, open_ended = covered(r)
        for name, share in [("all", held.mean(axis=1)), *zip(r.names, held.T, strict=True)]:
            estimate = statistics.mean(100 * share)
            rows.append(
                [curve.setting, name, f"{r.steps[-1]:,}", f"{len(share)}{lost}", f"{estimate} %", f"{100 * open_ended:.2g} %"]
            )
    columns = ["setting", "GVF", "steps", "runs", "truth inside", "intervals without an end"]
    note = (
        "95 % intervals by the delta method under OptimalDesign, after a cold start. The share of states whose interval holds "
        "the true value, over states with a variance above 0, then over runs; bootstrap 95 % interval over runs. An interval "
        "has no end where an answer rests on something never tried; it counts as holding the truth."
    )
    return [b.table("coverage", b.item.title, columns, rows, note)]


def covered(r: Result, level: float = 0.95) -> tuple[np.ndarray, float]:
    """Share of a run's intervals that hold the truth [seed, gvf], and the share of all that have no end."""
    se = r.snapshots[-1].standard_errors
    assert se is not None
    unsure = se > 0
    inside = np.abs(r.values - r.truth) <= -scipy.special.ndtri((1 - level) / 2) * se
    return (inside & unsure).sum(axis=2) / unsure.sum(axis=2), float(np.isinf(se).sum() / unsure.sum())


def _stops(b: Build) -> list[Exhibit]:
    """How often the error is below the target when the rule says so, and how many steps that took."""
    rows = []
    for curve in stop_curves():
        r, target, lost = b.finished(curve), curve.target, statistics.count(b.result(curve).error)
        assert target is not None
        done = r.visits.sum(axis=(1, 2))
        stopped = done < curve.experiment.steps
        kept = statistics.mean((r.error[stopped, -1] <= target).astype(float) * 100) if stopped.any() else "-"
        ideal = optimum(curve.setting) / target
        rows.append(
            [
                curve.setting,
                f"{target:g}",
                f"{stopped.sum()} of {len(stopped)}{lost}",
                f"{kept} %",
                statistics.short(float(np.median(done))),
                statistics.short(float(r.error[:, -1].mean())),
                statistics.short(ideal),
            ]
        )
    columns = ["setting", "target MSE", "stopped", "truly below it", "steps, median", "MSE then, mean", "optimum's steps"]
    note = (
        "OptimalDesign from a cold start with until=error_below(target), 95 % sure. Optimum's steps: when the best behaviour, "
        "known from the start, has the target as its expected error, which is no assurance for a single run."
    )
    return [b.table("stops", b.item.title, columns, rows, note)]


GROUP = "limit"
ITEMS = (
    Item(
        "limit-main",
        "ours",
        "How close to the limit",
        lambda tuned: main_pairs(),
        lambda b: _against_the_optimum(b, main_pairs()),
        LIMIT,
    ),
    Item(
        "limit-behaviours",
        "ours",
        "How close to the limit: every behaviour and learner",
        lambda tuned: stationary_curves(),
        lambda b: _against_the_optimum(b, stationary_curves()),
        LIMIT,
        ABLATION_SEEDS,
    ),
    Item(
        "limit-drift",
        "ours",
        "A drifting cumulant: certainty equivalence and the paper's methods",
        lambda tuned: [*drift_curves(), *main_curves(DRIFTING)],
        _drift,
        LIMIT,
    ),
    Item(
        "coverage",
        "ours",
        "How often intervals hold the truth",
        lambda tuned: coverage_curves(),
        _coverage,
        LIMIT,
        COVERAGE_RUNS,
    ),
    Item("stops", "ours", "Stopping when the error is below a target", lambda tuned: stop_curves(), _stops, LIMIT, STOPS),
)
