"""Questions about a Gymnasium environment: cumulants and discounts of its transitions, and the target policies' actions.

`Reader` gives the cumulants [gvf] and discounts [gvf] of a transition (discounts are 0 on termination, unchanged on
truncation).  `Targets` gives pi [batch, action, gvf] for Discrete actions, `Gaussians` the policies' middle actions and
draws for Box actions; both evaluate every distinct policy once per batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from gvfx.errors import InputError
from gvfx.questions.cumulants import Constant, Drifter
from gvfx.questions.gaussian import ContinuousPolicy
from gvfx.questions.gvf import GVF, expand, question_names
from gvfx.questions.own import OwnPolicy
from gvfx.questions.policies import CallablePolicy, DeterministicPolicy, MixturePolicy, Policy, UniformPolicy
from gvfx.questions.signals import (
    Measure,
    Measured,
    Reward,
    SignalFailed,
    TransitionFunction,
    function_raised,
    number,
    of_transition,
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
    """

    def __init__(self, questions: Sequence[GVF], spec: DiscreteSpec | None = None, seed: int = 0) -> None:
        self.questions = expand(questions)
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
        self.reads_observations = bool(self._ends) or any(isinstance(q.cumulant, Measure) for q in self.questions)
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
                if not math.isfinite(x):
                    raise SignalFailed(f"{field}: is {x}; return finite numbers only.")
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

    def transition(
        self, observation: Any, action: Any, reward: float, following: Any, terminated: bool, info: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray]:
        """A transition's cumulants [gvf] and discounts [gvf]: 0 on termination, unchanged on truncation."""
        (c,), (gamma,) = self.begin()
        self.read(observation, action, reward, following, info, c, gamma)
        return c, gamma * (not terminated)


class Targets:
    """The questions' policies for Discrete actions, pi [batch, action, gvf].

    Equal policies are evaluated once per batch, and only once in all for Discrete observations (`states`, counted from
    `first_state`).
    """

    def __init__(self, questions: Sequence[GVF], actions: int, states: int | None = None, first_state: int = 0) -> None:
        questions = expand(questions)
        self.actions, self.states, self.first = actions, states, first_state
        self.names = question_names(questions)
        self.distinct: dict[Policy, str] = {}
        for name, q in zip(self.names, questions, strict=True):
            self.distinct.setdefault(q.policy, f"{name}.policy")
            if isinstance(q.policy, ContinuousPolicy):
                q.policy.table(0, actions, f"{name}.policy")  # raises InputError
        order = list(self.distinct)
        self.member = np.array([order.index(q.policy) for q in questions])
        self.tables = None
        self.prepared: list[tuple[Policy, str]] = []  # the distinct policies, compiled where they can be, with their fields
        if states is not None:
            self.tables = [
                np.broadcast_to(shifted(p, first_state).table(states, actions, field), (states, actions))
                for p, field in self.distinct.items()
            ]

    def each(self, observations: Any) -> list[np.ndarray]:
        """The probabilities [batch, action] of every distinct policy."""
        if self.tables is not None:
            return [table[np.asarray(observations) - self.first] for table in self.tables]
        if not self.prepared and len(observations):
            self.prepared = [(policy.prepared(observations, self.actions), field) for policy, field in self.distinct.items()]
        return [policy.at(observations, self.actions, field) for policy, field in self.prepared]

    def __call__(self, observations: Any) -> np.ndarray:
        """pi [batch, action, gvf] at a batch of observations."""
        return np.stack(self.each(observations), axis=-1)[:, :, self.member]


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


class Gaussians:
    """The questions' policies for Box actions, scaled to [-1, 1]; equal policies are evaluated once per batch."""

    def __init__(self, questions: Sequence[GVF], spec: BoxActionSpec) -> None:
        questions = expand(questions)
        self.spec, self.names = spec, question_names(questions)
        self.distinct: dict[ContinuousPolicy, str] = {}
        for name, q in zip(self.names, questions, strict=True):
            if not isinstance(q.policy, ContinuousPolicy):
                raise InputError(
                    f"{name}.policy: {type(q.policy).__name__} is for Discrete actions and the environment has Box actions; "
                    "use gvfx.gaussian_policy(function, sigma)."
                )
            self.distinct.setdefault(q.policy, f"{name}.policy")
        order = list(self.distinct)
        self.member = np.array([order.index(q.policy) for q in questions])  # type: ignore[arg-type]
        spreads = [policy.sigmas(spec.moves.shape, field) / spec.half for policy, field in self.distinct.items()]
        self.spreads = np.array(spreads, np.float32).reshape(len(order), -1)  # [policy, action]
        self.fields = list(self.distinct.values())
        self.prepared: list[ContinuousPolicy] = []

    @property
    def sigmas(self) -> np.ndarray:
        """Standard deviations of the policies' noise, [gvf, action]."""
        return self.spreads[self.member]

    def each(self, observations: Any) -> np.ndarray:
        """The middle actions of every distinct policy, [batch, policy, action]."""
        return np.stack([self.one(k, observations) for k in range(len(self.distinct))], axis=1)

    def one(self, k: int, observations: Any) -> np.ndarray:
        """The middle actions of the k-th distinct policy, [batch, action]."""
        shape = self.spec.moves.shape
        if not self.prepared:
            for policy, field in self.distinct.items():
                policy.middles(observations[:1], shape, field)  # reports mistakes before anything is compiled
            self.prepared = [policy.ready(observations, shape) for policy in self.distinct]
        middles = self.spec.scaled(self.prepared[k].middles(observations, shape, self.fields[k]))
        return middles.clip(-1 - FAR * self.spreads[k], 1 + FAR * self.spreads[k])

    def __call__(self, observations: Any) -> np.ndarray:
        """Actions [batch, draw, gvf, action]: the same DRAWS quantiles of every policy's noise at each call."""
        noise = normals(self.spec.actions)[:, None]
        drawn = self.each(observations)[:, None] + self.spreads * noise  # [batch, draw, policy, action]
        return drawn.clip(-1, 1).astype(np.float32)[:, :, self.member]

    def sample(self, k: int, observation: Any, rng: np.random.Generator) -> np.ndarray:
        """An action drawn from the k-th distinct policy, in the environment's units."""
        middle = self.one(k, self.spec.together([observation]))[0]
        return self.spec.to_env((middle + self.spreads[k] * rng.standard_normal(middle.shape)).clip(-1, 1))


@lru_cache
def normals(size: int) -> np.ndarray:
    """Standard normal numbers spread evenly in each of their dimensions (a Latin hypercube), [DRAWS, size]."""
    levels = scipy.special.ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    rng = np.random.default_rng(size)
    return np.stack([rng.permutation(levels / levels.std()) for _ in range(size)], axis=1).astype(np.float32)
