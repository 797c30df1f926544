"""Tables in a finite world with known dynamics: the whole loop is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import rescale, watching
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.evidence.starts import start_values
from gvfx.evidence.uncertainty import standard_errors
from gvfx.kernel import Sizes
from gvfx.learners.base import Learner
from gvfx.questions.gvf import Stacked
from gvfx.questions.where import EVERYWHERE
from gvfx.rng import seed_streams
from gvfx.running.checkpoint import fill, tables
from gvfx.running.drive import Backend, Stream
from gvfx.running.finite import FiniteTables
from gvfx.running.improving import Improvement
from gvfx.running.plan import Plan
from gvfx.running.record import EMPTY, Measurement
from gvfx.running.streams.compiled_loop import Cursor, Monitor, cursor, dynamics, make_loop, make_table
from gvfx.theory.exact import DENSE_BELOW
from gvfx.truths.exact import GroundTruth, predicted_values
from gvfx.worlds.mdp import MDP


class TableCompiled(Backend):
    """What the seeds share: the world's arrays, the compiled loop, the exact true values."""

    def __init__(self, world: MDP, asked: Stacked, behaviour: Behaviour, learner: Learner, plan: Plan) -> None:
        self.world, self.asked, self.behaviour, self.learner, self.plan = world, asked, behaviour, learner, plan
        self.names, self.pairs, self.calibrated = asked.names, world.states * world.actions, asked.calibrated
        self.where = asked.where
        if plan.average_episodes and self.where != EVERYWHERE:
            raise InputError("average_episodes: averages the error over all states; give 0, or leave out `where`.")
        self.sizes = Sizes(len(self.names), world.actions)
        self.rule = behaviour.rule(self.sizes)
        self.replans = frozenset(behaviour.stops(plan.steps, world))
        self.refreshes = frozenset(learner.stops(plan.steps) if behaviour.needs_variance else ())
        self.improvement = Improvement(asked, behaviour, learner, plan.steps)
        self.certain = (  # standard errors are kept with every snapshot if they are cheap
            learner.needs_evidence and not learner.forgetting_rates and world.features is None and world.states < DENSE_BELOW
        )
        self.counted = learner.needs_evidence or bool(self.replans)
        if learner.needs_evidence and plan.average_episodes:
            raise InputError(
                f"average_episodes: {type(learner).__name__} computes its values only when they are measured; give 0."
            )
        self.dynamics = dynamics(world, asked)
        self.truth = GroundTruth.exact(world, asked)
        self.weights = asked.weigh(self.truth.values(asked.level), asked.where.on(world))
        self.loop = make_loop(
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
        self.begin(0).advance(0)  # compile before seeds run in parallel

    def begin(self, seed: int) -> CompiledTable:
        return CompiledTable(self, seed)


class CompiledTable(Stream):
    """One seed: the state of the compiled loop."""

    def __init__(self, run: TableCompiled, seed: int) -> None:
        self.run, self.seeds = run, (seed,)
        self.stops, self.plans = run.replans | run.refreshes | run.improvement.times, run.replans
        self.asked = run.improvement.begin(run.asked)
        self.moving = run.dynamics._replace(pi=self.asked.pi)
        evidence = no_evidence(run.world, run.asked, run.counted, run.learner.forgetting_rates)
        acting = run.behaviour.begin(self.asked, run.world)
        self.learning = run.learner.begin(self.asked, run.world)
        self.acting = watching(run.behaviour, acting, self.learning.q)
        self.at: Cursor = cursor(run.world, run.asked, seed_streams(seed), evidence)
        ring = np.zeros((max(1, run.plan.average_episodes), run.sizes.gvfs))
        base, unit = (np.ascontiguousarray(part.T) for part in (run.truth.base, run.truth.unit))
        self.monitor = Monitor(base, unit, run.truth.points, ring)
        self._known: Empirical | None = None
        self.finite = FiniteTables(run.names, seed, self.acting)

    def start(self) -> None: ...

    def advance(self, to: int) -> None:
        self.run.loop(self.moving, self.acting, self.learning, self.at, self.monitor, to - self.t)
        self.t, self._known = to, None

    @property
    def known(self) -> Empirical:
        if self._known is None:
            self._known = self._improved(0)
        return self._known

    def _improved(self, stop: int) -> Empirical:
        """The evidence so far, with the policies that it implies if some are found during the run."""
        known = Empirical(self.run.world, self.asked, self.at.evidence)
        return self.run.improvement(stop, known, self.acting, self.learning, self.at.visits)

    def weigh(self, weights: np.ndarray) -> None:
        self.asked, self._known = self.asked._replace(weights=weights), None

    def pause(self, stop: int) -> None:
        self._known = known = self._improved(stop)
        if stop in self.run.refreshes:
            self.run.learner.refresh(self.learning, known)
            rescale(self.run.behaviour, self.acting, known)
        if stop in self.run.replans:
            self.run.behaviour.refresh(self.acting, known)

    def check(self) -> None:
        self.finite.check(self.t, self.acting, None if self.run.learner.needs_evidence else self.learning)

    def episodes(self) -> list[int]:
        return [int(self.at.at[3])]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, at, known = self.run, self.at, self.known
        estimates = run.learner.values(self.learning, known)
        mse = EMPTY
        if curve:
            averaged = run.plan.average_episodes and at.at[3]
            mse = self.monitor.mean(int(at.at[3])) if averaged else run.truth.mse(estimates, at.level)
        if not tables:
            return [Measurement(mse=mse, levels=at.level.copy())]
        mu = np.empty((run.world.states, run.world.actions))
        shown = run.behaviour.shown(self.acting)
        make_table(run.sizes, run.rule)(self.moving, shown, self.learning, int(at.at[0]), mu)
        return [
            Measurement(
                mse=mse,
                levels=at.level.copy(),
                values=estimates,
                variances=predicted_values(run.world, known.asked, self.learning.m) if run.behaviour.needs_variance else EMPTY,
                visits=at.visits.copy(),
                behaviour=mu,
                standard_errors=standard_errors(known) if run.certain else EMPTY,
                policies=run.improvement.policies(known, run.world.states),
            )
        ]

    def _tree(self) -> Any:
        """Everything that changes during a run."""
        return (self.acting, self.learning, self.at, self.monitor.ring, self.asked.pi)

    def state(self) -> dict[str, np.ndarray]:
        return dict(tables(self._tree()))

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        fill(self._tree(), arrays)
        self.t, self._known = int(self.at.at[0]), None

    def outcome(self, k: int) -> dict[str, Any]:
        run, known = self.run, self.known
        certain = run.learner.needs_evidence
        truth = run.truth.values(self.at.level)
        return {
            "truth": truth,
            "model": known if certain else None,
            "start": start_values(known, None if certain else run.learner.values(self.learning, known), truth @ run.world.start),
        }
