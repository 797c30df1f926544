"""The mover for any Gymnasium environment: it steps the environment, in which agents act and learn.

There is an agent for every kind of learning: tables (`table_gym`), linear features (`linear_gym`), networks (`network_gym`) and
twin critics (`critics_gym`).
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.errors import printable
from gvfx.features.scaling import too_far
from gvfx.inputs import LARGE
from gvfx.questions.gvf import GVF, Audit
from gvfx.questions.policies import ConstantPolicy
from gvfx.questions.reader import Reader, Targets
from gvfx.running.auditing import AuditedStream, Audits
from gvfx.running.checkpoint import generator_state, set_generator
from gvfx.running.drive import Backend
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import drawn_action
from gvfx.running.stepping import NEW_EPISODE, stepper

POINTS = 64  # observations at which answers are shown and errors estimated
NEVER = sys.maxsize  # a step that no run reaches; comparing a NumPy integer with a float takes longer than all else in the loop


class GymRun(Backend, ABC):
    """What the seeds share: the environment, the questions, the method and the options."""

    spec: Any  # the environment's (`gvfx.worlds.spec`)
    targets: Any  # the questions' distinct policies; None: not needed
    one_environment = True
    knows_truth = False
    largest: float = LARGE  # the size of a cumulant above which it is refused
    answers_from = 0  # the step of the first answers
    points: np.ndarray | None = None  # [point, o], absolute: where answers are shown, chosen by the first seed

    def __init__(self, spec: Any, questions: Sequence[GVF], method: Method, options: Options) -> None:
        super().__init__(questions, method, options)
        self.spec, self.left_out = spec, spec.left_out
        if isinstance(options.audit, Audit):
            self.audit, self.audit_ranges = options.audit.share or 0.0, options.audit.on(questions)
        self.audits_early = options.until is not None

    def described(self) -> dict[str, Any]:
        return {"environment": self.spec.name, **super().described()}

    def show_at(self, points: np.ndarray) -> None:
        """Set the points at which answers are shown."""
        self.note_targets([self.spec.whole(point) for point in points])
        self.points = points

    def note_targets(self, observations: list[Any]) -> None:
        """Evaluate the target policies at the points, once."""
        raise NotImplementedError


class PoliciesAt:
    """The distinct target policies of numbered actions, asked at observations."""

    def __init__(self, questions: Sequence[GVF], spec: Any, precision: type = float) -> None:
        self.targets, self.precision = Targets(questions, spec.actions), precision
        self.arrays = spec.space.shape is not None  # whether policies get batches of observations as arrays
        self.constant: np.ndarray | None = None  # [lane, action, policy] if no policy depends on the observation
        if all(isinstance(policy, ConstantPolicy) for policy in self.targets.distinct):
            self.constant = np.stack(self.targets.each(np.zeros(spec.lanes)), axis=-1).astype(precision)

    def __call__(self, observations: list[Any]) -> np.ndarray:
        """[observation, action, policy]."""
        if self.constant is not None and len(observations) == len(self.constant):
            return self.constant
        batch = np.array(observations) if self.arrays else list(observations)
        return np.stack(self.targets.each(batch), axis=-1).astype(self.precision, copy=False)


class GymStream(AuditedStream):
    """One seed: acts, steps the environment and learns, over and over.

    A subclass is an agent.  Its arrays, which the stepper writes (`written`), also hold t, the transitions so far.
    """

    run: Any  # a GymRun
    act: Callable[[Any], None]  # chooses an action in every lane of the arrays
    learn: Callable[[Any], None]  # learns from every lane's transition
    room: int = NEVER  # the transitions from which the arrays must grow
    logged = 0  # transitions of a log that t counts too
    _known: Any = None  # what was found from the data so far

    def __init__(self, run: GymRun, seed: int) -> None:
        self.run, self.seed, self.seeds = run, seed, (seed,)
        self.spec = run.spec.anew()
        self.reader = Reader(run.questions, self.spec, seed, run.largest)
        self.stepper = stepper(self.spec, self.reader)
        self.done = 0  # episodes
        if run.audit:
            self.audits = Audits(run, run.targets.member, self.reader, seed, run.answers_from)

    def start(self) -> None:
        if self.t:  # continued from a checkpoint
            self.break_off()
        self.stepper.begin(self.written, self.seed, self.t)
        if 0 in self.stops and not self.t:
            self.plan_on_log()

    def forward(self, to: int) -> None:
        at, act, learn, step = self.written, self.act, self.learn, self.stepper.step
        audits = self.audits if self.audits is not None and self.audits.under_way else None
        to += self.logged
        if at.t[0] >= self.room:
            at = self.grow()
        try:
            while at.t[0] < to:
                act(at)
                if audits is not None:
                    audits.follow(self)
                self.done += step(at, learn)
                if at.t[0] >= self.room:
                    at = self.grow()
        finally:
            self.t, self._known = int(at.t[0]) - self.logged, None

    def grow(self) -> Any:
        """The arrays, with room for a step in every lane; sets `room`."""
        raise NotImplementedError

    def plan_on_log(self) -> None:
        """Plan what to add to a log before the first step."""

    def episodes(self) -> list[int]:
        return [self.done]

    def resumed(self) -> str:
        return NEW_EPISODE

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def generators(self) -> dict[str, np.random.Generator]:
        """The seed's random generators."""
        return {"noise": self.reader.noise}

    def gym_state(self) -> dict[str, np.ndarray]:
        """What the future depends on and all agents have."""
        arrays = {name: generator_state(generator) for name, generator in self.generators().items()}
        arrays |= self.spec.arrays() | self.audit_state()
        return arrays if self.run.points is None else arrays | {"points": self.run.points}

    def restore_gym(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `gym_state` gave."""
        for name, generator in self.generators().items():
            set_generator(generator, arrays[name])
        self.spec.restore(arrays)
        self.restore_audits(arrays)
        if self.run.points is None and "points" in arrays:
            self.run.show_at(arrays["points"].copy())


class VectorStream(GymStream):
    """One seed with observations as vectors: answers are shown at a sample of them."""

    @property
    @abstractmethod
    def notes(self) -> np.ndarray:
        """The distinct target policies at the present observations, as frozen answers read them, [lane, ...]."""

    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[Any, Any]:
        at, action = self.written, drawn_action(self.notes[lane, :, policy], rng)
        at.action[lane] = action
        return (at.state[lane].copy(), self.notes[lane].copy()), action

    def arrived(self, lane: int) -> Any:
        return self.written.following[lane].copy(), self.notes[lane].copy()

    def at_starts(self, observations: list[Any]) -> list[Any]:
        return list(zip(map(self.spec.seen, observations), self.run.policies(observations), strict=True))

    def points_of(self, seen: np.ndarray) -> np.ndarray:
        """A sample of the observations seen, [point, o]; the first seed's is the one at which all seeds are shown."""
        chosen = np.random.default_rng([self.seed, 7]).choice(len(seen), min(POINTS, len(seen)), replace=False)
        return seen[np.sort(chosen)].copy()

    def shown_points(self, seen: np.ndarray) -> np.ndarray:
        """The points at which answers are shown, as this seed sees them, [point, o]."""
        if self.run.points is None:
            points, single = self.spec.origin.absolute(self.points_of(seen)), self.spec.origin.single
            if what := too_far(points.astype(np.float32) if single else points):
                warnings.warn(printable(f"world: {what}"), stacklevel=2)
            self.run.show_at(points)
        return self.spec.origin.relative(self.run.points)
