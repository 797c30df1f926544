"""The tabular settings: learning curves, the MSE of each GVF, maps over the grid, and sensitivity to the learning rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gvfx.experiments.settings.tabular import RATES, paper
from gvfx.report.colours import colour
from gvfx.report.page import Curves, Panel, Series
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.base import build as build  # the command line imports it from here
from gvfx.reproduce.curves import ABLATION_SEEDS, Curve, Tuned, main_curves, sweep_curves, tuned_curves
from gvfx.reproduce.measures import OURS, drifter_error
from gvfx.reproduce.sections import CURVES, EACH, MAPS, TUNING
from gvfx.reproduce.tables import AFTER_TUNING, surface_table, sweep_errors
from gvfx.running.result import Result
from gvfx.worlds.mdp import MDP


def _on(setting: str) -> Callable[[Tuned], list[Curve]]:
    """Every method on a setting, at the published and at the tuned rates."""
    return lambda tuned: main_curves(setting) + tuned_curves(setting, tuned)


# --- curves ------------------------------------------------------------------------------------------------------


def _average_mse(setting: str) -> Callable[[Build], list[Exhibit]]:
    """The mean error of every method; if a sweep chose other rates and they have been run, a second figure with those."""

    def make(b: Build) -> list[Exhibit]:
        results = {c.method: b.result(c) for c in main_curves(setting)}
        steps = next(iter(results.values())).steps
        series = [b.series(name, r.error, colour(name)) for name, r in results.items()]
        out: list[Exhibit] = [b.curves(setting, b.item.title, steps, series)]
        if setting == "fourrooms":
            out.append(_relative(b, results, steps))
        tuned = tuned_curves(setting, b.source.tuned)
        if tuned and b.has(tuned):
            title = f"{b.item.title}, every method at the rate our sweep chose"
            series = [b.series(_with_rate(c), b.result(c).error, colour(c.method)) for c in tuned]
            out.append(b.curves(f"{setting}-tuned", title, steps, series))
        return out

    return make


def _relative(b: Build, results: dict[str, Result], steps: np.ndarray) -> Curves:
    """MSE of the drifting GVF divided by the square of the present level."""
    series = [b.series(name, drifter_error(r), colour(name)) for name, r in results.items()]
    note = "After 4 M steps the level's standard deviation is 1,000, so raw means are dominated by seeds that drifted far."
    return b.curves("fourrooms-relative", "The drifter's MSE over its squared level", steps, series, "MSE / level²", note)


def _with_rate(curve: Curve) -> str:
    rates = f"{curve.rate_q:g}" + (f", {curve.rate_m:g}" if curve.method == OURS else "")
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


def _sensitivity(b: Build) -> list[Exhibit]:
    surface = sweep_errors(b.source, "same", b.item.seeds)
    series = [Series(m, e, e, e, colour(m)) for m, e in surface.items() if e.ndim == 1]
    low, high = np.fmin.reduce(surface[OURS], axis=1), np.fmax.reduce(surface[OURS], axis=1)
    series.append(Series("GVFExplorer (best M rate; band: all M rates)", low, low, high, colour(OURS)))
    note = "Horizontal axis: the minimum learning rate of Q, in thousandths."
    return [
        b.curves("sensitivity", b.item.title, np.array(RATES) * 1000, series, AFTER_TUNING, note),
        surface_table(b, "same", surface),
    ]


# --- maps --------------------------------------------------------------------------------------------------------


def _cells(world: MDP, per_state: np.ndarray) -> np.ndarray:
    """The states that are cells of the grid, without the terminal state."""
    assert world.layout is not None
    return per_state[: world.layout.height * world.layout.width]


def _value_error(b: Build) -> list[Exhibit]:
    world = paper["distinct"].world
    results = {m: b.finished(Curve("distinct", m)) for m in ("RoundRobin", OURS)}
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


def variance(setting: str, each: bool) -> Callable[[Build], list[Exhibit]]:
    """GVFExplorer's estimated variance over time: a map of each GVF, or one of their mean."""

    def make(b: Build) -> list[Exhibit]:
        world = paper[setting].world
        r = b.finished(Curve(setting, OURS))
        kept = [s.variances.mean(axis=0) for s in r.snapshots if s.variances is not None]  # each [gvf, state]
        if each:
            panels = [Panel(f"GVF {i + 1} ({name})", [_cells(world, m[i]) for m in kept]) for i, name in enumerate(r.names)]
        else:
            panels = [Panel("mean over GVFs", [_cells(world, m.mean(axis=0)) for m in kept])]
        return [b.maps(b.item.name, b.item.title, world, [s.step for s in r.snapshots], panels, "estimated variance M")]

    return make


GROUP = "tabular"
ITEMS = (
    Item(
        "same",
        "fig:grid_simple",
        "Two distinct policies, identical cumulant: average MSE",
        _on("same"),
        _average_mse("same"),
        CURVES,
    ),
    Item(
        "fourrooms",
        "fig:fr_drifter",
        "Non-stationary cumulant in FourRooms: average MSE",
        _on("fourrooms"),
        _average_mse("fourrooms"),
        CURVES,
        rank=1,
    ),
    Item(
        "fourrooms-visit",
        "fig:fr_drifter",
        "The same, the drift advancing on visits: average MSE",
        _on("fourrooms-visit"),
        _average_mse("fourrooms-visit"),
        CURVES,
        rank=1,
    ),
    Item("forty", "fig:scaled_gvf", "Forty GVFs: average MSE", _on("forty"), _average_mse("forty"), CURVES, rank=1),
    Item(
        "distinct",
        "fig:both_distinct_grid",
        "Two distinct policies, distinct cumulants: average MSE",
        _on("distinct"),
        _average_mse("distinct"),
        CURVES,
    ),
    Item(
        "value-error",
        "fig:val_error_base, fig:val_error_ours",
        "Where the value error lies: RoundRobin and GVFExplorer",
        lambda tuned: [Curve("distinct", "RoundRobin"), Curve("distinct", OURS)],
        _value_error,
        MAPS,
    ),
    Item(
        "sensitivity",
        "fig:lr_sens_mp_sg",
        "Learning-rate sensitivity of every method",
        lambda tuned: sweep_curves("same"),
        _sensitivity,
        TUNING,
        ABLATION_SEEDS,
    ),
    Item(
        "individual-same",
        "fig:single_goal_grid_stochastic_ind_mse",
        "MSE of each GVF, identical cumulant",
        _on("same"),
        _individual("same"),
        EACH,
    ),
    Item(
        "individual-distinct",
        "fig:multi_goal_grid_stochastic_app",
        "MSE of each GVF, distinct cumulants",
        _on("distinct"),
        _individual("distinct"),
        EACH,
    ),
    Item(
        "variance",
        "fig:multi_goal_grid_stochastic_app",
        "Variance estimated by GVFExplorer, per GVF",
        lambda tuned: [Curve("distinct", OURS)],
        variance("distinct", each=True),
        MAPS,
    ),
    Item(
        "semi-greedy",
        "fig:semi_greedy_multi_goals",
        "Semi-greedy target policies: average MSE",
        _on("semi-greedy"),
        _average_mse("semi-greedy"),
        CURVES,
    ),
    Item(
        "individual-semi-greedy",
        "fig:semi_greedy_multi_goals",
        "MSE of each GVF, semi-greedy policies",
        _on("semi-greedy"),
        _individual("semi-greedy"),
        EACH,
    ),
)
