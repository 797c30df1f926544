"""The continuous grid: Table 3, curves, and maps over its 20x20 lattice.

Everything comes from stored results except the paths of `trajectory`: runs store how often each cell was visited and the
behaviour's probabilities at the lattice points, not the paths themselves, so a few episodes are sampled from the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gvfx.experiments.settings.grid import (
    METHODS,
    PRIORITY_SEEDS,
    PUBLISHED,
    RATES,
    REPLAYS,
    SEEDS,
    STEPS,
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
from gvfx.report.page import Maps, Panel
from gvfx.reproduce.base import AVERAGE, Build, Exhibit, Item
from gvfx.reproduce.measures import OURS, printed_row, ranking, steps_reached, verdict
from gvfx.reproduce.sections import NETWORKS
from gvfx.running.result import Result
from gvfx.worlds.continuous_grid import MOVES, ContinuousGridEnv, paper_grid

SIDE = 20
PATHS_DRAWN = 5  # trajectories per method, one of each seed's behaviour
WORDS = {"uniform": "replay", "prioritised": "PER"}
SHOWN = ("RoundRobin", OURS)  # the methods of the maps
PRIORITIES = {  # what prioritised replay can go by
    "GVFExplorer, by Q": DeepCurve("GVFExplorer", "prioritised"),
    "GVFExplorer, by M": DeepCurve("GVFExplorer", "prioritised", priority="m"),
    "SR, by Q": DeepCurve("SR", "prioritised"),
    "SR, by SR": DeepCurve("SR", "prioritised", priority="sr"),
}
ALL_CELLS = f"{AVERAGE} (400 cells)"


def _name(curve: DeepCurve) -> str:
    return f"{curve.method}, {WORDS[curve.replay]}"


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


def _lines(b: Build) -> dict[DeepCurve, Result]:
    """The result of every method with both replays."""
    return {c: b.result(c) for c in table_curves()}


def _curves(b: Build) -> list[Exhibit]:
    results = _lines(b)
    steps = next(iter(results.values())).steps
    series = [b.series(_name(c), r.error, colour(c.method), c.replay == "prioritised") for c, r in results.items()]
    return [b.curves("continuous", b.item.title, steps, series, ALL_CELLS)]


def _individual(b: Build) -> list[Exhibit]:
    results = _lines(b)
    first = next(iter(results.values()))
    return [
        b.curves(
            f"individual-continuous-{i + 1}",
            f"Continuous grid: MSE of the {name} goal",
            first.steps,
            [b.series(_name(c), r.mse[:, :, i], colour(c.method), c.replay == "prioritised") for c, r in results.items()],
            f"MSE, {name} goal",
        )
        for i, name in enumerate(first.names)
    ]


def _maps(b: Build, key: str, title: str, times: Sequence[int], panels: list[Panel], unit: str, note: str = "") -> Maps:
    goals = [(int((1 - y) * SIDE), int(x * SIDE)) for x, y in (goal.at for goal in paper_grid().goals)]
    return Maps(key, title, b.item.label, SIDE, SIDE, [], goals, times, panels, True, unit, b.provenance, note)


def _upright(per_point: np.ndarray) -> np.ndarray:
    """Points from the lower left, as a map with row 0 on top."""
    return per_point.reshape(SIDE, SIDE, -1)[::-1].reshape(SIDE * SIDE, -1).squeeze()


def _value_error(b: Build) -> list[Exhibit]:
    results = {m: b.result(DeepCurve(m, "prioritised")) for m in SHOWN}
    times = [s.step for s in results["RoundRobin"].snapshots if s.step < STEPS]  # the paper's 900,000, not the end
    out: list[Exhibit] = []
    picks: list[tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = [
        ("mean", "mean over GVFs", lambda e: e.mean(axis=(0, 1))),
        ("left", "left goal", lambda e: e[:, 0].mean(axis=0)),
        ("right", "right goal", lambda e: e[:, 1].mean(axis=0)),
    ]
    for key, title, pick in picks:
        panels = [
            Panel(m, [_upright(pick(np.abs(s.values - r.truth))) for s in r.snapshots[: len(times)]]) for m, r in results.items()
        ]
        out.append(_maps(b, f"value-error-continuous-{key}", f"{b.item.title}: {title}", times, panels, "absolute value error"))
    return out


def _variance(b: Build) -> list[Exhibit]:
    r = b.result(DeepCurve("GVFExplorer"))
    kept = [s.variances.mean(axis=0) for s in r.snapshots if s.variances is not None]
    panels = [Panel("mean", [_upright(v.mean(axis=0)) for v in kept])]
    panels += [Panel(f"{name} goal", [_upright(v[i]) for v in kept]) for i, name in enumerate(r.names)]
    return [_maps(b, "variance-continuous", b.item.title, [s.step for s in r.snapshots], panels, "estimated variance M")]


def _behaviour(b: Build) -> list[Exhibit]:
    moves = np.array(MOVES) * (1, -1)  # (right, down) on the map
    results = {m: b.result(DeepCurve(m)) for m in SHOWN}
    times = [s.step for s in results["RoundRobin"].snapshots]
    arrows, paths = [], []
    for m, r in results.items():
        visits = [s.visits.sum(axis=2).mean(axis=0) for s in r.snapshots]
        shares = [_upright(100 * v / v.sum()) for v in visits]
        arrows.append(Panel(m, shares, [_upright(s.behaviour.mean(axis=0) @ moves) for s in r.snapshots]))
        walks = [[trajectory(mu, seed) for seed, mu in enumerate(s.behaviour[:PATHS_DRAWN])] for s in r.snapshots]
        paths.append(Panel(m, shares, paths=walks))
    unit = "visits, % of steps"
    note = (
        "Colours are the visits of the stored runs. Paths are not stored: each is one episode that is simulated when the "
        "figure is made, with the behaviour of one seed as stored at the 400 lattice points."
    )
    return [
        _maps(b, "trajectories-continuous", "Continuous grid: sampled trajectories", times, paths, unit, note),
        _maps(b, "behaviour-continuous", b.item.title, times, arrows, unit),
    ]


def trajectory(mu: np.ndarray, seed: int) -> np.ndarray:
    """A simulated episode of a behaviour stored at the lattice points, mu [point, action], as (x, y) in cells of the map."""
    env = ContinuousGridEnv(paper_grid())
    at, _ = env.reset(seed=seed)
    draws = np.random.default_rng(seed)
    path, over = [at], False
    while not over:
        column, row = np.minimum((at * SIDE).astype(int), SIDE - 1)
        at, _, ended, cut, _ = env.step(int(draws.choice(4, p=mu[row * SIDE + column] / mu[row * SIDE + column].sum())))
        path.append(at)
        over = ended or cut
    return (np.array(path) * (1, -1) + (0, 1)) * SIDE


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
        "Continuous grid: average MSE, replay (solid) and PER (dashed)",
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
        "Continuous grid: value error with PER at 900,000 steps",
        lambda tuned: [DeepCurve(m, "prioritised") for m in SHOWN],
        _value_error,
        NETWORKS,
        SEEDS,
        rank=1,
    ),
    Item(
        "variance-continuous",
        "fig:cont_env_variance",
        "Continuous grid: variance estimated by GVFExplorer",
        lambda tuned: [DeepCurve(OURS)],
        _variance,
        NETWORKS,
        SEEDS,
        rank=2,
    ),
    Item(
        "behaviour-continuous",
        "fig:traj_2d_world",
        "Continuous grid: where RoundRobin and GVFExplorer go",
        lambda tuned: [DeepCurve(m) for m in SHOWN],
        _behaviour,
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
