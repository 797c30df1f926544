"""Target policies: pi(a|s) for every action of a state.

A policy is anything with ``table(states, actions) -> [1 or states, actions]``; one row means "the same in every
state".  Plain arrays and functions are accepted wherever a policy is expected (`as_policy`).
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


@dataclass(frozen=True)
class ConstantPolicy(Policy):
    """The same action probabilities in every state."""

    probabilities: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return checked_rows(self.probabilities, field, actions)[None]


@dataclass(frozen=True)
class TablePolicy(Policy):
    """One row of action probabilities per state (rows as nested tuples, so that questions can be hashed)."""

    rows: tuple[tuple[float, ...], ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        if len(self.rows) != states:
            raise InputError(f"{field}: has {len(self.rows)} rows but the world has {states} states; give one row per state.")
        return checked_rows(self.rows, field, actions)


@dataclass(frozen=True)
class CallablePolicy(Policy):
    """A function of the state that returns its action probabilities."""

    function: Callable[[int], Sequence[float]]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        table = checked_rows([self.function(s) for s in range(states)], field, actions)
        if table.ndim != 2:
            raise InputError(f"{field}: the function must return one probability per action, {actions} numbers.")
        return table


@dataclass(frozen=True)
class MixturePolicy(Policy):
    """A weighted average of policies, drawn anew at every step."""

    parts: tuple[Policy, ...]
    weights: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        parts = [w * p.table(states, actions, field) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.sum(np.broadcast_arrays(*parts), axis=0)


@dataclass(frozen=True)
class UniformPolicy(Policy):
    """Every action alike."""

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((1, actions), 1 / actions)


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


def callable_policy(function: Callable[[int], Sequence[float]]) -> CallablePolicy:
    """Action probabilities by a function of the state."""
    return CallablePolicy(function)


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
