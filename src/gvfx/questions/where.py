r"""Where errors count: over all non-terminal states equally (the default), at the start, or over given states.

Over states the error is $\sum_s d(s)\,(\hat V(s) - V(s))^2$; at the start it is the squared error of $V(d_0) = \sum_s
d_0(s)\,V(s)$, with $d_0$ the distribution of first states, in which errors of different starts may cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gvfx.errors import InputError
from gvfx.worlds.mdp import MDP

LISTED = 8  # states that are named in a description
FIX = "give 'start', a list of states, or weights"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Weights d of states [state], and whether the error is that of their weighted mean (else the mean of squared errors)."""

    weights: np.ndarray
    of_mean: bool = False

    def squares(self, x: np.ndarray) -> np.ndarray:
        """The mean square of x [..., state], or the square of its mean, [...]."""
        return (x @ self.weights) ** 2 if self.of_mean else x**2 @ self.weights

    @property
    def states(self) -> np.ndarray:
        """The states that count, [state] bool."""
        return self.weights > 0


def as_evaluation(where: np.ndarray | Evaluation) -> Evaluation:
    """Weights [state] as an evaluation over states."""
    return where if isinstance(where, Evaluation) else Evaluation(where)


@dataclass(frozen=True)
class Where:
    """Where errors count: `states` with `weights`, which add up to 1; or numbers of `observations`, which a backend keeps."""

    kind: Literal["all", "start", "states", "observations"] = "all"
    states: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    first_state: int = 0  # the number that the user's environment gives to state 0

    def __str__(self) -> str:
        """The word "start", or the states with their weights."""
        if self.kind == "observations":
            return f"{len(self.states)} observations"
        if self.kind != "states":
            return self.kind
        if len(self.states) > LISTED:
            return f"{len(self.states)} states"
        even, named = len(set(self.weights)) == 1, (s + self.first_state for s in self.states)
        return ", ".join(f"state {s}" if even else f"state {s}: {w:.3g}" for s, w in zip(named, self.weights, strict=True))

    def on(self, world: MDP) -> Evaluation:
        """The weights of a world's states."""
        if self.kind == "all":
            return Evaluation(world.live / world.live.sum())
        if self.kind == "start":
            return Evaluation(world.start, of_mean=True)
        out = np.zeros(world.states)
        out[list(self.states)] = self.weights
        return Evaluation(out)

    def on_rows(self, world: MDP) -> Evaluation:
        """The weights of a world's table rows: its states, or groups of them."""
        if self.kind == "all":
            return Evaluation(np.bincount(world.feature, world.live, world.rows) / world.live.sum())
        own = self.on(world)
        return Evaluation(np.bincount(world.feature, own.weights, world.rows), own.of_mean)

    def grouped(self, world: MDP) -> Where:
        """The same over a world's table rows."""
        if self.kind != "states" or world.features is None:
            return self
        d = self.on_rows(world).weights
        rows = np.flatnonzero(d)
        return Where("states", tuple(rows.tolist()), tuple(d[rows].tolist()))


EVERYWHERE = Where()
START = Where("start")
WhereLike = str | int | Sequence[object] | Mapping[int, float] | np.ndarray | Where | None  # what is accepted as `where`


def counted(states: np.ndarray) -> Where:
    """Every entry of a list of states counts equally."""
    own, times = np.unique(states, return_counts=True)
    return Where("states", tuple(own.tolist()), tuple((times / times.sum()).tolist()))


def is_start(given: WhereLike) -> bool:
    """Whether a user asked for the value at the start."""
    return given is START or (isinstance(given, str) and given == "start")


def as_where(given: WhereLike, world: MDP, first_state: int = 0) -> Where:
    """What a user gave as `where`, checked.

    given: None, "start", a state, cell or place, a list of them, weights by state, or one weight per state.
    first_state: the number that the user's environment gives to state 0.
    """
    if isinstance(given, Where):
        return given
    if given is None:
        return EVERYWHERE
    if isinstance(given, str) and given == "start":
        return START
    out = np.zeros(world.states)
    if isinstance(given, Mapping):
        for at, weight in given.items():
            out[_states(at, world, first_state)] += _weights(weight)
    else:
        numbers = _array(given)
        if numbers.size and numbers.dtype.kind in "fb":
            if numbers.shape != out.shape:
                raise InputError(
                    f"where: weights of shape {list(numbers.shape)} do not fit {world.states} states; give one each."
                )
            out += _weights(numbers)
        else:
            np.add.at(out, _states(given, world, first_state), 1.0)
    if not out.sum() > 0:
        raise InputError(f"where: no state has a weight above 0; {FIX}.")
    lost = np.flatnonzero((out > 0) & (world.terminal | ~world.reached))
    if lost.size:
        raise InputError(f"where: state {int(lost[0]) + first_state} is terminal or cannot be reached; leave it out.")
    states = np.flatnonzero(out)
    return Where("states", tuple(states.tolist()), tuple((out[states] / out.sum()).tolist()), first_state)


def _array(given: Any) -> np.ndarray:
    """Numbers as an array; one of nothing for places and cells of different shapes."""
    try:
        return np.asarray(given)
    except ValueError:
        return np.empty(0, object)


def _weights(given: Any) -> np.ndarray:
    try:
        weights = np.asarray(given, float)
    except (TypeError, ValueError):
        weights = np.full(1, np.nan)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError(f"where: {given!r:.40} has a weight that is not a finite number of at least 0; {FIX}.")
    return weights


def _states(given: Any, world: MDP, first_state: int) -> np.ndarray:
    """The states of a place, cell, number or list of them, counted from 0."""
    try:
        if not first_state:
            return np.asarray(world.where(given))
        numbers = _array(given)
        known = np.arange(first_state, first_state + world.states)
        if numbers.dtype.kind in "iu" and np.isin(numbers, known).all():
            return np.atleast_1d(numbers).ravel() - first_state
    except InputError as error:
        if isinstance(given, str):
            places = "".join(f", {name!r}" for name in world.places)
            raise InputError(f"where: {given!r:.40} is unknown; give 'start'{places}, a list of states, or weights.") from None
        raise InputError("where: " + str(error).removeprefix("at: ").rstrip(".") + f"; {FIX}.") from None
    last = first_state + world.states - 1
    raise InputError(f"where: {given!r:.40} is not within the states {first_state} to {last}; {FIX}.")
