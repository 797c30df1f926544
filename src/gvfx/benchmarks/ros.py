"""Robust On-Policy Sampling's published experiment: the mean return of one policy in a small grid, from very few steps.

A number is the mean over seeds of the squared error of the start value divided by its square (`common/small_grid.py` has the
world).  The published numbers are those of Zhong et al. (2022) with 200 seeds: on-policy data and ROS's data, each with Monte
Carlo and with a fitted Q network (FQE).  Ours are on the same world: Monte Carlo on the same two kinds of data, which shows that
the world is the published one; certainty equivalence on both, in the place of FQE; and gvfx's default method.  Nothing is random
in `RobustSampling` in this world: all of its runs are the same.
Run it with `gvfx bench ros`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.behaviours.base import Behaviour
from gvfx.benchmarks.common.rows import Row, as_table, at_most
from gvfx.benchmarks.common.small_grid import PUBLISHED, small_grid
from gvfx.running.result import standard_error

STEPS = tuple(PUBLISHED)  # 32, 128 and 512 times the mean length of an episode
FIRST_SEED = 5000
FULL, QUICK = (200, STEPS), (20, STEPS[:2])  # seeds, steps
THEIRS = {  # data and estimator: relative squared errors as published, at STEPS
    "on-policy, Monte Carlo": (0.072, 0.018, 0.0045),
    "ROS, Monte Carlo": (0.013, 9.3e-4, 1.9e-4),
    "on-policy, FQE": (0.0072, 4.2e-4, 4.8e-5),
    "ROS, FQE": tuple(PUBLISHED.values()),
}
EXACT = 1e-20  # relative squared errors below it are rounding


@dataclass(frozen=True)
class Method:
    """A line of ours: its name, the published line that it stands beside, and what gives its errors [seed]."""

    name: str
    beside: str
    errors: Callable[[int, Sequence[int]], np.ndarray]  # of steps and seeds


def monte_carlo(robust: bool, steps: int, seeds: Sequence[int]) -> np.ndarray:
    """Relative squared errors [seed] of the mean return of the episodes that end within the steps; of 0 if none does.

    robust: in each state the action whose share of the visits so far is furthest below its probability, as `RobustSampling`;
    otherwise actions are drawn from the policy.
    """
    world, question = small_grid()
    truth, policy = _truth(), question.policy.table(world.states, world.actions)
    reward = question.cumulant.tables(world).mean[:, :, 0]
    drawn = list(seeds)[:1] if robust else list(seeds)
    returns = np.array([_returns(world, policy, reward, robust, steps, np.random.default_rng(seed)) for seed in drawn])
    return np.broadcast_to((returns / truth - 1) ** 2, (len(seeds),))


def _returns(
    world: gvfx.MDP, policy: np.ndarray, reward: np.ndarray, robust: bool, steps: int, rng: np.random.Generator
) -> float:
    """The mean return of one stream of episodes."""
    tried, cumulative, start = np.zeros(policy.shape), policy.cumsum(axis=1), int(world.start.argmax())
    ended, sum_so_far, state, age = [], 0.0, start, 0
    assert world.horizon is not None
    for _ in range(steps):
        if robust:
            action = int((policy[state] * (tried[state].sum() + 1) - tried[state]).argmax())
        else:
            action = min(int((rng.random() >= cumulative[state]).sum()), world.actions - 1)
        tried[state, action] += 1
        sum_so_far, state, age = sum_so_far + reward[state, action], int(world.next[state, action, 0]), age + 1
        if world.terminal[state] or age == world.horizon:
            ended.append(sum_so_far)
            sum_so_far, state, age = 0.0, start, 0
    return float(np.mean(ended)) if ended else 0.0


def certainty_equivalence(behaviour: Behaviour | None, steps: int, seeds: Sequence[int]) -> np.ndarray:
    """Relative squared errors [seed] of certainty equivalence with a behaviour (None: gvfx's default method)."""
    world, question = small_grid()
    learner = None if behaviour is None else gvfx.CertaintyEquivalence()
    r = gvfx.evaluate(world, [question], behaviour, learner, steps=steps, evaluate_every=steps, seeds=seeds)
    return (r.values[:, 0, int(world.start.argmax())] / _truth() - 1) ** 2


def _truth() -> float:
    world, question = small_grid()
    return float(gvfx.exact.values(world, [question])[0] @ world.start)


METHODS = (
    Method("on-policy, Monte Carlo", "on-policy, Monte Carlo", lambda steps, seeds: monte_carlo(False, steps, seeds)),
    Method("RobustSampling, Monte Carlo", "ROS, Monte Carlo", lambda steps, seeds: monte_carlo(True, steps, seeds)),
    Method("on-policy, CE", "on-policy, FQE", lambda steps, seeds: certainty_equivalence(gvfx.Mixture(), steps, seeds)),
    Method("RobustSampling, CE", "ROS, FQE", lambda steps, seeds: certainty_equivalence(gvfx.RobustSampling(), steps, seeds)),
    Method("gvfx's default, CE", "ROS, FQE", lambda steps, seeds: certainty_equivalence(None, steps, seeds)),
)


def run(console: Console, quick: bool = False) -> list[Row]:
    """Every method at every number of steps; prints means beside the published ones, then how the runs differ."""
    count, times = QUICK if quick else FULL
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    with console.status("running"):
        found = {(m.name, steps): m.errors(steps, seeds) for m in METHODS for steps in times}
    heads = [f"{steps:,} steps" for steps in times]
    title = f"Relative squared error of the start value, mean of {count} seeds, and as published"
    means = Table("ours", *heads, "published", *(f"{h}, published" for h in heads), title=title, title_justify="left")
    title = "How our runs differ: median, and the share of runs that are exact"
    spread = Table("ours", *(f"{h}, {what}" for h in heads for what in ("median", "exact")), title=title, title_justify="left")
    for m in METHODS:
        own = [found[m.name, steps] for steps in times]
        means.add_row(m.name, *map(shown, own), m.beside, *(f"{theirs:.2g}" for theirs in THEIRS[m.beside][: len(times)]))
        spread.add_row(m.name, *(cell for e in own for cell in (tiny(float(np.median(e))), percent(e))))
    console.print(means)
    console.print(spread)
    rows = _rows(found, times)
    console.print(as_table(rows))
    return rows


def shown(errors: np.ndarray) -> str:
    """A mean over seeds with its standard error, which is left out if all runs are the same."""
    if np.ptp(errors) < EXACT:
        return tiny(float(errors.mean()))
    return f"{errors.mean():.2g} ± {standard_error(errors):.1g}"


def tiny(error: float) -> str:
    """A relative squared error, 0 if it is rounding."""
    return "0" if error < EXACT else f"{error:.2g}"


def percent(errors: np.ndarray) -> str:
    """The share of runs without an error but rounding."""
    return f"{(errors < EXACT).mean():.0%}"


def _rows(found: dict[tuple[str, int], np.ndarray], times: Sequence[int]) -> list[Row]:
    """gvfx's default against ROS with FQE, the best of the published methods."""
    rows = []
    for steps, bar in zip(times, THEIRS[METHODS[-1].beside]):
        errors = found[METHODS[-1].name, steps]
        note = f"median {tiny(float(np.median(errors)))}; the bar is the published mean of ROS with FQE"
        rows.append(at_most(f"{METHODS[-1].name} after {steps:,} steps", float(errors.mean()), bar, "", note))
    return rows
