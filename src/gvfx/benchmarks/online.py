"""The benchmark of the online loop: what the agent adds to a bare `env.step` loop, per step.

Both loops step the same environment with the same actions' distribution and take turns; the best time of each counts,
in processor time, so that other work on the machine does not matter.  Run it with `gvfx bench online`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console

import gvfx
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import uniform_policy
from gvfx.questions.signals import Reward
from gvfx.running.backends import open_backend
from gvfx.running.plan import Plan
from gvfx.running.streams.table_gym import TableGym
from gvfx.worlds.spec import discrete_spec

BAR, BAR_NETWORKS = 12.0, 150.0  # microseconds that the agent may add to a step
PLAN = Plan.checked(100_000, None, ())
CASES = ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1")


def questions(actions: int, count: int) -> list[GVF]:
    """The reward under different policies."""
    rows = np.random.default_rng(0).dirichlet(np.ones(actions), count)
    mine = [GVF(row, Reward(), 0.9 + 0.001 * k, name=f"q{k}") for k, row in enumerate(rows[:-1])]
    return [*mine, GVF(uniform_policy(), lambda s, a, s2: s == s2, lambda s, a, s2: 0.9, name="function")]


class Ours:
    """The online loop in the middle of a run."""

    def __init__(self, env: Any, count: int) -> None:
        spec = discrete_spec(env)
        run = TableGym(spec, questions(spec.skeleton.actions, count), OptimalDesign(), CertaintyEquivalence(), PLAN)
        self.stream = run.begin(0)
        self.stream.start()

    def __call__(self, steps: int) -> None:
        self.stream.advance(self.stream.t + steps)


class Networks:
    """The same on networks, in the middle of learning (an update of Q every 4 steps, of M every 16)."""

    def __init__(self, env: Any, count: int) -> None:
        run = open_backend(env, questions(int(env.action_space.n), count)[:-1], None, gvfx.Deep(), plan=PLAN)
        self.stream = run.begin(0)
        self.stream.start()
        self.stream.advance(run.learner.learning_starts)

    def __call__(self, steps: int) -> None:
        self.stream.advance(self.stream.t + steps)


class Bare:
    """The same environment with random actions, drawn beforehand."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.actions = np.random.default_rng(0).integers(env.action_space.n, size=100_000).tolist()
        env.reset(seed=0)

    def __call__(self, steps: int) -> None:
        env = self.env
        for action in self.actions[:steps]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()


def seconds_per_step(call: Callable[[int], None], steps: int) -> float:
    begun = time.process_time()
    call(steps)
    return (time.process_time() - begun) / steps


def overhead(name: str, count: int, steps: int, repetitions: int, kind: Callable[..., Any] = Ours, bar: float = BAR) -> Row:
    """What the agent adds to a step of an environment, in microseconds."""
    ours, bare = kind(gym.make(name), count), Bare(gym.make(name))
    ours(200)
    bare(200)
    pairs = [(seconds_per_step(ours, steps), seconds_per_step(bare, steps)) for _ in range(repetitions)]
    with_agent, alone = (min(times) * 1e6 for times in zip(*pairs))
    note = f"with the agent {with_agent:.1f} us, env.step alone {alone:.1f} us"
    return at_most(f"{name}, {count} GVFs: the agent's share of a step", with_agent - alone, bar, " us", note)


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, print them, and return them."""
    console.print(machine(), highlight=False)
    steps, repetitions = (2_000, 3) if quick else (10_000, 5)
    with console.status("measuring"):
        rows = [overhead(name, 5, steps, repetitions) for name in CASES]
        rows.append(overhead("FrozenLake-v1", 40, steps, repetitions))
        rows.append(overhead("CartPole-v1", 6, 1_024, 5 * repetitions, Networks, BAR_NETWORKS))  # 16 rounds of learning a turn
    console.print(as_table(rows))
    return rows
