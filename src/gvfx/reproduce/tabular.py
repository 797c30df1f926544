"""Tables and figures as data, built from stored results alone: one builder serves the PNG files and the HTML page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gvfx import rng as streams
from gvfx.experiments.settings.tabular import DRIFTS, FORTY_GOALS, GROUPINGS, paper
from gvfx.report import statistics
from gvfx.report.page import Curves, Panel, Series
from gvfx.report.style import SPARE, colour
from gvfx.reproduce import grid as continuous
from gvfx.reproduce import limit, tables
from gvfx.reproduce import mujoco as control
from gvfx.reproduce.items import SR_SETTINGS, SR_TEMPERATURES, Curve, Item, main_curves, tuned_curves
from gvfx.reproduce.source import Build, Exhibit, Source
from gvfx.running.result import Result
from gvfx.worlds.mdp import MDP


def build(item: Item, source: Source) -> list[Exhibit]:
    """The exhibits of an item; FileNotFoundError if a run is missing."""
    return BUILDERS[item.name](Build(source, item))


# --- curves ------------------------------------------------------------------------------------------------------


def _average_mse(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        curves = main_curves(setting)
        results = {c.method: b.result(c) for c in curves}
        steps = next(iter(results.values())).steps
        series = [b.series(name, r.error, colour(name)) for name, r in results.items()]
        out: list[Exhibit] = [b.curves(setting, b.item.title, steps, series, "MSE, averaged over GVFs")]
        if setting == "fourrooms":
            out.append(_relative(b, results, steps))
        extra = tuned_curves(setting, b.source.tuned)
        if extra:
            try:
                tuned = {c.method: b.result(c) for c in extra}
            except FileNotFoundError:
                return out
            title = f"{b.item.title}, every method at the rate our sweep chose"
            series = [b.series(_with_rate(c), tuned[c.method].error, colour(c.method)) for c in extra]
            out.append(b.curves(f"{setting}-tuned", title, steps, series, "MSE, averaged over GVFs"))
        return out

    return make


def _relative(b: Build, results: dict[str, Result], steps: np.ndarray) -> Curves:
    """MSE of the drifting GVF divided by the square of the present level."""
    series = [b.series(name, r.mse[:, :, 1] / r.levels[:, :, 1] ** 2, colour(name)) for name, r in results.items()]
    note = "After 4 M steps the level's standard deviation is 1,000, so raw means are dominated by seeds that drifted far."
    return b.curves("fourrooms-relative", "The drifter's MSE over its squared level", steps, series, "MSE / level²", note)


def _with_rate(curve: Curve) -> str:
    rates = f"{curve.rate_q:g}" + (f", {curve.rate_m:g}" if curve.method == "GVFExplorer" else "")
    return f"{curve.method} ({rates})"


def _individual(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        results = {c.method: b.result(c) for c in main_curves(setting)}
        first = next(iter(results.values()))
        return [
            b.curves(
                f"individual-{setting}-{i + 1}",
                f"MSE of GVF {i + 1} ({name}), {setting}",
                first.steps,
                [b.series(method, r.mse[:, :, i], colour(method)) for method, r in results.items()],
                f"MSE of {name}",
            )
            for i, name in enumerate(first.names)
        ]

    return make


def _grouping(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    rows, finals = [], {}
    methods = ("RoundRobin", "Mixture", "Uniform", "GVFExplorer")
    for k in GROUPINGS:
        setting = "distinct" if k == 1 else f"distinct-x{k}"
        results = {m: b.result(Curve(setting, m)) for m in methods}
        series = [b.series(m, r.error, colour(m)) for m, r in results.items()]
        first = next(iter(results.values()))
        out.append(b.curves(f"grouping-{k}", f"States grouped by {k}", first.steps, series, "MSE, averaged over GVFs"))
        finals[k] = {m: statistics.mean(r.error[:, -1]) for m, r in results.items()}
    rows = [[f"{k}", *(str(finals[k][m]) for m in methods)] for k in GROUPINGS]
    best = [(r, 1 + int(np.argmin([finals[k][m].value for m in methods]))) for r, k in enumerate(GROUPINGS)]
    out.insert(0, b.table("grouping", b.item.title, ["grouping factor", *methods], rows, best=best))
    return out


def _drift(b: Build) -> list[Exhibit]:
    curves = {sd: Curve("fourrooms" if sd == 0.5 else f"fourrooms-{sd:g}", "GVFExplorer") for sd in DRIFTS}
    results = {sd: b.result(c) for sd, c in curves.items()}
    series = [b.series(f"σ = {sd:g}", r.error, SPARE[k]) for k, (sd, r) in enumerate(results.items())]
    return [b.curves("drift", b.item.title, next(iter(results.values())).steps, series, "MSE, averaged over GVFs")]


def _importance_sampling(b: Build) -> list[Exhibit]:
    results = {
        name: b.result(Curve("fourrooms", "GVFExplorer", learner=name)) for name in ("ExpectedSarsa", "ImportanceSampling")
    }
    series = [b.series(name, r.error, SPARE[k]) for k, (name, r) in enumerate(results.items())]
    return [b.curves("importance-sampling", b.item.title, results["ExpectedSarsa"].steps, series, "MSE, averaged over GVFs")]


def _successor(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    for setting in ("same", "distinct"):
        results = {m: b.result(Curve(setting, m)) for m in ("SR", "SR-greedy")}
        series = [b.series(m, r.error, SPARE[k]) for k, (m, r) in enumerate(results.items())]
        out.append(b.curves(f"successor-{setting}", f"SR, Boltzmann and greedy: {setting}", results["SR"].steps, series, "MSE"))
    return out


def _temperature(b: Build) -> list[Exhibit]:
    rows = [
        [setting, *(str(statistics.mean(b.result(Curve(setting, m)).error[:, -1])) for m in SR_TEMPERATURES)]
        for setting in SR_SETTINGS
    ]
    columns = ["setting", *(f"temperature {t}" for t in SR_TEMPERATURES.values())]
    return [b.table("successor-temperature", b.item.title, columns, rows, "MSE at the end, at the published learning rates.")]


def _cumulants(b: Build) -> list[Exhibit]:
    """Two hundred draws of a constant, a distractor and a drifter."""
    rng = streams.seed_streams(0)
    draws = np.array([[streams.normal(rng, k) for _ in range(200)] for k in (streams.CUMULANTS, streams.DRIFT)])
    lines = {"constant": np.full(200, 100.0), "distractor": 100 + 5 * draws[0], "drifter": 100 + np.cumsum(0.5 * draws[1])}
    series = [Series(name, v, v, v, SPARE[k]) for k, (name, v) in enumerate(lines.items())]
    return [b.curves("cumulants", b.item.title, np.arange(1, 201), series, "cumulant")]


# --- maps --------------------------------------------------------------------------------------------------------


def _cells(world: MDP, per_state: np.ndarray) -> np.ndarray:
    assert world.layout is not None
    return per_state[: world.layout.height * world.layout.width]


def _value_error(b: Build) -> list[Exhibit]:
    world = paper["distinct"].world
    results = {m: b.result(Curve("distinct", m)) for m in ("RoundRobin", "GVFExplorer")}
    times = [s.step for s in results["RoundRobin"].snapshots]

    def error(r: Result, k: int) -> np.ndarray:
        return _cells(world, np.abs(r.snapshots[k].values - r.truth).mean(axis=(0, 1)))

    def visits(r: Result, k: int) -> np.ndarray:
        counts = r.snapshots[k].visits.sum(axis=2).mean(axis=0)
        return _cells(world, 100 * counts / counts.sum())

    def arrows(r: Result, k: int) -> np.ndarray:
        assert world.layout is not None
        moves = _cells(world, r.snapshots[k].behaviour.mean(axis=0)) @ np.array(world.layout.arrows, dtype=float)
        return moves[:, ::-1]

    frames = range(len(times))
    errors = [Panel(m, [error(r, k) for k in frames]) for m, r in results.items()]
    seen = [Panel(m, [visits(r, k) for k in frames], [arrows(r, k) for k in frames]) for m, r in results.items()]
    return [
        b.maps("value-error", b.item.title, world, times, errors, "absolute value error, mean over GVFs"),
        b.maps("visits", "Where each behaviour went, and where it is heading", world, times, seen, "visits, % of steps"),
    ]


def _variance(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        world = paper[setting].world
        r = b.result(Curve(setting, "GVFExplorer"))
        times = [s.step for s in r.snapshots]

        def kept(k: int) -> np.ndarray:
            m = r.snapshots[k].variances
            assert m is not None
            return m.mean(axis=0)

        if setting == "fourrooms":
            panels = [Panel("mean over GVFs", [_cells(world, kept(k).mean(axis=0)) for k in range(len(times))])]
        else:
            panels = [
                Panel(f"GVF {i + 1} ({name})", [_cells(world, kept(k)[i]) for k in range(len(times))])
                for i, name in enumerate(r.names)
            ]
        return [b.maps(b.item.name, b.item.title, world, times, panels, "estimated variance M")]

    return make


def _forty_goals(b: Build) -> list[Exhibit]:
    world = paper["forty"].world
    values = np.full(world.states - 1, np.nan)
    values[list(FORTY_GOALS)] = list(FORTY_GOALS.values())
    return [b.maps("forty-goals", b.item.title, world, [0], [Panel("cumulant", [values])], "cumulant", log=False)]


BUILDERS: dict[str, Callable[[Build], list[Exhibit]]] = {
    "table1": tables.table1,
    "table2": tables.table2,
    "same": _average_mse("same"),
    "fourrooms": _average_mse("fourrooms"),
    "fourrooms-visit": _average_mse("fourrooms-visit"),
    "forty": _average_mse("forty"),
    "distinct": _average_mse("distinct"),
    "value-error": _value_error,
    "sensitivity": tables.sensitivity,
    "individual-same": _individual("same"),
    "individual-distinct": _individual("distinct"),
    "variance": _variance("distinct"),
    "semi-greedy": _average_mse("semi-greedy"),
    "individual-semi-greedy": _individual("semi-greedy"),
    "grouping": _grouping,
    "fourrooms-variance": _variance("fourrooms"),
    "drift": _drift,
    "forty-goals": _forty_goals,
    "importance-sampling": _importance_sampling,
    "cumulants": _cumulants,
    "successor": _successor,
    "successor-temperature": _temperature,
    **continuous.BUILDERS,
    **control.BUILDERS,
    **limit.BUILDERS,
}
