"""A finite Markov decision process with known dynamics, as arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import scipy.sparse as sp

from gvfx.errors import InputError
from gvfx.inputs import as_array, check_signal, shown, whole
from gvfx.types import Row, Rows

TOLERANCE = 1e-6  # how far probabilities may be from summing to one


@dataclass(frozen=True)
class Layout:
    """The map of a grid world: state = width * row + column for its cells; further states are not on the map."""

    height: int
    width: int
    walls: np.ndarray  # [height, width] bool
    goals: Mapping[str, tuple[int, int]]
    arrows: tuple[tuple[int, int], ...] = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (row, column) step of each action


Place = str | int | Sequence[str | int | tuple[int, int]] | np.ndarray  # a name, a state, a cell (row, column), or several


@dataclass(frozen=True, eq=False)
class MDP:
    """Finite dynamics: each (state, action) has up to K successors.

    next, prob: [states, actions, K] successor indices and their probabilities (padding has probability 0).
    start:      [states] distribution of the first state of an episode.
    terminal:   [states] bool; arriving there terminates the episode.
    horizon:    steps after which an episode is truncated; None: never.
    live:       [states] bool; the states over which errors are averaged (default: all but terminal ones).
    features:   [states] the table row of each state (state aggregation); None: every state has its own row.
    places:     names for groups of states, so that cumulants can say at="goal".
    reward:     [states, actions, K] the world's own reward, if it has one.
    layout:     the map of a grid world.
    recipe:     how to build this world again, as data: (function name, arguments).
    """

    next: np.ndarray
    prob: np.ndarray
    start: np.ndarray
    terminal: np.ndarray
    horizon: int | None = None
    live: np.ndarray = None  # type: ignore[assignment]
    features: np.ndarray | None = None
    places: Mapping[str, np.ndarray] = field(default_factory=dict)
    layout: Layout | None = None
    reward: np.ndarray | None = None
    recipe: tuple[str, Mapping[str, object]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "next", as_array(self.next, "next", np.int32))
        object.__setattr__(self, "prob", as_array(self.prob, "prob", float))
        if self.next.ndim != 3 or self.next.shape != self.prob.shape:
            shapes = f"next {self.next.shape} and prob {self.prob.shape}"
            raise InputError(f"P: {shapes} must share one shape [states, actions, successors].")
        for name, dtype in (("start", float), ("terminal", bool)):
            object.__setattr__(self, name, as_array(getattr(self, name), name, dtype))
        object.__setattr__(self, "live", ~self.terminal if self.live is None else as_array(self.live, "live", bool))
        for name in ("start", "terminal", "live"):
            if getattr(self, name).shape != (self.states,):
                shape = list(getattr(self, name).shape)
                raise InputError(f"{name}: expected one entry per state, [{self.states}], but got {shape}.")
        for name, kind in (("features", np.int32), ("reward", float)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_array(getattr(self, name), name, kind))
        self._check()

    def _check(self) -> None:
        _check_probabilities(self.prob)
        off = np.argwhere(np.abs(self.prob.sum(axis=2) - 1) > TOLERANCE)
        if off.size:
            s, a = off[0]
            raise InputError(f"P: state {s}, action {a} sums to {self.prob[s, a].sum():.6g}; make each row of P add up to 1.")
        if (self.next < 0).any() or (self.next >= self.states).any():
            raise InputError(f"P: a successor lies outside the {self.states} states; use indices 0 to {self.states - 1}.")
        if not np.isfinite(self.start).all() or (self.start < 0).any() or abs(self.start.sum() - 1) > TOLERANCE:
            total = self.start.sum()
            raise InputError(f"start: must be a distribution over states, but sums to {total:.6g}; make it add up to 1.")
        if not self.next.size:
            raise InputError(f"P: shape {list(self.next.shape)} has no states, actions or successors; give at least one of each.")
        if self.horizon is not None and whole(self.horizon, "horizon") < 1:
            raise InputError(f"horizon: {self.horizon} steps per episode is too few; give at least 1, or None for no limit.")
        if self.features is not None and (self.features.shape != (self.states,) or (self.features < 0).any()):
            raise InputError(f"features: expected one table row per state, [{self.states}] integers of at least 0.")
        if self.features is not None and (self.features >= self.states).any():
            raise InputError(f"features: a table row is beyond the {self.states} states; number the rows from 0 without gaps.")
        if self.reward is not None and not (self.reward.shape == self.next.shape and np.isfinite(self.reward).all()):
            raise InputError(f"reward: expected finite numbers of shape {list(self.next.shape)}, as `next`.")
        if self.reward is not None:
            check_signal(self.reward, "reward")
        if not isinstance(self.places, Mapping):
            raise InputError(f"places: {shown(self.places)} does not name places; give a dict such as {{'goal': [3]}}.")
        for name, place in self.places.items():
            as_array(place, f"places: {name!r}", int)
            if np.size(place) and not (np.min(place) >= 0 and np.max(place) < self.states):
                raise InputError(f"places: {name!r} contains a state outside 0 to {self.states - 1}; use indices of states.")
        if (self.start[self.terminal] > 0).any():
            raise InputError("start: an episode would start in a terminal state; give terminal states start probability 0.")
        lost = np.flatnonzero(self.live & ~self.reached)
        if lost.size:
            raise InputError(
                f"start: state {lost[0]} ({lost.size} in all) cannot be reached from any start state; "
                "start there, make it reachable, or leave it out of `live`."
            )

    @classmethod
    def from_matrix(
        cls,
        P: Sequence[Rows] | np.ndarray,
        start: Row | None = None,
        terminal: Row | None = None,
        horizon: int | None = None,
        *,
        live: np.ndarray | None = None,
        features: np.ndarray | None = None,
        places: Mapping[str, np.ndarray] | None = None,
        layout: Layout | None = None,
        reward: np.ndarray | None = None,
        recipe: tuple[str, Mapping[str, object]] | None = None,
    ) -> MDP:
        """An MDP from dense transition probabilities P [states, actions, states]; starts uniformly by default."""
        P = as_array(P, "P", float)
        if P.ndim != 3 or P.shape[0] != P.shape[2] or not P.size:
            raise InputError(f"P: expected shape [states, actions, states], but got {list(P.shape)}.")
        states = len(P)
        k = max(1, int((P > 0).sum(axis=2).max()))
        order = np.argsort(~(P > 0), axis=2, kind="stable")[:, :, :k]
        prob = np.take_along_axis(P, order, axis=2)
        _check_probabilities(P)
        terminal = np.zeros(states, bool) if terminal is None else as_array(terminal, "terminal", bool)
        if terminal.shape != (states,):
            raise InputError(f"terminal: expected one entry per state, [{states}], but got {list(terminal.shape)}.")
        if start is None:
            start = np.where(terminal, 0.0, 1.0) / max(1, (~terminal).sum())
        places = {} if places is None else places
        return cls(order, prob, start, terminal, horizon, live, features, places, layout, reward, recipe)  # type: ignore[arg-type]

    @property
    def states(self) -> int:
        return self.next.shape[0]

    @property
    def actions(self) -> int:
        return self.next.shape[1]

    @property
    def successors(self) -> int:
        """Successors per (state, action) in the arrays, including padding."""
        return self.next.shape[2]

    @property
    def rows(self) -> int:
        """Number of table rows: of features, or of states without aggregation."""
        return self.states if self.features is None else int(self.features.max()) + 1

    @property
    def feature(self) -> np.ndarray:
        """The table row of every state."""
        return np.arange(self.states, dtype=np.int32) if self.features is None else self.features

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Transition probabilities as a sparse matrix [states * actions, states]."""
        return pair_matrix(self.prob, self.next)

    @cached_property
    def reached(self) -> np.ndarray:
        """The states that can be reached from the start distribution, [states] bool."""
        return reached_from(self)

    @property
    def going(self) -> np.ndarray:
        """The states in which actions are taken: reachable and not terminal, [states] bool."""
        return self.reached & ~self.terminal

    def where(self, at: Place) -> np.ndarray:
        """State indices of a place: a name, a (row, column) cell, a state index, or a list of those."""
        if isinstance(at, str):
            if at not in self.places:
                known = ", ".join(map(repr, self.places)) or "none"
                raise InputError(f"at: the world has no place called {at!r}; its places are {known}.")
            return np.atleast_1d(self.places[at])
        cell = isinstance(at, tuple) and len(at) == 2 and all(isinstance(v, int | np.integer) for v in at)
        if cell and self.layout is not None:
            row, column = cast(tuple[int, int], at)
            if not (0 <= row < self.layout.height and 0 <= column < self.layout.width):
                raise InputError(f"at: cell {at} lies outside the {self.layout.height}x{self.layout.width} map; count from 0.")
            return np.array([row * self.layout.width + column])
        if isinstance(at, int | np.integer):
            if not 0 <= at < self.states:
                raise InputError(f"at: state {at} does not exist; the world has states 0 to {self.states - 1}.")
            return np.array([int(at)])
        if isinstance(at, list | tuple) or (isinstance(at, np.ndarray) and at.ndim):
            return np.concatenate([np.empty(0, int), *(self.where(a) for a in at)])
        raise InputError(f"at: {shown(at)} is not a place; give a name, a (row, column) cell or a state index.")

    def with_features(self, features: np.ndarray, recipe: tuple[str, Mapping[str, object]] | None = None) -> MDP:
        """The same world with state aggregation: features [states] gives the table row of each state."""
        return replace(self, features=np.asarray(features), recipe=recipe)


def _check_probabilities(prob: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(prob) | (prob < 0))
    if bad.size:
        s, a, _ = bad[0]
        raise InputError(f"P: a transition probability of state {s}, action {a} is negative or not finite; give probabilities.")


def pair_matrix(prob: np.ndarray, following: np.ndarray) -> sp.csr_array:
    """Transition probabilities, both [states, actions, successors], as a sparse matrix [states * actions, states]."""
    states, actions, width = prob.shape
    kept = prob.ravel() > 0
    entries = prob.ravel()[kept], (np.repeat(np.arange(states * actions), width)[kept], following.ravel()[kept])
    return sp.csr_array(sp.coo_array(entries, shape=(states * actions, states)))


def reached_from(model: Any, steps: int | None = None) -> np.ndarray:
    """The states that can be reached, within `steps` if given, from the start of an MDP or a `Model`, [states] bool."""
    acting = ~model.terminal[:, None, None]
    return reachable(model.start > 0, lambda states: model.next[states][(model.prob[states] > 0) & acting[states]], steps)


def reachable(start: np.ndarray, successors: Callable[[np.ndarray], np.ndarray], steps: int | None = None) -> np.ndarray:
    """The states that can be reached from those in `start`, both [states] bool; successors: of some states, by number."""
    reached = start.copy()
    frontier, done = np.flatnonzero(reached), 0
    while frontier.size and (steps is None or done < steps):
        found = successors(frontier)
        frontier, done = np.unique(found[~reached[found]]), done + 1
        reached[frontier] = True
    return reached


# --- What behaviours and learners begin with -------------------------------------------------------------------------


class TableRows(Protocol):
    """The rows of a behaviour's and a learner's tables: those of an MDP, or of a world of which nothing else is known."""

    @property
    def states(self) -> int: ...
    @property
    def actions(self) -> int: ...
    @property
    def horizon(self) -> int | None:
        """Steps after which episodes are truncated."""

    @property
    def rows(self) -> int:
        """Features, or states without aggregation."""

    @property
    def feature(self) -> np.ndarray:
        """The row of every state, [states]."""

    @property
    def terminal(self) -> np.ndarray:
        """Where episodes are known to end, [states] bool."""


@dataclass(frozen=True)
class Unseen:
    """Rows of which only the number is known: cells of observations, or states of an environment (`TableRows`)."""

    states: int
    actions: int
    horizon: int | None = None

    @property
    def rows(self) -> int:
        return self.states

    @property
    def feature(self) -> np.ndarray:
        return np.arange(self.states, dtype=np.int32)

    @property
    def terminal(self) -> np.ndarray:
        return np.zeros(self.states, bool)


# --- World: what gvfx can run by itself -----------------------------------------------------------------------------


class CompiledWorld(ABC):
    """A world that brings its own loop, true values or default method: derive a frozen dataclass from it."""

    planned_on_cells: ClassVar[bool] = False  # whether `gvfx.plan` can forecast from a pilot, on cells of the observations

    @abstractmethod
    def open(self, questions: Sequence[Any], method: Any, options: Any) -> Any:
        """The backend (`gvfx.running.drive.Backend`) of a run with a `gvfx.running.plan.Method` and `Options`."""

    def stepped(self, questions: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """This world as an environment that can be stepped and reset, and its questions there; needed for audits."""
        raise InputError(f"audit: {type(self).__name__} cannot be audited; give 0, or an environment of Gymnasium.")


World = MDP | CompiledWorld
