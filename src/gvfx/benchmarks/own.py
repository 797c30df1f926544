"""Default settings on strangers' environments: how many steps they need for the error that RoundRobin has after 200,000.

RoundRobin learns by Expected Sarsa with the best of several learning rates, chosen for it on the same seeds and
environment at its last step; the defaults are not tuned.  Truth is exact.  Run it with `gvfx bench own`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
from rich.console import Console

import gvfx
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.running.result import standard_error
from gvfx.schedules import Fixed, Linear

STEPS, SHARE = 200_000, 1 / 5
EAGER = gvfx.OptimalDesign(prior=1.0, growth=1.3)  # trusts what it sees sooner; its intervals are too narrow
RATES = (0.03, 0.1, 0.3, 0.6, 1.0)


@dataclass(frozen=True)
class Case:
    """An environment that shows its table, and five questions about it."""

    name: str
    make: Callable[[], gym.Env]
    questions: tuple[gvfx.GVF, ...]


def toward(row: int, column: int, width: int, actions: tuple[int, int, int, int]) -> Callable[[int], np.ndarray]:
    """A policy that mostly walks to a cell; actions are those for down, up, right and left."""
    down, up, right, left = actions

    def policy(state: int) -> np.ndarray:
        r, c = divmod(int(state), width)
        wanted = np.full(4, 0.15)
        wanted[down if row > r else up] += row != r
        wanted[right if column > c else left] += column != c
        return wanted / wanted.sum()

    return policy


def driver(state: int) -> np.ndarray:
    """Taxi: goes for the passenger, then for the destination, as if there were no walls; often errs."""
    places = ((0, 0), (0, 4), (4, 0), (4, 3))
    (rest, target), wanted = divmod(int(state), 4), np.full(6, 0.1)
    (row, column), passenger = divmod(rest // 5, 5), rest % 5
    r, c = places[target if passenger == 4 else passenger]
    wanted[0 if r > row else 1] += r != row
    wanted[2 if c > column else 3] += c != column
    wanted[5 if passenger == 4 else 4] += 2 * ((row, column) == (r, c))
    return wanted / wanted.sum()


def cases() -> tuple[Case, ...]:
    uniform, reward = gvfx.uniform_policy(), gvfx.Reward()
    lake = (1, 3, 2, 0)  # down, up, right, left
    cliff = (2, 0, 1, 3)
    return (
        Case(
            "FrozenLake 8x8",
            lambda: gym.make("FrozenLake-v1", map_name="8x8"),
            (
                gvfx.GVF(toward(7, 7, 8, lake), reward, 0.99, name="goal, hurrying"),
                gvfx.GVF(toward(0, 7, 8, lake), reward, 0.99, name="goal, by the corner"),
                gvfx.GVF(uniform, reward, 0.99, name="goal, at random"),
                gvfx.GVF(toward(7, 7, 8, lake), lambda s, a, s2: s2 == s, 0.95, name="standing still, hurrying"),
                gvfx.GVF(uniform, lambda s, a, s2: s2 % 8 == 7, 0.9, name="right edge, at random"),
            ),
        ),
        Case(
            "Taxi",
            lambda: gym.make("Taxi-v4"),
            (
                gvfx.GVF(driver, reward, 0.95, name="reward of the driver"),
                gvfx.GVF(driver, lambda s, a, r, s2, i: r == 20, 0.95, name="deliveries of the driver"),
                gvfx.GVF(driver, lambda s, a, r, s2, i: r == -10, 0.9, name="mistakes of the driver"),
                gvfx.GVF(uniform, reward, 0.9, name="reward at random"),
                gvfx.GVF(uniform, lambda s, a, s2: s == s2, 0.95, name="standing still, at random"),
            ),
        ),
        Case(
            "CliffWalking",
            lambda: gym.make("CliffWalking-v1", max_episode_steps=200),
            (
                gvfx.GVF(toward(3, 11, 12, cliff), reward, 0.95, name="reward, hurrying"),
                gvfx.GVF(toward(0, 11, 12, cliff), reward, 0.95, name="reward, far from the cliff"),
                gvfx.GVF(uniform, reward, 0.9, name="reward, at random"),
                gvfx.GVF(uniform, lambda s, a, s2: s2 == 47, 0.95, name="goal, at random"),
                gvfx.GVF(toward(0, 0, 12, cliff), lambda s, a, r, s2, i: r == -100, 0.9, name="falls, walking home"),
            ),
        ),
    )


def tuned_round_robin(case: Case, seeds: int) -> tuple[str, gvfx.Result]:
    """The best of constant and falling rates, by the error at the end."""
    rates = {f"constant {r:g}": Fixed(r) for r in RATES} | {f"1 falling to {r:g}": Linear(1.0, r, STEPS // 2) for r in RATES}
    runs = {
        name: gvfx.evaluate(
            case.make(), case.questions, gvfx.RoundRobin(), gvfx.ExpectedSarsa(rate, initial_q=0.0), steps=STEPS, seeds=seeds
        )
        for name, rate in rates.items()
    }
    return min(runs.items(), key=lambda item: item[1].error[:, -1].mean())


def compare(case: Case, seeds: int) -> Row:
    """The defaults' error after a fifth of the steps, over the tuned rival's at the end."""
    name, rival = tuned_round_robin(case, seeds)
    steps = round(STEPS * SHARE)
    ours = gvfx.evaluate(case.make(), case.questions, steps=steps, seeds=seeds, evaluate_every=steps // 40)
    theirs, mine = rival.error[:, -1], ours.error
    below = np.flatnonzero(mine.mean(axis=0) <= theirs.mean())
    first = f"equal at {ours.steps[below[0]]:,} steps" if below.size else "not reached"
    spread = (f"{e.mean():.3g} ± {standard_error(e):.1g}" for e in (mine[:, -1], theirs))
    eager = gvfx.evaluate(case.make(), case.questions, EAGER, steps=steps, seeds=seeds, evaluate_every=steps).error[:, -1].mean()
    note = f"defaults {next(spread)} after {steps:,} steps, RoundRobin {next(spread)} after {STEPS:,} (rate {name}); {first}"
    note += f"; eager plans {eager:.3g}"
    return at_most(f"{case.name}, {seeds} seeds: MSE over RoundRobin's", mine[:, -1].mean() / theirs.mean(), 1.0, "x", note)


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, print them, and return them."""
    console.print(machine(), highlight=False)
    rows = []
    for case in cases():
        with console.status(f"running {case.name}"):
            rows.append(compare(case, 3 if quick else 20))
    console.print(as_table(rows))
    return rows
