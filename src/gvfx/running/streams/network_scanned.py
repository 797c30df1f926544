"""Runs on networks: a seed's whole run with measurements, snapshots and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.learners.networks.deep import Deep
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF, question_names
from gvfx.questions.policies import ConstantPolicy
from gvfx.running.checkpoint import Checkpoints, flatten, unflatten
from gvfx.running.evaluate import Part, Plan
from gvfx.running.record import Diverged, measured
from gvfx.truths.lattice import LatticeTruth, continuous_truth, shipped_truth
from gvfx.worlds.continuous_grid import ContinuousGrid

KINDS = ("observation", "cumulant", "loss of Q", "loss of M")
TRUTH_EPISODES = 20_000  # where no truth is shipped
RECORDED = ("mse", "mse_outside", "episodes", "values", "variances", "visits", "behaviour")
Record = dict[str, list]  # what was measured so far, by name


class NetworkRunner:
    """Everything that seeds share; calling it with a seed runs that seed."""

    def __init__(
        self, world: ContinuousGrid, questions: Sequence[GVF], behaviour: Behaviour, learner: Deep, plan: Plan, identity: str = ""
    ) -> None:
        from gvfx.running.streams.scanned_loop import Engine

        self.world, self.learner, self.plan, self.identity = world, learner, plan, identity
        self.names = question_names(questions)
        self.weights = np.array([q.weight for q in questions], dtype=float)
        policies, discounts, signals = ask(world, questions)
        self.truth = truth_of(world, policies, discounts, signals)
        for stop in plan.stops:
            if stop % learner.block:
                raise InputError(
                    f"steps, evaluate_every: measurements must fall on multiples of {learner.block} steps; {stop} is none."
                )
        if learner.heads:
            raise InputError("heads: intervals from bootstrapped heads are for Gymnasium environments; give heads=0 here.")
        self.engine = Engine(world, policies, discounts, self.weights, signals, behaviour, learner, plan.steps)

    def __call__(
        self,
        seed: int,
        progress: Callable[[int, int, float], None] | None = None,
        checkpoints: Path | None = None,
        checkpoint_every: float = 60.0,
    ) -> Part:
        """Run a seed; with a folder for checkpoints, go on from the newest one there."""
        return self.together((seed,), progress, checkpoints, checkpoint_every)[0]

    def together(
        self,
        seeds: Sequence[int],
        progress: Callable[[int, int, float], None] | None = None,
        checkpoints: Path | None = None,
        checkpoint_every: float = 60.0,
    ) -> list[Part]:
        """Run seeds side by side in one compiled loop (`vmap`): for accelerators; on a CPU it gains nothing."""
        import jax

        states = self.engine.compile(self.engine.begin(*seeds))
        records: list[Record] = [{name: [] for name in RECORDED} for _ in seeds]
        name = f"seed-{seeds[0]:04d}" if len(seeds) == 1 else f"seeds-{'-'.join(map(str, seeds))}"
        keeper = Checkpoints(checkpoints, name, f"{self.identity}/{','.join(map(str, seeds))}") if checkpoints else None
        stored = keeper.load() if keeper else None
        if stored:
            states = unflatten(states, {k[6:]: v for k, v in stored.items() if k.startswith("state:")})
            records = [{name: list(stored[f"record:{k}:{name}"]) for name in RECORDED} for k in range(len(seeds))]
        seconds, saved = 0.0, time.monotonic()
        done = int(self.engine.row(states, 0).t)
        for stop in [s for s in self.plan.stops if s > done]:
            begun = time.perf_counter()
            states = jax.block_until_ready(self.engine.advance(states, (stop - done) // self.learner.block))
            seconds += time.perf_counter() - begun
            done = stop
            for k, (seed, record) in enumerate(zip(seeds, records, strict=True)):
                state = self.engine.row(states, k)
                self._check(state, seed)
                self._measure(state, stop, record)
                if progress and stop in self.plan.evaluations:
                    progress(seed, done, float(record["mse"][-1] @ self.weights / self.weights.sum()))
            if keeper and time.monotonic() - saved >= checkpoint_every and stop < self.plan.steps:
                tables = {f"record:{k}:{name}": np.array(v) for k, record in enumerate(records) for name, v in record.items()}
                keeper.save(stop, {**{f"state:{k}": v for k, v in flatten(states).items()}, **tables})
                saved = time.monotonic()
        if keeper:
            keeper.clear()
        return [measured(self.plan, record, self.truth.values, seconds / len(seeds)) for record in records]

    def _check(self, state: Any, seed: int) -> None:
        step = int(state.trouble.step)
        if step >= 0:
            gvf = int(state.trouble.gvf)
            whose = f" of {self.names[gvf]!r}" if gvf >= 0 else ""
            raise Diverged(
                f"run: the {KINDS[int(state.trouble.kind)]}{whose} became {float(state.trouble.value)} at step {step} "
                f"(seed {seed}); lower the learning rate or look at the signal. The last good checkpoint is kept."
            )

    def _measure(self, state: Any, stop: int, record: Record) -> None:
        import jax

        engine = self.engine
        points = np.asarray(self.truth.points, dtype=np.float32)
        values = np.asarray((engine.pi * state.learning.q(points)).sum(axis=1)).T.astype(float)
        if stop in self.plan.evaluations:
            record["mse"].append(self.truth.mse(values))
            record["mse_outside"].append(self.truth.mse(values, outside_only=True))
            record["episodes"].append(int(state.episodes))
        if stop in self.plan.snapshots:
            record["values"].append(values)
            keeps = engine.behaviour.needs_variance
            record["variances"].append(
                np.asarray((engine.pi * state.learning.m(points)).sum(axis=1)).T.astype(float) if keeps else np.empty(0)
            )
            record["visits"].append(np.asarray(state.visits).astype(np.int64))
            mu = jax.vmap(lambda o: engine.probabilities(state.acting, state.learning, state.t, o))(points)
            record["behaviour"].append(np.asarray(mu).astype(float))


def ask(world: ContinuousGrid, questions: Sequence[GVF]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target policies [gvf, action], discounts [gvf] and the index of each question's signal [gvf]."""
    goals = [goal.name for goal in world.goals]
    policies, discounts, signals = [], [], []
    for name, q in zip(question_names(questions), questions, strict=True):
        if not isinstance(q.cumulant, Signal) or q.cumulant.name not in goals:
            raise InputError(f"{name}.cumulant: the continuous grid has the signals {', '.join(goals)}; use gvfx.Signal(name).")
        if not isinstance(q.policy, ConstantPolicy) or callable(q.discount):
            raise InputError(f"{name}: the continuous grid takes constant policies and constant discounts.")
        policies.append(q.policy.table(1, 4, f"{name}.policy")[0])
        discounts.append(float(q.discount))
        signals.append(goals.index(q.cumulant.name))
    return np.array(policies), np.array(discounts), np.array(signals)


def truth_of(world: ContinuousGrid, policies: np.ndarray, discounts: np.ndarray, signals: np.ndarray) -> LatticeTruth:
    """Shipped with gvfx where it has it, else by Monte Carlo (kept in the user's cache folder)."""
    if list(signals) != list(range(len(world.goals))) or len(set(discounts)) > 1:
        raise InputError("questions: ask one question per goal, in the goals' order, with one discount.")
    found = shipped_truth(world, policies, float(discounts[0]))
    if found is not None:
        return found
    cache = Path.home() / ".cache" / "gvfx"
    return continuous_truth(world, policies, float(discounts[0]), TRUTH_EPISODES, cache=cache)
