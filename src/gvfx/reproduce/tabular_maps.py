"""Maps over the grids of the tabular settings: value errors, visits, and the variance that GVFExplorer estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gvfx.experiments.settings.tabular import FORTY_GOALS, paper
from gvfx.report.page import Panel
from gvfx.reproduce import cells
from gvfx.reproduce.base import Build, Exhibit
from gvfx.reproduce.cells import SHOWN
from gvfx.reproduce.curves import Curve
from gvfx.reproduce.measures import OURS
from gvfx.running.result import Result
from gvfx.worlds.mdp import MDP

NEAR, FAR = 3, 10  # moves to the nearest goal, for parts of the map


def _cells(world: MDP, per_state: np.ndarray) -> np.ndarray:
    """The states that are cells of the grid, without the terminal state."""
    assert world.layout is not None
    return per_state[: world.layout.height * world.layout.width]


def value_error(b: Build) -> list[Exhibit]:
    """Absolute value errors in `distinct`, where the behaviours went, and how the errors compare cell by cell."""
    world = paper["distinct"].world
    results = {m: b.finished(Curve("distinct", m)) for m in SHOWN}
    times = [s.step for s in results["RoundRobin"].snapshots]
    last = len(times) - 1

    def absolute(r: Result, k: int) -> np.ndarray:
        return np.moveaxis(_cells(world, np.moveaxis(np.abs(r.snapshots[k].values - r.truth), 2, 0)), 0, 2)

    def visits(r: Result, k: int) -> np.ndarray:
        counts = r.snapshots[k].visits.sum(axis=2).mean(axis=0)
        return _cells(world, 100 * counts / counts.sum())

    def arrows(r: Result, k: int) -> np.ndarray:
        assert world.layout is not None
        moves = _cells(world, r.snapshots[k].behaviour.mean(axis=0)) @ np.array(world.layout.arrows, dtype=float)
        return moves[:, ::-1]

    frames = range(len(times))
    errors = {times[k]: {m: absolute(r, k) for m, r in results.items()} for k in frames}  # each [seed, gvf, cell]
    panels = [Panel(m, [errors[t][m].mean(axis=(0, 1)) for t in times]) for m in SHOWN]
    seen = [Panel(m, [visits(r, k) for k in frames], [arrows(r, k) for k in frames]) for m, r in results.items()]
    title = "Value errors cell by cell: distinct"
    note = f"At step {times[last]:,}. Where: moves to the nearest goal."
    return [
        b.maps("value-error", b.item.title, world, times, panels, "absolute value error, mean over GVFs"),
        b.maps("visits", "Where each behaviour went, and where it is heading", world, times, seen, "visits, % of steps"),
        cells.by_part(b, "value-error-parts", title, errors[times[last]], by_distance(world), note),
        cells.over_time(b, "value-error-times", f"{title}, over time", errors),
    ]


def by_distance(world: MDP) -> dict[str, np.ndarray]:
    """Parts of a grid without walls by their distance to the nearest goal, bool [cell]."""
    layout = world.layout
    assert layout is not None
    row, column = np.divmod(np.arange(layout.height * layout.width), layout.width)
    moves = np.min([abs(row - r) + abs(column - c) for r, c in layout.goals.values()], axis=0)
    return {
        "everywhere": moves >= 0,
        f"up to {NEAR} moves": moves <= NEAR,
        f"{NEAR + 1} to {FAR} moves": (moves > NEAR) & (moves <= FAR),
        f"more than {FAR} moves": moves > FAR,
    }


def variance(setting: str, each: bool) -> Callable[[Build], list[Exhibit]]:
    """GVFExplorer's estimated variance over time: a map of each GVF, or one of their mean with its first time beside it."""

    def make(b: Build) -> list[Exhibit]:
        world = paper[setting].world
        r = b.finished(Curve(setting, OURS))
        kept = [s.variances.mean(axis=0) for s in r.snapshots if s.variances is not None]  # each [gvf, state]
        if each:
            panels = [Panel(f"GVF {i + 1} ({name})", [_cells(world, m[i]) for m in kept]) for i, name in enumerate(r.names)]
        else:
            panels = [Panel("mean over GVFs", [_cells(world, m.mean(axis=0)) for m in kept])]
        drawn = b.maps(b.item.name, b.item.title, world, [s.step for s in r.snapshots], panels, "estimated variance M")
        return [replace(drawn, early=not each)]

    return make


def forty_goals(b: Build) -> list[Exhibit]:
    """The cumulant at each of the ten goals."""
    world = paper["forty"].world
    values = np.full(world.states - 1, np.nan)
    values[list(FORTY_GOALS)] = list(FORTY_GOALS.values())
    drawn = b.maps("forty-goals", b.item.title, world, [0], [Panel("cumulant", [values])], "cumulant", log=False)
    return [replace(drawn, numbers=True)]
