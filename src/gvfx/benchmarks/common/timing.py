"""Timing side by side: contenders take turns in one run and the best time of each counts, so that noise meets all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.benchmarks.common.rows import Row
from gvfx.experiments.settings.tabular import Setting
from gvfx.kernel import Sizes
from gvfx.learners.base import Learner
from gvfx.questions.gvf import GVF, stack
from gvfx.rng import seed_streams
from gvfx.running.streams.compiled_loop import Monitor, cursor, dynamics, make_loop
from gvfx.worlds.mdp import MDP


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    seconds: float  # of one timed call of a compiled loop
    repetitions: int
    process_seconds: float  # of one run in the two-process row
    process_repetitions: int


FULL = Effort(seconds=0.06, repetitions=25, process_seconds=3.0, process_repetitions=4)
QUICK = Effort(seconds=0.03, repetitions=6, process_seconds=0.3, process_repetitions=5)


class Run:
    """A compiled run that has been warmed up and can go on; `learning`, `acting` and `at` are its states."""

    def __init__(self, world: MDP, questions: Sequence[GVF], behaviour: Behaviour, learner: Learner, seed: int = 0) -> None:
        asked = stack(questions, world)
        sizes = Sizes(len(asked.names), world.actions)
        self.world, self.asked = world, asked
        self.loop = make_loop(
            sizes,
            world.successors,
            behaviour.rule(sizes),
            learner.rule(sizes, behaviour.needs_variance),
            learner.needs_next_action,
            world.features is not None,
            bool(asked.drift_sd.any() or asked.carry.any()),
        )
        self.dynamics = dynamics(world, asked)
        self.acting, self.learning = behaviour.begin(asked, world), learner.begin(asked, world)
        self.at = cursor(world, asked, seed_streams(seed))
        nothing = np.zeros((sizes.gvfs, 1))
        self.watch = Monitor(nothing, nothing, np.zeros(1, dtype=np.int64), nothing.T.copy())
        self(0)  # compiles

    @classmethod
    def of(cls, setting: Setting, behaviour: str = "GVFExplorer", seed: int = 0) -> Run:
        """A setting of the paper as the paper runs it: Floor(Epsilon(behaviour)) with Expected Sarsa."""
        return cls(setting.world, setting.questions, setting.behaviour(behaviour), setting.learner(), seed)

    def __call__(self, steps: int) -> None:
        self.loop(self.dynamics, self.acting, self.learning, self.at, self.watch, steps)

    def steps_in(self, seconds: float) -> int:
        """About how many steps take so long; warms up: of two calls the first may be the first to touch the tables."""
        steps = 1_000
        while (taken := min(timed(self, steps), timed(self, steps))) < 0.2 * seconds:
            steps *= 2
        return max(1, round(steps * seconds / taken))


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    """Seconds that a call takes."""
    begun = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begun


def side_by_side(effort: Effort, *contenders: tuple[Callable[[int], Any], int]) -> list[float]:
    """Best seconds per step of each (call, steps): they take turns, so that noise meets all of them."""
    best = [math.inf] * len(contenders)
    for _ in range(effort.repetitions):
        for n, (call, steps) in enumerate(contenders):
            best[n] = min(best[n], timed(call, steps) / steps)
    return best


def rates(**seconds: float) -> str:
    """Steps per second, spelt out."""
    return ", ".join(f"{name} {_rate(1 / s)}" for name, s in seconds.items())


def _rate(steps: float) -> str:
    return f"{steps / 1e6:.3g} M/s" if steps >= 1e5 else f"{steps / 1e3:.3g} k/s"


Rows = list[Row]
Case = Callable[[Effort], Callable[[], Rows]]  # prepares, and returns what measures
