"""The continuous grid: Table 3, curves, learning rates, and the items of its maps (`grid_maps`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gvfx.experiments.settings.grid import (
    METHODS,
    PRIORITY_SEEDS,
    PUBLISHED,
    RATES,
    REPLAYS,
    SEEDS,
    TUNING_RATES,
    TUNING_SEEDS,
    TUNING_STEPS,
    DeepCurve,
    recommended_curves,
    table_curves,
    tuning_curves,
)
from gvfx.report import statistics
from gvfx.report.colours import SPARE, colour
from gvfx.reproduce import grid_maps
from gvfx.reproduce.base import AVERAGE, Build, Exhibit, Item
from gvfx.reproduce.measures import OURS, printed_row, ranking, steps_reached, verdict
from gvfx.reproduce.sections import NETWORKS
from gvfx.running.result import Result

WORDS = {"uniform": "replay", "prioritised": "PER"}
PRIORITIES = {  # what prioritised replay can go by
    "GVFExplorer, by Q": DeepCurve("GVFExplorer", "prioritised"),
    "GVFExplorer, by M": DeepCurve("GVFExplorer", "prioritised", priority="m"),
    "SR, by Q": DeepCurve("SR", "prioritised"),
    "SR, by SR": DeepCurve("SR", "prioritised", priority="sr"),
}
ALL_CELLS = f"{AVERAGE} (400 cells)"


def _table3(b: Build) -> list[Exhibit]:
    columns = ["replay", "", *METHODS, "GVFExplorer against the best baseline"]
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for replay in REPLAYS:
        printed = PUBLISHED[replay]
        rows.append(printed_row(WORDS[replay], printed, METHODS))
        results = {m: b.result(DeepCurve(m, replay)) for m in METHODS}
        for name, errors in (
            ("ours, 400 cells", {m: r.error[:, -1] for m, r in results.items()}),
            ("ours, 392 outside the goals", {m: _outside(r)[:, -1] for m, r in results.items()}),
        ):
            estimates = [statistics.mean(errors[m]) for m in METHODS]
            best.append((len(rows), 2 + int(np.argmin([e.value for e in estimates]))))
            rows.append([WORDS[replay], name, *map(str, estimates), str(ranking(errors))])
        medians = [float(np.median(results[m].error[:, -1])) for m in METHODS]
        rows.append([WORDS[replay], "ours, median seed", *(f"{v:.3g}" for v in medians), ""])
        final = {m: statistics.mean(r.error[:, -1]) for m, r in results.items()}
        rows.append([WORDS[replay], "verdict", *(verdict(printed[m], final[m]) if m in printed else "-" for m in METHODS), ""])
    note = "MSE at 1,000,000 steps, mean over seeds with a bootstrap 95 % interval. The paper leaves Uniform out."
    return [b.table("table3", b.item.title, columns, rows, note, best)]


def _outside(r: Result) -> np.ndarray:
    assert r.mse_outside is not None
    return r.mse_outside.mean(axis=2)


def _by_replay(b: Build) -> Iterator[tuple[str, dict[str, Result]]]:
    """The results of all methods with uniform and with prioritised replay."""
    for replay in REPLAYS:
        yield WORDS[replay], {m: b.result(DeepCurve(m, replay)) for m in METHODS}


def _curves(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    for replay, results in _by_replay(b):
        series = [b.series(m, r.error, colour(m)) for m, r in results.items()]
        out.append(b.curves(f"continuous-{replay.lower()}", f"{b.item.title}, {replay}", results[OURS].steps, series, ALL_CELLS))
    return out


def _individual(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    for replay, results in _by_replay(b):
        for i, goal in enumerate(results[OURS].names):
            series = [b.series(m, r.mse[:, :, i], colour(m)) for m, r in results.items()]
            title = f"Continuous grid: MSE of the {goal} goal, {replay}"
            key = f"individual-continuous-{goal}-{replay.lower()}"
            out.append(b.curves(key, title, results[OURS].steps, series, f"MSE, {goal} goal (400 cells)"))
    return out


def _priorities(b: Build) -> list[Exhibit]:
    results = {name: b.result(c) for name, c in PRIORITIES.items()}
    series = [b.series(name, r.error, SPARE[k]) for k, (name, r) in enumerate(results.items())]
    return [b.curves("priorities", b.item.title, next(iter(results.values())).steps, series)]


def _tuning(b: Build) -> list[Exhibit]:
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for m in METHODS:
        errors = [b.result(DeepCurve(m, rate=rate, steps=TUNING_STEPS)).error[:, -1] for rate in TUNING_RATES]
        best.append((len(rows), 1 + int(np.argmin([e.mean() for e in errors]))))
        rows.append([m, *(f"{e.mean():.3g} ± {statistics.standard_error(e):.2g}" for e in errors), f"{RATES[m]:g}"])
    columns = ["method", *(f"{rate:g}" for rate in TUNING_RATES), "used (Table 2)"]
    return [
        b.table("tuning-continuous", b.item.title, columns, rows, f"MSE after {TUNING_STEPS:,} steps by learning rate.", best)
    ]


def _recommended(b: Build) -> list[Exhibit]:
    results = {c.method: b.result(c) for c in recommended_curves()}
    first = next(iter(results.values()))
    series = [b.series(m, r.error, colour(m, k)) for k, (m, r) in enumerate(results.items())]
    rows = [
        [m, str(statistics.mean(r.error[:, -1])), str(statistics.mean(_outside(r)[:, -1])), steps_reached(r, 2.0)]
        for m, r in results.items()
    ]
    columns = ["behaviour", "MSE, 400 cells", "MSE, 392 outside the goals", "steps to MSE 2"]
    note = "Replay of 1,000,000, 32 waves beside the inputs, Adam at 0.002 falling to 3 %. Printed: 5.19, with PER 3.87."
    return [
        b.table("recommended", b.item.title, columns, rows, note),
        b.curves("recommended-curves", b.item.title, first.steps, series, ALL_CELLS),
    ]


GROUP = "deep"
ITEMS = (
    Item(
        "table3",
        "tab:mse_in_cont_env",
        "Average MSE in the continuous grid",
        lambda tuned: table_curves(),
        _table3,
        NETWORKS,
        SEEDS,
    ),
    Item(
        "continuous",
        "fig:avgmse_sub1",
        "Continuous grid: average MSE",
        lambda tuned: table_curves(),
        _curves,
        NETWORKS,
        SEEDS,
    ),
    Item(
        "individual-continuous",
        "fig:mse_2d_world_individual",
        "Continuous grid: MSE of each GVF",
        lambda tuned: table_curves(),
        _individual,
        NETWORKS,
        SEEDS,
        rank=1,
    ),
    Item(
        "value-error-continuous",
        "fig:val_error_cont_base, fig:val_error_cont_ours, fig:cont_value_error",
        "Continuous grid: absolute value error with PER",
        lambda tuned: [DeepCurve(m, "prioritised") for m in grid_maps.SHOWN],
        grid_maps.value_error,
        NETWORKS,
        SEEDS,
        rank=1,
    ),
    Item(
        "variance-continuous",
        "fig:cont_env_variance",
        "Continuous grid: variance estimated by GVFExplorer",
        lambda tuned: [DeepCurve(OURS)],
        grid_maps.variance,
        NETWORKS,
        SEEDS,
        rank=2,
    ),
    Item(
        "behaviour-continuous",
        "fig:traj_2d_world",
        "Continuous grid: where RoundRobin and GVFExplorer go",
        lambda tuned: [DeepCurve(m) for m in grid_maps.SHOWN],
        grid_maps.behaviour,
        NETWORKS,
        SEEDS,
        rank=1,
    ),
    Item(
        "priorities",
        "Sec. 7.2, Prioritized Experience Replay",
        "PER by the error of Q, of M, and of the successor features",
        lambda tuned: list(PRIORITIES.values()),
        _priorities,
        NETWORKS,
        PRIORITY_SEEDS,
        rank=2,
    ),
    Item(
        "tuning-continuous",
        "tab:hyperparameters",
        "Continuous grid: learning rates by one protocol",
        lambda tuned: tuning_curves(),
        _tuning,
        NETWORKS,
        TUNING_SEEDS,
        rank=2,
    ),
    Item(
        "recommended",
        "ours",
        "Continuous grid: the recommended setting",
        lambda tuned: recommended_curves(),
        _recommended,
        NETWORKS,
        SEEDS,
    ),
)
