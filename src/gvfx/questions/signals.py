"""Cumulants read from the transitions of an environment: its reward, an entry of `info`, a function of the transition.

A function of the transition takes (observation, action, reward, next_observation, info) or
(observation, action, next_observation).  Signals may be vectors; a question about a vector of `size` k becomes k
questions, one per component (`gvfx.questions.gvf.expand`).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from gvfx.errors import InputError, said_by
from gvfx.inputs import check_fields, whole
from gvfx.questions.cumulants import Cumulant, OutcomeTables
from gvfx.types import Function, Row
from gvfx.worlds.mdp import MDP

TransitionFunction = Function  # of (observation, action, reward, next_observation, info)


class SignalFailed(InputError):
    """A signal that is missing in a transition, is not a number, or is not finite."""


def function_raised(field: str, error: Exception) -> str:
    """The sentence about a function of the transition that raised an error."""
    return f"{field}: the function raised {said_by(error)}; make it accept every transition."


def of_transition(function: Function, field: str) -> TransitionFunction:
    """A function of three or five arguments as one of (observation, action, reward, next_observation, info)."""
    if not callable(function):
        raise InputError(f"{field}: {function!r:.40} cannot be called; give a function of the transition.")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function  # a builtin without a signature is taken to have five arguments
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    needed = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)
    if needed <= 5 <= count:
        return function
    if needed <= 3 <= count:
        return lambda observation, action, reward, following, info: function(observation, action, following)
    raise InputError(
        f"{field}: the function takes {count} arguments; "
        "give one of (observation, action, reward, next_observation, info) or of (observation, action, next_observation)."
    )


class NoInfo(dict[str, Any]):
    """The `info` of a transition known from a table: reading any key raises SignalFailed."""

    def __missing__(self, key: Any) -> Any:
        raise SignalFailed(f"info: {key!r} is not in a transition table; let the environment be stepped instead.")

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key]


class Measured(Cumulant):
    """A signal read from every transition.

    index: the component of a vector to read.
    size:  the length of a vector; a question about it becomes one question per component.
    """

    size: int | None
    index: int | None

    @property
    @abstractmethod
    def source(self) -> Hashable:
        """A key for what is read, the same for all components of a vector, so that the vector is read once."""

    @abstractmethod
    def reader(self) -> TransitionFunction:
        """The function that reads the signal, all components of it, from a transition."""

    def component(self, index: int) -> Measured:
        """The same signal for one component."""
        return replace(self, index=index, size=None)  # type: ignore[type-var]

    def tables(self, world: MDP) -> OutcomeTables:
        """The signal at every outcome of an MDP; raises SignalFailed if it depends on more than the outcome."""
        return OutcomeTables(over_outcomes(world, self.reader(), "cumulant", self.index), *np.zeros((2, 1, 1, 1)))


def over_outcomes(world: Any, read: TransitionFunction, field: str, index: int | None = None) -> np.ndarray:
    """A function of the transition at every possible outcome of an MDP, [state, action, successor]."""
    out = np.zeros(world.next.shape)
    reward = np.full(world.next.shape, np.nan) if world.reward is None else world.reward
    possible = (world.prob > 0) & (world.reached & ~world.terminal)[:, None, None]
    for s, a, k in np.argwhere(possible).tolist():
        arguments = s, a, float(reward[s, a, k]), int(world.next[s, a, k]), NoInfo()
        try:
            value, again = read(*arguments), read(*arguments)
        except InputError:
            raise
        except Exception as error:
            raise SignalFailed(function_raised(field, error)) from error
        if not same(value, again):
            raise SignalFailed(f"{field}: has two values for the same transition; let the environment be stepped instead.")
        out[s, a, k] = number(value, index, field)
    return out


def same(one: Any, other: Any) -> bool:
    """Whether two readings are equal, NaN included."""
    try:
        return np.array_equal(np.asarray(one, dtype=float), np.asarray(other, dtype=float), equal_nan=True)
    except (TypeError, ValueError, OverflowError):
        return True  # no numbers: `number` says so


def number(value: Any, index: int | None, field: str) -> float:
    """What was read (component `index` of it) as a finite float; raises SignalFailed if it is not one."""
    try:
        if index is not None:
            value = value[index]
        out = float(value)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        shape = np.shape(value)
        if shape and index is None:
            raise SignalFailed(
                f"{field}: is a vector of shape {list(shape)}; give size={shape[0]} for one question per component, or index=0."
            ) from None
        if shape:
            raise SignalFailed(
                f"{field}: is a vector of shape {list(shape)}, without a component {index}; give an index of 0 to {shape[0] - 1}."
            ) from None
        if index is not None and isinstance(value, Real | np.generic):
            raise SignalFailed(f"{field}: is one number, not a vector; leave out index={index}.") from None
        raise SignalFailed(f"{field}: {value!r:.60} is not a number; return a finite number.") from None
    if not np.isfinite(out):
        raise SignalFailed(f"{field}: is {out}; return finite numbers only.")
    return out


@dataclass(frozen=True)
class Reward(Measured):
    """The environment's own reward.

    If it is a vector, as in MO-Gymnasium, a question about it becomes one per component (`gvfx.questions.vector_rewards`).

    index:   the component of a vector to read.
    weights: one per component; the reward is then their weighted sum.
    size:    the length of a vector, if the environment does not declare it by `reward_space`.
    """

    index: int | None = None
    weights: tuple[float, ...] | None = None
    size: int | None = None

    if TYPE_CHECKING:  # what the fields may be given as

        def __init__(self, index: int | None = None, weights: Row | None = None, size: int | None = None) -> None: ...

    def __post_init__(self) -> None:
        _check_size(self, "Reward")
        if self.index is not None and (isinstance(self.index, bool) or not isinstance(self.index, int | np.integer)):
            raise InputError(f"Reward.index: {self.index!r:.40} is not a whole number; give the component's, from 0.")
        if self.weights is None:
            return
        if self.index is not None or self.size is not None:
            raise InputError("Reward.weights: they use all components; leave out index and size.")
        try:
            weights = np.asarray(self.weights, float)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.ndim != 1 or not weights.size or not np.isfinite(weights).all():
            raise InputError(f"Reward.weights: {self.weights!r:.40} is not a list of finite numbers; give one per component.")
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    @property
    def source(self) -> Hashable:
        return Reward if self.weights is None else (Reward, self.weights)

    def reader(self) -> TransitionFunction:
        if self.weights is None:
            return lambda observation, action, reward, following, info: reward
        return partial(_weighted, np.array(self.weights))

    def tables(self, world: MDP) -> OutcomeTables:
        if world.reward is None:
            raise InputError("cumulant: this world has no reward; give MDP(reward=...) or another cumulant.")
        if self.index is not None or self.weights is not None:
            raise InputError("cumulant: the reward is one number, not a vector; leave out index and weights.")
        return OutcomeTables(world.reward, *np.zeros((2, 1, 1, 1)))


def as_reward(reward: Any) -> Any:
    """A reward as signals read it: a float, or a vector as it is."""
    return reward if np.ndim(reward) else float(reward)


def _weighted(weights: np.ndarray, observation: Any, action: Any, reward: Any, following: Any, info: dict[str, Any]) -> float:
    """A weighted sum of the components of a reward."""
    if np.shape(reward) != weights.shape:
        if not np.shape(reward):
            raise SignalFailed("Reward.weights: the reward is one number, not a vector; leave them out.")
        raise SignalFailed(f"Reward.weights: {len(weights)} for a reward of shape {list(np.shape(reward))}; give one each.")
    return float(weights @ reward)


@dataclass(frozen=True)
class Info(Measured):
    """An entry of the environment's `info`; for a vector, one component (`index`) or all (`size`).

    missing: the value on steps whose info does not have the key; None: that is an error.
    """

    key: str
    index: int | None = None
    size: int | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, "cumulant")
        _check_size(self, "Info")

    @property
    def source(self) -> Hashable:
        return (Info, self.key, self.missing)

    def reader(self) -> TransitionFunction:
        key, missing = self.key, self.missing

        def read(observation: Any, action: Any, reward: float, following: Any, info: dict[str, Any]) -> Any:
            try:
                return info[key]
            except KeyError:
                if missing is not None:
                    return _Everywhere(missing)
                near = ", ".join(map(repr, info)) or "none"
                raise SignalFailed(f"info: has no {key!r}; its keys are {near}. Use one of them, or give missing=0.") from None

        return read


class _Everywhere(float):
    """A number that stands for a vector: every component is the number itself."""

    def __getitem__(self, index: int) -> float:
        return float(self)


@dataclass(frozen=True)
class Measure(Measured):
    """A function of the transition; for a vector, one component (`index`) or all (`size`)."""

    function: Function
    index: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "cumulant")
        _check_size(self, "Measure")
        of_transition(self.function, "cumulant")

    @property
    def source(self) -> Hashable:
        return (Measure, self.function)

    def reader(self) -> TransitionFunction:
        return of_transition(self.function, "cumulant")


def _check_size(signal: Any, kind: str) -> None:
    if signal.size is not None and (whole(signal.size, f"{kind}.size") < 1 or signal.index is not None):
        raise InputError(f"{kind}.size: give the vector's length (at least 1), or index= for one component, not both.")
