"""evaluate: answer questions in a world, by a behaviour and a learner, and measure the error as it falls."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.behaviours.wrappers import Hold
from gvfx.errors import InputError, require
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.evidence.uncertainty import ErrorBelow, standard_errors
from gvfx.kernel import Sizes
from gvfx.learners.base import Learner
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.twin_critics import TwinCritics
from gvfx.learners.tabular import ExpectedSarsa
from gvfx.questions.cumulants import Drifter
from gvfx.questions.gvf import GVF, Stacked, expand, stack
from gvfx.questions.own import OwnPolicy
from gvfx.rng import seed_streams
from gvfx.running.improving import Improvement
from gvfx.running.result import Result, Snapshot
from gvfx.running.streams.compiled_loop import Cursor, Dynamics, Loop, Monitor, cursor, dynamics, make_loop, make_table
from gvfx.theory.exact import DENSE_BELOW
from gvfx.truths.exact import GroundTruth, predicted_values
from gvfx.worlds.continuous_grid import ContinuousGrid
from gvfx.worlds.control import Domain
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spec import is_environment

World = MDP | ContinuousGrid | Domain
AnyLearner = Learner | Deep | TwinCritics
Progress = Callable[[int, int, float], None]  # (seed, steps done, current error)


def evaluate(
    world: World | Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: AnyLearner | None = None,
    *,
    steps: int = 100_000,
    seeds: int | Iterable[int] = 1,
    evaluate_every: int | None = None,
    snapshots: Iterable[int] = (),
    average_episodes: int = 0,
    until: ErrorBelow | None = None,
    weights: Literal["calibrated"] | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    save: str | Path | None = None,
    track: Any = None,
) -> Result:
    """Learn the answers to all questions from one stream of experience per seed.

    behaviour, learner: on tables OptimalDesign and CertaintyEquivalence, on networks see docs/own.md.
    world:          an MDP, the continuous grid, a Gymnasium environment (vector environments too), or a log of
                    transitions (`gvfx.Log` or a mapping of its columns; then nothing but `questions` and `save` is read).
    seeds:          how many (0, 1, ...), or the seeds themselves.
    evaluate_every: steps between error measurements (default: twenty over the run).
    snapshots:      further times at which to keep values, variances, visits and behaviour; the end is always kept.
    average_episodes: 0 measures the error of the present estimates; k averages the squared error over the estimates
                    at the end of the last k episodes (what the authors' code reports, with k = 500).
    until:          a rule that ends a run before its `steps`, such as gvfx.error_below(0.05); measurements that lie after
                    the end repeat the last one.  Needs CertaintyEquivalence.
    weights:        "calibrated" divides each question's weight by its mean square value, so that errors count relative to
                    its scale; behaviours that plan (OptimalDesign) take the scales from what they have seen so far.
    workers:        seeds run side by side; results do not depend on it.
    progress:       called as progress(seed, steps done, current error) after each measurement.
    save:           a file for the result; where an environment fails, it gets what was learned so far.
    track:          a file that gets every measurement as a JSON line, a tracker (`gvfx.running.tracking`), or several.
    """
    if track is not None:
        from gvfx.running.tracking import tracked

        rest: dict[str, Any] = {"steps": steps, "seeds": seeds, "evaluate_every": evaluate_every, "snapshots": snapshots}
        rest |= {"average_episodes": average_episodes, "until": until, "weights": weights, "workers": workers, "save": save}
        return tracked(track, progress, lambda report: evaluate(world, questions, behaviour, learner, progress=report, **rest))
    if is_environment(world):
        from gvfx.running.environments import evaluate_environment

        options: dict[str, Any] = {"evaluate_every": evaluate_every, "snapshots": snapshots, "average_episodes": average_episodes}
        options |= {"workers": workers, "progress": progress, "save": save, "until": until, "weights": weights}
        return evaluate_environment(world, questions, behaviour, learner, steps=steps, seeds=seeds, **options)
    if isinstance(world, Mapping) or hasattr(world, "next_observation"):
        from gvfx.running.logs import evaluate_log

        result = evaluate_log(world, questions)
        if save is not None:
            result.save(save)
        return result
    plan = Plan.checked(steps, evaluate_every, snapshots, average_episodes)
    seed_list = checked_seeds(seeds)
    if workers < 1:
        raise InputError(f"workers: {workers} is too few; give at least 1.")
    if isinstance(world, MDP) and not isinstance(learner, Deep | TwinCritics):
        behaviour, learner = for_tables(questions, behaviour, learner)
    behaviour = behaviour or (Hold(GVFExplorer()) if isinstance(world, Domain) else GVFExplorer())
    run = make_runner(world, questions, behaviour, learner, plan, until=until, weights=weights)
    if workers == 1 or len(seed_list) == 1:
        parts = [run(seed, progress) for seed in seed_list]
    else:
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(lambda seed: run(seed, progress), seed_list))
    if until is not None and not all(part.reached for part in parts):
        warnings.warn(unreached(until, parts), stacklevel=2)
    described = {"behaviour": repr(behaviour), "learner": repr(run.learner), "steps": steps}
    result = gather(run.names, run.weights, seed_list, parts, described)
    if save is not None:
        result.save(save)
    return result


def make_runner(
    world: World,
    questions: Sequence[GVF],
    behaviour: Behaviour,
    learner: AnyLearner | None,
    plan: Plan,
    identity: str = "",
    until: ErrorBelow | None = None,
    weights: Literal["calibrated"] | None = None,
) -> Any:
    """What runs a seed: the compiled loop for an MDP and tables, loops on networks for the continuous grid and for MuJoCo."""
    check_until(until, questions, learner)
    if isinstance(world, MDP) and not isinstance(learner, Deep | TwinCritics):
        return Runner(world, stack(questions, world, weights), behaviour, learner or ExpectedSarsa(), plan, until)
    if weights is not None:
        raise InputError("weights: calibrated weights need a finite world and tables; give each question its own weight.")
    if isinstance(world, ContinuousGrid) and (learner is None or isinstance(learner, Deep)):
        require("jax", "deep")
        from gvfx.running.streams.network_scanned import NetworkRunner

        return NetworkRunner(world, questions, behaviour, learner or Deep(), plan, identity)
    if isinstance(world, Domain) and (learner is None or isinstance(learner, TwinCritics)):
        require("jax", "mujoco")
        from gvfx.running.streams.critics_lockstep import LockstepRunner

        return LockstepRunner(world, questions, behaviour, learner or TwinCritics(), plan, identity)
    needs = {MDP: "an MDP needs a tabular learner", ContinuousGrid: "the continuous grid needs gvfx.Deep"}
    needs[Domain] = "Walker and Cheetah need gvfx.TwinCritics"
    if type(world) in needs:
        raise InputError(f"learner: {type(learner).__name__} does not fit this world; {needs[type(world)]}.")
    raise InputError(f"world: {type(world).__name__} is no world; give gvfx.gridworld(...), gvfx.MDP or a Gymnasium environment.")


def for_tables(questions: Sequence[GVF], behaviour: Behaviour | None, learner: Any) -> tuple[Behaviour, Any]:
    """A behaviour and a learner for tables: those given, else the ones that need the fewest steps."""
    drifts = any(isinstance(q.cumulant, Drifter) for q in expand(questions))
    return behaviour or OptimalDesign(), learner or CertaintyEquivalence(forgetting="auto" if drifts else 0.0)


def has_own(questions: Sequence[GVF]) -> bool:
    """Whether a question's policy is by its own values."""
    return any(isinstance(q.policy, OwnPolicy) for q in expand(questions))


def check_until(until: ErrorBelow | None, questions: Sequence[GVF], learner: Any) -> None:
    """Refuse a rule to stop where it would not hold."""
    if until is not None and not isinstance(learner, CertaintyEquivalence):
        raise InputError("until: the error of this learner cannot be bounded; use gvfx.CertaintyEquivalence().")
    if until is not None and has_own(questions):
        raise InputError("until: the bound does not hold for policies that are found on the way; give steps alone.")


def unreached(until: ErrorBelow, parts: Sequence[Part]) -> str:
    """What to say when the steps ended before the wanted error was sure."""
    worst = max(part.bound for part in parts)
    late = sum(not part.reached for part in parts)
    reason = f"the bound stands at {worst:.3g}" if np.isfinite(worst) else "some answers rest on actions never tried"
    return (
        f"until: {late} of {len(parts)} runs ended before their error was surely below {until.target:g} ({reason}); "
        "the answers are the best so far; give more steps or a larger error."
    )


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

    def onward(self, stop: int) -> list[int]:
        """The measurements from a time on, for a run that ends there."""
        return [time for time in self.stops if time >= stop]


class Watch:
    """A rule to stop, and one seed's looks at its error."""

    def __init__(self, until: ErrorBelow | None, steps: int, pairs: int) -> None:
        self.until = until
        self.times = frozenset(until.looks(steps, pairs) if until else ())
        self.looks, self.bound, self.reached = 0, np.inf, False

    def look(self, stop: int, known: Empirical) -> bool:
        """Whether the run may end here."""
        if self.until and stop in self.times:
            self.bound, counts = self.until.bound(known, self.looks)
            self.reached = bool(self.bound < self.until.target)
            self.looks += counts
        return self.reached

    def outcome(self, done: int) -> dict[str, Any]:
        """What a part says about it, after so many steps."""
        return {"stopped": done if self.until else 0, "bound": self.bound, "reached": self.reached}


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
    standard_errors: np.ndarray = field(default_factory=lambda: np.empty(0))  # [k, gvf, state] where the learner has them
    policies: np.ndarray = field(default_factory=lambda: np.empty(0))  # [k, gvf, state, action] where some were found
    expected: np.ndarray = field(default_factory=lambda: np.empty(0))  # [t, gvf] estimated squared error, truth unknown
    actor: np.ndarray = field(default_factory=lambda: np.empty(0))  # [weight] continuous actions: the actor at the end
    seconds: float = 0.0
    answers: Any = None  # of networks in an environment: `gvfx.running.predictor.Answers` at the end
    model: Empirical | None = None  # the evidence at the end, where the loop kept it
    stopped: int = 0  # steps done, with a rule to stop; 0 without
    bound: float = np.inf  # the rule's upper bound of the error at the end
    reached: bool = False  # whether it was below the target

    def arrays(self) -> dict[str, np.ndarray]:
        """What is stored: the arrays; tables in single precision."""
        small = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
        tables = ("values", "variances", "visits", "behaviour", "truth", "standard_errors", "policies")
        kept = {f.name: array for f in fields(self) if isinstance(array := getattr(self, f.name), np.ndarray)}
        for name in ("mse_outside", "standard_errors", "policies", "expected", "actor"):
            if not kept[name].size:
                del kept[name]
        return {name: array.astype(small[array.dtype]) if name in tables else array for name, array in kept.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Part:
        return cls(**arrays)


class Runner:
    """Everything that seeds share: arrays, compiled loop, truth.  Calling it with a seed runs that seed."""

    def __init__(
        self,
        world: MDP,
        asked: Stacked,
        behaviour: Behaviour,
        learner: Learner,
        plan: Plan,
        until: ErrorBelow | None = None,
    ) -> None:
        self.until = until
        self.world, self.asked, self.behaviour, self.learner, self.plan = world, asked, behaviour, learner, plan
        self.names = asked.names
        self.sizes = Sizes(len(asked.names), world.actions)
        self.rule = behaviour.rule(self.sizes)
        self.replans = frozenset(behaviour.stops(plan.steps, world))
        if asked.calibrated and behaviour.needs_variance and not self.replans:
            raise InputError(
                f"weights: {type(behaviour).__name__} weighs its questions before their scales are known; use "
                "gvfx.OptimalDesign(), or give each question its own weight."
            )
        self.refreshes = frozenset(learner.stops(plan.steps) if behaviour.needs_variance else ())
        self.improvement = Improvement(asked, behaviour, learner, plan.steps)
        self.measured = frozenset(plan.stops)
        self.certain = (  # standard errors are kept with every snapshot where they are cheap
            learner.needs_evidence and not learner.forgetting_rates and world.features is None and world.states < DENSE_BELOW
        )
        self.counted = learner.needs_evidence or bool(self.replans)
        if learner.needs_evidence and plan.average_episodes:
            raise InputError(
                f"average_episodes: {type(learner).__name__} solves for its values only when they are measured; give 0."
            )
        self.dynamics: Dynamics = dynamics(world, asked)
        self.truth = GroundTruth.exact(world, asked)
        self.weights = asked.weigh(self.truth.values(asked.level), world.live / world.live.sum())
        self.loop: Loop = make_loop(
            self.sizes,
            world.successors,
            self.rule,
            learner.rule(self.sizes, behaviour.needs_variance),
            learner.needs_next_action,
            world.features is not None,
            bool(asked.drift_sd.any() or asked.carry.any()),
            plan.average_episodes > 0,
            self.counted,
        )
        self.loop(self.dynamics, *self._begin(0, asked), 0)  # compile before seeds run side by side

    def _begin(self, seed: int, asked: Stacked) -> tuple[Any, Any, Cursor, Monitor]:
        evidence = no_evidence(self.world, self.asked, self.counted, self.learner.forgetting_rates)
        ring = np.zeros((max(1, self.plan.average_episodes), self.sizes.gvfs))
        return (
            self.behaviour.begin(asked, self.world),
            self.learner.begin(asked, self.world),
            cursor(self.world, self.asked, seed_streams(seed), evidence),
            Monitor(np.ascontiguousarray(self.truth.base.T), np.ascontiguousarray(self.truth.unit.T), self.truth.points, ring),
        )

    def __call__(self, seed: int, progress: Progress | None = None) -> Part:
        asked = self.improvement.begin(self.asked)
        moving = self.dynamics._replace(pi=asked.pi)
        acting, learning, at, watch = self._begin(seed, asked)
        mse, levels, episodes, snapshots = [], [], [], []
        seconds, done = 0.0, 0
        rule = Watch(self.until, self.plan.steps, self.world.states * self.world.actions)
        for stop in sorted({*self.plan.stops, *self.replans, *self.refreshes, *self.improvement.times, *rule.times}):
            begun = time.perf_counter()
            self.loop(moving, acting, learning, at, watch, stop - done)
            done = stop
            known = self.improvement(stop, Empirical(self.world, asked, at.evidence), acting, learning, at.visits)
            if stop in self.refreshes:
                self.learner.refresh(learning, known)
            if stop in self.replans:
                self.behaviour.refresh(acting, known)
            reached = rule.look(stop, known)
            seconds += time.perf_counter() - begun
            times = self.plan.onward(stop) if reached else [stop] if stop in self.measured else []
            if not times:
                continue
            estimates = self.learner.values(learning, known)
            evaluated = [time for time in times if time in self.plan.evaluations]
            if evaluated:
                averaged = self.plan.average_episodes and at.at[3]
                now = watch.mean(int(at.at[3])) if averaged else self.truth.mse(estimates, at.level)
                mse += [now] * len(evaluated)
                levels += [at.level.copy()] * len(evaluated)
                episodes += [int(at.at[3])] * len(evaluated)
                if progress:
                    progress(seed, done, float(now @ self.weights / self.weights.sum()))
            shown = [time for time in times if time in self.plan.snapshots]
            if shown:
                snapshots += [(estimates, *self._tables(moving, acting, learning, at, known))] * len(shown)
            if reached:
                break
        columns = (np.stack(column) for column in zip(*snapshots, strict=True))
        values, variances, visits, behaviour, at_levels, errors, policies = columns
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
            standard_errors=errors,
            policies=policies,
            seconds=seconds,
            model=known if self.learner.needs_evidence else None,
            **rule.outcome(done),
        )

    def _tables(self, moving: Dynamics, acting: Any, learning: Any, at: Cursor, known: Empirical) -> tuple[np.ndarray, ...]:
        """Variances, visits, behaviour, drift levels, standard errors and policies found now."""
        mu = np.empty((self.world.states, self.world.actions))
        make_table(self.sizes, self.rule)(moving, acting, learning, int(at.at[0]), mu)
        kept = predicted_values(self.world, known.asked, learning.m) if self.behaviour.needs_variance else np.empty(0)
        errors = standard_errors(known) if self.certain else np.empty(0)
        return kept, at.visits.copy(), mu, at.level.copy(), errors, self.improvement.policies(known, self.world.states)


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
                standard_errors=stacked("standard_errors", k) if first.standard_errors.size else None,
                policies=stacked("policies", k) if first.policies.size else None,
            )
            for k, step in enumerate(first.snapshot_steps)
        ),
        truth=np.stack([part.truth for part in parts]),
        seconds=np.array([part.seconds for part in parts]),
        mse_outside=np.stack([part.mse_outside for part in parts]) if first.mse_outside.size else None,
        actors=np.stack([part.actor for part in parts]) if first.actor.size else None,
        expected=np.stack([part.expected for part in parts]) if first.expected.size else None,
        experiment=described,
        answers=tuple(part.answers for part in parts if part.answers is not None),
        models=tuple(part.model for part in parts if part.model is not None),
        stopped=np.array([part.stopped for part in parts]) if first.stopped else None,
        bounds=np.array([part.bound for part in parts]) if first.stopped else None,
    )
