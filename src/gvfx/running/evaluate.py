"""evaluate: answer questions in a world, by a behaviour and a learner, and measure the error as it falls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gvfx.behaviours.actor import Actor
from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.errors import InputError
from gvfx.gvf import GVF, Stacked, stack
from gvfx.kernel import Sizes
from gvfx.learners.base import Learner
from gvfx.learners.continuous import TwinCritics
from gvfx.learners.deep import Deep
from gvfx.learners.tabular import ExpectedSarsa
from gvfx.running.compiled import Cursor, Dynamics, Loop, Monitor, cursor, dynamics, make_loop, make_table
from gvfx.running.result import Result, Snapshot
from gvfx.streams import seed_streams
from gvfx.truth import GroundTruth, predicted_values
from gvfx.worlds.continuous_grid import ContinuousGrid
from gvfx.worlds.control import Domain
from gvfx.worlds.mdp import MDP

World = MDP | ContinuousGrid | Domain
AnyLearner = Learner | Deep | TwinCritics
Progress = Callable[[int, int, float], None]  # (seed, steps done, current error)


def evaluate(
    world: World,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: AnyLearner | None = None,
    *,
    steps: int = 100_000,
    seeds: int | Iterable[int] = 1,
    evaluate_every: int | None = None,
    snapshots: Iterable[int] = (),
    average_episodes: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Learn the answers to all questions from one stream of experience per seed.

    seeds:          how many (0, 1, ...), or the seeds themselves.
    evaluate_every: steps between error measurements (default: twenty over the run).
    snapshots:      further times at which to keep values, variances, visits and behaviour; the end is always kept.
    average_episodes: 0 measures the error of the present estimates; k averages the squared error over the estimates
                    at the end of the last k episodes (what the authors' code reports, with k = 500).
    workers:        seeds run side by side; results do not depend on it.
    progress:       called as progress(seed, steps done, current error) after each measurement.
    """
    plan = Plan.checked(steps, evaluate_every, snapshots, average_episodes)
    seed_list = checked_seeds(seeds)
    if workers < 1:
        raise InputError(f"workers: {workers} is too few; give at least 1.")
    behaviour = behaviour or (Actor() if isinstance(world, Domain) else GVFExplorer())
    run = make_runner(world, questions, behaviour, learner, plan)
    if workers == 1 or len(seed_list) == 1:
        parts = [run(seed, progress) for seed in seed_list]
    else:
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(lambda seed: run(seed, progress), seed_list))
    described = {"behaviour": repr(behaviour), "learner": repr(run.learner), "steps": steps}
    return gather(run.names, run.weights, seed_list, parts, described)


def make_runner(
    world: World,
    questions: Sequence[GVF],
    behaviour: Behaviour,
    learner: AnyLearner | None,
    plan: Plan,
    identity: str = "",
) -> Any:
    """What runs a seed: the compiled loop for an MDP and tables, loops on networks for the continuous grid and for MuJoCo."""
    if isinstance(world, MDP) and not isinstance(learner, Deep | TwinCritics):
        return Runner(world, stack(questions, world), behaviour, learner or ExpectedSarsa(), plan)
    if isinstance(world, ContinuousGrid) and (learner is None or isinstance(learner, Deep)):
        from gvfx.running.networked import NetworkRunner

        return NetworkRunner(world, questions, behaviour, learner or Deep(), plan, identity)
    if isinstance(world, Domain) and (learner is None or isinstance(learner, TwinCritics)):
        from gvfx.running.lockstep import LockstepRunner

        return LockstepRunner(world, questions, behaviour, learner or TwinCritics(), plan, identity)
    needs = {MDP: "an MDP needs a tabular learner", ContinuousGrid: "the continuous grid needs gvfx.Deep"}
    needs[Domain] = "Walker and Cheetah need gvfx.TwinCritics"
    if type(world) in needs:
        raise InputError(f"learner: {type(learner).__name__} does not fit this world; {needs[type(world)]}.")
    raise InputError(f"world: {type(world).__name__} is not a gvfx world; build one with gvfx.gridworld(...) or gvfx.MDP.")


def checked_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """The seeds of a run: a count or a list of distinct non-negative integers."""
    listed = tuple(range(seeds)) if isinstance(seeds, int) else tuple(int(s) for s in seeds)
    if not listed:
        raise InputError(f"seeds: {seeds!r} gives no run at all; ask for at least 1 seed.")
    if min(listed) < 0 or len(set(listed)) < len(listed):
        raise InputError("seeds: give distinct seeds of at least 0.")
    return listed


@dataclass(frozen=True)
class Plan:
    """When to stop and look."""

    steps: int
    evaluations: tuple[int, ...]
    snapshots: tuple[int, ...]
    average_episodes: int = 0

    @classmethod
    def checked(cls, steps: int, every: int | None, snapshots: Iterable[int], average_episodes: int = 0) -> Plan:
        if steps < 1:
            raise InputError(f"steps: {steps} is too few; give at least 1.")
        every = max(1, steps // 20) if every is None else every
        if every < 1:
            raise InputError(f"evaluate_every: {every} is too few; give at least 1 step between measurements.")
        wanted = sorted(set(snapshots))
        if wanted and not (wanted[0] >= 1 and wanted[-1] <= steps):
            raise InputError(f"snapshots: {wanted} must lie between 1 and the {steps} steps of the run.")
        if average_episodes < 0:
            raise InputError(
                f"average_episodes: {average_episodes} is negative; give 0 for the present error, or a number of episodes."
            )
        evaluations = tuple(sorted({*range(every, steps + 1, every), steps}))
        return cls(steps, evaluations, tuple(sorted({*wanted, steps})), average_episodes)

    @property
    def stops(self) -> list[int]:
        return sorted({*self.evaluations, *self.snapshots})


@dataclass(frozen=True, eq=False)
class Part:
    """One seed's share of a result, as plain arrays."""

    steps: np.ndarray  # [t] evaluation times
    mse: np.ndarray  # [t, gvf]
    levels: np.ndarray  # [t, gvf]
    episodes: np.ndarray  # [t]
    snapshot_steps: np.ndarray  # [k]
    values: np.ndarray  # [k, gvf, state]
    variances: np.ndarray  # [k, gvf, state], or empty where the learner kept none
    visits: np.ndarray  # [k, state, action]
    behaviour: np.ndarray  # [k, state, action]
    snapshot_levels: np.ndarray  # [k, gvf]
    truth: np.ndarray  # [gvf, state] at the end
    mse_outside: np.ndarray = field(default_factory=lambda: np.empty(0))  # [t, gvf] continuous grid: goals' discs left out
    actor: np.ndarray = field(default_factory=lambda: np.empty(0))  # [weight] continuous actions: the actor at the end
    seconds: float = 0.0

    def arrays(self) -> dict[str, np.ndarray]:
        """What is stored: everything but the time it took; tables in single precision."""
        small = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
        tables = ("values", "variances", "visits", "behaviour", "truth")
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seconds"}
        for name in ("mse_outside", "actor"):
            if not kept[name].size:
                del kept[name]
        return {name: array.astype(small[array.dtype]) if name in tables else array for name, array in kept.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Part:
        return cls(**arrays)


class Runner:
    """Everything that seeds share: arrays, compiled loop, truth.  Calling it with a seed runs that seed."""

    def __init__(self, world: MDP, asked: Stacked, behaviour: Behaviour, learner: Learner, plan: Plan) -> None:
        self.world, self.asked, self.behaviour, self.learner, self.plan = world, asked, behaviour, learner, plan
        self.names, self.weights = asked.names, asked.weights
        self.sizes = Sizes(len(asked.names), world.actions)
        self.rule = behaviour.rule(self.sizes)
        self.dynamics: Dynamics = dynamics(world, asked)
        self.truth = GroundTruth.exact(world, asked)
        self.loop: Loop = make_loop(
            self.sizes,
            world.successors,
            self.rule,
            learner.rule(self.sizes, behaviour.needs_variance),
            learner.needs_next_action,
            world.features is not None,
            bool(asked.drift_sd.any() or asked.carry.any()),
            plan.average_episodes > 0,
        )
        self.loop(self.dynamics, *self._begin(0), 0)  # compile before seeds run side by side

    def _begin(self, seed: int) -> tuple[Any, Any, Cursor, Monitor]:
        ring = np.zeros((max(1, self.plan.average_episodes), self.sizes.gvfs))
        return (
            self.behaviour.begin(self.asked, self.world),
            self.learner.begin(self.asked, self.world),
            cursor(self.world, self.asked, seed_streams(seed)),
            Monitor(np.ascontiguousarray(self.truth.base.T), np.ascontiguousarray(self.truth.unit.T), self.truth.points, ring),
        )

    def __call__(self, seed: int, progress: Progress | None = None) -> Part:
        acting, learning, at, watch = self._begin(seed)
        mse, levels, episodes, snapshots = [], [], [], []
        seconds, done = 0.0, 0
        for stop in self.plan.stops:
            begun = time.perf_counter()
            self.loop(self.dynamics, acting, learning, at, watch, stop - done)
            seconds += time.perf_counter() - begun
            done = stop
            estimates = predicted_values(self.world, self.asked, learning.q)
            if stop in self.plan.evaluations:
                averaged = self.plan.average_episodes and at.at[3]
                mse.append(watch.mean(int(at.at[3])) if averaged else self.truth.mse(estimates, at.level))
                levels.append(at.level.copy())
                episodes.append(int(at.at[3]))
                if progress:
                    progress(seed, done, float(mse[-1] @ self.asked.weights / self.asked.weights.sum()))
            if stop in self.plan.snapshots:
                snapshots.append((estimates, *self._tables(acting, learning, at)))
        values, variances, visits, behaviour, at_levels = (np.stack(column) for column in zip(*snapshots, strict=True))
        return Part(
            steps=np.array(self.plan.evaluations),
            mse=np.array(mse),
            levels=np.array(levels),
            episodes=np.array(episodes),
            snapshot_steps=np.array(self.plan.snapshots),
            values=values,
            variances=variances,
            visits=visits,
            behaviour=behaviour,
            snapshot_levels=at_levels,
            truth=self.truth.values(at.level),
            seconds=seconds,
        )

    def _tables(self, acting: Any, learning: Any, at: Cursor) -> tuple[np.ndarray, ...]:
        """Variances, visits, behaviour and drift levels now."""
        mu = np.empty((self.world.states, self.world.actions))
        make_table(self.sizes, self.rule)(self.dynamics, acting, learning, int(at.at[0]), mu)
        kept = predicted_values(self.world, self.asked, learning.m) if self.behaviour.needs_variance else np.empty(0)
        return kept, at.visits.copy(), mu, at.level.copy()


def gather(
    names: tuple[str, ...], weights: np.ndarray, seeds: tuple[int, ...], parts: list[Part], described: dict[str, Any]
) -> Result:
    """One result from the parts of its seeds."""

    def stacked(field: str, k: int) -> np.ndarray:
        return np.stack([getattr(part, field)[k] for part in parts])

    first = parts[0]
    return Result(
        names=names,
        weights=weights,
        seeds=seeds,
        steps=first.steps,
        mse=np.stack([part.mse for part in parts]),
        levels=np.stack([part.levels for part in parts]),
        episodes=np.stack([part.episodes for part in parts]),
        snapshots=tuple(
            Snapshot(
                step=int(step),
                values=stacked("values", k),
                variances=stacked("variances", k) if first.variances.size else None,
                visits=stacked("visits", k),
                behaviour=stacked("behaviour", k),
                levels=stacked("snapshot_levels", k),
            )
            for k, step in enumerate(first.snapshot_steps)
        ),
        truth=np.stack([part.truth for part in parts]),
        seconds=np.array([part.seconds for part in parts]),
        mse_outside=np.stack([part.mse_outside for part in parts]) if first.mse_outside.size else None,
        experiment=described,
    )
