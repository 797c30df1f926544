"""Tabular settings with one thing changed, and what the appendix shows of them."""

from __future__ import annotations

import numpy as np

from gvfx import rng as streams
from gvfx.experiments.settings.tabular import DRIFTS, GROUPINGS
from gvfx.report import statistics
from gvfx.report.colours import SPARE, colour
from gvfx.report.page import Series
from gvfx.reproduce import tabular_maps
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.curves import ABLATION_SEEDS, Curve, Tuned
from gvfx.reproduce.measures import OURS, final_table, spare_series
from gvfx.reproduce.sections import ABLATIONS, MAPS

GROUPED = ("RoundRobin", "Mixture", "Uniform", OURS)  # the methods with grouped states
LEARNERS = ("ExpectedSarsa", "ImportanceSampling")


def _nothing(tuned: Tuned) -> list[Curve]:
    """For items that show a setting itself and need no runs."""
    return []


def _grouping_curves() -> dict[int, dict[str, Curve]]:
    """By grouping factor and method."""
    settings = {k: "distinct" if k == 1 else f"distinct-x{k}" for k in GROUPINGS}
    return {k: {m: Curve(setting, m) for m in GROUPED} for k, setting in settings.items()}


def _grouping(b: Build) -> list[Exhibit]:
    figures: list[Exhibit] = []
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for k, curves in _grouping_curves().items():
        results = {m: b.result(c) for m, c in curves.items()}
        series = [b.series(m, r.error, colour(m)) for m, r in results.items()]
        figures.append(b.curves(f"grouping-{k}", f"States grouped by {k}", results[OURS].steps, series))
        finals = [statistics.mean(r.error[:, -1]) for r in results.values()]
        best.append((len(rows), 1 + int(np.argmin([e.value for e in finals]))))
        rows.append([f"{k}", *map(str, finals)])
    return [b.table("grouping", b.item.title, ["grouping factor", *GROUPED], rows, best=best), *figures]


def _drift_curves() -> dict[str, Curve]:
    return {f"σ = {sd:g}": Curve("fourrooms" if sd == 0.5 else f"fourrooms-{sd:g}", OURS) for sd in DRIFTS}


def _drift(b: Build) -> list[Exhibit]:
    results = {name: b.result(c) for name, c in _drift_curves().items()}
    return [
        b.curves("drift", b.item.title, next(iter(results.values())).steps, spare_series(b, results)),
        final_table(b, "drift-errors", "drift per step", results),
    ]


def _importance_sampling(b: Build) -> list[Exhibit]:
    results = {name: b.result(Curve("fourrooms", OURS, learner=name)) for name in LEARNERS}
    return [
        b.curves("importance-sampling", b.item.title, results["ExpectedSarsa"].steps, spare_series(b, results)),
        final_table(b, "importance-sampling-errors", "update", results),
    ]


def _cumulants(b: Build) -> list[Exhibit]:
    """Two hundred draws of a constant, a distractor and a drifter."""
    rng = streams.seed_streams(0)
    draws = np.array([[streams.normal(rng, k) for _ in range(200)] for k in (streams.CUMULANTS, streams.DRIFT)])
    lines = {"constant": np.full(200, 100.0), "distractor": 100 + 5 * draws[0], "drifter": 100 + np.cumsum(0.5 * draws[1])}
    series = [Series(name, v, v, v, SPARE[k]) for k, (name, v) in enumerate(lines.items())]
    return [b.curves("cumulants", b.item.title, np.arange(1, 201), series, "cumulant", x_label="draws")]


GROUP = "tabular"
ITEMS = (
    Item(
        "grouping",
        "fig:crude_approx",
        "Poorer features: states grouped by 1, 2 and 4",
        lambda tuned: [c for curves in _grouping_curves().values() for c in curves.values()],
        _grouping,
        ABLATIONS,
        ABLATION_SEEDS,
    ),
    Item(
        "fourrooms-variance",
        "fig:early_m_fr, fig:later_m_fr",
        "Average variance in FourRooms, early and late",
        lambda tuned: [Curve("fourrooms", OURS)],
        tabular_maps.variance("fourrooms", each=False),
        MAPS,
    ),
    Item(
        "drift",
        "fig:drifter_sigma_graph",
        "How fast the cumulant drifts: GVFExplorer's MSE",
        lambda tuned: list(_drift_curves().values()),
        _drift,
        ABLATIONS,
    ),
    Item(
        "forty-goals", "fig:cum_value_scaled_Exp", "The ten cumulants of the forty GVFs", _nothing, tabular_maps.forty_goals, MAPS
    ),
    Item(
        "importance-sampling",
        "fig:FR_rho_exp_sarsa",
        "Importance sampling against Expected Sarsa in FourRooms",
        lambda tuned: [Curve("fourrooms", OURS, learner=name) for name in LEARNERS],
        _importance_sampling,
        ABLATIONS,
    ),
    Item("cumulants", "fig:cumulants", "The three types of cumulants", _nothing, _cumulants, ABLATIONS, rank=1),
)
