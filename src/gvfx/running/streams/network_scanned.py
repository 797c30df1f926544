"""Networks on the continuous grid: the whole loop is compiled by JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import Diverged, InputError
from gvfx.learners.networks.deep import Deep
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF, calibrated_weights, question_names
from gvfx.questions.policies import ConstantPolicy
from gvfx.running.checkpoint import flatten, unflatten
from gvfx.running.drive import Backend, Stream
from gvfx.running.plan import Plan
from gvfx.running.record import EMPTY, Measurement
from gvfx.running.streams.scanned_loop import Engine, ScanState
from gvfx.truths.lattice import LatticeTruth, continuous_truth, shipped_truth
from gvfx.worlds.continuous_grid import ContinuousGrid

KINDS = ("observation", "cumulant", "loss of Q", "loss of M")
TRUTH_EPISODES = 20_000  # episodes per point if no true values are shipped


class NetworkScanned(Backend):
    """What the seeds share: the compiled loop and the true values."""

    def __init__(
        self,
        world: ContinuousGrid,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: Deep,
        plan: Plan,
        calibrate: bool = False,
    ) -> None:
        self.world, self.behaviour, self.learner, self.plan = world, behaviour, learner, plan
        self.names = question_names(questions)
        self.weights, self.calibrated = np.array([q.weight for q in questions], dtype=float), calibrate
        policies, discounts, signals = grid_questions(world, questions)
        for stop in plan.stops:
            if stop % learner.block:
                raise InputError(
                    f"steps, evaluate_every: measurements must fall on multiples of {learner.block} steps; {stop} is not one."
                )
        if learner.heads:
            raise InputError("heads: bootstrapped heads are for Gymnasium environments; give heads=0 here.")
        self.truth = grid_truth(world, policies, discounts, signals)
        self.engine = Engine(world, policies, discounts, self.weights, signals, behaviour, learner, plan.steps)
        if calibrate:  # of the errors, against the true values
            points = self.truth.values.shape[1]
            self.weights = self.weights * calibrated_weights(self.truth.values, np.full(points, 1 / points))

    def begin(self, *seeds: int) -> ScannedNetwork:
        """The stream of one or several seeds; several run in one compiled loop (`vmap`), for accelerators."""
        return ScannedNetwork(self, seeds)


class ScannedNetwork(Stream):
    """One seed, or several in parallel: the state of the compiled loop."""

    def __init__(self, run: NetworkScanned, seeds: Sequence[int]) -> None:
        self.run, self.seeds, self.grain = run, tuple(seeds), run.learner.block
        self.now: ScanState = run.engine.begin(*seeds)

    def start(self) -> None:
        self.now = self.run.engine.compile(self.now)

    def advance(self, to: int) -> None:
        self.now = jax.block_until_ready(self.run.engine.advance(self.now, (to - self.t) // self.grain))
        self.t = to

    def _each(self) -> list[ScanState]:
        return [self.run.engine.row(self.now, k) for k in range(len(self.seeds))]

    def check(self) -> None:
        for seed, state in zip(self.seeds, self._each(), strict=True):
            step, gvf = int(state.trouble.step), int(state.trouble.gvf)
            if step >= 0:
                what, name = KINDS[int(state.trouble.kind)], self.run.names[gvf] if gvf >= 0 else None
                raise Diverged(what, float(state.trouble.value), step, seed, name)

    def episodes(self) -> list[int]:
        return [int(state.episodes) for state in self._each()]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        return [self._measured(state, curve, tables) for state in self._each()]

    def _measured(self, state: ScanState, curve: bool, tables: bool) -> Measurement:
        engine, truth = self.run.engine, self.run.truth
        points: Any = np.asarray(truth.points, dtype=np.float32)
        values = np.asarray((engine.pi * state.learning.q(points)).sum(axis=1)).T.astype(float)
        errors = {"mse": truth.mse(values), "mse_outside": truth.mse(values, outside_only=True)} if curve else {}
        if not tables:
            return Measurement(**errors)
        variances = EMPTY
        if engine.behaviour.needs_variance:
            variances = np.asarray((engine.pi * state.learning.m(points)).sum(axis=1)).T.astype(float)
        mu = jax.vmap(lambda o: engine.probabilities(state.acting, state.learning, state.t, o))(points)
        visits = np.asarray(state.visits).astype(np.int64)
        return Measurement(**errors, values=values, variances=variances, visits=visits, behaviour=np.asarray(mu).astype(float))

    def state(self) -> dict[str, np.ndarray]:
        return flatten(self.now)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.now = unflatten(self.now, arrays)
        self.t = int(self.run.engine.row(self.now, 0).t)

    def outcome(self, k: int) -> dict[str, Any]:
        return {"truth": self.run.truth.values}


def grid_questions(world: ContinuousGrid, questions: Sequence[GVF]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def grid_truth(world: ContinuousGrid, policies: np.ndarray, discounts: np.ndarray, signals: np.ndarray) -> LatticeTruth:
    """The true values shipped with gvfx, or else by Monte Carlo (stored in the user's cache folder)."""
    if list(signals) != list(range(len(world.goals))) or len(set(discounts)) > 1:
        raise InputError("questions: give one question per goal, in the goals' order, with one discount.")
    found = shipped_truth(world, policies, float(discounts[0]))
    if found is not None:
        return found
    cache = Path.home() / ".cache" / "gvfx"
    return continuous_truth(world, policies, float(discounts[0]), TRUTH_EPISODES, cache=cache)
