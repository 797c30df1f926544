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
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import whole
from gvfx.questions.cumulants import Cumulant, OutcomeTables
from gvfx.types import Function
from gvfx.worlds.mdp import MDP

TransitionFunction = Function  # of (observation, action, reward, next_observation, info)


class SignalFailed(InputError):
    """A signal that is missing in a transition, is not a number, or is not finite."""


def function_raised(field: str, error: Exception) -> str:
    """The sentence about a function of the transition that raised an error."""
    return f"{field}: the function raised {type(error).__name__}: {error}; make it accept every transition."


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
    return np.array_equal(np.asarray(one, dtype=float), np.asarray(other, dtype=float), equal_nan=True)


def number(value: Any, index: int | None, field: str) -> float:
    """What was read (component `index` of it) as a finite float; raises SignalFailed if it is not one."""
    try:
        if index is not None:
            value = value[index]
        out = float(value)
    except (TypeError, ValueError, IndexError, KeyError):
        shape = np.shape(value)
        if shape:
            raise SignalFailed(
                f"{field}: is a vector of shape {list(shape)}; give size={shape[0]} for one question per component, or index=0."
            ) from None
        raise SignalFailed(f"{field}: {value!r:.60} is not a number; return a finite number.") from None
    if not np.isfinite(out):
        raise SignalFailed(f"{field}: is {out}; return finite numbers only.")
    return out


@dataclass(frozen=True)
class Reward(Measured):
    """The environment's own reward."""

    size = index = None

    @property
    def source(self) -> Hashable:
        return Reward

    def reader(self) -> TransitionFunction:
        return lambda observation, action, reward, following, info: reward

    def tables(self, world: MDP) -> OutcomeTables:
        if world.reward is None:
            raise InputError("cumulant: this world has no reward; give MDP(reward=...) or another cumulant.")
        return OutcomeTables(world.reward, *np.zeros((2, 1, 1, 1)))


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
