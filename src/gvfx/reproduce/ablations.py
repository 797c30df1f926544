"""Tabular settings with one thing changed, and what the appendix shows of them."""

from __future__ import annotations

import numpy as np

from gvfx import rng as streams
from gvfx.experiments.settings.tabular import DRIFTS, FORTY_GOALS, GROUPINGS, paper
from gvfx.report import statistics
from gvfx.report.colours import SPARE, colour
from gvfx.report.page import Panel, Series
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.curves import ABLATION_SEEDS, Curve, Tuned
from gvfx.reproduce.measures import OURS
from gvfx.reproduce.sections import ABLATIONS, MAPS
from gvfx.reproduce.tabular import variance
from gvfx.running.result import Result

GROUPED = ("RoundRobin", "Mixture", "Uniform", OURS)  # the methods with grouped states
LEARNERS = ("ExpectedSarsa", "ImportanceSampling")
SR_SETTINGS = ("same", "distinct", "semi-greedy")
SR_TEMPERATURES = {"SR-1": 1, "SR-10": 10, "SR": 100, "SR-1000": 1000}
SR_CHOICES = ("SR", "SR-greedy")


def _nothing(tuned: Tuned) -> list[Curve]:
    """For items that show a setting itself and need no runs."""
    return []


def _series(b: Build, results: dict[str, Result]) -> list[Series]:
    """The mean error of each result, in spare colours."""
    return [b.series(name, r.error, SPARE[k]) for k, (name, r) in enumerate(results.items())]


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
    return [b.curves("drift", b.item.title, next(iter(results.values())).steps, _series(b, results))]


def _forty_goals(b: Build) -> list[Exhibit]:
    world = paper["forty"].world
    values = np.full(world.states - 1, np.nan)
    values[list(FORTY_GOALS)] = list(FORTY_GOALS.values())
    return [b.maps("forty-goals", b.item.title, world, [0], [Panel("cumulant", [values])], "cumulant", log=False)]


def _importance_sampling(b: Build) -> list[Exhibit]:
    results = {name: b.result(Curve("fourrooms", OURS, learner=name)) for name in LEARNERS}
    return [b.curves("importance-sampling", b.item.title, results["ExpectedSarsa"].steps, _series(b, results))]


def _cumulants(b: Build) -> list[Exhibit]:
    """Two hundred draws of a constant, a distractor and a drifter."""
    rng = streams.seed_streams(0)
    draws = np.array([[streams.normal(rng, k) for _ in range(200)] for k in (streams.CUMULANTS, streams.DRIFT)])
    lines = {"constant": np.full(200, 100.0), "distractor": 100 + 5 * draws[0], "drifter": 100 + np.cumsum(0.5 * draws[1])}
    series = [Series(name, v, v, v, SPARE[k]) for k, (name, v) in enumerate(lines.items())]
    return [b.curves("cumulants", b.item.title, np.arange(1, 201), series, "cumulant")]


def _successor(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    for setting in SR_SETTINGS[:2]:
        results = {m: b.result(Curve(setting, m)) for m in SR_CHOICES}
        title = f"SR, Boltzmann and greedy: {setting}"
        out.append(b.curves(f"successor-{setting}", title, results["SR"].steps, _series(b, results), "MSE"))
    return out


def _temperature(b: Build) -> list[Exhibit]:
    rows = [
        [setting, *(str(statistics.mean(b.result(Curve(setting, m)).error[:, -1])) for m in SR_TEMPERATURES)]
        for setting in SR_SETTINGS
    ]
    columns = ["setting", *(f"temperature {t}" for t in SR_TEMPERATURES.values())]
    return [b.table("successor-temperature", b.item.title, columns, rows, "MSE at the end, at the published learning rates.")]


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
        variance("fourrooms", each=False),
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
    Item("forty-goals", "fig:cum_value_scaled_Exp", "The ten cumulants of the forty GVFs", _nothing, _forty_goals, MAPS),
    Item(
        "importance-sampling",
        "fig:FR_rho_exp_sarsa",
        "Importance sampling against Expected Sarsa in FourRooms",
        lambda tuned: [Curve("fourrooms", OURS, learner=name) for name in LEARNERS],
        _importance_sampling,
        ABLATIONS,
    ),
    Item("cumulants", "fig:cumulants", "The three types of cumulants", _nothing, _cumulants, ABLATIONS, rank=1),
    Item(
        "successor",
        "App. B.1 (3)",
        "SR: Boltzmann against greedy",
        lambda tuned: [Curve(s, m) for s in SR_SETTINGS[:2] for m in SR_CHOICES],
        _successor,
        ABLATIONS,
    ),
    Item(
        "successor-temperature",
        "App. B.1 (3)",
        "SR: how much depends on the temperature",
        lambda tuned: [Curve(s, m) for s in SR_SETTINGS for m in SR_TEMPERATURES],
        _temperature,
        ABLATIONS,
        ABLATION_SEEDS,
    ),
)
