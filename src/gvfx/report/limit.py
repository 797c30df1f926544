"""Exhibits of the statistical limit: MSE times steps over the optimum, steps to a common error, and the drifting cumulant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.experiments.items import main_curves
from gvfx.experiments.limit import (
    AVERAGED,
    CE,
    DRIFTING,
    METHODS,
    SARSA,
    STATIONARY,
    TIMES,
    optimum,
    predicted,
    setting_curves,
)
from gvfx.report import statistics
from gvfx.report.page import Series
from gvfx.report.source import Build, Exhibit
from gvfx.report.style import colour, steps_label
from gvfx.running.result import Result

SHORT = {CE: "CE", SARSA: "Expected Sarsa"}
PAIRS = [(m, learner) for learner, methods in METHODS.items() for m in methods]
Results = Mapping[tuple[str, str], Result]  # (behaviour, learner) -> result


def limit(b: Build) -> list[Exhibit]:
    """Every stationary setting: how many times the optimum's error each behaviour and learner has, and how soon it is good."""
    results = {setting: _results(b, setting) for setting in STATIONARY}
    return [
        _ratios(b, results),
        _steps(b, results),
        *(_curves(b, setting, found) for setting, found in results.items()),
    ]


def _results(b: Build, setting: str) -> Results:
    return {(c.method, c.learner): b.result(c) for c in setting_curves(setting)}


def over_optimum(setting: str, r: Result) -> np.ndarray:
    """MSE times steps over the optimum's constant, [seed, t]: 1 is the limit."""
    return r.error * r.steps / optimum(setting)


def _at(r: Result, time: int, samples: np.ndarray) -> np.ndarray:
    """Samples [seed, t] at one time of measurement, [seed]."""
    return samples[:, int(np.flatnonzero(r.steps == time)[0])]


def _ratios(b: Build, results: Mapping[str, Results]) -> Exhibit:
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []

    def add(setting: str, samples: Mapping[tuple[str, str], Sequence[np.ndarray]], tends: Mapping[tuple[str, str], str]) -> None:
        for k in range(len(TIMES)):
            lowest = min(range(len(PAIRS)), key=lambda j: samples[PAIRS[j]][k].mean())
            best.append((len(rows) + lowest, 3 + k))
        for pair in PAIRS:
            cells = [str(statistics.mean(s)) for s in samples[pair]]
            rows.append([setting, pair[0], SHORT[pair[1]], *cells, tends[pair]])

    measured = {
        setting: {pair: [_at(r, time, over_optimum(setting, r)) for time in TIMES] for pair, r in found.items()}
        for setting, found in results.items()
    }
    averages = {pair: [np.mean([measured[s][pair][k] for s in AVERAGED], axis=0) for k in range(len(TIMES))] for pair in PAIRS}
    add(f"average of {len(AVERAGED)}", averages, dict.fromkeys(PAIRS, ""))
    for setting in STATIONARY:
        add(setting, measured[setting], {pair: _tends(setting, *pair) for pair in PAIRS})
    columns = ["setting", "behaviour", "learner", *(f"{steps_label(t)} steps" for t in TIMES), "predicted for many steps"]
    note = (
        f"Mean over seeds of MSE times steps over the optimum's constant, with a bootstrap 95 % interval; 1 is the limit. The "
        f"average is over {', '.join(AVERAGED)}. Predicted: what the theory says a fixed behaviour tends to; Expected Sarsa's "
        "rates stay above zero, so its ratio grows with the steps."
    )
    return b.table("limit", b.item.title, columns, rows, note, best)


def _tends(setting: str, method: str, learner: str) -> str:
    ratio = predicted(setting, method) if learner == CE else None
    return "-" if ratio is None else statistics.short(ratio)


def _steps(b: Build, results: Mapping[str, Results]) -> Exhibit:
    """Steps to the error that the paper's method has at its end."""
    rows = []
    for setting, found in results.items():
        reference = found["GVFExplorer", SARSA]
        target, total = float(reference.error[:, -1].mean()), int(reference.steps[-1])
        for (method, learner), r in found.items():
            reached = statistics.steps_to_reach(r.steps, r.error, target)
            words = "not reached" if reached is None else f"{reached:,.0f}" if reached > r.steps[0] else f"<= {reached:,.0f}"
            share = "-" if reached is None else f"1/{total / reached:.3g}"
            rows.append([setting, statistics.short(target), method, SHORT[learner], words, share])
    columns = ["setting", "MSE", "behaviour", "learner", "steps", "of GVFExplorer's"]
    note = (
        "The MSE that GVFExplorer with Expected Sarsa at the published rates has at the end, and the first measurement from "
        "which the mean over seeds stays at or below it (measured every 10,000 steps)."
    )
    return b.table("limit-steps", "Steps to the error that the paper's method ends with", columns, rows, note)


def _curves(b: Build, setting: str, found: Results) -> Exhibit:
    first = next(iter(found.values()))
    series = [_line(b, pair, over_optimum(setting, r)) for pair, r in found.items()]
    note = (
        "1 is what the best behaviour tends to; early on, when little was seen, every error is bounded and the ratio is small. "
        "Solid: certainty equivalence; dashed: Expected Sarsa."
    )
    return b.curves(f"limit-{setting}", f"How close to the limit: {setting}", first.steps, series, "MSE × steps / optimum", note)


def _line(b: Build, pair: tuple[str, str], samples: np.ndarray) -> Series:
    method, learner = pair
    return b.series(f"{method}, {SHORT[learner]}", samples, colour(method), learner == SARSA)


def drift(b: Build) -> list[Exhibit]:
    """FourRooms with the drifter: certainty equivalence beside every method of the paper."""
    ours = _results(b, DRIFTING)
    theirs = {(c.method, SARSA): b.result(c) for c in main_curves(DRIFTING)}
    best = min(float(r.error[:, -1].mean()) for r in theirs.values())
    rows = []
    for (method, learner), r in {**ours, **theirs}.items():
        final = statistics.mean(r.error[:, -1])
        relative = statistics.mean(_relative(r)[:, -1])
        rows.append([method, SHORT[learner], str(final), str(relative), f"{best / final.value:.3g}"])
    columns = ["behaviour", "learner", "MSE", "drifter's MSE / level²", "times below the paper's best"]
    steps = next(iter(ours.values())).steps
    note = f"After {int(steps[-1]):,} steps, mean over seeds with a bootstrap 95 % interval. Drift paths are the same for all."
    return [
        b.table("limit-drift", b.item.title, columns, rows, note),
        b.curves(
            "limit-drift-curves",
            "FourRooms with a drifting cumulant: average MSE",
            steps,
            [_line(b, pair, r.error) for pair, r in ours.items()],
            "MSE, averaged over GVFs",
        ),
    ]


def _relative(r: Result) -> np.ndarray:
    """The drifting GVF's MSE over its squared level, [seed, t]."""
    return r.mse[:, :, 1] / r.levels[:, :, 1] ** 2


BUILDERS: dict[str, Any] = {"limit": limit, "limit-drift": drift}
