"""Networks in a Gymnasium environment stepped from Python: what Discrete and Box actions have in common.

Transitions are rows.  The first `learning_starts` are set aside and determine the scales of observations and cumulants
(`Scales`).  Later ones are collected until there are enough to learn from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gvfx.compilation.networks import start_jax
from gvfx.errors import Diverged
from gvfx.evidence.decisions import Groups, Joint
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.inputs import LARGE_IN_SINGLE
from gvfx.learners.least_squares import Range
from gvfx.learners.networks import deep_updates as memory
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader
from gvfx.questions.where import EVERYWHERE, START
from gvfx.running.checkpoint import flatten, prefixed, unflatten, unprefixed
from gvfx.running.drive import UNBOUNDED
from gvfx.running.earlier import Earlier, learn_from_log
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import FunctionPredictor, QNetwork, Scales, TwinQNetworks
from gvfx.running.schema import EMPTY, Measurement, Part, expected_error
from gvfx.running.stepping import Lanes, SingleStepper, VectorStepper
from gvfx.running.streams.gym_stream import NEVER, AtVectors, GymRun
from gvfx.worlds.spec import BoxSpec

STARTS = 64  # latest observations in which episodes began: the start is their mean
LOSSES = ("Q", "M", "actor")


class GymNetworks(GymRun):
    """What the seeds share: the environment, the questions, the layout of a row, compiled functions."""

    columns: Any  # the columns of a transition's parts
    width: int  # of a row
    block: int  # transitions that are stored together
    counted: int  # the column by which visits are counted
    has_errors: bool  # whether predictions have standard errors
    largest = LARGE_IN_SINGLE

    def __init__(self, spec: BoxSpec, questions: Sequence[GVF], method: Method, options: Options) -> None:
        super().__init__(spec, questions, method, options)
        start_jax()
        self.answers_from = self.learner.learning_starts
        self.where = EVERYWHERE if options.where is None else START
        reader = Reader(questions, largest=self.largest)
        self.names, self.asked = reader.names, reader.questions
        self.weights = np.array([q.weight for q in self.asked], dtype=float)
        self.store = jax.jit(memory.write, donate_argnums=0)

    def predictor(self, parts: list[Part]) -> FunctionPredictor:
        return FunctionPredictor(tuple(part.function for part in parts), self.points, self.spec, self.targets)


class SteppedNetworks(AtVectors):
    """One seed: the environment's lanes, the networks, the replay buffer and the rows not yet stored in it."""

    run: GymNetworks
    learning: Any  # the networks, a pytree

    def __init__(
        self,
        run: GymNetworks,
        seed: int,
        source: SingleStepper | VectorStepper,
        together: int,
        prioritised: bool,
        action: np.ndarray,
    ) -> None:
        """together: rows that are learned from in one call; action [lane, ...]: the array for chosen actions."""
        super().__init__(run, seed, source)
        spec, lanes, self.together = self.spec, self.spec.lanes, together
        self.lanes = Lanes(lanes, spec.size, action, *self.reader.begin(lanes))
        self.over = np.zeros(lanes, bool)  # episodes that ended since the last action was chosen
        self.replay = memory.empty(run.learner.capacity, run.width, prioritised)
        self.scales = Scales.none(spec.size, len(run.names))
        self.learns = False
        self.early: list[np.ndarray] = []  # transitions [lane, column] from before learning starts
        self.rows = np.zeros((together + lanes, run.width), np.float32)
        self.pending = 0  # rows collected for the next call
        gvfs = len(run.names)
        self.extremes = np.stack([np.full(gvfs, np.inf), np.full(gvfs, -np.inf), np.zeros(gvfs)])  # of the rows learned from
        self.losses: Any = None
        self.begun: deque[np.ndarray] = deque(maxlen=STARTS)  # [o] observations in which episodes began

    def note_starts(self) -> None:
        """Keep the observations in which episodes begin now."""
        self.begun.extend(self.lanes.state[self.lanes.fresh])
        self.lanes.fresh[:] = False

    @property
    def at(self) -> Lanes:
        return self.lanes

    @property
    def made(self) -> int:
        """The transitions so far, those of a log included."""
        return int(self.lanes.t[0])

    def grow(self) -> Lanes:
        self.room = NEVER
        return self.lanes

    def take_log(self, log: Earlier) -> None:
        learn_from_log(self, log)

    def plan_on_log(self) -> None: ...

    def pause(self, stop: int) -> None: ...

    def weigh(self, weights: np.ndarray) -> None: ...

    def break_off(self) -> None:
        self.over[:] = True

    # --- learning ----------------------------------------------------------------------------------------------------

    def stored_rows(self, rows: np.ndarray) -> None:
        """Learn from rows that were written at the end of the pending ones, once there are enough."""
        self.lanes.t[0] += len(rows)
        if not self.learns:
            self.early.append(rows.copy())
            if self.made >= self.run.learner.learning_starts:
                self.begin_learning()
            return
        self.pending += len(rows)
        while self.pending >= self.together:
            self.absorb()

    @abstractmethod
    def absorb_rows(self, rows: np.ndarray) -> None:
        """Store `together` scaled rows and learn from them."""

    @abstractmethod
    def renew(self) -> None:
        """Update the networks and scales that the behaviour uses."""

    def begin_learning(self) -> None:
        """Compute the scales and store the rows that were set aside."""
        c, block = self.run.columns, self.run.block
        rows = np.concatenate(self.early)
        self.scales = Scales.found(rows[:, c.observation], rows[:, c.cumulants], rows[:, c.discounts])
        self.extremes = self.seen(rows)
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
        """Learn from the first `together` pending rows."""
        self.extremes = self.seen(self.rows[: self.together])
        rows, self.pending = self.scaled(self.rows[: self.together]), self.pending - self.together
        self.absorb_rows(rows)
        self.rows[: self.pending] = self.rows[self.together : self.together + self.pending]
        self.renew()

    def seen(self, rows: np.ndarray) -> np.ndarray:
        """The smallest and largest cumulants and the largest discounts so far [3, gvf], with those of further rows."""
        c, (least, most, largest) = self.run.columns, self.extremes
        cumulants, discounts = rows[:, c.cumulants], rows[:, c.discounts]
        return np.stack([
            np.minimum(least, cumulants.min(axis=0, initial=np.inf)),
            np.maximum(most, cumulants.max(axis=0, initial=-np.inf)),
            np.maximum(largest, discounts.max(axis=0, initial=0.0)),
        ])  # fmt: skip

    def within(self) -> Range | None:
        """The possible answers, from all transitions so far; None before the first."""
        waiting = self.rows[: self.pending] if self.learns else np.concatenate(self.early) if self.early else self.rows[:0]
        seen = self.seen(waiting)
        return Range.allowed(*seen) if np.isfinite(seen).all() else None

    # --- measuring ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        self.run.targets.again()
        self.reader.again()
        for what, losses in zip(LOSSES, self.losses or (), strict=False):
            each = np.atleast_1d(losses)
            bad = np.flatnonzero(~np.isfinite(each))
            if bad.size:
                kind, gvf = ("actor's loss", None) if what == "actor" else (f"loss of {what}", self.run.names[bad[0]])
                raise Diverged(kind, float(each[bad[0]]), self.t, self.seed, gvf, when="before")

    @abstractmethod
    def network(self) -> QNetwork | TwinQNetworks:
        """The current Q networks."""

    @abstractmethod
    def answers(self, points: np.ndarray) -> tuple[np.ndarray, ...]:
        """Values, variances, behaviour and standard errors at the points."""

    def stored(self) -> np.ndarray:
        """The transitions in the replay buffer, in the networks' units."""
        return np.array(self.replay.rows[: min(int(self.replay.written), len(self.replay.rows))])

    def kept(self) -> np.ndarray:
        """The transitions in the replay buffer and those not yet stored, with unscaled observations."""
        if not self.learns:
            return np.concatenate(self.early)
        rows = self.stored()
        part = self.run.columns.observation
        rows[:, part] = self.scales.unscaled(rows[:, part])
        return np.concatenate([rows, self.rows[: self.pending]])

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, gvfs = self.run, len(self.run.names)
        if not (tables or run.has_errors or run.where == START):
            return [Measurement(expected=expected_error(EMPTY, gvfs))]
        kept = self.kept()
        seen = kept[:, run.columns.observation]
        points = self.shown_points(seen)
        values, variances, behaviour, errors = self.answers(points)
        visits = np.zeros(behaviour.shape, np.int64)  # each counted at its nearest point
        np.add.at(visits, (self.scales.nearest(seen, points), kept[:, run.counted].astype(int)), 1)
        return [
            Measurement(
                expected=expected_error(errors, gvfs)
                if run.where == EVERYWHERE
                else self.start_answers(self.network())[:, 1] ** 2,
                values=values,
                variances=variances,
                visits=visits,
                behaviour=behaviour,
                standard_errors=errors,
            )
        ]

    def outcome(self, k: int) -> dict[str, Any]:
        network = self.network()
        return {"function": network, "start": self.start_answers(network)}

    def start_answers(self, network: QNetwork | TwinQNetworks) -> np.ndarray:
        """The value at the start, the root mean square of the heads' spreads over starts, and NaN for the truth, [gvf, 3]."""
        points = np.array(self.begun)
        batch = self.spec.together([self.spec.whole(point) for point in self.spec.origin.absolute(points)])
        values, errors = network.values(points, self.run.targets(batch))
        spread = np.sqrt((errors**2).mean(axis=1)) if errors.size else np.full(len(values), np.nan)
        return np.stack([values.mean(axis=1), spread, np.full(len(values), np.nan)], axis=1)

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        raise NotImplementedError(UNBOUNDED)

    def joint(self, groups: Groups) -> Joint:
        raise NotImplementedError(UNBOUNDED)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def draws_from(self, *own: np.random.Generator) -> None:
        """Set the random generators; own: the agent's."""
        self.generators = {f"generator:{k}": each for k, each in enumerate((*own, self.reader.noise))}

    def learned(self) -> dict[str, np.ndarray]:
        """Everything that learns, as named arrays."""
        run, scales = self.run, self.scales
        arrays = prefixed("learning", flatten(self.learning)) | prefixed("replay", flatten(self.replay))
        arrays["counts"] = np.array([self.made, self.source.episode, self.source.episode, self.learns, self.pending], np.int64)
        arrays |= {"centre": scales.centre, "spread": scales.spread, "unit": scales.unit}
        arrays |= {"rows": self.rows[: self.pending], "extremes": self.extremes, "begun": np.array(self.begun)}
        arrays["early"] = np.concatenate(self.early) if self.early else np.zeros((0, run.width), np.float32)
        return arrays

    def learn_again(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `learned` returned."""
        self.learning = unflatten(self.learning, unprefixed("learning", arrays))
        self.replay = unflatten(self.replay, unprefixed("replay", arrays))
        self.lanes.t[0], _, self.source.episode, learns, self.pending = (int(n) for n in arrays["counts"])
        self.learns = bool(learns)
        self.scales = Scales(arrays["centre"].copy(), arrays["spread"].copy(), arrays["unit"].copy())
        self.rows[: self.pending], self.extremes = arrays["rows"], arrays["extremes"].copy()
        self.begun.extend(arrays.get("begun", ()))
        self.early = [arrays["early"].copy()] if len(arrays["early"]) else []
        self.renew()
