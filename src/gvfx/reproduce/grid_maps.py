"""Maps over the 20x20 lattice of the continuous grid: errors, variances, visits and trajectories.

Everything comes from stored results except the paths of `trajectory`: runs store the behaviour's probabilities at the
lattice points, not what it did, so episodes are simulated from these when the figure is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gvfx.experiments.settings.grid import STEPS, DeepCurve, questions
from gvfx.report.page import DataTable, Maps, Panel
from gvfx.reproduce.base import Build, Exhibit
from gvfx.reproduce.cells import ERRORS, SHOWN, by_part
from gvfx.reproduce.measures import OURS
from gvfx.running.result import Result
from gvfx.truths.lattice import SIDE, lattice_points
from gvfx.worlds.continuous_grid import MOVES, ContinuousGridEnv, paper_grid

POINTS = SIDE * SIDE


def maps(
    b: Build, key: str, title: str, times: Sequence[int], panels: list[Panel], unit: str, note: str = "", columns: int = 0
) -> Maps:
    """Maps over the lattice with the goals' discs, on a logarithmic colour scale."""
    world = paper_grid()
    goals = [((1 - y) * SIDE - 0.5, x * SIDE - 0.5) for x, y in (goal.at for goal in world.goals)]
    radius = world.radius * SIDE
    return Maps(key, title, b.item.label, SIDE, SIDE, [], goals, times, panels, True, unit, b.provenance, note, radius, columns)


def upright(per_point: np.ndarray) -> np.ndarray:
    """Points from the lower left, as a map with row 0 on top."""
    return per_point.reshape(SIDE, SIDE, -1)[::-1].reshape(POINTS, -1).squeeze()


def value_error(b: Build) -> list[Exhibit]:
    """Absolute value errors at 900,000 steps: the mean over GVFs, all of them, and how they compare cell by cell."""
    results = {m: b.finished(DeepCurve(m, "prioritised")) for m in SHOWN}
    times = [s.step for s in results["RoundRobin"].snapshots if s.step < STEPS]  # the paper's 900,000, not the end

    def panel(m: str, which: str, name: str) -> Panel:
        r = results[m]
        frames = [np.abs(s.values - r.truth)[:, ERRORS[which]].mean(axis=(0, 1)) for s in r.snapshots[: len(times)]]
        return Panel(name, [upright(frame) for frame in frames])

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
    errors = {m: np.abs(r.snapshots[k].values - r.truth) for m, r in results.items()}
    note = f"At step {results[OURS].snapshots[k].step:,}. In a disc: cells that have their centre inside it."
    return by_part(b, "value-error-cells", "Continuous grid: value errors cell by cell", errors, parts, note)


def variance(b: Build) -> list[Exhibit]:
    """GVFExplorer's M(s) = sum_a pi(a|s) M(s, a): the mean over GVFs, and of each."""
    r = b.finished(DeepCurve(OURS))
    kept = [s.variances.mean(axis=0) for s in r.snapshots if s.variances is not None]
    panels = [Panel(which, [upright(v[gvfs].mean(axis=0)) for v in kept]) for which, gvfs in ERRORS.items()]
    return [maps(b, b.item.name, b.item.title, [s.step for s in r.snapshots], panels, "estimated variance M")]


def behaviour(b: Build) -> list[Exhibit]:
    """Where RoundRobin and GVFExplorer went, with the mean move of each cell; and two simulated episodes of each."""
    moves = np.array(MOVES) * (1, -1)  # (right, down) on the map
    results = {m: b.finished(DeepCurve(m)) for m in SHOWN}
    times = [s.step for s in results[OURS].snapshots]
    arrows = []
    for m, r in results.items():
        shares = [upright(100 * v / v.sum()) for v in (s.visits.sum(axis=2).mean(axis=0) for s in r.snapshots)]
        arrows.append(Panel(m, shares, [upright(s.behaviour.mean(axis=0) @ moves) for s in r.snapshots]))
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
    panels = []
    policies = [np.broadcast_to(q.policy.table(POINTS, 4), (POINTS, 4)) for q in questions()]
    for k, pi in enumerate(policies):
        panels.append(_path(f"RoundRobin τ{k + 1}", [pi] * len(ours.snapshots), k))
    for k in range(len(policies)):
        panels.append(_path(f"{OURS} τ{k + 1}", [s.behaviour[k % len(s.behaviour)] for s in ours.snapshots], k))
    return panels


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
