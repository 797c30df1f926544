"""Default settings for Box actions against those of before: two policies times two signals in three environments.

Before: one-step targets, answers from the last networks, four updates of Q every 16 transitions (`before`).  Truth is Monte Carlo
at observations of the target policies' own trajectories, which the runs never see.  Errors are squared errors over the variance
of the true values, averaged over questions.  Run it with `gvfx bench box_actions`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.running.method import box_action_learner
from gvfx.running.result import standard_error

SEEDS, STEPS, POINTS = (20, 21, 22, 23, 24), 10_000, 12  # points per policy
QUICK = (100,), 2_000, 2, 10  # seeds, steps, points per policy, episodes of the truth
DISCOUNT, HORIZON = 0.95, 200  # of the questions; of the truth's episodes
APART = 5  # steps between two points, at least
MEDIAN, WORST = 0.7, 1.0  # bars of the errors over those of before


class AnyForce(gym.ActionWrapper[Any, Any, Any]):
    """CartPole pushed with any force between -10 and 10, instead of one of the two."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(-10, 10, (1,), np.float32)

    def action(self, action: Any) -> int:
        env: Any = self.unwrapped
        env.force_mag = abs(float(action[0]))
        return int(action[0] > 0)


@dataclass(frozen=True, eq=False)
class Case:
    """An environment, its policies by name and signals by name; put(env, observation) puts it into an observation."""

    name: str
    make: Callable[[], Any]
    policies: dict[str, Callable[[np.ndarray], Any]]  # middle actions of a batch of observations
    sigma: float
    signals: dict[str, Any]
    put: Callable[[Any, np.ndarray], None]
    episodes: int  # of the truth, per point and policy

    def questions(self) -> list[gvfx.GVF]:
        made = {who: gvfx.gaussian_policy(middle, self.sigma, batched=True) for who, middle in self.policies.items()}
        return [
            gvfx.GVF(policy, signal, DISCOUNT, name=f"{who}: {what}")
            for who, policy in made.items()
            for what, signal in self.signals.items()
        ]


def before(steps: int) -> gvfx.TwinCritics:
    """The learner's options before it had multi-step targets."""
    own = box_action_learner([], steps)
    return gvfx.TwinCritics(
        updates=4, tau=0.05, trace=0.0, scaled=False, averaged=False, capacity=own.capacity, learning_starts=own.learning_starts
    )


def cases() -> list[Case]:
    def put_pendulum(env: Any, o: np.ndarray) -> None:
        env.unwrapped.state = np.array([np.arctan2(o[1], o[0]), o[2]])

    def put_state(env: Any, o: np.ndarray) -> None:
        env.unwrapped.state = np.array(o)

    reward = gvfx.Reward()
    return [
        Case(
            "Pendulum",
            lambda: gym.make("Pendulum-v1"),
            {"loose": lambda o: -2 * o[:, 1:2] - 0.6 * o[:, 2:], "damped": lambda o: -6 * o[:, 1:2] - 1.8 * o[:, 2:]},
            0.5,
            {"reward": reward, "height": lambda o, a, o2: float(o2[0])},
            put_pendulum,
            100,
        ),
        Case(
            "MountainCarContinuous",
            lambda: gym.make("MountainCarContinuous-v0"),
            {"swinging": lambda o: np.tanh(100 * o[:, 1:]), "to the right": lambda o: np.full((len(o), 1), 0.5)},
            0.5,
            {"reward": reward, "place": lambda o, a, o2: float(o2[0])},
            put_state,
            100,
        ),
        Case(
            "CartPole, any force",
            lambda: AnyForce(gym.make("CartPole-v1")),
            {"balancing": lambda o: 10 * o[:, 2:3] + 2 * o[:, 3:], "careless": lambda o: np.zeros((len(o), 1))},
            5.0,
            {"reward": reward, "distance": lambda o, a, o2: abs(float(o2[0]))},
            put_state,
            1000,
        ),
    ]


def seen_by_targets(case: Case, points: int, seed: int = 0) -> np.ndarray:
    """Observations of the target policies' trajectories, [policy * points, o]."""
    env, rng = case.make(), np.random.default_rng(seed)
    box: Any = env.action_space
    out = []
    for middle in case.policies.values():
        met: list[np.ndarray] = []
        while len(met) < 20 * points:
            observation, _ = env.reset(seed=int(rng.integers(2**31)))
            done, since = False, int(rng.integers(APART))
            while not done:
                since += 1
                if since >= APART:
                    met.append(np.array(observation, float))
                    since = 0
                drawn = np.asarray(middle(observation[None])[0]) + case.sigma * rng.standard_normal(box.shape)
                observation, _, over, cut, _ = env.step(np.clip(drawn, box.low, box.high).astype(box.dtype))
                done = over or cut
        out += [met[k] for k in rng.choice(len(met), points, replace=False)]
    env.close()
    return np.array(out)


def truth(case: Case, points: int, episodes: int) -> gvfx.MonteCarlo:
    """True values at the target policies' observations."""

    def put(env: Any, point: object) -> np.ndarray:
        observation = np.asarray(point)
        case.put(env, observation)
        return observation.astype(env.observation_space.dtype)

    where = list(seen_by_targets(case, points))
    env = case.make()
    return gvfx.truth_of(env, case.questions(), where, reset_to=put, max_episodes=episodes, horizon=HORIZON)


def errors(case: Case, known: Any, learner: gvfx.TwinCritics, seeds: Sequence[int], steps: int) -> np.ndarray:
    """Squared errors over the variance of the true values [seed, gvf], with the default behaviour."""
    where = np.stack([np.asarray(p) for p in known.points]).astype(np.float32)
    result = gvfx.evaluate(
        case.make(), case.questions(), learner=learner, steps=steps, seeds=list(seeds), evaluate_every=steps, progress=False
    )
    said = result.predictor.at(where, result.values, np.empty(0))[0]  # [seed, gvf, point]
    return ((said - known.values) ** 2).mean(axis=2) / known.values.var(axis=1)


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case with both learners, print them, and return the rows."""
    console.print(machine(), highlight=False)
    seeds, steps, points, episodes = QUICK if quick else (SEEDS, STEPS, POINTS, 0)
    table = Table("environment", "before", "now", "now over before", "truth", "CPU seconds per run: before", "now")
    table.title = f"squared errors over the variance of the true values, {steps:,} steps, {len(seeds)} seeds"
    ratios = {}
    for case in cases():
        with console.status(f"{case.name}: truth by Monte Carlo"):
            known = truth(case, points, episodes or case.episodes)
        found, seconds = {}, {}
        for name, learner in {"before": before(steps), "now": box_action_learner(case.questions(), steps)}.items():
            with console.status(f"{case.name}: {name}"):
                begun = time.process_time()
                found[name] = errors(case, known, learner, seeds, steps).mean(axis=1)
                seconds[name] = (time.process_time() - begun) / len(seeds)
        ratios[case.name] = float(found["now"].mean() / found["before"].mean())
        noise = (known.standard_errors**2).mean(axis=1) / known.values.var(axis=1)
        shown = [f"{e.mean():.2g} ± {standard_error(e):.1g}" if len(seeds) > 1 else f"{e.mean():.2g}" for e in found.values()]
        times = [f"{s:.1f}" for s in seconds.values()]
        table.add_row(case.name, *shown, f"{ratios[case.name]:.2f}", f"± {noise.mean():.1g}", *times)
    console.print(table)
    worst = max(ratios, key=lambda name: ratios[name])
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    rows = [
        at_most(
            "error over that of before, median of the environments", float(np.median(list(ratios.values()))), MEDIAN, "x", each
        ),
        at_most("the same, worst environment", ratios[worst], WORST, "x", worst),
    ]
    console.print(as_table(rows))
    return rows
