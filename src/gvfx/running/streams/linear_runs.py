"""Linear learning in any world: plans on cells, features chosen as data grow, answers when they are measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import rescale
from gvfx.evidence.cell_model import CellModel, cell_model
from gvfx.evidence.joint import Groups, Joint
from gvfx.evidence.outcomes import widened
from gvfx.evidence.transitions import Transitions
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.features.cells import Cells
from gvfx.features.kernel import Kernel
from gvfx.kernel import Sizes
from gvfx.learners.half_samples import FREEDOM, Answers
from gvfx.learners.linear import LinearCertaintyEquivalence, left_out, unresolved
from gvfx.learners.selection import Choice
from gvfx.questions.cumulants import Constant
from gvfx.questions.gvf import GVF, Stacked, expand, question_names, stack
from gvfx.questions.policies import uniform_policy
from gvfx.questions.where import EVERYWHERE, START, Where, counted
from gvfx.rng import seed_streams
from gvfx.running.checkpoint import fill, tables
from gvfx.running.drive import Backend, Stream
from gvfx.running.earlier import later
from gvfx.running.plan import Plan
from gvfx.running.record import EMPTY
from gvfx.running.streams.linear_agent import FIRST, Kept, LinearAgent, make_lanes, no_transitions, transitions, with_room
from gvfx.worlds.spec import skeleton_mdp

LATTICE_CELLS = 400  # cells with one or two inputs
CENTRE_CELLS = 150  # cells with more inputs
INITIAL_M = 5.0  # the variance M of pairs without data
LATE = 200_000  # transitions from which features are chosen again only for snapshots
SIGNS = (0.2, 0.5)  # gains from resolution at which a behaviour begins to follow the targets, and does nothing else


class LinearRuns(Backend):
    """What the seeds share: the questions over cells, and compiled functions."""

    learner: LinearCertaintyEquivalence

    def prepare(
        self,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: LinearCertaintyEquivalence,
        plan: Plan,
        size: int,
        actions: int,
        horizon: int | None,
        calibrate: bool,
        where: Where = EVERYWHERE,
    ) -> None:
        """size: numbers in an observation; horizon: steps after which episodes are truncated."""
        self.behaviour, self.learner, self.plan = behaviour, learner, plan
        self.planner, self.size, self.horizon = behaviour.on_cells(), size, horizon
        asked = expand(questions)
        self.names = question_names(asked)
        self.weights = np.array([q.weight for q in asked], dtype=float)
        self.calibrated, self.where = calibrate, where
        self.varying = any(callable(q.discount) for q in asked)
        self.rows = LATTICE_CELLS if size <= 2 else CENTRE_CELLS
        self.pairs = self.rows * actions
        skeleton = skeleton_mdp(self.rows, actions, horizon)
        self.asked: Stacked = stack(over_cells(asked, self.names), skeleton, "calibrated" if calibrate else None)
        self.replans = later(lambda steps: self.planner.stops(steps, skeleton), self.logged, plan.steps)
        self.looks = later(learner.stops, self.logged, plan.steps)
        self.seldom = later(lambda steps: learner.stops(steps)[::2], self.logged, plan.steps)
        self.sizes = Sizes(len(self.names), actions)
        self.rule = self.planner.rule(self.sizes)
        self.compiled = make_lanes(self.sizes, self.rule, behaviour.counts_cells)


def over_cells(questions: Sequence[GVF], names: Sequence[str]) -> list[GVF]:
    """Questions as a table of cells needs them; policies, cumulants and varying discounts come from transitions."""
    return [
        replace(
            q,
            policy=uniform_policy(),
            cumulant=Constant(0.0),
            discount=1.0 if callable(q.discount) else q.discount,
            name=name,
        )
        for q, name in zip(questions, names, strict=True)
    ]


class LinearStream(Stream):
    """One seed: the agent's arrays, and the features chosen so far."""

    run: LinearRuns
    agent: LinearAgent

    def open(self, run: LinearRuns, seed: int, policies: int, constant: np.ndarray | None) -> Kept:
        """Prepare all but the agent, which the world completes; constant [action, policy]: policies without observations."""
        self.run, self.seeds, self.seed = run, (seed,), seed
        self.stops, self.plans, self.weights = run.replans | run.looks, run.replans, run.asked.weights
        self.choice: Choice | None = None
        self._answers: tuple[int, bool, Answers, Choice] | None = None
        self._known: tuple[int, CellModel] | None = None
        room = min(FIRST, run.learner.capacity)
        return no_transitions(run.size, len(run.names), run.sizes.actions, constant, policies, room)

    def begun(self) -> dict[str, Any]:
        """The agent's fields that do not depend on how the world is stepped; at first all observations are one cell."""
        run = self.run
        world = skeleton_mdp(run.rows + 1, run.sizes.actions, run.horizon)
        return {
            "behaviour": run.planner.begin(widened(run.asked), world),
            "cells": Cells.of(np.zeros((1, run.size), np.float32), 1),
            "m": np.full((run.rows + 1, run.sizes.actions, len(run.names)), INITIAL_M),
            "rng": seed_streams(self.seed),
            "t": np.zeros(2, np.int64),
            "mu": np.zeros(run.sizes.actions),
            "given": np.zeros((run.sizes.actions, len(run.names))),
        }

    def make_room(self, steps: int) -> None:
        """Room for further transitions, up to the learner's capacity."""
        kept, most = self.agent.kept, self.run.learner.capacity
        needed = min(int(kept.used[0]) + steps, most)
        if needed > len(kept.action):
            self.agent = self.agent._replace(kept=with_room(kept, min(max(needed, 2 * len(kept.action)), most)))

    @property
    def data(self) -> Transitions:
        return transitions(self.agent.kept, self.agent.member)

    # --- plans -------------------------------------------------------------------------------------------------------

    @property
    def known(self) -> CellModel:
        if self._known is None or self._known[0] != self.t:
            self._known = (self.t, self._model(self._cells(), None, 0.0))
        return self._known[1]

    def _cells(self) -> Cells:
        return Cells.of(self.data.observation, self.run.rows)

    def _model(self, cells: Cells, errors: np.ndarray | None, share: float) -> CellModel:
        run = self.run
        asked = run.asked._replace(where=run.where, weights=self.weights)
        if run.where.kind == "observations":
            asked = asked._replace(where=counted(cells(run.asked_at)))
        return cell_model(self.data, cells, asked, run.rows, run.horizon, run.varying, errors, share)

    def _settled(self) -> bool:
        """Whether kernel features were chosen: that takes long, so they are chosen again at every second look only."""
        return self.choice is not None and isinstance(self.choice.basis.features, Kernel)

    def pause(self, stop: int) -> None:
        run = self.run
        if stop in run.looks and self.agent.kept.used[0] <= LATE and not (self._settled() and stop in run.seldom):
            self.choice = run.learner.choose(self.data, self.seed)
        if not (stop in run.replans or (stop in run.looks and run.planner.needs_variance)):
            return
        cells, errors, share = self._cells(), None, 0.0
        if stop in run.replans:
            if self.choice is None:
                self.choice = run.learner.choose(self.data, self.seed)
            errors = run.learner.fit(self.data, self.choice, halved=True).errors(self.data)
            share = following(self.choice)
        model = self._model(cells, errors, share)
        self.agent = self.agent._replace(cells=cells)
        if run.planner.needs_variance:
            rescale(run.planner, self.agent.behaviour, model)
            own = np.where(model.tried[:, :, None], model.variance(), INITIAL_M)
            self.agent.m[:] = own
        if stop in run.replans:
            run.planner.refresh(self.agent.behaviour, model)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answers(self, fresh: bool, intervals: bool) -> tuple[Answers, Choice]:
        """The answers now, and the features behind them; unless `fresh`, with the features chosen last."""
        kept = self._answers
        if kept is not None and kept[0] == self.t and kept[1] >= intervals:
            return kept[2], kept[3]
        choice = self.choice
        if fresh or choice is None:
            choice = self.run.learner.choose(self.data, self.seed)
        found = self.run.learner.answers(self.data, choice, self.seed, intervals)
        self._answers = (self.t, intervals, found, choice)
        return found, choice

    @abstractmethod
    def at_points(self) -> tuple[np.ndarray, np.ndarray]:
        """The points [point, o] at which errors are estimated now, and the policies there [1 or point, action, gvf]."""

    def bounded_at(self) -> tuple[np.ndarray, np.ndarray]:
        """As `at_points`, the points over which a stopping rule bounds the error."""
        return self.at_points()

    @abstractmethod
    def start_answers(self, found: Answers) -> np.ndarray:
        """The value at the start and its standard error, [gvf, 2]."""

    @abstractmethod
    def start_joint(self, found: Answers) -> Joint:
        """The values at the start with the errors of their differences."""

    def joint(self, groups: Groups) -> Joint:
        return self.start_joint(self.answers(False, True)[0])

    def weigh(self, weights: np.ndarray) -> None:
        self.weights, self._known = weights, None

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        """As `ErrorBelow.bound`, from the half-samples at the points, or of the value at the start."""
        if self.run.where == START:
            value, error = self.start_answers(self.answers(False, True)[0]).T[:, :, None]
            return until.from_errors(value, error, self.run.weights, FREEDOM, looks)
        (points, pi), found = self.bounded_at(), self.answers(False, True)[0]
        values, errors = found.values(points, pi)
        return until.from_errors(values, errors, self.run.weights, found.freedom(points, pi), looks)

    def probabilities(self, points: np.ndarray, policies: np.ndarray) -> np.ndarray:
        """The behaviour's probabilities [point, action]; policies [point, action, policy]."""
        mu = np.empty((len(points), self.run.sizes.actions))
        agent = self.agent._replace(behaviour=self.run.planner.shown(self.agent.behaviour))
        before = [array.copy() for array in (agent.rng, agent.state, agent.policies)]
        self.run.compiled[2](agent, points.astype(np.float32), np.ascontiguousarray(policies, np.float32), mu)
        for array, old in zip((agent.rng, agent.state, agent.policies), before, strict=True):
            array[...] = old
        return mu

    def episodes(self) -> list[int]:
        return [int(self.agent.t[1])]

    def outcome(self, k: int) -> dict[str, Any]:
        found, choice = self.answers(True, True)
        self.notes: dict[str, Any] = {"not_resolved": unresolved(self.data, choice, self.run.names)}
        self.notes["inputs"] = left_out(choice, self.run.size)
        return {"network": found, "differences": self.start_joint(found).known if found.halves else EMPTY}

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        arrays = dict(tables(self.agent)) | {"cells.side": np.array(self.agent.cells.side)}
        if self.choice is not None:
            arrays |= {f"choice.{name}": array for name, array in self.choice.arrays().items()}
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        kept = len(arrays["kept.action"])
        if kept > len(self.agent.kept.action):
            self.agent = self.agent._replace(kept=with_room(self.agent.kept, kept))
        self.agent = self.agent._replace(cells=Cells.from_arrays(arrays, "cells."))
        fill(self.agent, arrays)
        chosen = {name[7:]: array for name, array in arrays.items() if name.startswith("choice.")}
        self.choice = Choice.from_arrays(chosen) if chosen else None
        self.t = int(self.agent.t[0])


def following(choice: Choice) -> float:
    """The share of actions that follow the target policies: all of them where resolution and not chance limits the answers.

    It is judged by how much the full resolution predicts better than half of it.  Where chance is all that is left there is no
    gain, and the design's prediction of the error holds.
    """
    coarse = choice.halved.mean()
    gain = 1 - choice.score.mean() / coarse if coarse > 0 else 0.0
    return float(np.clip((gain - SIGNS[0]) / (SIGNS[1] - SIGNS[0]), 0.0, 1.0))
