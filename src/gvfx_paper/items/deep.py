"""The continuous grid: Table 3, curves, maps, the recommended setting, learning rates and single changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gvfx.report.page import DataTable
from gvfx.running.result import Result
from gvfx_paper.items import measures
from gvfx_paper.items.curves import Tuned
from gvfx_paper.items.exhibits import AVERAGE, NETWORKS, Build, Exhibit, Items
from gvfx_paper.items.measures import ERRORS, LEAD, OURS, SHOWN, VERDICTS, Finals, final_table, lowest, of_seeds
from gvfx_paper.report import statistics
from gvfx_paper.report.maps import Maps, Panel
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings.continuous import METHODS, REPLAYS, DeepCurve
from gvfx_paper.truths.lattice import SIDE, lattice_points
from gvfx_paper.worlds.continuous_grid import MOVES, ContinuousGridEnv, paper_grid

ITEMS = Items("deep")

WORDS = {"uniform": "replay", "prioritised": "PER"}
ALL_CELLS = f"{AVERAGE} (400 cells)"
AT_THE_END = f"{statistics.MEANS} of the MSE at 1,000,000 steps, mean over the 400 cells."
NOTE = (
    "The paper leaves Uniform out. 'stabilised': GVFExplorer learns M in log space; 'tuned': every method at the learning rate "
    "that `gvfx sweep continuous` chose on other seeds. SR has five seeds."
)
AUTHORS_NOTE = "Preset authors: their world, behaviour and constants. Their SR on networks is left out."


def _rows(authors: bool, replay: str, tuned: Tuned) -> dict[str, list[DeepCurve]]:
    """The rows of Table 3 by name: the curves of every method with one replay; the preset `authors` has no SR."""
    if authors:
        return {"ours (authors)": [DeepCurve(m, replay, "authors") for m in grid.AUTHORS_METHODS]}
    rates = tuned.get("continuous", {})
    rows = {"ours (paper)": [DeepCurve(m, replay) for m in METHODS]}
    if rates:
        rows["ours (stabilised, tuned)"] = [grid.tuned_curve(m, replay, rates[m][0]) for m in METHODS]
    return rows


def _curves_of(authors: bool) -> Callable[[Tuned], list[DeepCurve]]:
    return lambda tuned: [c for replay in REPLAYS for curves in _rows(authors, replay, tuned).values() for c in curves]


def _table3(b: Build) -> list[Exhibit]:
    """Final errors beside the printed ones, and how the seeds differ."""
    authors = b.item.name == "table3-authors"
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    spread: list[list[str]] = []
    for replay in REPLAYS:
        printed = grid.PUBLISHED[replay]
        rows.append(measures.printed_row(WORDS[replay], printed, grid.PUBLISHED_LEADS[replay], METHODS))
        for name, curves in _rows(authors, replay, b.source.tuned).items():
            results = {c.method: b.source.result(c) for c in curves}
            finals = Finals({m: r.error[:, -1] for m, r in results.items()})
            best.append((len(rows), 2 + METHODS.index(finals.lowest)))
            rows.append(finals.row(WORDS[replay], name, METHODS))
            spread += _spread(WORDS[replay], name, results, printed)
    columns = ["replay", "", "method", "median seed", "largest seed", "392 cells outside the goals", "printed", "verdict"]
    title, note = f"{b.item.title}: how the seeds differ", AUTHORS_NOTE if authors else NOTE
    return [
        b.table(b.item.name, b.item.title, ["replay", "", *METHODS, LEAD], rows, f"{AT_THE_END} {note}", best),
        b.table(f"{b.item.name}-seeds", title, columns, spread, f"MSE at 1,000,000 steps. {VERDICTS}"),
    ]


for _name, _title, _seeds, _rank in (
    ("table3", "Average MSE in the continuous grid", grid.SEEDS, 0),
    ("table3-authors", "Average MSE in the continuous grid as the authors' code has it", grid.AUTHORS_SEEDS, 1),
):
    _needed = _curves_of(_name == "table3-authors")
    ITEMS.add(_name, "tab:mse_in_cont_env", _title, NETWORKS, _needed, _seeds, _rank)(_table3)


def _spread(replay: str, name: str, results: dict[str, Result], printed: Mapping[str, float]) -> list[list[str]]:
    """Median and largest seed, the mean outside the goals, and how the mean compares with the printed one, per method."""
    rows = []
    for method, r in results.items():
        final = r.error[:, -1]
        cells = [of_seeds(final, np.median), of_seeds(final, np.max), str(statistics.mean(measures.outside_goals(r)[:, -1]))]
        beside = ["-", "-"]
        if method in printed:
            beside = [f"{printed[method]:g}", measures.verdict(printed[method], statistics.mean(final))]
        rows.append([replay, name, method, *cells, *beside])
    return rows


def _by_replay(b: Build) -> Iterator[tuple[str, dict[str, Result]]]:
    """The results of all methods with uniform and with prioritised replay."""
    for replay in REPLAYS:
        yield WORDS[replay], {m: b.source.result(DeepCurve(m, replay)) for m in METHODS}


@ITEMS.add("continuous", "fig:avgmse_sub1", "Continuous grid: average MSE", NETWORKS, grid.TABLE_CURVES, grid.SEEDS)
def _curves(b: Build) -> list[Exhibit]:
    return [
        b.curves(f"continuous-{replay.lower()}", f"{b.item.title}, {replay}", results[OURS].steps, b.lines(results), ALL_CELLS)
        for replay, results in _by_replay(b)
    ]


_EACH = "individual-continuous", "fig:mse_2d_world_individual", "Continuous grid: MSE of each GVF"


@ITEMS.add(*_EACH, NETWORKS, grid.TABLE_CURVES, grid.SEEDS, rank=1)
def _individual(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    for replay, results in _by_replay(b):
        for i, goal in enumerate(results[OURS].names):
            series = b.lines(results, lambda r, i=i: r.mse[:, :, i])  # type: ignore[misc]
            title = f"Continuous grid: MSE of the {goal} goal, {replay}"
            key = f"individual-continuous-{goal}-{replay.lower()}"
            out.append(b.curves(key, title, results[OURS].steps, series, f"MSE, {goal} goal (400 cells)"))
    return out


# --- maps over the lattice ------------------------------------------------------------------------------------------
# Everything comes from stored results except the paths of `trajectory`: runs store the behaviour's probabilities at the
# lattice points, not what it did, so episodes are simulated from these when the figure is made.

POINTS = SIDE * SIDE


def maps(
    b: Build, key: str, title: str, times: Sequence[int], panels: list[Panel], unit: str, note: str = "", columns: int = 0
) -> Maps:
    """Maps over the lattice with the goals' discs, on a logarithmic colour scale."""
    world = paper_grid()
    goals = [((1 - y) * SIDE - 0.5, x * SIDE - 0.5) for x, y in (goal.at for goal in world.goals)]
    radius = world.radius * SIDE
    note = f"{note} {b.caption.replace(', band: 95 % interval', '')}".strip()
    return Maps(key, title, b.item.label, SIDE, SIDE, [], goals, times, panels, True, unit, b.provenance, note, radius, columns)


def upright(per_point: np.ndarray) -> np.ndarray:
    """Points from the lower left, as a map with row 0 on top."""
    return per_point.reshape(SIDE, SIDE, -1)[::-1].reshape(POINTS, -1).squeeze()


@ITEMS.add(
    "value-error-continuous",
    "fig:val_error_cont_base, fig:val_error_cont_ours, fig:cont_value_error",
    "Continuous grid: absolute value error with PER",
    NETWORKS,
    [DeepCurve(m, "prioritised") for m in SHOWN],
    grid.SEEDS,
    rank=1,
)
def value_error(b: Build) -> list[Exhibit]:
    """Absolute value errors at 900,000 steps: the mean over GVFs, all of them, and how they compare cell by cell."""
    results = {m: b.source.finished(DeepCurve(m, "prioritised")) for m in SHOWN}
    times = [s.step for s in results["RoundRobin"].details.snapshots if s.step < grid.STEPS]  # the paper's 900,000, not the end

    def panel(m: str, which: str, name: str) -> Panel:
        r = results[m]
        away = (np.abs(s.values - r.details.truth)[:, ERRORS[which]] for s in r.details.snapshots[: len(times)])
        return Panel(name, [upright(each.mean(axis=(0, 1))) for each in away])

    first, *_ = ERRORS
    each = [panel(m, which, f"{m}: {which}") for m in SHOWN for which in ERRORS]
    unit = "absolute value error"
    return [
        maps(b, "value-error-continuous-mean", b.item.title, times, [panel(m, first, m) for m in SHOWN], f"{unit}, {first}"),
        maps(b, "value-error-continuous", f"{b.item.title}, each GVF", times, each, unit, columns=len(ERRORS)),
        cell_by_cell(b, results, len(times) - 1),
    ]


def cell_by_cell(b: Build, results: dict[str, Result], k: int) -> DataTable:
    """How the errors of the methods at snapshot k compare, inside and outside the goals' discs."""
    inside = np.asarray(paper_grid().inside(lattice_points()).any(axis=1))
    parts: dict[str, np.ndarray] = {
        "everywhere": np.ones(POINTS, dtype=bool),
        "in the goals' discs": inside,
        "outside the discs": ~inside,
    }
    errors = {m: np.abs(r.details.snapshots[k].values - r.details.truth) for m, r in results.items()}
    note = f"At step {results[OURS].details.snapshots[k].step:,}. In a disc: cells that have their centre inside it."
    return measures.by_part(b, "value-error-cells", "Continuous grid: value errors cell by cell", errors, parts, note)


_VARIANCE = "variance-continuous", "fig:cont_env_variance", "Continuous grid: variance estimated by GVFExplorer"


@ITEMS.add(*_VARIANCE, NETWORKS, [DeepCurve(OURS)], grid.SEEDS, rank=2)
def variance(b: Build) -> list[Exhibit]:
    """GVFExplorer's M(s) = sum_a pi(a|s) M(s, a): the mean over GVFs, and of each."""
    r = b.source.finished(DeepCurve(OURS))
    kept = [s.variances.mean(axis=0) for s in r.details.snapshots if s.variances is not None]
    panels = [Panel(which, [upright(v[gvfs].mean(axis=0)) for v in kept]) for which, gvfs in ERRORS.items()]
    return [maps(b, b.item.name, b.item.title, [s.step for s in r.details.snapshots], panels, "estimated variance M")]


_BEHAVIOUR = "behaviour-continuous", "fig:traj_2d_world", "Continuous grid: where RoundRobin and GVFExplorer go"


@ITEMS.add(*_BEHAVIOUR, NETWORKS, [DeepCurve(m) for m in SHOWN], grid.SEEDS, rank=1)
def behaviour(b: Build) -> list[Exhibit]:
    """Where RoundRobin and GVFExplorer went, with the mean move of each cell; and two simulated episodes of each."""
    moves = np.array(MOVES) * (1, -1)  # (right, down) on the map
    results = {m: b.source.finished(DeepCurve(m)) for m in SHOWN}
    times = [s.step for s in results[OURS].details.snapshots]
    arrows = []
    for m, r in results.items():
        shares = [upright(100 * v / v.sum()) for v in (s.visits.sum(axis=2).mean(axis=0) for s in r.details.snapshots)]
        arrows.append(Panel(m, shares, [upright(s.behaviour.mean(axis=0) @ moves) for s in r.details.snapshots]))
    title = "Continuous grid: sampled trajectories"
    note = (
        "Episodes are not stored: these are simulated when the figure is made, two starts for both methods. RoundRobin follows "
        "its first target policy in one episode and the second in the next; GVFExplorer is the behaviour of the first two "
        "seeds, as stored at the 400 lattice points."
    )
    return [
        maps(b, "trajectories-continuous", title, times, _sampled(results[OURS]), "steps of the episode in the cell", note),
        maps(b, "behaviour-continuous", b.item.title, times, arrows, "visits, % of steps"),
    ]


def _sampled(ours: Result) -> list[Panel]:
    """Two episodes of RoundRobin and two of GVFExplorer, one per panel, over how often each cell was visited in it."""
    policies = [np.broadcast_to(q.policy.table(POINTS, 4), (POINTS, 4)) for q in grid.questions()]
    robin = [[pi] * len(ours.details.snapshots) for pi in policies]
    explorer = [[s.behaviour[k % len(s.behaviour)] for s in ours.details.snapshots] for k in range(len(policies))]
    both = {"RoundRobin": robin, OURS: explorer}
    return [_path(f"{name} τ{k + 1}", each[k], k) for name, each in both.items() for k in range(len(policies))]


def _path(title: str, behaviours: list[np.ndarray], seed: int) -> Panel:
    walks = [trajectory(mu, seed) for mu in behaviours]
    cells = [np.minimum(walk, SIDE - 1).astype(int) for walk in walks]
    return Panel(title, [np.bincount(c[:, 1] * SIDE + c[:, 0], minlength=POINTS) for c in cells], paths=[[w] for w in walks])


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


# --- what prioritised replay goes by, the recommended setting, learning rates, and one change at a time ------------------

PRIORITIES = {  # what prioritised replay can go by
    "GVFExplorer, by Q": DeepCurve("GVFExplorer", "prioritised"),
    "GVFExplorer, by M": DeepCurve("GVFExplorer", "prioritised", priority="m"),
    "SR, by Q": DeepCurve("SR", "prioritised"),
    "SR, by SR": DeepCurve("SR", "prioritised", priority="sr"),
}
_PER = "Sec. 7.2, Prioritized Experience Replay", "PER by the error of Q, of M, and of the successor features"


@ITEMS.add("priorities", *_PER, NETWORKS, [*PRIORITIES.values()], grid.PRIORITY_SEEDS, rank=2)
def _priorities(b: Build) -> list[Exhibit]:
    results = {name: b.source.result(c) for name, c in PRIORITIES.items()}
    return [
        final_table(b, "priorities", "method, priority", results),
        b.curves("priorities-curves", b.item.title, next(iter(results.values())).steps, b.lines(results)),
    ]


@ITEMS.add("recommended", "ours", "Continuous grid: the recommended setting", NETWORKS, grid.RECOMMENDED_CURVES, grid.SEEDS)
def _recommended(b: Build) -> list[Exhibit]:
    results = {c.method: b.source.result(c) for c in grid.RECOMMENDED_CURVES}
    first, rows = next(iter(results.values())), []
    for m, r in results.items():
        means = (str(statistics.mean(errors[:, -1])) for errors in (r.error, measures.outside_goals(r)))
        rows.append([m, *means, measures.steps_reached(r, 2.0)])
    columns = ["behaviour", "MSE, 400 cells", "MSE, 392 outside the goals", "steps to MSE 2"]
    note = "Replay of 1,000,000, 32 waves beside the inputs, Adam at 0.002 falling to 3 %. Printed: 5.19, with PER 3.87."
    curves = b.curves("recommended-curves", b.item.title, first.steps, b.lines(results), ALL_CELLS)
    return [b.table("recommended", b.item.title, columns, rows, note), curves]


_RATES = "tuning-continuous", "tab:hyperparameters", "Continuous grid: learning rates by one protocol"


@ITEMS.add(*_RATES, NETWORKS, grid.TUNING_CURVES, grid.TUNING_SEEDS, rank=2)
def _tuning(b: Build) -> list[Exhibit]:
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for m in METHODS:
        errors = [b.source.result(grid.tuning_curve(m, rate)).error[:, -1] for rate in grid.TUNING_RATES]
        best += lowest([errors], (len(rows), 1))
        rows.append([m, *(statistics.plus_minus(e, 2) for e in errors), f"{grid.RATES[m]:g}"])
    columns = ["method", *(f"{rate:g}" for rate in grid.TUNING_RATES), "published (Table 2)"]
    steps = f"MSE after {grid.TUNING_STEPS:,} steps by learning rate"
    note = f"{steps}, uniform replay, preset stabilised; Uniform's published rate is ours."
    return [b.table("tuning-continuous", b.item.title, columns, rows, note, best)]


_STABLE = "stabilising", "ours", "Continuous grid: what keeps GVFExplorer from collapsing"


@ITEMS.add(*_STABLE, NETWORKS, grid.TRIAL_CURVES, grid.TUNING_SEEDS, rank=2)
def _stabilising(b: Build) -> list[Exhibit]:
    """GVFExplorer with one change at a time, at the published and at a lower learning rate."""
    rows = []
    for trial in grid.TRIALS:
        cells = []
        for rate in grid.TRIAL_RATES:
            final = b.source.result(grid.trial_curve(trial, rate)).error[:, -1]
            cells += [statistics.plus_minus(final, 2), of_seeds(final, np.max)]
        rows.append([trial, *cells])
    columns = ["GVFExplorer", *(f"{what} at {rate:g}" for rate in grid.TRIAL_RATES for what in ("MSE", "largest seed"))]
    note = f"MSE after {grid.TRIAL_STEPS:,} steps by learning rate, uniform replay, mean over seeds ± standard error."
    return [b.table("stabilising", b.item.title, columns, rows, note)]
