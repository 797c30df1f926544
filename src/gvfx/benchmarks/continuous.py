"""Continuous observations: the default method against networks, in worlds from 2 to 12 numbers, with the intervals' coverage.

Truth is by Monte Carlo at states of random walks.  Errors are squared errors over the variance of the true values, averaged over
questions.  The continuous grid of the paper is stepped through Gymnasium; `gvfx reproduce limit-continuous` has it compiled.
Run it with `gvfx bench continuous`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.box_examples import FRESH, TUNED
from gvfx.benchmarks.common.box_worlds import BoxTruth, BoxWorld, truth, truth_at
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.experiments.settings.grid import questions as grid_questions
from gvfx.running.method import choose_method
from gvfx.running.result import standard_error
from gvfx.truths.lattice import lattice_points, shipped_truth
from gvfx.worlds.continuous_grid import ContinuousGridEnv, paper_grid

FIRST_SEED = 500  # of runs that nothing was chosen on
FULL, QUICK = (10, 5, 10_000, 2000), (1, 1, 2000, 100)  # seeds, those of networks, steps, episodes per point of the truth
ERROR_BARS = {"CartPole": 0.08, "CartPole with 8 noise inputs": 0.12}
COVERAGE_BAR = 0.9
STOPS, TARGET, EPISODES = 50, 0.2, 300  # of CartPole: the target is relative; episodes per point of the truth


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure, print and return."""
    console.print(machine(), highlight=False)
    seeds, fewer, steps, episodes = QUICK if quick else FULL
    worlds = (TUNED[0], FRESH[1]) if quick else (*TUNED, *FRESH)
    table = Table("world", "numbers", "linear features", "networks", "ratio", "intervals that hold", "not resolved", "µs a step")
    rows, ratios = [], {}
    for world in worlds:
        known = truth(world, episodes=episodes)
        with console.status(world.name):
            found = [linear(world, known, seed, steps) for seed in range(FIRST_SEED, FIRST_SEED + seeds)]
            other = [networks(world, known, seed, steps) for seed in range(FIRST_SEED, FIRST_SEED + fewer)]
        errors, held, cost = (np.array([one[k] for one in found]) for k in range(3))
        lost = sum(one[3] for one in found)
        ratios[world.name] = errors.mean() / np.mean(other)
        table.add_row(
            world.name,
            str(world.numbers),
            f"{errors.mean():.3g} ± {standard_error(errors):.1g}",
            f"{np.mean(other):.3g} ± {standard_error(np.array(other)):.1g}",
            f"{ratios[world.name]:.2g}",
            f"{held.mean():.0%}",
            str(lost),
            f"{np.median(cost):.0f}",
        )
        if world.name in ERROR_BARS:
            rows.append(
                at_most(f"{world.name}: error", errors.mean(), ERROR_BARS[world.name], "", f"{seeds} seeds, {steps:,} steps")
            )
        note = f"{lost} answers were called not resolved"
        rows.append(
            Row(f"{world.name}: intervals that hold", f"{held.mean():.0%}", ">= 90%", bool(held.mean() >= COVERAGE_BAR), note)
        )
    console.print(table)
    fresh = [ratios[w.name] for w in worlds if w in FRESH]
    rows.append(at_most("worlds not tuned on, worst ratio to networks", max(fresh), 1.0, "x", ""))
    rows.append(at_most("worlds not tuned on, median ratio to networks", float(np.median(fresh)), 0.5, "x", ""))
    rows.append(grid(console, seeds, 5 * steps))
    rows.append(stops(console, 2 if quick else STOPS))
    console.print(as_table(rows))
    return rows


def linear(world: BoxWorld, known: BoxTruth, seed: int, steps: int) -> tuple[float, float, float, int]:
    """Error, share of 95 % intervals that hold, microseconds a step, and how many questions were not resolved."""
    begun = time.perf_counter()
    result = gvfx.evaluate(world.make(), world.questions(), steps=steps, evaluate_every=steps, seed=seed)
    cost = (time.perf_counter() - begun) / steps * 1e6
    values, between = _at(result, known.points)
    held = (between[..., 0] <= known.values) & (known.values <= between[..., 1])
    return known.error(values), float(held.mean()), cost, len(result.experiment.get("not_resolved", {}))  # type: ignore[arg-type]


def networks(world: BoxWorld, known: BoxTruth, seed: int, steps: int) -> float:
    """The error of the default method for networks."""
    asked = world.questions()
    behaviour, learner = choose_method("networks", asked, None, None, steps)
    result = gvfx.evaluate(world.make(), asked, behaviour, learner, steps=steps, evaluate_every=steps, seed=seed)
    return known.error(_at(result, known.points)[0])


def _at(result: Any, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Answers [gvf, point] and intervals [gvf, point, 2] at observations."""
    answers = result.predict(points)
    return answers, result.intervals(points) if result.has_intervals else np.zeros((*answers.shape, 2))


def grid(console: Console, seeds: int, steps: int) -> Row:
    """The paper's continuous grid through Gymnasium with plain defaults."""
    world = paper_grid()
    asked = [gvfx.GVF(q.policy, _paid(k), q.discount, name=q.name) for k, q in enumerate(grid_questions())]
    known = shipped_truth(world, np.stack([q.policy.table(1, 4, "policy")[0] for q in grid_questions()]), 0.99)
    assert known is not None
    errors = []
    with console.status("continuous grid through Gymnasium"):
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            result = gvfx.evaluate(ContinuousGridEnv(), asked, steps=steps, evaluate_every=steps, seed=seed)
            answers = _at(result, lattice_points().astype(np.float32))[0]
            errors.append(known.mse(answers, outside_only=True).mean())
    note = f"{seeds} seeds, {steps:,} steps; mean ± standard error {np.mean(errors):.3g} ± {standard_error(np.array(errors)):.1g}"
    return at_most("continuous grid through Gymnasium, MSE outside the goals", float(np.mean(errors)), 0.02, "", note)


def _paid(k: int) -> Any:
    return lambda o, a, r, o2, info: float(info["cumulants"][k])


def stops(console: Console, count: int) -> Row:
    """How often the error of CartPole is below the target when the rule stops the run."""
    world, below, done = TUNED[0], [], []
    with console.status("stops in CartPole"):
        for seed in range(FIRST_SEED, FIRST_SEED + count):
            rule = gvfx.error_below(TARGET, relative=True)
            result = gvfx.evaluate(world.make(), world.questions(), steps=10_000, evaluate_every=10_000, seed=seed, until=rule)
            assert result.stopped is not None and result.bounds is not None
            done.append(int(result.stopped[0]))
            if result.bounds[0] < TARGET:  # CartPole's observations are its states
                known = truth_at(world, np.asarray(result.predictor.points, float), EPISODES, np.random.default_rng(seed))
                relative = ((result.values[0] - known.values) ** 2).mean(axis=1) / (known.values**2).mean(axis=1)
                below.append(relative.mean() <= TARGET)
    kept = float(np.mean(below)) if below else float("nan")
    note = f"{len(below)} of {count} runs stopped, after {np.median(done) if done else 0:,.0f} steps in the median"
    return Row("CartPole: stopped with the error truly below", f"{kept:.0%}", ">= 95%", not below or kept >= 0.95, note)
