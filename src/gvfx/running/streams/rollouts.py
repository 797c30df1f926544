"""Rollouts in any plain Gymnasium environment: whole episodes of the target policies, whose returns are all that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.decisions import Groups, Joint, quantile, quantiles
from gvfx.evidence.episodes import UPPER, Estimate, Scores, estimate
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.learners.rollouts import sides
from gvfx.questions.gaussian import ContinuousPolicy
from gvfx.questions.gvf import GVF, expand, question_names
from gvfx.questions.policies import Ask, StatefulPolicy, Steady, is_function
from gvfx.questions.reader import Reader
from gvfx.running.drive import Backend, Loop
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import ErrorBars, Predictor
from gvfx.running.schema import Measurement, Part
from gvfx.running.stepping import NEW_EPISODE, Lanes, SingleStepper
from gvfx.running.whole_episodes import Followed, WholeEpisodes
from gvfx.schedules import growing
from gvfx.worlds.spec import discrete_spec, environment_name, numbered_actions, spaces_of

SAME = 1e-12  # relative difference of returns that count as equal
LEAST = 1e-3  # the weight of what follows, below which an episode is cut
FIRST, GROWTH = 500, 1.5  # steps before shares are first chosen from the data, and their growth between two choices


@dataclass(frozen=True, eq=False)
class AnySpec:
    """An environment whose observations nobody but its policies reads."""

    env: Any
    name: str
    lanes: ClassVar[int] = 1
    listed: ClassVar[tuple[Any, ...]] = ("any",)  # actions are the environment's own

    def seen(self, observation: Any) -> Any:
        return observation

    def to_env(self, action: Any) -> Any:
        return action


class Policies:
    """The distinct policies of questions, as functions from observations to actions of the environment."""

    def __init__(self, questions: Sequence[GVF], env: Any) -> None:
        names, asked = question_names(expand(questions)), expand(questions)
        self.distinct: dict[Any, str] = {}
        for name, q in zip(names, asked, strict=True):
            self.distinct.setdefault(q.policy, f"{name}.policy")
        order = list(self.distinct)
        self.member = np.array([order.index(q.policy) for q in asked])
        self.space = spaces_of(env)[1]
        plain = not all(isinstance(policy, StatefulPolicy) for policy in order)
        box = plain and type(self.space).__name__ == "Box"
        self.numbers = None if box or not plain else numbered_actions(env)  # actions, the first, and all if they are listed
        for policy, field in self.distinct.items():
            if not isinstance(policy, StatefulPolicy) and box != isinstance(policy, ContinuousPolicy):
                raise InputError(f"{field}: {type(policy).__name__} does not fit {type(self.space).__name__} actions.")
        self.asks = {policy: self._ask(policy, field) for policy, field in self.distinct.items()}

    def _ask(self, policy: Any, field: str) -> Ask | None:
        """A policy's probabilities, or middle actions, at a batch of observations; None if it has a memory."""
        if isinstance(policy, StatefulPolicy):
            return None
        if isinstance(policy, ContinuousPolicy):
            return Steady(field, partial(policy.middles, shape=self.space.shape, field=field))
        assert self.numbers is not None
        ask = partial(policy.at, actions=self.numbers[0], field=field)
        return Steady(field, ask) if is_function(policy) else ask

    def again(self) -> None:
        """Ask the functions again at observations where they have answered."""
        for ask in self.asks.values():
            if isinstance(ask, Steady):
                ask.again()

    def begun(self, k: int, rng: np.random.Generator) -> Any:
        """A function from observations to actions, for an episode of the k-th distinct policy."""
        policy, field = list(self.distinct.items())[k]
        ask = self.asks[policy]
        if ask is None:
            return policy.begun(rng, field)
        if isinstance(policy, ContinuousPolicy):
            low, high, shape = self.space.low, self.space.high, self.space.shape
            spread = policy.sigmas(shape, field)
            return lambda o: np.clip(ask(_one(o))[0] + spread * rng.standard_normal(shape), low, high).astype(self.space.dtype)
        assert self.numbers is not None
        actions, first, listed = self.numbers

        def chosen(observation: Any) -> Any:
            chances = ask(_one(observation))[0]
            a = min(int(np.searchsorted(chances.cumsum(), rng.random(), side="right")), actions - 1)
            return listed[a] if listed else a + first

        return chosen


def _one(observation: Any) -> Any:
    """A batch of one observation."""
    return observation[None] if isinstance(observation, np.ndarray) else [observation]


class RolloutsGym(Backend):
    """What the seeds share."""

    one_environment = True
    knows_truth = False
    acts = "the target policies in whole episodes"
    share, frozen, cut_at = 1.0, False, LEAST

    def __init__(self, env: Any, questions: Sequence[GVF], method: Method, options: Options) -> None:
        if hasattr(env, "num_envs"):
            raise InputError("world: rollouts step plain environments; give one that is not a vector.")
        super().__init__(questions, method, options)
        self.spec = AnySpec(env, environment_name(env))
        self.environment, self.targets = self.spec.name, Policies(questions, env)
        asked = expand(questions)
        self.names, self.weights = question_names(asked), np.array([q.weight for q in asked], float)
        ranges = self.learner.ranges or {}
        if unknown := sorted(set(ranges) - set(self.names)):
            raise InputError(f"ranges: there is no question {unknown[0]!r}; the questions are {', '.join(self.names)}.")
        self.ranges = [ranges.get(name) for name in self.names]
        discrete = {type(space).__name__ for space in spaces_of(env)} == {"Discrete"}
        self.reads = discrete_spec(env) if discrete else None  # signals by state, too
        Reader(questions, self.reads)  # refuses signals that cannot be read here

    def begin(self, seed: int) -> RolloutStream:
        return RolloutStream(self, seed)

    def predictor(self, parts: list[Part]) -> StartOnly:
        return StartOnly(tuple(f"as {name.removesuffix('.policy')}" for name in self.targets.distinct.values()))


class RolloutStream(Loop):
    """One seed: its returns."""

    resumed = NEW_EPISODE
    kept: ClassVar = {
        "gained": "returns",
        "visits": "visits",
        "at.t": "steps",
        ("stepper.episode",): "episodes",
        "reader.noise": "noise",
        "whole": "whole:",
    }

    def __init__(self, run: RolloutsGym, seed: int) -> None:
        self.run, self.seed, self.seeds = run, seed, (seed,)
        self.reader = Reader(run.questions, run.reads, seed)
        self.stepper = SingleStepper(run.spec, self.reader)
        self.stepper.watch, self.stepper.recording = None, False  # which reads observations
        self.at = Lanes(np.zeros(1, object), np.zeros(1, object), *self.reader.begin(1))
        self.whole = WholeEpisodes(run, self.reader.discounts, seed)
        self.returns: list[np.ndarray] = []  # of every episode begun, [gvf]
        self.weight = np.ones(len(run.names))
        self.policy: Any = None  # the function that acts in this episode
        self.truncated = False  # whether an episode was before what follows hardly counts
        self.visits = np.zeros((1, len(run.targets.distinct)), np.int64)
        self.stops = frozenset(growing(FIRST, GROWTH, run.plan.steps))

    def start(self) -> None:
        self.whole.prepare(self.stepper, self, False)
        self.stepper.begin(self.at, self.seed, self.t)

    def advance(self, to: int) -> None:
        at = self.at
        try:
            while at.t[0] < to:
                self.whole.begin(self)
                if at.fresh[0]:
                    at.number[0], at.fresh[0], self.policy = len(self.returns), False, None
                    self.returns.append(np.zeros(len(self.run.names)))
                    self.weight[:] = 1.0
                self.whole.follow(self)
                self.stepper.step(at, self.learn)
        finally:
            self.t = int(at.t[0])

    def choose_as(self, lane: int, policy: int, rng: np.random.Generator) -> None:
        """Write the action of a target policy."""
        if self.policy is None:
            self.policy = self.run.targets.begun(policy, rng)
        self.visits[0, policy] += 1
        self.at.action[0] = self.policy(self.stepper.seen_now[0])

    def learn(self, at: Lanes) -> None:
        """Add what a transition paid to its episode's return."""
        self.returns[-1] += self.weight * at.c[0]
        self.weight *= at.gamma[0]
        at.t[0] += 1
        left = self.weight.max() * at.alive[0]
        if at.ended[0] and left > LEAST and not self.truncated:
            self.truncated = True
            warnings.warn(
                f"world: an episode was truncated where {left:.0%} of what follows still counts; rollouts leave that out, so "
                "their values are those of truncated episodes.",
                stacklevel=2,
            )

    def break_off(self) -> None:
        """An episode that was cut needs nothing."""

    def episodes(self) -> list[int]:
        return [self.stepper.episode]

    def check(self) -> None:
        self.run.targets.again()
        self.reader.again()

    @property
    def gained(self) -> np.ndarray:
        """The returns as one array, [episode, gvf]."""
        return np.array(self.returns).reshape(-1, len(self.run.names))

    @gained.setter
    def gained(self, returns: np.ndarray) -> None:
        self.returns = list(returns)

    def restored(self) -> None:
        self.t = int(self.at.t[0])

    # --- answers -----------------------------------------------------------------------------------------------------

    def found(self) -> tuple[Estimate, np.ndarray]:
        """The mean returns, and bounds of them [gvf, 2] where they are exact, else NaN."""
        followed, member = Followed(*np.array(self.whole.done, np.int64).reshape(-1, 4).T), self.run.targets.member
        gain = np.array([self.returns[k] for k in followed.number.tolist()]).reshape(-1, len(member))
        gain = np.where(followed.policy[:, None] == member, gain, np.nan)
        out = estimate(Scores.of_returns(gain, followed.pair, followed.steps))
        exact, rates = np.full((len(member), 2), np.nan), np.zeros(len(member), bool)
        for i, within in enumerate(self.run.ranges):
            own = gain[~np.isnan(gain[:, i]), i]
            bounds = sides(own, within)
            if bounds is not None:
                exact[i], rates[i] = bounds, within is None
            elif not len(own) or np.ptp(own) <= SAME * np.abs(own).max():  # what else may happen was not met
                out.variance[i] = out.variance[:, i] = np.inf
        least = 1 / np.maximum(np.minimum(out.episodes[:, None], out.episodes), 1) ** 2  # one success more, of either
        return out._replace(variance=np.where(rates[:, None] | rates, np.maximum(out.variance, least), out.variance)), exact

    def pause(self, stop: int) -> None:
        self.whole.schedule.spend(self.found()[0], self.run.targets.member)

    def joint(self, groups: Groups) -> Joint:
        out, exact = self.found()
        errors, wide = np.sqrt(out.variance), np.abs(exact - out.value[:, None]).max(axis=1)
        own = np.where(np.isnan(wide), errors.diagonal(), wide / quantiles(1 - UPPER, out.freedom.diagonal()))
        ranged = np.array([within is not None for within in self.run.ranges])
        errors = np.where(ranged[:, None] | ranged, own[:, None] + own, errors)
        np.fill_diagonal(errors, own)
        unsure = ~np.isfinite(own) | np.isnan(out.value)
        return Joint(np.nan_to_num(out.value), errors, unsure, unsure, np.zeros(len(unsure)), out.freedom)

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        joint = self.joint(())
        value, error = joint.values[:, None], joint.known.diagonal()[:, None]
        return until.from_errors(value, error, self.run.weights, float(np.min(joint.freedom)), looks)

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        start = self.start_table()
        expected = np.where(np.isfinite(start[:, 1]), start[:, 1], np.nan) ** 2
        if not tables:
            return [Measurement(expected=expected)]
        return [
            Measurement(
                expected=expected,
                values=start[:, :1],
                visits=self.visits.copy(),
                behaviour=self.visits / max(1, self.visits.sum()),
                standard_errors=start[:, 1:2],
            )
        ]

    def start_table(self) -> np.ndarray:
        """The value at the start, its standard error, nothing, and those towards lower and higher values, [gvf, 5]: normal errors
        whose intervals of 95 % are as wide."""
        out, exact = self.found()
        unit = quantile(1 - UPPER)
        half = out.halves().diagonal() / unit
        low, high = (np.where(np.isnan(side), half, np.abs(side - out.value) / unit) for side in exact.T)
        return np.column_stack([out.value, np.maximum(low, high), np.full(len(half), np.nan), low, high])

    def outcome(self, k: int) -> dict[str, Any]:
        joint, start = self.joint(()), self.start_table()
        differences = joint.known * joint.quantiles(1 - UPPER) / quantile(1 - UPPER)
        np.fill_diagonal(differences, start[:, 1])
        return {"start": start, "differences": differences}


@dataclass(frozen=True, eq=False)
class StartOnly(Predictor):
    """Values at the start alone."""

    actions: tuple[str, ...] = ()  # the policies that were followed

    @property
    def bars(self) -> ErrorBars:
        return ErrorBars("asymptotic", "intervals: rollouts have them at the start alone: intervals('start').")

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise InputError("observation: rollouts have values at the start alone; use result.value().")

    def label(self, s: int) -> Any:
        return "start"
