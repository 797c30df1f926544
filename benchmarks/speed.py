"""Speed of steps outside tables: what an agent adds to `env.step`, learning on networks, and MuJoCo in lockstep.

online: processor time of both loops on one environment.  deep: the scanned loop against the same updates dispatched from Python.
mujoco: worlds in lockstep against dm_control's own loop, with a jitted tanh network as the policy of both; processor time "per
core", wall time for two threads.  Contenders take turns, and the best time of each counts.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import gvfx
from benchmarks.common.loops import Run, best_seconds
from benchmarks.study import Part, Row, at_least, at_most, check_memory_known, peak_megabytes, sized_rows
from gvfx.learners.networks import deep_updates as memory
from gvfx_paper.loops.network_scanned import Engine, ScanState
from gvfx_paper.settings.continuous import EPSILON
from gvfx_paper.settings.continuous import questions as questions_of_the_grid
from gvfx_paper.truths.lattice import grid_questions
from gvfx_paper.worlds.continuous_grid import paper_grid
from gvfx_paper.worlds.mujoco import CHEETAH, WALKER, Domain, Lockstep

Call = Callable[[int], Any]

# --- online ----------------------------------------------------------------------------------------------------------

BAR, BAR_NETWORKS = 12.0, 150.0  # microseconds that the agent may add to a step


def questions(actions: int, count: int) -> list[gvfx.GVF]:
    """The reward under different policies."""
    rows = np.random.default_rng(0).dirichlet(np.ones(actions), count)
    mine = [gvfx.GVF(row, gvfx.Reward(), 0.9 + 0.001 * k, name=f"q{k}") for k, row in enumerate(rows[:-1])]
    return [*mine, gvfx.GVF(gvfx.uniform_policy(), lambda s, a, s2: s == s2, lambda s, a, s2: 0.9, name="function")]


class Veiled(gym.Wrapper[Any, Any, Any, Any]):
    """The same environment without its table, which would be compiled."""


def tables(env: Any, count: int) -> Call:
    """The online loop in the middle of a run."""
    return Run(env, questions(int(env.action_space.n), count))


def networks(env: Any, count: int) -> Call:
    """The same on networks, in the middle of learning (an update of Q every 4 steps, of M every 16)."""
    run = Run(env, questions(int(env.action_space.n), count)[:-1], None, gvfx.Deep())
    run(run.stream.run.learner.learning_starts)
    return run


def bare(env: Any) -> Call:
    """The same environment with random actions, drawn beforehand."""
    actions = np.random.default_rng(0).integers(env.action_space.n, size=100_000).tolist()
    env.reset(seed=0)

    def call(steps: int) -> None:
        for action in actions[:steps]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return call


def overhead(
    name: str, count: int, steps: int, repetitions: int, kind: Callable[[Any, int], Call] = tables, bar: float = BAR
) -> Row:
    """What the agent adds to a step of an environment, in microseconds."""
    calls = kind(Veiled(gym.make(name)), count), bare(Veiled(gym.make(name)))
    for call in calls:
        call(200)
    with_agent, alone = 1e6 * best_seconds(repetitions, *((call, steps) for call in calls))[:, 1]
    note = f"with the agent {with_agent:.1f} us, env.step alone {alone:.1f} us"
    return at_most(f"{name}, {count} GVFs: the agent's share of a step", with_agent - alone, bar, " us", note)


def online(quick: bool) -> list[Row]:
    """Tables and networks."""
    steps, repetitions = (2_000, 3) if quick else (10_000, 5)
    rows = [overhead(name, 5, steps, repetitions) for name in ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1")]
    rows.append(overhead("FrozenLake-v1", 40, steps, repetitions))
    rows.append(overhead("CartPole-v1", 6, 1_024, 5 * repetitions, networks, BAR_NETWORKS))  # 16 rounds of learning a turn
    return rows


# --- networks --------------------------------------------------------------------------------------------------------

PROTOTYPE = 30_000  # environment steps per second that are typical of a quiet core


def engine(learner: gvfx.Deep) -> Engine:
    """The paper's experiment on the continuous grid."""
    policies, discounts, signals = grid_questions(paper_grid(), questions_of_the_grid())
    wrapped = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer(), EPSILON))
    return Engine(paper_grid(), policies, discounts, np.ones(2), signals, wrapped, learner, 1_000_000)


class Running:
    """An engine in the middle of a run."""

    def __init__(self, learner: gvfx.Deep) -> None:
        begun = time.perf_counter()
        self.engine = engine(learner)
        self.state: ScanState = jax.block_until_ready(self.engine.advance(self.engine.begin(0), 60))
        self.compile_seconds = time.perf_counter() - begun

    def __call__(self, blocks: int) -> None:
        self.state = jax.block_until_ready(self.engine.advance(self.state, blocks))


class Dispatched:
    """The same steps and updates, each a jitted function called from Python."""

    def __init__(self, learner: gvfx.Deep) -> None:
        e = self.engine = engine(learner)
        self.state = e.advance(e.begin(0), 60)
        self.step, self.write = jax.jit(e._step), jax.jit(memory.write, donate_argnums=0)
        self.draw = jax.jit(self._draw)
        self.update_q, self.update_m = jax.jit(e.updates.update_q), jax.jit(e.updates.update_m)
        self.key = jax.random.key(1)
        self(1)

    def _draw(self, rows: jax.Array, stored: jax.Array, key: jax.Array) -> jax.Array:
        size = self.engine.learner.batch
        return rows[(jax.random.uniform(key, (size,)) * stored).astype(jnp.int32)]

    def __call__(self, blocks: int) -> None:
        e, s = self.engine, self.state
        world, learning, replay = e.world, s.learning, s.replay
        carry = (s.t, s.observation, s.age, s.acting, s.episodes)
        ones = jnp.ones(e.learner.batch)
        for n in range(1, blocks * e.learner.block + 1):
            self.key, a, b, c, d = jax.random.split(self.key, 5)
            shapes = (b, (world.draws,)), (c, (world.candidates, 2))
            chance = jax.random.uniform(a), *(jax.random.uniform(key, shape) for key, shape in shapes)
            carry, (row, _, _) = self.step(learning, carry, chance)
            replay = self.write(replay, row[None])
            stored = jnp.minimum(replay.written, e.learner.capacity)
            if n % e.learner.q_every == 0:
                learning, _ = self.update_q(learning, self.draw(replay.rows, stored, d), ones)
            if n % e.learner.m_every == 0:
                learning, _ = self.update_m(learning, self.draw(replay.rows, stored, a), ones)
        moved = dict(zip(("t", "observation", "age", "acting", "episodes"), jax.block_until_ready(carry), strict=True))
        self.state = s._replace(**moved, learning=learning, replay=replay)


def deep(quick: bool) -> list[Row]:
    """The scanned loop with several memories."""
    check_memory_known()
    blocks, repetitions = (150, 3) if quick else (600, 8)
    paper = gvfx.Deep()
    runs = {
        "explorer": Running(paper),
        "capacity 1,000,000": Running(dataclasses.replace(paper, capacity=1_000_000)),
        "PER": Running(dataclasses.replace(paper, replay="prioritised")),
    }
    calls: dict[str, tuple[Call, int]] = {name: (r, blocks) for name, r in runs.items()}
    calls["dispatched"] = (Dispatched(paper), max(1, blocks // 30))
    seconds = best_seconds(repetitions, *calls.values())[:, 0] / 8  # of an environment step
    best = dict(zip(calls, seconds.tolist(), strict=True))
    rate, typical = 1 / best["explorer"], f">= {PROTOTYPE:,} on a quiet core"
    dispatched = f"{1 / best['dispatched']:,.0f} steps/s dispatched"
    passed, note = None if rate < PROTOTYPE else True, "an absolute figure; depends on the machine"
    return [
        Row("explorer, environment steps per second", f"{rate:,.0f}", typical, passed, note),
        at_least("explorer : dispatched from Python", best["dispatched"] / best["explorer"], 8, dispatched),
        at_most("capacity 1,000,000 : 25,000", best["capacity 1,000,000"] / best["explorer"], 1.1, "x", "time per step"),
        at_most("PER : uniform replay", best["PER"] / best["explorer"], 1.5, "x", "time per step"),
        at_most("resident memory, all four in one process", peak_megabytes(), 1024, " MB", ""),
        at_most("compile time", max(r.compile_seconds for r in runs.values()), 15, " s", "the slowest of three"),
    ]


# --- MuJoCo ----------------------------------------------------------------------------------------------------------

BARS = {"walker": ("walk", 1.4, 2.5), "cheetah": ("run", 2.5, 3.5)}  # dm_control's task; 16 worlds; 512 worlds
TURN = 512  # environment steps of a turn: short, so that some meet a quiet machine


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


def lockstep(domain: Domain, policy: Callable[[Any], jax.Array], count: int, threads: int) -> Call:
    """Worlds in lockstep; `count` divides the steps of a turn."""
    worlds = Lockstep(domain, count, threads)
    observations = worlds.reset(np.random.default_rng(0))

    def call(steps: int) -> None:
        nonlocal observations
        for _ in range(steps // count):
            observations, _ = worlds.step(np.asarray(policy(observations)))

    return call


def dm_control(domain: Domain, policy: Callable[[Any], jax.Array], task: str) -> Call:
    """dm_control's environment."""
    endless = {"time_limit": float("inf"), "random": 0}  # no resets, as in the other loop
    suite = importlib.import_module("dm_control.suite")
    environment = suite.load(domain.name, task, endless, {"flat_observation": True})
    observation = environment.reset().observation["observations"]

    def call(steps: int) -> None:
        nonlocal observation
        for _ in range(steps):
            observation = environment.step(np.asarray(policy(observation))).observation["observations"]

    return call


def mujoco(quick: bool) -> list[Row]:
    """Walker and Cheetah."""
    missing = [module for module in ("mujoco", "dm_control") if importlib.util.find_spec(module) is None]
    if missing:
        return [Row("worlds in lockstep : dm_control", "skipped", "", None, f"{' and '.join(missing)}: not installed")]
    rows = []
    for domain in (WALKER, CHEETAH):
        task, few, many = BARS[domain.name]
        policy = make_policy(domain)
        calls = dm_control(domain, policy, task), lockstep(domain, policy, 16, 1), lockstep(domain, policy, 512, 2)
        turns = [(call, TURN) for call in calls]
        best_seconds(1, *turns)  # compiles
        best = dict(zip(("dm_control", "16", "512"), best_seconds(15 if quick else 60, *turns), strict=True))
        for name, bar, clock, how in (("16", few, 1, "per core"), ("512", many, 0, "two threads")):
            ours, theirs = best[name][clock], best["dm_control"][clock]
            case = f"{domain.name}, {name} worlds in lockstep, {how} : dm_control"
            row = at_least(case, theirs / ours, bar, f"{1 / ours:,.0f} and {1 / theirs:,.0f} steps/s")
            cores = best[name][1] / best[name][0]
            if not row.passed and clock == 0 and cores < 1.8:
                row = dataclasses.replace(row, passed=None, note=f"{row.note}; other work left it {cores:.1f} of two cores")
            rows.append(row)
    return rows


PARTS: dict[str, Part] = {rows.__name__: sized_rows(rows, [False], [True]) for rows in (online, deep, mujoco)}
