"""The benchmark of control: worlds stepped in lockstep against dm_control's own loop, a policy in both.

The policy is a jitted tanh network of 128x128; dm_control's loop calls it one state at a time.  Contenders take turns in
one run, and the best time of each counts: processor time for "per core", which other work on the machine does not
lengthen, and wall time for two threads.  Run it with `gvfx bench mujoco`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from gvfx.benchmarks.common.rows import Row, as_table, at_least, machine
from gvfx.errors import InputError
from gvfx.worlds.mujoco import CHEETAH, WALKER, Domain, Lockstep, import_mujoco

BARS = {"walker": ("walk", 1.4, 2.5), "cheetah": ("run", 2.5, 3.5)}  # dm_control's task; 16 worlds; 512 worlds


def make_policy(domain: Domain) -> Callable[[Any], jax.Array]:
    """observations [..., o] -> actions [..., a]."""
    sizes = (domain.observation_size, 128, 128, domain.action_size)
    generator = np.random.default_rng(0)
    layers = [jnp.array(generator.normal(0, fan_in**-0.5, (fan_in, fan_out)), jnp.float32) for fan_in, fan_out in pairwise(sizes)]

    @jax.jit
    def policy(observations: jax.Array) -> jax.Array:
        for weights in layers:
            observations = jnp.tanh(observations.astype(jnp.float32) @ weights)
        return observations

    return policy


class Together:
    """Worlds in lockstep."""

    def __init__(self, domain: Domain, policy: Callable[[Any], jax.Array], worlds: int, threads: int) -> None:
        self.policy, self.worlds = policy, Lockstep(domain, worlds, threads)
        self.observations = self.worlds.reset(np.random.default_rng(0))

    def __call__(self, steps: int) -> int:
        observations = self.observations
        for _ in range(max(1, steps // self.worlds.worlds)):
            observations, _ = self.worlds.step(np.asarray(self.policy(observations)))
        self.observations = observations
        return max(1, steps // self.worlds.worlds) * self.worlds.worlds


class OneByOne:
    """dm_control's environment."""

    def __init__(self, domain: Domain, policy: Callable[[Any], jax.Array], task: str) -> None:
        try:
            from dm_control import suite
        except ImportError:
            raise InputError("dm_control: not installed, and it is what is compared with; run pip install dm_control.") from None
        self.policy = policy
        endless = {"time_limit": float("inf"), "random": 0}  # no resets, as in the other loop
        self.environment = suite.load(domain.name, task, endless, {"flat_observation": True})
        self.observation = self.environment.reset().observation["observations"]

    def __call__(self, steps: int) -> int:
        observation = self.observation
        for _ in range(steps):
            observation = self.environment.step(np.asarray(self.policy(observation))).observation["observations"]
        self.observation = observation
        return steps


def best_seconds(contenders: dict[str, Callable[[int], int]], steps: int, repetitions: int) -> dict[str, np.ndarray]:
    """The shortest (wall, processor) time per environment step of each, in turns."""
    best = {name: np.full(2, np.inf) for name in contenders}
    for repetition in range(-1, repetitions):
        for name, call in contenders.items():
            begun = time.perf_counter(), time.process_time()
            done = call(steps)
            if repetition >= 0:  # the first turn compiles
                ended = time.perf_counter(), time.process_time()
                best[name] = np.minimum(best[name], np.subtract(ended, begun) / done)
    return best


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, print them, and return them."""
    console.print(machine() + f", jax {jax.__version__}, mujoco {import_mujoco().__version__}", highlight=False)
    rows = []
    for domain in (WALKER, CHEETAH):
        task, few, many = BARS[domain.name]
        policy = make_policy(domain)
        contenders: dict[str, Callable[[int], int]] = {
            "dm_control": OneByOne(domain, policy, task),
            "16": Together(domain, policy, 16, 1),
            "512": Together(domain, policy, 512, 2),
        }
        with console.status(f"measuring {domain.name}"):
            best = best_seconds(contenders, 512, 15 if quick else 60)  # short turns: some meet a quiet machine
        for name, bar, clock, told in (("16", few, 1, "per core"), ("512", many, 0, "two threads")):
            ours, theirs = best[name][clock], best["dm_control"][clock]
            case = f"{domain.name}, {name} worlds in lockstep, {told} : dm_control"
            row = at_least(case, theirs / ours, bar, f"{1 / ours:,.0f} and {1 / theirs:,.0f} steps/s")
            cores = best[name][1] / best[name][0]
            if not row.passed and clock == 0 and cores < 1.8:
                row = replace(row, passed=None, note=f"{row.note}; other work left it {cores:.1f} of two cores")
            rows.append(row)
    console.print(as_table(rows))
    return rows
