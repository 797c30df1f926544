"""The value at the start: OptimalDesign with where="start" (or one cell) against the design for all states.

For each case both run with the same seeds, and the error of what was asked for is compared: measured, by the exact importance of
pairs over the visits of the runs (which has no chance in it but that of the visits), and in the limit.  "No behaviour below" is
a certified bound of the limit, whatever a behaviour does (`gvfx.design.optimal`).  The design for all states spreads its first
visits wider than in its own limit, so after few steps it leaves less to gain: the last two columns have each design's error over
what is possible at the same number of steps.  A second table counts how often the 95 % intervals of `result.value()` hold the
value at the start of the two FrozenLakes.  Run it with `gvfx bench where`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np
import scipy.special
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.behaviours.base import Behaviour
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.questions.where import WhereLike
from gvfx.theory.design import constant, importance_of, optimal
from gvfx.theory.importance import per_visit

FIRST_SEED = 5000
FULL, QUICK = (200_000, 25), (50_000, 4)  # steps, seeds
BAR = 0.5
RUNS, QUICK_RUNS, TIMES = 200, 20, (5_000, 20_000, 100_000)  # of the coverage
NORMAL = float(scipy.special.ndtri(0.975))
LEAST_HELD, MOST_HELD = 0.93, 0.97
CELL = 210  # the middle of the paper's grids
SETTINGS = ("same", "distinct", "semi-greedy", "forty")


@dataclass(frozen=True)
class Case:
    name: str
    world: gvfx.MDP
    questions: list[gvfx.GVF]
    where: WhereLike


class Found(NamedTuple):
    """Errors over those of the design for all states, and of both over the certified bound."""

    mean: float  # of the squared errors
    median: float
    by_visits: float
    limit: float
    bound: float
    own: float  # by visits, over what is possible
    all_states: float


def cases() -> list[Case]:
    """The paper's settings at their start (any cell) and in one cell, and two worlds with one start state."""
    out = []
    for name in SETTINGS:
        setting = gvfx.paper[name]
        out += [Case(f"{name}, {at}", setting.world, list(setting.questions), where) for at, where in _asked()]
    policies = {"random": [0.25] * 4, "eager": [0.1, 0.4, 0.4, 0.1]}
    questions = [gvfx.GVF(pi, gvfx.Reward(), 0.99, name=name) for name, pi in policies.items()]
    for size in ("4x4", "8x8"):
        world = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1", map_name=size))
        out.append(Case(f"FrozenLake {size}, start", world, questions, "start"))
    return out


def _asked() -> list[tuple[str, WhereLike]]:
    return [("start", "start"), (f"cell {CELL}", [CELL])]


def ratios(case: Case, steps: int, seeds: int) -> Found:
    """Both designs with the same seeds."""
    world, questions, where = case.world, case.questions, case.where
    best = optimal(world, questions, where=where)
    rival = constant(world, questions, optimal(world, questions).behaviour, where=where)
    need = importance_of(world, questions, where=where)
    d = gvfx.design.evaluation(world, where)
    measured, visited = [], []
    for at in (where, None):
        listed = range(FIRST_SEED, FIRST_SEED + seeds)
        r = gvfx.evaluate(world, questions, steps=steps, seeds=listed, evaluate_every=steps, where=at, progress=False)
        away = (r.values - r.truth) @ d  # both kinds of error are the same in one state
        measured.append(away**2 @ (r.weights / r.weights.sum()))
        visited.append([per_visit(need, np.maximum(n, 1)).sum() for n in r.visits])
    own, all_states = measured
    by_visits = float(np.median(np.divide(*map(np.asarray, visited))))
    middle = float(np.median(own) / np.median(all_states))
    over = (float(np.median(x)) * steps / best.bound for x in visited)
    return Found(float(own.mean() / all_states.mean()), middle, by_visits, best.constant / rival, best.bound / rival, *over)


def coverage(case: Case, behaviour: Behaviour, where: WhereLike, steps: int, runs: int) -> tuple[float, float]:
    """Intervals of start values over runs and questions: the share of the finite that hold the truth, and of the finite."""
    listed, learner = range(FIRST_SEED, FIRST_SEED + runs), gvfx.CertaintyEquivalence()
    r = gvfx.evaluate(
        case.world,
        case.questions,
        behaviour,
        learner,
        steps=steps,
        seeds=listed,
        evaluate_every=steps,
        where=where,
        progress=False,
    )
    assert r.starts is not None
    value, error, truth, below, above = np.moveaxis(r.starts, 2, 0)
    finite = np.isfinite(error)
    inside = ((truth >= value - NORMAL * below) & (truth <= value + NORMAL * above))[finite]
    return float(inside.mean()) if inside.size else float("nan"), float(finite.mean())


def covered(runs: int) -> tuple[Table, list[float]]:
    """How often intervals at the start hold, with and without visits that adapt; and the shares that are printed."""
    ways: dict[str, tuple[Behaviour, WhereLike]] = {
        "Uniform": (gvfx.Uniform(), None),
        "OptimalDesign, all states": (gvfx.OptimalDesign(), None),
        "OptimalDesign, start": (gvfx.OptimalDesign(), "start"),
    }
    title = f"95 % intervals of the value at the start that hold it, among the finite (share of finite ones): {runs} runs"
    table = Table("world", "steps", *ways, title=title, title_justify="left")
    held = []
    for case in cases()[-2:]:
        for steps in TIMES:
            shares = [coverage(case, *way, steps, runs) for way in ways.values()]
            held += [inside for inside, finite in shares if finite]
            table.add_row(
                case.name,
                f"{steps:,}",
                *(f"{100 * inside:.0f}% ({100 * finite:.0f}%)" if finite else "- (0%)" for inside, finite in shares),
            )
    return table, held


def run(console: Console, quick: bool = False) -> list[Row]:
    """Compare both designs in every case; prints the tables."""
    steps, seeds = QUICK if quick else FULL
    title = f"error of what was asked for, over that of the design for all states: {steps:,} steps, {seeds} seeds"
    columns = ("mean of squares", "median of squares", "by visits", "limit", "no behaviour below", "over the bound", "all states")
    table = Table("case", *columns, title=title, title_justify="left")
    found = {}
    with console.status("running") as status:
        for case in cases():
            status.update(case.name)
            found[case.name] = ratios(case, steps, seeds)
            table.add_row(case.name, *(f"{x:.3g}" for x in found[case.name]))
    console.print(table)
    held, shares = covered(QUICK_RUNS if quick else RUNS)
    console.print(held)
    rows = []
    for word in ("start", f"cell {CELL}"):
        own = [x for name, x in found.items() if name.endswith(word)]
        middle, possible = float(np.median([x.by_visits for x in own])), float(np.median([1 / x.all_states for x in own]))
        note = f"by visits; no behaviour has less than {possible:.3g}x in the median"
        rows.append(at_most(f"{word}, median of {len(own)} cases: error over that of all states", middle, BAR, "x", note))
    worst = max(x.own for x in found.values())
    rows.append(at_most("largest error over what is possible", worst, 1.5, "x", "by visits, over the certified bound"))
    least, most = (f"{100 * x:.0f}%" for x in (min(shares), max(shares)))
    kept = min(shares) >= LEAST_HELD and max(shares) <= MOST_HELD
    rows.append(
        Row("coverage at the start, lowest and highest", f"{least}, {most}", "93% to 97%", kept, "FrozenLake, table above")
    )
    console.print(as_table(rows))
    console.print(machine())
    return rows
