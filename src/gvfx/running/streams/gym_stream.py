"""The mover for any Gymnasium environment: it steps the environment, in which an actor acts and learns.

There is an actor for every kind of learning: tables (`table_gym`), linear features (`linear`), networks (`network_gym`) and
twin critics (`critics_gym`).
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from gvfx.errors import printable
from gvfx.evidence.decisions import Groups, Joint
from gvfx.evidence.episodes import CUT
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.features.scaling import too_far
from gvfx.inputs import LARGE
from gvfx.questions.gvf import GVF, Audit
from gvfx.questions.policies import ConstantPolicy
from gvfx.questions.reader import Reader, Targets
from gvfx.running.drive import Agent, Backend, Stream
from gvfx.running.earlier import Earlier, earlier, learn_from_log
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import Frozen
from gvfx.running.stepping import NEW_EPISODE, SingleStepper, VectorStepper, stepper
from gvfx.running.whole_episodes import WholeEpisodes

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
    share: float  # of the steps, for whole episodes of the target policies
    frozen = True  # whether these are scored against answers that were frozen before them
    cut_at = CUT  # the weight of what follows, below which they are cut
    further = True  # whether a plain environment is reset further times, to see where episodes begin
    alone = False  # whether a log is all that there is to learn from
    points: np.ndarray | None = None  # [point, o], absolute: where answers are shown, chosen by the first seed
    paid: Mapping[int, Earlier] = MappingProxyType({})  # transitions of seeds that began again without numbered observations
    note_targets: Callable[[list[Any]], None]  # evaluates the target policies at the points, once

    def __init__(self, spec: Any, questions: Sequence[GVF], method: Method, options: Options, share: float = 0.0) -> None:
        super().__init__(questions, method, options)
        self.spec, self.left_out, self.environment, self.share = spec, spec.left_out, spec.name, share
        if isinstance(options.audit, Audit):
            self.audit, self.audit_ranges = options.audit.share or 0.0, options.audit.on(questions)
        if options.log is not None:
            self.log = earlier(options.log, questions, spec)

    @abstractmethod
    def actor(self, seed: int, source: SingleStepper | VectorStepper) -> Actor:
        """What acts and learns of a seed, before the first step."""

    def begin(self, seed: int) -> GymStream:
        return GymStream(self, seed)

    def show_at(self, points: np.ndarray) -> None:
        """Set the points at which answers are shown."""
        self.note_targets([self.spec.whole(point) for point in points])
        self.points = points


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


class Actor(Agent):
    """An agent that acts in an environment: the mover writes what happens into its arrays `at`, and has it act and learn."""

    act: Callable[[Any], None]  # chooses an action in every lane of the arrays
    learn: Callable[[Any], None]  # learns from every lane's transition
    room: int = NEVER  # the transitions from which the arrays must grow
    logged = 0  # transitions of a log that t counts too
    learns = True  # whether there are answers by now
    whole: WholeEpisodes | None = None  # those of target policies
    known_now: Any = None  # what was found from the data so far; forgotten after further steps

    def __init__(self, run: Any, seed: int, source: SingleStepper | VectorStepper) -> None:
        self.run, self.seed, self.source = run, seed, source
        self.reader = source.reader

    @property
    def spec(self) -> Any:
        """The environment's."""
        return self.source.spec

    @property
    @abstractmethod
    def at(self) -> Any:
        """The arrays that the mover writes, [lane, ...], and t, the transitions so far."""

    @property
    def t(self) -> int:
        """The steps done."""
        return int(self.at.t[0]) - self.logged

    @abstractmethod
    def grow(self) -> Any:
        """The arrays, with room for a step in every lane; sets `room`."""

    @abstractmethod
    def take_log(self, log: Earlier) -> None:
        """Learn from a log, before the first step."""

    @abstractmethod
    def heed(self, at: Any, begins: bool, probability: float | None) -> None:
        """Note what another has chosen in the first lane, with this probability if it is known, instead of acting.

        begins: whether the transition does not continue from the one before it."""

    @abstractmethod
    def plan_on_log(self) -> None:
        """Plan what to add to a log before the first step."""

    @abstractmethod
    def break_off(self) -> None:
        """End the episode without a transition."""

    # --- episodes of target policies -----------------------------------------------------------------------------------

    @abstractmethod
    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Replace the chosen action by one of a target policy; what frozen answers read at the observation, and the action."""

    @abstractmethod
    def arrived(self, lane: int) -> Any:
        """What frozen answers read at the observation after the last step."""

    @abstractmethod
    def at_starts(self, observations: list[Any]) -> list[Any]:
        """What frozen answers read at observations in which episodes may begin."""

    @abstractmethod
    def freeze(self) -> Frozen:
        """The present answers."""


class AtVectors(Actor):
    """An actor whose observations are vectors: answers are shown at a sample of them."""

    @property
    @abstractmethod
    def notes(self) -> np.ndarray:
        """The distinct target policies at the present observations, as frozen answers read them, [lane, ...]."""

    @abstractmethod
    def choose_as(self, lane: int, policy: int, rng: np.random.Generator) -> Any:
        """Write an action drawn from a target policy, which is returned."""

    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[Any, Any]:
        action = self.choose_as(lane, policy, rng)
        return (self.at.state[lane].copy(), self.notes[lane].copy()), action

    def arrived(self, lane: int) -> Any:
        return self.at.following[lane].copy(), self.notes[lane].copy()

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


def drawn_action(pi: np.ndarray, rng: np.random.Generator) -> int:
    """An action drawn from probabilities [action]."""
    total = list(accumulate(pi.tolist()))
    return bisect_right(total, rng.random() * total[-1])


def choose_numbered(actor: AtVectors, lane: int, policy: int, rng: np.random.Generator) -> int:
    """As `AtVectors.choose_as`, of numbered actions."""
    action = drawn_action(actor.notes[lane, :, policy], rng)
    actor.at.action[lane] = action
    return action


class GymStream(Stream):
    """One seed: its actor acts, the environment steps and the actor learns, over and over."""

    kept: ClassVar = {"agent": "", "stepper.spec": "", "whole": "whole:", "points": "points"}
    resumed = NEW_EPISODE

    def __init__(self, run: GymRun, seed: int) -> None:
        self.run, self.seed, self.seeds = run, seed, (seed,)
        spec = run.spec.anew()
        self.stepper = stepper(spec, Reader(run.questions, spec, seed, run.largest))
        self.agent: Actor = run.actor(seed, self.stepper)
        if run.log is not None:
            self.agent.take_log(run.log)
        if seed in run.paid:
            learn_from_log(self.agent, run.paid[seed])
        self.whole: WholeEpisodes | None = None
        if run.share:
            self.whole = WholeEpisodes(run, self.stepper.reader.discounts, seed)
            self.agent.whole = self.whole
        self.checked: Any = None if self.whole is None else self.whole.scored  # bounds errors where the learner does not

    def start(self) -> None:
        if self.t:  # continued from a checkpoint
            self.agent.break_off()
        if self.whole is not None and isinstance(self.stepper, SingleStepper):
            self.whole.prepare(self.stepper, self.agent, self.run.further and (not self.t or self.run.frozen))
        self.stepper.begin(self.agent.at, self.seed, self.t)
        if 0 in self.agent.stops and not self.t:
            self.agent.plan_on_log()

    def advance(self, to: int) -> None:
        agent, step = self.agent, self.stepper.step
        at, act, learn = agent.at, agent.act, agent.learn
        whole = self.whole
        to += agent.logged
        if at.t[0] >= agent.room:
            at = agent.grow()
        try:
            while at.t[0] < to:
                if whole is not None:
                    whole.begin(self)
                act(at)
                if whole is not None:
                    whole.follow(agent)
                step(at, learn)
                if at.t[0] >= agent.room:
                    at = agent.grow()
        finally:
            self.t, agent.known_now = agent.t, None

    def episodes(self) -> list[int]:
        return [self.stepper.episode]

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        if self.checked is None or self.run.learner.bounds_errors:
            return self.agent.bound(until, looks)
        return self.checked.bound(self, until, looks)

    def joint(self, groups: Groups) -> Joint:
        if self.checked is None or self.run.learner.bounds_errors:
            return self.agent.joint(groups)
        return self.checked.joint(self)

    def outcome(self, k: int) -> dict[str, Any]:
        return self.agent.outcome(k) | ({} if self.checked is None else self.checked.outcome(self))

    @property
    def points(self) -> np.ndarray | None:
        return self.run.points

    @points.setter
    def points(self, points: np.ndarray) -> None:
        if self.run.points is None:
            self.run.show_at(points)

    def restored(self) -> None:
        self.t, self.agent.known_now = self.agent.t, None
        if self.whole is not None:
            self.whole.total = self.whole.total or self.t  # of which a checkpoint of an older version has nothing
