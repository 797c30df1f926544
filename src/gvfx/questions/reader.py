"""Questions about a Gymnasium environment: cumulants and discounts of its transitions, and the target policies' actions.

`Targets` (Discrete actions) and `Gaussians` (Box actions) evaluate every distinct policy once per batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy

from gvfx.errors import FunctionFailed, InputError, printable
from gvfx.inputs import LARGE
from gvfx.questions.gaussian import ContinuousPolicy
from gvfx.questions.gvf import GVF, expand, question_names
from gvfx.questions.policies import (
    DISCOUNT,
    Ask,
    CallablePolicy,
    DeterministicPolicy,
    MixturePolicy,
    OwnPolicy,
    Policy,
    Steady,
    UniformPolicy,
    is_function,
    steady_table,
)
from gvfx.questions.signals import (
    Constant,
    Drifter,
    Measure,
    Measured,
    Reward,
    SignalFailed,
    TransitionFunction,
    function_raised,
    number,
    of_transition,
    unusable,
)
from gvfx.worlds.spec import BoxActionSpec, DiscreteSpec

DRAWS = 32  # of a policy's noise, over which its value is averaged
FAR = 10.0  # standard deviations; middle actions are clipped this far outside the bounds


@dataclass(frozen=True)
class _Wanted:
    """The questions that read one number, and the field named in errors about it."""

    field: str
    gvfs: list[int] = dataclass_field(default_factory=list)

    @property
    def place(self) -> Any:
        """Where the number is written in an array over GVFs: one index or an array of them."""
        return self.gvfs[0] if len(self.gvfs) == 1 else np.array(self.gvfs)


class Reader:
    """Reads the questions' cumulants and discounts from transitions; signals that questions share are read once.

    spec: of the environment; needed if a cumulant is defined by state (`Constant(1, at=3)`, a table).
    seed: of the noise of such cumulants.
    largest: the size of a cumulant above which it is refused.
    """

    def __init__(self, questions: Sequence[GVF], spec: DiscreteSpec | None = None, seed: int = 0, largest: float = LARGE) -> None:
        self.questions, self.largest = expand(questions), largest
        if not self.questions:
            raise InputError("questions: the list is empty; give at least one GVF.")
        self.names = question_names(self.questions)
        self.cumulants = np.zeros(len(self.names))  # the constant part
        self.discounts = np.ones(len(self.names))
        self.noise = np.random.default_rng([seed, 0x6E6F6973])
        signals: dict[Any, tuple[TransitionFunction, dict[int | None, _Wanted]]] = {}
        ends: dict[Any, _Wanted] = {}
        for i, (name, q) in enumerate(zip(self.names, self.questions, strict=True)):
            if isinstance(q.cumulant, Measured):
                components = signals.setdefault(q.cumulant.source, (q.cumulant.reader(), {}))[1]
                components.setdefault(q.cumulant.index, _Wanted(f"{name}.cumulant")).gvfs.append(i)
            elif isinstance(q.cumulant, Constant) and q.cumulant.at is None:
                self.cumulants[i] = q.cumulant.value
                if abs(q.cumulant.value) > largest:
                    raise unusable(q.cumulant.value, f"{name}.cumulant", largest)
            else:
                signals[i] = self._from_table(q, spec, name), {None: _Wanted(f"{name}.cumulant", [i])}
            if callable(q.discount):
                ends.setdefault(q.discount, _Wanted(f"{name}.discount")).gvfs.append(i)
            else:
                self.discounts[i] = q.discount
        self._signals = [  # None reads the reward, which is at hand
            (None if source is Reward else read, [(wanted.place, index, wanted.field) for index, wanted in components.items()])
            for source, (read, components) in signals.items()
        ]
        self._ends = [(of_transition(f, wanted.field), wanted.place, wanted.field) for f, wanted in ends.items()]
        self.steady = [Steady(field, partial(_discount_at, read, field), sentence=DISCOUNT) for read, _, field in self._ends]
        self.reads_next = bool(self._ends) or any(isinstance(q.cumulant, Measure) for q in self.questions)
        self.reads_observations = self.reads_next or any(isinstance(source, int) for source in signals)  # the latter by a table
        self.reads_info = bool(self._ends) or any(isinstance(q.cumulant, Measured) for q in self.questions)

    def _from_table(self, q: GVF, spec: DiscreteSpec | None, name: str) -> TransitionFunction:
        """Reads a cumulant defined by state and action: its mean plus its noise."""
        if spec is None or not spec.fixed or isinstance(q.cumulant, Drifter):
            raise InputError(
                f"{name}.cumulant: {type(q.cumulant).__name__} cannot be read from this environment; "
                "use Reward, Info or a function of the transition."
            )
        shape = (spec.skeleton.states, spec.skeleton.actions)
        mean, sd = (np.broadcast_to(t[:, :, 0], shape).tolist() for t in q.cumulant.tables(spec.skeleton)[:2])
        first, number, draw = spec.first_state, spec.number_of, self.noise.standard_normal

        def read(observation: Any, action: Any, reward: float, following: Any, info: dict[str, Any]) -> float:
            s, a = observation - first, number(action)
            return mean[s][a] + (sd[s][a] * draw() if sd[s][a] else 0.0)

        return read

    def begin(self, lanes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Arrays [lane, gvf] for cumulants and discounts with the constant ones filled in; `read` writes the others."""
        return np.tile(self.cumulants, (lanes, 1)), np.tile(self.discounts, (lanes, 1))

    def read(
        self, observation: Any, action: Any, reward: float, following: Any, info: dict[str, Any], c: np.ndarray, gamma: np.ndarray
    ) -> None:
        """Write a transition's cumulants into c [gvf] and its discounts into gamma [gvf], ignoring termination."""
        largest = self.largest
        for read, wanted in self._signals:
            try:
                value: Any = reward if read is None else read(observation, action, reward, following, info)
            except SignalFailed:
                raise
            except Exception as error:
                raise SignalFailed(function_raised(wanted[0][2], error)) from error
            for place, index, field in wanted:
                try:
                    x = float(value) if index is None else float(value[index])
                except (TypeError, ValueError, IndexError, KeyError, OverflowError):
                    x = number(value, index, field)
                if not -largest <= x <= largest:
                    raise unusable(x, field, largest)
                c[place] = x
        for read, place, field in self._ends:
            try:
                x = number(read(observation, action, reward, following, info), None, field)
            except SignalFailed:
                raise
            except Exception as error:
                raise SignalFailed(function_raised(field, error)) from error
            if not 0 <= x <= 1:
                raise SignalFailed(f"{field}: {x!r} lies outside [0, 1]; return a number between 0 and 1.")
            gamma[place] = x
        if self.steady:
            for steady, (_, place, _) in zip(self.steady, self._ends):
                self._watched(steady.look, ((observation, action, reward, following, info),), np.atleast_1d(gamma[place]))

    def _watched(self, ask: Callable[..., None], *given: Any) -> None:
        """Warn once of a discount that answers differently; as chance alone it is averaged correctly."""
        try:
            ask(*given)
        except FunctionFailed as error:
            self.steady = []
            warnings.warn(printable(str(error)), stacklevel=2)

    def again(self) -> None:
        """Warn if discounts no longer answer as before."""
        for steady in self.steady:
            self._watched(steady.again)

    def transition(
        self, observation: Any, action: Any, reward: float, following: Any, terminated: bool, info: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray]:
        """A transition's cumulants [gvf] and discounts [gvf]: 0 on termination, unchanged on truncation."""
        (c,), (gamma,) = self.begin()
        self.read(observation, action, reward, following, info, c, gamma)
        return c, gamma * (not terminated)


class _Policies:
    """The distinct policies of questions, with the fields named in errors about them, and each question's own."""

    asks: Sequence[Ask] = ()

    def __init__(self, questions: Sequence[GVF]) -> None:
        self.questions = expand(questions)
        self.names = question_names(self.questions)
        self.distinct: dict[Any, str] = {}
        for name, q in zip(self.names, self.questions, strict=True):
            self.distinct.setdefault(q.policy, f"{name}.policy")
        order = list(self.distinct)
        self.member = np.array([order.index(q.policy) for q in self.questions])

    def again(self) -> None:
        """Refuse policies that no longer answer as before."""
        for ask in self.asks:
            if isinstance(ask, Steady):
                ask.again()


class Targets(_Policies):
    """The questions' policies for Discrete actions, pi [batch, action, gvf].

    For Discrete observations (`states`, counted from `first_state`) every policy is evaluated once in all.
    """

    def __init__(self, questions: Sequence[GVF], actions: int, states: int | None = None, first_state: int = 0) -> None:
        super().__init__(questions)
        self.actions, self.states, self.first = actions, states, first_state
        for policy, field in self.distinct.items():
            if isinstance(policy, ContinuousPolicy):
                policy.table(0, actions, field)  # raises InputError
        self.tables = None
        self.asks: list[Ask] = []  # of the distinct policies, compiled where they can be
        if states is not None:
            self.tables = [
                np.broadcast_to(steady_table(shifted(p, first_state), states, actions, field), (states, actions))
                for p, field in self.distinct.items()
            ]

    def each(self, observations: Any) -> list[np.ndarray]:
        """The probabilities [batch, action] of every distinct policy."""
        if self.tables is not None:
            return [table[np.asarray(observations) - self.first] for table in self.tables]
        if not self.asks and len(observations):
            self.asks = [self._ask(policy, field, observations) for policy, field in self.distinct.items()]
        return [ask(observations) for ask in self.asks]

    def _ask(self, policy: Policy, field: str, observations: Any) -> Ask:
        """A policy's probabilities at a batch of observations; some to try it with."""
        ready = policy.prepared(observations, self.actions)
        first, used = (partial(each.at, actions=self.actions, field=field) for each in (policy, ready))
        return Steady(field, used, first) if is_function(policy) else used

    def __call__(self, observations: Any) -> np.ndarray:
        """pi [batch, action, gvf] at a batch of observations."""
        return np.stack(self.each(observations), axis=-1)[:, :, self.member]


def _discount_at(read: TransitionFunction, field: str, transitions: Any) -> np.ndarray:
    return np.array([number(read(*each), None, field) for each in transitions])


def shifted(policy: Policy, first: int) -> Policy:
    """The policy for states counted from 0, given one whose functions take states counted from `first`."""
    if first == 0:
        return policy
    if isinstance(policy, MixturePolicy):
        return replace(policy, parts=tuple(shifted(part, first) for part in policy.parts))
    if isinstance(policy, CallablePolicy):
        own = policy.function
        return replace(policy, function=lambda states: own(states + first))
    if isinstance(policy, DeterministicPolicy) and callable(policy.choice):
        choice = policy.choice
        return replace(policy, choice=lambda states: choice(states + first))
    return policy


def policies_only(questions: Sequence[GVF], spec: DiscreteSpec) -> list[GVF]:
    """The questions as a table needs them: policies by state; cumulants and varying discounts are read from transitions.

    Where states are not known beforehand, given policies are uniform at first.
    """
    return [
        replace(
            q,
            policy=shifted(q.policy, spec.first_state) if spec.fixed or isinstance(q.policy, OwnPolicy) else UniformPolicy(),
            cumulant=Constant(0.0),
            discount=1.0 if callable(q.discount) else q.discount,
            name=name,
        )
        for name, q in zip(question_names(expand(questions)), expand(questions), strict=True)
    ]


class Gaussians(_Policies):
    """The questions' policies for Box actions, scaled to [-1, 1]."""

    def __init__(self, questions: Sequence[GVF], spec: BoxActionSpec) -> None:
        super().__init__(questions)
        self.spec = spec
        for policy, field in self.distinct.items():
            if not isinstance(policy, ContinuousPolicy):
                raise InputError(
                    f"{field}: {type(policy).__name__} is for Discrete actions and the environment has Box actions; "
                    "use gvfx.gaussian_policy(function, sigma)."
                )
        spreads = [policy.sigmas(spec.moves.shape, field) / spec.half for policy, field in self.distinct.items()]
        self.spreads = np.array(spreads, np.float32).reshape(len(self.distinct), -1)  # [policy, action]
        self.asks: list[Ask] = []  # of the distinct policies, compiled where they can be

    @property
    def sigmas(self) -> np.ndarray:
        """Standard deviations of the policies' noise, [gvf, action]."""
        return self.spreads[self.member]

    def each(self, observations: Any) -> np.ndarray:
        """The middle actions of every distinct policy, [batch, policy, action]."""
        return np.stack([self.one(k, observations) for k in range(len(self.distinct))], axis=1)

    def one(self, k: int, observations: Any) -> np.ndarray:
        """The middle actions of the k-th distinct policy, [batch, action]."""
        if not self.asks:
            for policy, field in self.distinct.items():
                policy.middles(observations[:1], self.spec.moves.shape, field)  # reports mistakes before anything is compiled
            self.asks = [self._ask(i, policy, observations) for i, policy in enumerate(self.distinct)]
        return self.asks[k](observations)

    def _ask(self, k: int, policy: ContinuousPolicy, observations: Any) -> Ask:
        """The k-th policy's middle actions [batch, action] as learners see them; some observations to try it with."""
        field, ready = self.distinct[policy], policy.ready(observations, self.spec.moves.shape)

        def clipped(policy: ContinuousPolicy, observations: Any) -> np.ndarray:
            middles = self.spec.scaled(policy.middles(observations, self.spec.moves.shape, field))
            return middles.clip(-1 - FAR * self.spreads[k], 1 + FAR * self.spreads[k])

        is_constant = not callable(getattr(policy, "middle", self.distinct))
        used = partial(clipped, ready)
        return used if is_constant else Steady(field, used, partial(clipped, policy))

    def __call__(self, observations: Any) -> np.ndarray:
        """Actions [batch, draw, gvf, action]: the same DRAWS quantiles of every policy's noise at each call."""
        noise = normal_quantiles(self.spec.actions)[:, None]
        drawn = self.each(observations)[:, None] + self.spreads * noise  # [batch, draw, policy, action]
        return drawn.clip(-1, 1).astype(np.float32)[:, :, self.member]

    def sample(self, k: int, observation: Any, rng: np.random.Generator) -> np.ndarray:
        """An action drawn from the k-th distinct policy, in the environment's units."""
        middle = self.one(k, self.spec.together([observation]))[0]
        return self.spec.to_env((middle + self.spreads[k] * rng.standard_normal(middle.shape)).clip(-1, 1))


@lru_cache
def normal_quantiles(size: int) -> np.ndarray:
    """Standard normal numbers spread evenly in each of their dimensions (a Latin hypercube), [DRAWS, size]."""
    levels = scipy.special.ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    rng = np.random.default_rng(size)
    return np.stack([rng.permutation(levels / levels.std()) for _ in range(size)], axis=1).astype(np.float32)
