"""Cumulants: the signals whose discounted sums GVFs predict (paper, App. B.2).

On an MDP a cumulant is three tables over outcomes (state, action, successor): its mean, its standard deviation and
how much of a drifting level it carries:  c = mean + sd * N(0, 1) + carry * level_t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import check_fields, is_finite, shown
from gvfx.types import Numbers
from gvfx.worlds.mdp import MDP, Place


class OutcomeTables(NamedTuple):
    """A cumulant on an MDP; each table broadcasts to [state, action, successor]."""

    mean: np.ndarray
    sd: np.ndarray
    carry: np.ndarray


class Cumulant(ABC):
    """A signal c_t, one number per transition."""

    @abstractmethod
    def tables(self, world: MDP) -> OutcomeTables:
        """The cumulant's mean, standard deviation and carried drift for every outcome of an MDP."""


def _finite(value: float, field: str) -> float:
    if not is_finite(value):
        raise InputError(f"{field}: {shown(value)} is not a finite number; give one.")
    return float(value)


def _spread(value: float, field: str) -> float:
    if not (is_finite(value) and value >= 0):
        raise InputError(f"{field}: {shown(value)} is not a standard deviation; give a finite number of at least 0.")
    return float(value)


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
        _finite(self.value, "Constant.value")

    def tables(self, world: MDP) -> OutcomeTables:
        where = _where(world, self.at)
        return OutcomeTables(self.value * where, 0 * where, 0 * where)


@dataclass(frozen=True)
class Distractor(Cumulant):
    """A stationary signal: an independent draw from N(mean, sd^2) each time it is paid, in the place `at` as for `Constant`."""

    mean: float
    sd: float
    at: Place | None = None

    def __post_init__(self) -> None:
        _finite(self.mean, "Distractor.mean")
        _spread(self.sd, "Distractor.sd")

    def tables(self, world: MDP) -> OutcomeTables:
        where = _where(world, self.at)
        return OutcomeTables(self.mean * where, self.sd * where, 0 * where)


@dataclass(frozen=True)
class Drifter(Cumulant):
    """A random walk c_t = c_{t-1} + N(0, sd^2), c_0 = start, paid in the place `at` as for `Constant`.

    advance: "step": the walk advances at every step; "visit": only when it is paid.
    """

    sd: float
    start: float = 100.0
    at: Place | None = None
    advance: Literal["step", "visit"] = "step"

    def __post_init__(self) -> None:
        _spread(self.sd, "Drifter.sd")
        _finite(self.start, "Drifter.start")
        if not (isinstance(self.advance, str) and self.advance in ("step", "visit")):
            raise InputError(f"Drifter.advance: {shown(self.advance)} is unknown; choose 'step' or 'visit'.")

    def tables(self, world: MDP) -> OutcomeTables:
        where = _where(world, self.at)
        return OutcomeTables(0 * where, 0 * where, where)


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
        return OutcomeTables(mean, sd, np.zeros((1, 1, 1)))

    @staticmethod
    def _outcomes(world: Any, values: Any, field: str) -> np.ndarray:
        table = np.asarray(values, dtype=float)
        if not np.isfinite(table).all():
            raise InputError(f"{field}: contains NaN or infinity; give finite numbers.")
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
