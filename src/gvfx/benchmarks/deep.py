"""The benchmark of learning on networks: the scanned loop against the same updates dispatched from Python, and itself.

Contenders take turns in one run and the best time of each counts.  Run it with `gvfx bench deep`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.wrappers import Epsilon, Floor
from gvfx.benchmarks.common.memory import check_memory_known, peak_megabytes
from gvfx.benchmarks.common.rows import Row, as_table, at_least, at_most, machine
from gvfx.experiments.settings.grid import EPSILON, questions
from gvfx.learners.networks import replay as memory
from gvfx.learners.networks.deep import Deep
from gvfx.running.streams.grid_questions import grid_questions
from gvfx.running.streams.scanned_loop import Engine, ScanState
from gvfx.worlds.continuous_grid import paper_grid

PROTOTYPE = 30_000  # environment steps per second that the issue calls typical of a quiet core


def engine(learner: Deep, behaviour: Behaviour | None = None) -> Engine:
    """The paper's experiment on the continuous grid."""
    policies, discounts, signals = grid_questions(paper_grid(), questions())
    wrapped = Floor(Epsilon(behaviour or GVFExplorer(), EPSILON))
    return Engine(paper_grid(), policies, discounts, np.ones(2), signals, wrapped, learner, 1_000_000)


class Running:
    """An engine in the middle of a run."""

    def __init__(self, learner: Deep, behaviour: Behaviour | None = None) -> None:
        begun = time.perf_counter()
        self.engine = engine(learner, behaviour)
        self.state: ScanState = jax.block_until_ready(self.engine.advance(self.engine.begin(0), 60))
        self.compile_seconds = time.perf_counter() - begun

    def __call__(self, blocks: int) -> None:
        self.state = jax.block_until_ready(self.engine.advance(self.state, blocks))


class Dispatched:
    """The same steps and updates, each a jitted function called from Python."""

    def __init__(self, learner: Deep) -> None:
        e = self.engine = engine(learner)
        self.state = e.advance(e.begin(0), 60)
        self.step = jax.jit(e._step)
        self.write = jax.jit(memory.write, donate_argnums=0)
        self.draw = jax.jit(self._draw)
        self.update_q = jax.jit(e.updates.update_q)
        self.update_m = jax.jit(e.updates.update_m)
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
            chance = (
                jax.random.uniform(a),
                jax.random.uniform(b, (world.draws,)),
                jax.random.uniform(c, (world.candidates, 2)),
            )
            carry, (row, _, _) = self.step(learning, carry, chance)
            replay = self.write(replay, row[None])
            stored = jnp.minimum(replay.written, e.learner.capacity)
            if n % e.learner.q_every == 0:
                learning, _ = self.update_q(learning, self.draw(replay.rows, stored, d), ones)
            if n % e.learner.m_every == 0:
                learning, _ = self.update_m(learning, self.draw(replay.rows, stored, a), ones)
        t, observation, age, acting, episodes = jax.block_until_ready(carry)
        self.state = s._replace(
            t=t, observation=observation, age=age, acting=acting, episodes=episodes, learning=learning, replay=replay
        )


def best_seconds(contenders: dict[str, tuple[Callable[[int], None], int]], repetitions: int) -> dict[str, float]:
    """The shortest time per environment step of each, in turns; contenders are (call, blocks)."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(repetitions):
        for name, (call, blocks) in contenders.items():
            begun = time.perf_counter()
            call(blocks)
            best[name] = min(best[name], (time.perf_counter() - begun) / (8 * blocks))
    return best


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, print them, and return them."""
    check_memory_known()
    console.print(machine() + f", jax {jax.__version__}", highlight=False)
    blocks, repetitions = (150, 3) if quick else (600, 8)
    paper = Deep()
    with console.status("compiling"):
        runs = {
            "explorer": Running(paper),
            "capacity 1,000,000": Running(dataclasses.replace(paper, capacity=1_000_000)),
            "PER": Running(dataclasses.replace(paper, replay="prioritised")),
        }
        dispatched = Dispatched(paper)
    contenders: dict[str, tuple[Callable[[int], None], int]] = {name: (r, blocks) for name, r in runs.items()}
    contenders["dispatched"] = (dispatched, max(1, blocks // 30))
    with console.status("measuring"):
        best = best_seconds(contenders, repetitions)
    rate = 1 / best["explorer"]
    note = f"{1 / best['dispatched']:,.0f} steps/s dispatched"
    memory_mb = peak_megabytes()
    rows = [
        Row(
            "explorer, environment steps per second",
            f"{rate:,.0f}",
            f">= {PROTOTYPE:,} on a quiet core",
            None if rate < PROTOTYPE else True,
            "an absolute figure; depends on the machine",
        ),
        at_least("explorer : dispatched from Python", best["dispatched"] / best["explorer"], 8, note),
        at_most("capacity 1,000,000 : 25,000", best["capacity 1,000,000"] / best["explorer"], 1.1, "x", "time per step"),
        at_most("PER : uniform replay", best["PER"] / best["explorer"], 1.5, "x", "time per step"),
        at_most("resident memory, all four in one process", memory_mb, 1024, " MB", ""),
        at_most("compile time", max(r.compile_seconds for r in runs.values()), 15, " s", "the slowest of three"),
    ]
    console.print(as_table(rows))
    return rows
