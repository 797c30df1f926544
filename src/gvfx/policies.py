"""Target policies: pi(a|s) for every action of a state.

A policy is anything with ``table(states, actions) -> [1 or states, actions]`` (one row means "the same in every
state") and ``at(observations, actions) -> [batch, actions]`` for observations of any kind.  Plain arrays
and functions are accepted wherever a policy is expected (`as_policy`); functions may be NumPy or JAX, of one
observation or of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.errors import InputError

TOLERANCE = 1e-6  # how far a row may be from summing to one


def checked_rows(rows: Any, field: str, actions: int | None = None) -> np.ndarray:
    """Probability rows as a float array, or an InputError naming the field and the first bad row."""
    try:
        table = np.array(rows, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{field}: expected numbers, one probability per action, but got {rows!r:.80}.") from None
    if table.ndim not in (1, 2) or table.size == 0:
        raise InputError(f"{field}: expected shape [actions] or [states, actions], but got {table.shape}.")
    if actions is not None and table.shape[-1] != actions:
        raise InputError(f"{field}: expected {actions} probabilities per row, one per action, but got {table.shape[-1]}.")
    flat = table.reshape(-1, table.shape[-1])
    bad = np.flatnonzero(~np.isfinite(flat).all(axis=1))
    if bad.size:
        raise InputError(f"{field}: row {bad[0]} is {flat[bad[0]].tolist()}; replace NaN and infinity by probabilities.")
    bad = np.flatnonzero((flat < 0).any(axis=1))
    if bad.size:
        raise InputError(f"{field}: row {bad[0]} is {flat[bad[0]].tolist()}; probabilities must not be negative.")
    totals = flat.sum(axis=1)
    bad = np.flatnonzero(np.abs(totals - 1) > TOLERANCE)
    if bad.size:
        raise InputError(
            f"{field}: row {bad[0]} is {flat[bad[0]].tolist()} and sums to {totals[bad[0]]:.6g}; "
            "divide it by its sum so that it adds up to 1."
        )
    return table / table.sum(axis=-1, keepdims=True)


class Policy(ABC):
    """A target policy."""

    @abstractmethod
    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [1 or states, actions]; one row when the state does not matter."""

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [batch, actions] at a batch of observations (of states: whole numbers)."""
        raise InputError(f"{field}: {type(self).__name__} knows states only; give a function of the observation.")


@dataclass(frozen=True)
class ConstantPolicy(Policy):
    """The same action probabilities in every state."""

    probabilities: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return checked_rows(self.probabilities, field, actions)[None]

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return np.broadcast_to(self.table(1, actions, field), (len(observations), actions))


@dataclass(frozen=True)
class TablePolicy(Policy):
    """One row of action probabilities per state (rows as nested tuples, so that questions can be hashed)."""

    rows: tuple[tuple[float, ...], ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        if len(self.rows) != states:
            raise InputError(f"{field}: has {len(self.rows)} rows but the world has {states} states; give one row per state.")
        return checked_rows(self.rows, field, actions)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        rows = checked_rows(self.rows, field, actions)
        states = np.asarray(observations)
        if states.ndim != 1 or states.dtype.kind not in "iu" or (states < 0).any() or (states >= len(rows)).any():
            raise InputError(f"{field}: a table of {len(rows)} rows needs observations 0 to {len(rows) - 1}; give a function.")
        return rows[states]


@dataclass(frozen=True)
class CallablePolicy(Policy):
    """A function of the observation that returns its action probabilities.

    batched: whether the function takes a batch of observations and returns one row each; None: found out by trying.
    """

    function: Callable[[Any], Any]
    batched: bool | None = None

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        rows = _each(self.function, self.batched, observations, (actions,))
        table = checked_rows(rows, field, actions)
        if table.shape != (len(observations), actions):
            raise InputError(f"{field}: the function must return one probability per action, {actions} numbers.")
        return table


@dataclass(frozen=True)
class DeterministicPolicy(Policy):
    """A policy that always takes one action in a state: actions per state, or a function of the observation."""

    choice: tuple[int, ...] | Callable[[Any], Any]
    batched: bool | None = None

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        if not callable(self.choice) and len(self.choice) != states:
            raise InputError(f"{field}: has {len(self.choice)} actions but the world has {states} states; give one per state.")
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        if callable(self.choice):
            chosen = np.asarray(_each(self.choice, self.batched, observations, ()))
        else:
            chosen = np.asarray(self.choice)[np.asarray(observations)]
        if chosen.shape != (len(observations),) or not ((chosen >= 0) & (chosen < actions) & (chosen == chosen // 1)).all():
            raise InputError(f"{field}: a deterministic policy must choose one action, 0 to {actions - 1}, per observation.")
        return np.eye(actions)[chosen.astype(int)]


def _each(function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...]) -> Any:
    """A function's answers at a batch of observations: one call where it takes batches, else one call each."""
    if batched is None:
        batched = _takes_batches(function, observations, row)
    if batched:
        return np.asarray(function(observations))
    whole = getattr(observations, "dtype", np.dtype(object)).kind in "iu" and np.ndim(observations) == 1
    return [np.asarray(function(int(o) if whole else o)) for o in observations]


def _takes_batches(function: Callable[[Any], Any], observations: Any, row: tuple[int, ...]) -> bool:
    """Whether the function answers a batch with one row per observation, tried with a length that nothing else has."""
    if not isinstance(observations, np.ndarray) or not len(observations):
        return False
    size = next(n for n in (5, 7, 11, 13, 17) if n not in (*observations.shape[1:], *row))
    try:
        answer = np.asarray(function(np.repeat(observations[:1], size, axis=0)))
    except Exception:  # a function of one observation may fail on a batch in any way
        return False
    return answer.shape == (size, *row)


@dataclass(frozen=True)
class MixturePolicy(Policy):
    """A weighted average of policies, drawn anew at every step."""

    parts: tuple[Policy, ...]
    weights: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        parts = [w * p.table(states, actions, field) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.sum(np.broadcast_arrays(*parts), axis=0)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        parts = [w * p.at(observations, actions, field) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.sum(parts, axis=0)


@dataclass(frozen=True)
class UniformPolicy(Policy):
    """Every action alike."""

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((1, actions), 1 / actions)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((len(observations), actions), 1 / actions)


def constant_policy(probabilities: Sequence[float]) -> ConstantPolicy:
    """The same action probabilities in every state, e.g. ``constant_policy([.25, .25, .25, .25])``."""
    row = checked_rows(probabilities, "policy")
    if row.ndim != 1:
        raise InputError(f"policy: expected one row of probabilities, but got shape {list(row.shape)}; use table_policy.")
    return ConstantPolicy(tuple(row.tolist()))


def table_policy(rows: Any) -> TablePolicy:
    """Action probabilities per state, rows [states, actions]."""
    table = checked_rows(rows, "policy")
    if table.ndim != 2:
        raise InputError(f"policy: expected shape [states, actions], but got {table.shape}; use constant_policy for one row.")
    return TablePolicy(tuple(map(tuple, table.tolist())))


def callable_policy(function: Callable[[Any], Any], batched: bool | None = None) -> CallablePolicy:
    """Action probabilities by a function of the observation, or of a batch of them (`batched`; None: found out)."""
    return CallablePolicy(function, batched)


def deterministic_policy(choice: Any, batched: bool | None = None) -> DeterministicPolicy:
    """One action per state: actions [states], or a function of the observation that returns the action."""
    if callable(choice):
        return DeterministicPolicy(choice, batched)
    actions = np.asarray(choice)
    if actions.ndim != 1 or actions.dtype.kind not in "iu":
        raise InputError("policy: a deterministic policy is one whole number per state, or a function that returns it.")
    return DeterministicPolicy(tuple(actions.tolist()))


def mixture_policy(policies: Sequence[Any], weights: Sequence[float] | None = None) -> MixturePolicy:
    """A weighted average of policies (equal weights by default)."""
    parts = tuple(as_policy(p) for p in policies)
    if not parts:
        raise InputError("policies: a mixture needs at least one policy.")
    shares = checked_rows(weights if weights is not None else np.full(len(parts), 1 / len(parts)), "weights", len(parts))
    return MixturePolicy(parts, tuple(shares.ravel().tolist()))


def uniform_policy() -> UniformPolicy:
    """Every action alike."""
    return UniformPolicy()


def as_policy(policy: Any) -> Policy:
    """A policy from a policy, one row, a table of rows or a function of the state."""
    if isinstance(policy, Policy):
        return policy
    if callable(policy):
        return CallablePolicy(policy)
    table = checked_rows(policy, "policy")
    return constant_policy(policy) if table.ndim == 1 else table_policy(policy)
