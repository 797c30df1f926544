"""The continuous grid: Table 3, curves, the recommended setting, and the items of its maps (`grid_maps`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gvfx.experiments.settings.grid import (
    AUTHORS_METHODS,
    AUTHORS_SEEDS,
    METHODS,
    PRIORITY_SEEDS,
    PUBLISHED,
    PUBLISHED_LEADS,
    REPLAYS,
    SEEDS,
    DeepCurve,
    recommended_curves,
    table_curves,
    tuned_curve,
)
from gvfx.report import statistics
from gvfx.report.colours import colour
from gvfx.reproduce import grid_maps
from gvfx.reproduce.base import AVERAGE, Build, Exhibit, Item
from gvfx.reproduce.curves import Tuned
from gvfx.reproduce.measures import (
    LEAD,
    OURS,
    VERDICTS,
    Finals,
    final_table,
    of_seeds,
    printed_row,
    spare_series,
    steps_reached,
    verdict,
)
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
AT_THE_END = "MSE at 1,000,000 steps, mean over the 400 cells, mean over seeds with a bootstrap 95 % interval."
NOTE = (
    "The paper leaves Uniform out. 'stabilised': GVFExplorer learns M in log space; 'tuned': every method at the learning rate "
    "that `gvfx sweep continuous` chose on other seeds. SR has five seeds."
)


def _variants(replay: str, tuned: Tuned) -> dict[str, list[DeepCurve]]:
    """The rows of Table 3 by name: the curves of every method with one replay."""
    rates = tuned.get("continuous", {})
    rows = {"ours (paper)": [DeepCurve(m, replay) for m in METHODS]}
    if rates:
        rows["ours (stabilised, tuned)"] = [tuned_curve(m, replay, rates[m][0]) for m in METHODS]
    return rows


def _authors(replay: str, tuned: Tuned) -> dict[str, list[DeepCurve]]:
    """The same in the preset `authors`, which has no SR."""
    return {"ours (authors)": [DeepCurve(m, replay, "authors") for m in AUTHORS_METHODS]}


Rows = Callable[[str, Tuned], dict[str, list[DeepCurve]]]


def _curves_of(rows: Rows) -> Callable[[Tuned], list[DeepCurve]]:
    return lambda tuned: [c for replay in REPLAYS for curves in rows(replay, tuned).values() for c in curves]


def _table3(variants: Rows, note: str) -> Callable[[Build], list[Exhibit]]:
    """Final errors beside the printed ones, and how the seeds differ."""

    def make(b: Build) -> list[Exhibit]:
        rows: list[list[str]] = []
        best: list[tuple[int, int]] = []
        spread: list[list[str]] = []
        for replay in REPLAYS:
            printed = PUBLISHED[replay]
            rows.append(printed_row(WORDS[replay], printed, PUBLISHED_LEADS[replay], METHODS))
            for name, curves in variants(replay, b.source.tuned).items():
                results = {c.method: b.result(c) for c in curves}
                finals = Finals({m: r.error[:, -1] for m, r in results.items()})
                best.append((len(rows), 2 + METHODS.index(finals.lowest)))
                rows.append(finals.row(WORDS[replay], name, METHODS))
                spread += _spread(WORDS[replay], name, results, printed)
        columns = ["replay", "", "method", "median seed", "largest seed", "392 cells outside the goals", "printed", "verdict"]
        title = f"{b.item.title}: how the seeds differ"
        return [
            b.table(b.item.name, b.item.title, ["replay", "", *METHODS, LEAD], rows, f"{AT_THE_END} {note}", best),
            b.table(f"{b.item.name}-seeds", title, columns, spread, f"MSE at 1,000,000 steps. {VERDICTS}"),
        ]

    return make


def _spread(replay: str, name: str, results: dict[str, Result], printed: Mapping[str, float]) -> list[list[str]]:
    """Median and largest seed, the mean outside the goals, and how the mean compares with the printed one, per method."""
    rows = []
    for method, r in results.items():
        final = r.error[:, -1]
        seeds = [of_seeds(final, np.median), of_seeds(final, np.max)]
        beside = [f"{printed[method]:g}", verdict(printed[method], statistics.mean(final))] if method in printed else ["-", "-"]
        rows.append([replay, name, method, *seeds, str(statistics.mean(_outside(r)[:, -1])), *beside])
    return rows


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
    return [
        final_table(b, "priorities", "method, priority", results),
        b.curves("priorities-curves", b.item.title, next(iter(results.values())).steps, spare_series(b, results)),
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
        _curves_of(_variants),
        _table3(_variants, NOTE),
        NETWORKS,
        SEEDS,
    ),
    Item(
        "table3-authors",
        "tab:mse_in_cont_env",
        "Average MSE in the continuous grid as the authors' code has it",
        _curves_of(_authors),
        _table3(_authors, "Preset authors: their world, behaviour and constants. Their SR on networks is left out."),
        NETWORKS,
        AUTHORS_SEEDS,
        rank=1,
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
        "recommended",
        "ours",
        "Continuous grid: the recommended setting",
        lambda tuned: recommended_curves(),
        _recommended,
        NETWORKS,
        SEEDS,
    ),
)
