"""Networks in a Gymnasium environment stepped from Python: what Discrete and Box actions have in common.

Transitions are rows.  The first `learning_starts` are set aside and determine the scales of observations and cumulants
(`Scales`).  Later ones are collected until there are enough to learn from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from gvfx.compilation.networks import start_jax
from gvfx.errors import Diverged
from gvfx.inputs import LARGE_IN_SINGLE
from gvfx.learners.least_squares import Range
from gvfx.learners.networks import deep_updates as memory
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader
from gvfx.questions.where import EVERYWHERE, START
from gvfx.running.earlier import Earlier, learn_from_log
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import FunctionPredictor, QNetwork, Scales, TwinQNetworks
from gvfx.running.schema import EMPTY, Measurement, Part, expected_error
from gvfx.running.stepping import Lanes, SingleStepper, VectorStepper
from gvfx.running.streams.gym_stream import NEVER, AtVectors, GymRun
from gvfx.worlds.spec import BoxSpec

UNSURE = 1e-3  # the weight below which what follows a cut may be left to the answers
STARTS = 64  # latest observations in which episodes began: the start is their mean
LOSSES = ("Q", "M", "actor")


class GymNetworks(GymRun):
    """What the seeds share: the environment, the questions, the layout of a row, compiled functions."""

    columns: Any  # the columns of a transition's parts
    width: int  # of a row
    block: int  # transitions that are stored together
    counted: int  # the column by which visits are counted
    has_errors: bool  # whether predictions have standard errors
    heads = 0  # bootstrapped, of which every row has a weight
    largest = LARGE_IN_SINGLE
    cut_at = UNSURE

    def __init__(self, spec: BoxSpec, questions: Sequence[GVF], method: Method, options: Options, share: float = 0.0) -> None:
        super().__init__(spec, questions, method, options, share)
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
    kept: ClassVar = {
        "learning": "learning:",
        "replay": "replay:",
        ("made", "source.episode", "source.episode", "learns", "pending"): "counts",
        **{f"scales.{name}": name for name in ("centre", "spread", "unit")},
        "waiting": "rows",
        **{name: name for name in ("early", "extremes", "begun")},
    }
    bootstrap: np.random.Generator  # of the weights for bootstrapped heads

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
        spec, lanes, self.together, gvfs = self.spec, self.spec.lanes, together, len(run.names)
        self.lanes = Lanes(np.zeros((lanes, spec.size), np.float32), action, *self.reader.begin(lanes))
        self.over = np.zeros(lanes, bool)  # episodes that ended since the last action was chosen
        self.replay = memory.empty(run.learner.capacity, run.width, prioritised)
        self.scales = Scales.none(spec.size, gvfs)
        self.learns = False
        self.rows = np.zeros((max(together, run.learner.learning_starts) + lanes, run.width), np.float32)
        self.pending = 0  # of them are collected, for the next call or from before learning starts
        self.extremes = np.stack([np.full(gvfs, np.inf), np.full(gvfs, -np.inf), np.zeros(gvfs)])  # of the rows learned from
        self.losses: Any = None
        self.starts = np.zeros((0, spec.size), np.float32)  # [k, o] observations in which the last episodes began

    def note_starts(self) -> None:
        """Keep the observations in which episodes begin now."""
        self.starts = np.concatenate([self.starts, self.lanes.state[self.lanes.fresh]])[-STARTS:]
        self.lanes.fresh[:] = False

    @property
    def at(self) -> Lanes:
        return self.lanes

    @property
    def made(self) -> int:
        """The transitions so far, those of a log included."""
        return int(self.lanes.t[0])

    @made.setter
    def made(self, transitions: int) -> None:
        self.lanes.t[0] = transitions

    def grow(self) -> Lanes:
        self.room = NEVER
        return self.lanes

    def take_log(self, log: Earlier) -> None:
        learn_from_log(self, log)

    def plan_on_log(self) -> None: ...

    def break_off(self) -> None:
        self.over[:] = True

    # --- learning ----------------------------------------------------------------------------------------------------

    def collected(self, rows: int) -> None:
        """Learn from rows that were written after the pending ones, once there are enough."""
        self.made, self.pending = self.made + rows, self.pending + rows
        if not self.learns:
            if self.made >= self.run.learner.learning_starts:
                self.begin_learning()
            return
        while self.pending >= self.together:
            self.absorb()

    @abstractmethod
    def absorb_rows(self, rows: np.ndarray) -> None:
        """Store `together` scaled rows and learn from them."""

    @abstractmethod
    def renew(self) -> None:
        """Update the networks and scales that the behaviour uses."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare what learns, as learning starts."""

    def begin_learning(self) -> None:
        """Compute the scales and store the rows that were set aside."""
        c, block = self.run.columns, self.run.block
        rows = self.rows[: self.pending].copy()
        self.scales = Scales.found(rows[:, c.observation], rows[:, c.cumulants], rows[:, c.discounts])
        self.extremes = self.seen(rows)
        self.renew()
        self.learns = True
        whole = len(rows) // block * block
        for k in range(0, whole, block):
            self.replay = self.run.store(self.replay, self.scaled(rows[k : k + block]))
        self.pending = len(rows) - whole
        self.rows[: self.pending] = rows[whole:]
        self.prepare()

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows with observations and cumulants in the networks' units, and with weights for bootstrapped heads."""
        c, out, heads = self.run.columns, rows.copy(), self.run.heads
        for part in (c.observation, c.following):
            out[:, part] = self.scales.scaled(out[:, part])
        out[:, c.cumulants] /= self.scales.unit
        if heads:
            out[:, c.shares] = 2.0 * self.bootstrap.integers(0, 2, (len(rows), heads))
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
        seen = self.seen(self.rows[: self.pending])
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

    def seen_so_far(self) -> np.ndarray:
        """The transitions in the replay buffer and those not yet stored, with unscaled observations."""
        if not self.learns:
            return self.rows[: self.pending].copy()
        rows = self.stored()
        part = self.run.columns.observation
        rows[:, part] = self.scales.unscaled(rows[:, part])
        return np.concatenate([rows, self.rows[: self.pending]])

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, gvfs = self.run, len(self.run.names)
        if not (tables or run.has_errors or run.calibrated or run.where == START):
            return [Measurement(expected=expected_error(EMPTY, gvfs))]
        kept = self.seen_so_far()
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
        points = self.starts
        batch = self.spec.together([self.spec.whole(point) for point in self.spec.origin.absolute(points)])
        values, errors = network.values(points, self.run.targets(batch))
        spread = np.sqrt((errors**2).mean(axis=1)) if errors.size else np.full(len(values), np.nan)
        return np.stack([values.mean(axis=1), spread, np.full(len(values), np.nan)], axis=1)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> np.ndarray:
        """The rows for the next call."""
        return self.rows[: self.pending if self.learns else 0]

    @waiting.setter
    def waiting(self, rows: np.ndarray) -> None:
        self.rows[: len(rows)] = rows

    @property
    def early(self) -> np.ndarray:
        """The rows from before learning starts."""
        return self.rows[: 0 if self.learns else self.pending]

    @early.setter
    def early(self, rows: np.ndarray) -> None:
        self.rows[: len(rows)], self.pending = rows, len(rows) or self.pending

    @property
    def begun(self) -> np.ndarray:
        return self.starts

    @begun.setter
    def begun(self, starts: np.ndarray) -> None:
        self.starts = starts
