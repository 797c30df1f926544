"""OptimalDesign on worlds that it was not made for: random MDPs, errors over the optimum of the error theory.

A number is a world's mean MSE times steps over the constant of its best stationary behaviour (1 is the limit), with
certainty equivalence as the learner for every behaviour.  Run it with `gvfx bench random_mdps`.

The constant describes many visits.  The best behaviour itself, followed from the first step with 2 % random actions, shows how
far from it a run of this length is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.behaviours.base import Behaviour
from gvfx.benchmarks.common.rows import Row, as_table, at_most
from gvfx.theory.design import optimal

BEHAVIOURS: dict[str, Callable[[], Behaviour]] = {
    "OptimalDesign": gvfx.OptimalDesign,
    "GVFExplorer": lambda: gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())),
    "Uniform": gvfx.Uniform,
    "Mixture": gvfx.Mixture,
}
FAMILIES = ((2, 1, 3), (3, 2, 4), (4, 5, 2))  # actions, GVFs, successors of a pair
FULL = (21, (100_000, 500_000), 25)  # worlds, times of measurement, seeds
QUICK = (3, (100_000,), 8)
BARS = {100_000: (1.7, 3.5), 500_000: (1.5, 2.0)}  # mean over worlds, each world
OPTIMUM = "the optimum itself"
RANDOM = 0.02  # share of random actions with which it is followed


def random_world(number: int) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    """A random world and its questions: 10 to 60 states, some far from the start, a few of which pay or end the episode."""
    rng = np.random.default_rng(number)
    actions, gvfs, successors = FAMILIES[number % len(FAMILIES)]
    states = int(rng.integers(10, 61))
    following = np.empty((states, actions, successors), dtype=np.int64)
    for s in range(states):  # one step forward or a jump back: distant states take a while to reach
        nearby = np.append(rng.integers(0, s + 1, size=successors + 1), min(s + 1, states - 1))
        for a in range(actions):
            following[s, a] = rng.choice(nearby[:-1], size=successors)
        following[s, rng.integers(actions), 0] = nearby[-1]
    prob = rng.dirichlet(np.ones(successors), size=(states, actions))
    prob = 0.9 * prob + 0.1 / successors
    terminal = np.arange(states) == states - 1
    start = np.where(terminal, 0.0, rng.dirichlet(np.ones(states)) + 0.2 / states)
    horizon = int(rng.integers(20, 200))
    world = gvfx.MDP(following, prob, start / start.sum(), terminal, horizon)
    questions = []
    for i in range(gvfs):
        paying = rng.random((states, 1)) < 0.2
        paying[rng.integers(states - 1)] = True
        mean = np.where(paying, rng.normal(0, 10, (states, actions)), 0.0)
        policy = 0.9 * rng.dirichlet(np.full(actions, 0.7), size=states) + 0.1 / actions
        cumulant = gvfx.table_cumulant(mean, np.where(paying, rng.uniform(0, 3), 0.0) * np.ones(actions))
        questions.append(gvfx.GVF(policy, cumulant, float(rng.uniform(0.8, 0.98)), name=f"question {i + 1}"))
    return world, questions


def ratios(worlds: int, times: Sequence[int], seeds: int) -> dict[str, np.ndarray]:
    """MSE times steps over the optimum, per behaviour [world, time]; the first time divides the others."""
    out: dict[str, list[np.ndarray]] = {name: [] for name in (*BEHAVIOURS, OPTIMUM)}
    learner = gvfx.CertaintyEquivalence()
    for number in range(worlds):
        world, questions = random_world(number)
        best = optimal(world, questions)
        followed = gvfx.Follow((1 - RANDOM) * best.behaviour + RANDOM / world.actions)
        for name, behaviour in {**{name: make() for name, make in BEHAVIOURS.items()}, OPTIMUM: followed}.items():
            r = gvfx.evaluate(world, questions, behaviour, learner, steps=times[-1], seeds=seeds, evaluate_every=times[0])
            over = r.error.mean(axis=0) * r.steps / best.constant
            out[name].append(over[np.searchsorted(r.steps, times)])
    return {name: np.array(values) for name, values in out.items()}


def run(console: Console, quick: bool = False) -> list[Row]:
    """Every behaviour on every world, and the bars for OptimalDesign."""
    worlds, times, seeds = QUICK if quick else FULL
    found = ratios(worlds, times, seeds)
    rows = []
    for k, time in enumerate(times):
        title = f"MSE times steps over the optimum after {time:,} steps, {worlds} worlds, {seeds} seeds"
        table = Table("behaviour", "mean", "median", "worst", title=title, title_justify="left")
        for name, r in found.items():
            table.add_row(name, *(f"{x:.3g}" for x in (r[:, k].mean(), np.median(r[:, k]), r[:, k].max())))
        console.print(table)
        if time not in BARS:
            continue
        ours, (mean, worst) = found["OptimalDesign"][:, k], BARS[time]
        rows += [
            at_most(f"OptimalDesign at {time:,}, mean", float(ours.mean()), mean, "x", "over the optimum"),
            at_most(f"OptimalDesign at {time:,}, worst world", float(ours.max()), worst, "x", "over the optimum"),
        ]
    console.print(as_table(rows))
    return rows
