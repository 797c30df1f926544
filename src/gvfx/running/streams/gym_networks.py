"""A Gymnasium environment stepped from Python by an agent with networks: what Discrete and Box actions have in common.

Transitions are rows.  The first `learning_starts` are kept aside; from them observations and cumulants are scaled
(`Scales`).  Later ones wait until there are enough to learn from.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.learners.networks import replay as memory
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader
from gvfx.running.evaluate import Part, Plan
from gvfx.running.gym_stepper import EnvironmentFailed, SingleStepper, VectorStepper
from gvfx.running.predictor import Answers, CriticAnswers, Scales
from gvfx.running.record import EMPTY, Diverged, Record
from gvfx.worlds.spec import BoxSpec

POINTS = 64  # observations at which answers are shown and errors estimated
LOSSES = ("Q", "M", "actor")


class Runner(ABC):
    """Everything that seeds share; calling it with a seed runs that seed in the environment."""

    columns: Any  # where a transition's parts lie in a row
    width: int  # of a row
    block: int  # transitions that are stored together
    counted: int  # the column by which visits are told apart
    tells_errors: bool  # whether answers come with standard errors

    def __init__(self, spec: BoxSpec, questions: Sequence[GVF], behaviour: Behaviour, learner: Any, plan: Plan) -> None:
        self.spec, self.questions, self.behaviour, self.learner, self.plan = spec, questions, behaviour, learner, plan
        reader = Reader(questions)
        self.names = reader.names
        self.weights = np.array([q.weight for q in reader.questions], dtype=float)
        self.store = jax.jit(memory.write, donate_argnums=0)
        self.points: np.ndarray | None = None  # [point, o]: chosen by the first seed at its first measurement

    @abstractmethod
    def begin(self, seed: int) -> UnderWay: ...

    @abstractmethod
    def ask(self, observations: list[Any]) -> None:
        """Note the target policies at the points."""

    def __call__(self, seed: int, progress: Callable[[int, int, float], None] | None = None) -> Part:
        """Run a seed; where the environment fails, EnvironmentFailed carries the part so far."""
        going, seconds = self.begin(seed), 0.0
        record = Record(len(self.names), seed, progress, self.weights)
        try:
            going.stepper.begin(going, seed)
            for stop in self.plan.stops:
                begun = time.perf_counter()
                going.until(stop)
                seconds += time.perf_counter() - begun
                going.check()
                shows = stop in self.plan.snapshots
                tables = going.tables() if shows or self.tells_errors else (EMPTY,)
                record.evaluated([stop] * (stop in self.plan.evaluations), going.episodes, tables[-1])
                record.shown([stop] * shows, tables)
        except EnvironmentFailed as error:
            if going.t:
                record.shown([going.t], going.tables())
                error.part = record.part(seconds, going.answers())
            raise
        return record.part(seconds, going.answers())


class UnderWay(ABC):
    """One seed under way; the agent into which steppers write (see `gvfx.running.gym_stepper`)."""

    run: Runner
    action: np.ndarray  # [lane, ...]

    def __init__(self, run: Runner, seed: int, together: int, prioritised: bool) -> None:
        """together: rows that are learnt from in one call."""
        spec, lanes = run.spec, run.spec.lanes
        self.run, self.seed, self.t, self.episodes, self.together = run, seed, 0, 0, together
        reader = Reader(run.questions, None, seed)
        self.stepper: SingleStepper | VectorStepper = SingleStepper(spec, reader) if spec.single else VectorStepper(spec, reader)
        self.state, self.following = np.zeros((2, lanes, spec.size), np.float32)
        self.c, self.gamma = reader.begin(lanes)
        self.alive = np.ones(lanes)
        self.ended, self.fresh, self.counts = np.zeros(lanes, bool), np.zeros(lanes, bool), np.ones(lanes, bool)
        self.over = np.zeros(lanes, bool)  # episodes that ended since the behaviour was last asked
        self.replay = memory.empty(run.learner.capacity, run.width, prioritised)
        self.scales = Scales.none(spec.size, len(run.names))
        self.learns = False
        self.early: list[np.ndarray] = []  # transitions [lane, column] from before learning starts
        self.rows = np.zeros((together + lanes, run.width), np.float32)
        self.pending = 0  # rows that wait until there are enough
        self.losses: Any = None

    def until(self, stop: int) -> None:
        """Steps, until so many transitions were made."""
        step, learn = self.stepper.step, type(self).learn
        while self.t < stop:
            self.act()
            self.episodes += step(self, learn)

    @abstractmethod
    def act(self) -> None:
        """Choose an action in every lane."""

    @abstractmethod
    def learn(self) -> None:
        """Keep every lane's transition; with enough of them, learn."""

    @abstractmethod
    def absorb_rows(self, rows: np.ndarray) -> None:
        """Store scaled rows, as many as are learnt from together, and learn."""

    @abstractmethod
    def renew(self) -> None:
        """Let the behaviour see the networks and scales as they are now."""

    def set_aside(self, rows: np.ndarray) -> None:
        """Keep rows from before learning starts; with enough of them, start."""
        self.early.append(rows)
        if self.t >= self.run.learner.learning_starts:
            self.begin_learning()

    def begin_learning(self) -> None:
        """Find the scales and store what was kept aside."""
        c, block = self.run.columns, self.run.block
        rows = np.concatenate(self.early)
        self.scales = Scales.found(rows[:, c.observation], rows[:, c.cumulants], rows[:, c.discounts])
        self.renew()
        self.learns, self.early = True, []
        whole = len(rows) // block * block
        for k in range(0, whole, block):
            self.replay = self.run.store(self.replay, self.scaled(rows[k : k + block]))
        self.pending = len(rows) - whole
        self.rows[: self.pending] = rows[whole:]

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows with observations and cumulants in the networks' units."""
        c, out = self.run.columns, rows.copy()
        for part in (c.observation, c.following):
            out[:, part] = self.scales.scaled(out[:, part])
        out[:, c.cumulants] /= self.scales.unit
        return out

    def absorb(self) -> None:
        """Learn from the first of the rows that wait."""
        rows, self.pending = self.scaled(self.rows[: self.together]), self.pending - self.together
        self.absorb_rows(rows)
        self.rows[: self.pending] = self.rows[self.together : self.together + self.pending]
        self.renew()

    # --- looking ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Stop at a loss that is not finite."""
        for what, losses in zip(LOSSES, self.losses or (), strict=False):
            each = np.atleast_1d(losses)
            bad = np.flatnonzero(~np.isfinite(each))
            if bad.size:
                whose = f"loss of {what} of {self.run.names[bad[0]]!r}" if what != "actor" else "actor's loss"
                raise Diverged(
                    f"run: the {whose} became {float(each[bad[0]])} before step {self.t} (seed {self.seed}); "
                    "lower the learning rate or look at the signal."
                )

    @abstractmethod
    def answers(self) -> Answers | CriticAnswers:
        """The Q networks as they are now."""

    def kept(self) -> np.ndarray:
        """The transitions in the replay and before it, their observations not scaled."""
        if not self.learns:
            return np.concatenate(self.early)
        stored = min(int(self.replay.written), len(self.replay.rows))
        rows = np.array(self.replay.rows[:stored])
        part = self.run.columns.observation
        rows[:, part] = rows[:, part] * self.scales.spread + self.scales.centre
        return np.concatenate([rows, self.rows[: self.pending]])

    def tables(self) -> tuple[np.ndarray, ...]:
        """Values, variances, visits, behaviour and standard errors at the points now; visits are counted at the nearest."""
        run, kept = self.run, self.kept()
        seen = kept[:, run.columns.observation]
        points = self.points(seen)
        values, variances, behaviour, errors = self.told(points)
        visits = np.zeros(behaviour.shape, np.int64)
        np.add.at(visits, (self.scales.nearest(seen, points), kept[:, run.counted].astype(int)), 1)
        return values, variances, visits, behaviour, errors

    @abstractmethod
    def told(self, points: np.ndarray) -> tuple[np.ndarray, ...]:
        """Values, variances, behaviour and standard errors at the points."""

    def points(self, seen: np.ndarray) -> np.ndarray:
        """Where answers are shown: some observations met so far."""
        run = self.run
        if run.points is None:
            from gymnasium.spaces.utils import unflatten

            chosen = np.random.default_rng([self.seed, 7]).choice(len(seen), min(POINTS, len(seen)), replace=False)
            points = seen[np.sort(chosen)]
            run.ask([unflatten(run.spec.space, point) for point in points])
            run.points = points
        return run.points
