"""Cumulants: the signals whose discounted sums GVFs predict (paper, App. B.2), on an MDP and read from transitions.

A function of the transition takes (observation, action, reward, next_observation, info) or (observation, action,
next_observation).  A question about a vector of `size` k becomes k questions (`gvfx.questions.gvf.expand`).
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from gvfx.errors import InputError, error_text
from gvfx.inputs import LARGE, check_fields, check_signal, is_finite, shown, whole
from gvfx.types import Function, Numbers, Row
from gvfx.worlds.mdp import MDP, Place
from gvfx.worlds.returns import PLAIN, own

NONE = np.zeros((1, 1, 1))


class OutcomeTables(NamedTuple):
    """A cumulant on an MDP, c = mean + sd * N(0, 1) + carry * level_t; each table broadcasts to [state, action, successor]."""

    mean: np.ndarray = NONE
    sd: np.ndarray = NONE
    carry: np.ndarray = NONE


class Cumulant(ABC):
    """A signal c_t, one number per transition."""

    @abstractmethod
    def tables(self, world: MDP) -> OutcomeTables:
        """The cumulant's mean, standard deviation and carried drift for every outcome of an MDP."""


def _check_number(value: float, field: str, spread: bool = False) -> None:
    """Refuse what is no finite number of moderate size; spread: or no standard deviation."""
    if spread and not (is_finite(value) and value >= 0):
        raise InputError(f"{field}: {shown(value)} is not a standard deviation; give a finite number of at least 0.")
    if not is_finite(value):
        raise InputError(f"{field}: {shown(value)} is not a finite number; give one.")
    check_signal(value, field)


def _where(world: MDP, at: Place | None) -> np.ndarray:
    """1.0 in the states of the place `at` and 0.0 elsewhere, [state, 1, 1]; None: all live states."""
    mask = np.zeros((world.states, 1, 1))
    mask[world.live if at is None else world.where(at)] = 1.0
    return mask


@dataclass(frozen=True)
class Constant(Cumulant):
    """A fixed value, paid when acting in the place `at`: a name, cell, state or list of them (`MDP.where`); None: everywhere."""

    value: float
    at: Place | None = None

    def __post_init__(self) -> None:
        _check_number(self.value, "Constant.value")

    def tables(self, world: MDP) -> OutcomeTables:
        return OutcomeTables(self.value * _where(world, self.at))


@dataclass(frozen=True)
class Distractor(Cumulant):
    """A stationary signal: an independent draw from N(mean, sd^2) each time it is paid, in the place `at` as for `Constant`."""

    mean: float
    sd: float
    at: Place | None = None

    def __post_init__(self) -> None:
        _check_number(self.mean, "Distractor.mean")
        _check_number(self.sd, "Distractor.sd", spread=True)

    def tables(self, world: MDP) -> OutcomeTables:
        where = _where(world, self.at)
        return OutcomeTables(self.mean * where, self.sd * where)


@dataclass(frozen=True)
class Drifter(Cumulant):
    """A random walk c_t = c_{t-1} + N(mean, sd^2), c_0 = start, paid in the place `at` as for `Constant`.

    advance: "step": the walk advances at every step; "visit": only when this cumulant is paid.
    """

    sd: float
    start: float = 100.0
    at: Place | None = None
    advance: Literal["step", "visit"] = field(default="step", metadata={"text": {"visit": "own visit"}})  # "visit": the old rule
    mean: float = field(default=0.0, metadata={"before": 0.0})

    def __post_init__(self) -> None:
        _check_number(self.mean, "Drifter.mean")
        _check_number(self.sd, "Drifter.sd", spread=True)
        _check_number(self.start, "Drifter.start")
        if not (isinstance(self.advance, str) and self.advance in ("step", "visit")):
            raise InputError(f"Drifter.advance: {shown(self.advance)} is unknown; choose 'step' or 'visit'.")

    def tables(self, world: MDP) -> OutcomeTables:
        return OutcomeTables(carry=_where(world, self.at))


@dataclass(frozen=True)
class Signal(Cumulant):
    """A signal that the world provides under a name: a goal of the continuous grid, a task of Walker or Cheetah."""

    name: str

    def __post_init__(self) -> None:
        check_fields(self, "cumulant")

    def tables(self, world: MDP) -> OutcomeTables:
        raise InputError(f"cumulant: an MDP has no signal called {self.name!r}; use Constant, Distractor, Drifter or a table.")


@dataclass(frozen=True)
class TableCumulant(Cumulant):
    """Mean (and standard deviation) per state, [states], or per state and action, [states, actions]."""

    mean: tuple[Any, ...]
    sd: tuple[Any, ...] | float = 0.0

    def tables(self, world: MDP) -> OutcomeTables:
        mean = self._outcomes(world, self.mean, "TableCumulant.mean")
        sd = self._outcomes(world, self.sd, "TableCumulant.sd")
        if (sd < 0).any():
            raise InputError("TableCumulant.sd: a standard deviation is negative; give numbers of at least 0.")
        return OutcomeTables(mean, sd)

    @staticmethod
    def _outcomes(world: Any, values: Any, field: str) -> np.ndarray:
        table = np.asarray(values, dtype=float)
        if not np.isfinite(table).all():
            raise InputError(f"{field}: contains NaN or infinity; give finite numbers.")
        check_signal(table, field)
        if table.shape not in ((), (world.states,), (world.states, world.actions)):
            raise InputError(
                f"{field}: expected shape [{world.states}] or [{world.states}, {world.actions}], but got {list(table.shape)}."
            )
        return table.reshape(table.shape + (1,) * (3 - table.ndim))


def table_cumulant(mean: Numbers, sd: Numbers = 0.0) -> TableCumulant:
    """A cumulant by arrays: mean and sd per state or per state and action."""

    def frozen(values: Any) -> Any:
        return tuple(map(frozen, values)) if isinstance(values, list) else values

    try:
        return TableCumulant(frozen(np.asarray(mean, dtype=float).tolist()), frozen(np.asarray(sd, dtype=float).tolist()))
    except (TypeError, ValueError, OverflowError):
        raise InputError("TableCumulant: mean and sd must be numbers in rows of equal length.") from None


TransitionFunction = Function  # of (observation, action, reward, next_observation, info)


class SignalFailed(InputError):
    """A signal that is missing in a transition, is not a number, or is not finite."""


def function_raised(field: str, error: Exception) -> str:
    """The sentence about a function of the transition that raised an error."""
    return f"{field}: the function raised {error_text(error)}; make it accept every transition."


def of_transition(function: Function, field: str) -> TransitionFunction:
    """A function of three or five arguments as one of (observation, action, reward, next_observation, info); it gets copies."""
    if not callable(function):
        raise InputError(f"{field}: {function!r:.40} cannot be called; give a function of the transition.")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return partial(_of_five, function)  # a builtin without a signature is taken to have five arguments
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    count, needed = len(by_place), sum(p.default is p.empty for p in by_place)
    if needed <= 5 <= count or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return partial(_of_five, function)
    if needed <= 3 <= count:
        return partial(_of_three, function)
    raise InputError(
        f"{field}: the function takes {count} arguments; "
        "give one of (observation, action, reward, next_observation, info) or of (observation, action, next_observation)."
    )


def _of_five(function: Function, observation: Any, action: Any, reward: Any, following: Any, info: Any) -> Any:
    if info or info.__class__ is not dict:
        for value in info.values():
            if value.__class__ not in PLAIN:
                info = own(info)
                break
        else:
            info = info.copy()
    else:
        info = {}
    plain = following.__class__ in PLAIN and observation.__class__ in PLAIN and action.__class__ in PLAIN
    if plain and reward.__class__ is float:
        return function(observation, action, reward, following, info)
    return function(own(observation), own(action), own(reward), own(following), info)


def _of_three(function: Function, observation: Any, action: Any, reward: Any, following: Any, info: Any) -> Any:
    if following.__class__ in PLAIN and observation.__class__ in PLAIN and action.__class__ in PLAIN:
        return function(observation, action, following)
    return function(own(observation), own(action), own(following))


class NoInfo(dict[str, Any]):
    """The `info` of a transition known from a table: reading any key raises SignalFailed."""

    def copy(self) -> NoInfo:
        return self

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
        return OutcomeTables(over_outcomes(world, self.reader(), "cumulant", self.index))


def over_outcomes(world: Any, read: TransitionFunction, field: str, index: int | None = None) -> np.ndarray:
    """A function of the transition at every possible outcome of an MDP, [state, action, successor]."""
    out = np.zeros(world.next.shape)
    reward = np.full(world.next.shape, np.nan) if world.reward is None else world.reward
    possible = (world.prob > 0) & (world.reached & ~world.terminal)[:, None, None]
    for s, a, k in np.argwhere(possible).tolist():
        arguments = s, a, float(reward[s, a, k]), int(world.next[s, a, k]), NoInfo()
        try:
            value, again = own(read(*arguments)), read(*arguments)
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
        problem = f"{value!r:.60} is not a number; return a finite number."
        if shape and index is None:
            problem = f"is a vector of shape {list(shape)}; give size={shape[0]} for one question per component, or index=0."
        elif shape:
            problem = f"is a vector of shape {list(shape)}, without a component {index}; give an index of 0 to {shape[0] - 1}."
        elif index is not None and isinstance(value, Real | np.generic):
            problem = f"is one number, not a vector; leave out index={index}."
        raise SignalFailed(f"{field}: {problem}") from None
    if not -LARGE <= out <= LARGE:
        raise unusable(out, field)
    return out


def unusable(value: float, field: str, largest: float = LARGE) -> SignalFailed:
    """The error about a number that is not finite, or too large to be computed with."""
    if math.isfinite(value):
        return SignalFailed(f"{field}: {value:g} is too large; divide the signal, so that it stays below {largest:g}.")
    return SignalFailed(f"{field}: is {value}; return finite numbers only.")


@dataclass(frozen=True)
class Reward(Measured):
    """The environment's own reward; a question about a vector, as in MO-Gymnasium, becomes one per component.

    index:   the component to read.
    weights: one per component; the reward is then their weighted sum.
    size:    the length, if the environment does not declare it by `reward_space`.
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
        return OutcomeTables(world.reward)


def as_reward(reward: Any) -> Any:
    """A reward as signals read it: a float, or a vector as it is."""
    return reward if np.ndim(reward) else float(reward)


def _weighted(weights: np.ndarray, observation: Any, action: Any, reward: Any, following: Any, info: dict[str, Any]) -> float:
    """A weighted sum of the components of a reward."""
    if not np.shape(reward):
        raise SignalFailed("Reward.weights: the reward is one number, not a vector; leave them out.")
    if np.shape(reward) != weights.shape:
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
