"""Target policies: pi(a|s) for every action of a state.

A policy has ``table(states, actions) -> [1 or states, actions]`` (one row means "the same in every state") and
``at(observations, actions) -> [batch, actions]`` for observations of any kind.  Plain arrays and functions are accepted
wherever a policy is expected (`as_policy`); functions may use NumPy or JAX and take one observation or a batch of them.

Policies of Box actions are in `gaussian`, policies defined by a GVF's own action values in `own`, Stable-Baselines3
models in `sb3`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np

from gvfx.errors import FunctionFailed, GvfxError, InputError, said_by
from gvfx.inputs import checked, is_real, listed, shown
from gvfx.types import Function, Observations, Row, Rows
from gvfx.worlds.mdp import TOLERANCE


def checked_rows(rows: Any, field: str, actions: int | None = None) -> np.ndarray:
    """Rows of action probabilities as a float array [actions] or [rows, actions]; raises InputError for the first bad row."""
    try:
        table = np.array(rows, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{field}: expected numbers, one probability per action, but got {rows!r:.80}; give them, or gvfx.uniform_policy()."
        ) from None
    if table.ndim not in (1, 2) or table.size == 0:
        raise InputError(
            f"{field}: expected shape [actions] or [states, actions], but got {table.shape}; give one probability per action."
        )
    if actions is not None and table.shape[-1] != actions:
        raise InputError(
            f"{field}: expected {actions} probabilities per row, one per action, but got {table.shape[-1]}; give one each."
        )
    totals = table.sum(axis=-1, keepdims=True)
    if table.min() >= 0 and np.abs(totals - 1).max() <= TOLERANCE:  # false for NaN
        return table / totals
    flat = table.reshape(-1, table.shape[-1])
    bad = np.flatnonzero(~np.isfinite(flat).all(axis=1))
    if bad.size:
        raise InputError(f"{field}: row {bad[0]} is {flat[bad[0]].tolist()}; replace NaN and infinity by probabilities.")
    bad = np.flatnonzero((flat < 0).any(axis=1))
    if bad.size:
        raise InputError(
            f"{field}: row {bad[0]} is {flat[bad[0]].tolist()}; probabilities must not be negative; for logits "
            "use gvfx.softmax_policy(function)."
        )
    first = np.argmax(np.abs(flat.sum(axis=1) - 1) > TOLERANCE)
    raise InputError(
        f"{field}: row {first} is {flat[first].tolist()} and sums to {flat[first].sum():.6g}; "
        "divide it by its sum so that it adds up to 1, or for logits use gvfx.softmax_policy(function)."
    )


class Policy(ABC):
    """A target policy."""

    @abstractmethod
    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [1 or states, actions]; one row if they are the same in every state."""

    def at(self, observations: Observations, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [batch, actions] at a batch of observations (state numbers if observations are Discrete)."""
        raise InputError(f"{field}: {type(self).__name__} is for Discrete observations; give a function of the observation.")

    def prepared(self, observations: Observations, actions: int) -> Policy:
        """A copy prepared for repeated calls of `at`: checked, JAX functions compiled, and whether it takes batches decided.

        observations: some of those to come, with which functions are tried.
        """
        return self


@dataclass(frozen=True, eq=False)
class _CheckedRow(Policy):
    """A constant policy whose row of probabilities has been checked."""

    row: np.ndarray  # [1, action]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.row

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.row.repeat(len(observations), axis=0)


@dataclass(frozen=True)
class ConstantPolicy(Policy):
    """The same action probabilities in every state."""

    probabilities: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return checked_rows(self.probabilities, field, actions)[None]

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return np.broadcast_to(self.table(1, actions, field), (len(observations), actions))

    def prepared(self, observations: Any, actions: int) -> Policy:
        return _CheckedRow(self.table(1, actions))


@dataclass(frozen=True)
class TablePolicy(Policy):
    """One row of action probabilities per state (nested tuples, so that questions are hashable)."""

    rows: tuple[tuple[float, ...], ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        if len(self.rows) != states:
            raise InputError(f"{field}: has {len(self.rows)} rows but the world has {states} states; give one row per state.")
        return checked_rows(self.rows, field, actions)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        rows = checked_rows(self.rows, field, actions)
        states = np.asarray(observations)
        if states.ndim != 1 or states.dtype.kind not in "iu" or (states < 0).any() or (states >= len(rows)).any():
            raise InputError(
                f"{field}: the table has rows for states 0 to {len(rows) - 1} only; give a function of the observation."
            )
        return rows[states]


@dataclass(frozen=True)
class CallablePolicy(Policy):
    """A function of the observation that returns its action probabilities.

    batched: whether the function takes a batch of observations and returns one row each; None: decided by a trial call.
    """

    function: Callable[[Any], Any]
    batched: bool | None = None

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        rows = answers(self.function, self.batched, observations, (actions,), field)
        if len(observations) and np.ndim(rows[0]) == 0:
            what = f"{rows[0]!s:.40}" if np.asarray(rows[0]).dtype == object else f"one number ({rows[0]!s:.40})"
            raise InputError(
                f"{field}: the function returns {what}, not {actions} probabilities; "
                "if it is the action, use gvfx.deterministic_policy(function)."
            )
        table = checked_rows(rows, field, actions)
        if table.shape != (len(observations), actions):
            raise InputError(f"{field}: the function must return {actions} probabilities per observation, one for each action.")
        return table

    def prepared(self, observations: Any, actions: int) -> CallablePolicy:
        return CallablePolicy(*prepared_function(self.function, self.batched, observations, (actions,)))


@dataclass(frozen=True)
class DeterministicPolicy(Policy):
    """One action per state, given as a tuple of actions or as a function of the observation."""

    choice: tuple[int, ...] | Callable[[Any], Any]
    batched: bool | None = None

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        if not callable(self.choice) and len(self.choice) != states:
            raise InputError(f"{field}: has {len(self.choice)} actions but the world has {states} states; give one per state.")
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        if callable(self.choice):
            chosen = np.asarray(answers(self.choice, self.batched, observations, (), field))
            chosen = chosen if chosen.dtype.kind in "fiub" else np.full(len(observations), np.nan)
        else:
            chosen = np.asarray(self.choice)[np.asarray(observations)]
        if chosen.shape != (len(observations),) or not ((chosen >= 0) & (chosen < actions) & (chosen == chosen // 1)).all():
            raise InputError(f"{field}: a deterministic policy must choose one action, 0 to {actions - 1}, per observation.")
        return np.eye(actions)[chosen.astype(int)]

    def prepared(self, observations: Any, actions: int) -> DeterministicPolicy:
        if not callable(self.choice):
            return self
        return DeterministicPolicy(*prepared_function(self.choice, self.batched, observations, ()))


@dataclass(frozen=True)
class MixturePolicy(Policy):
    """A weighted average of policies: at every step one of them is drawn with its weight and followed."""

    parts: tuple[Policy, ...]
    weights: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        parts = [w * p.table(states, actions, field) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.sum(np.broadcast_arrays(*parts), axis=0)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        parts = [w * p.at(observations, actions, field) for w, p in zip(self.weights, self.parts, strict=True)]
        return np.sum(parts, axis=0)

    def prepared(self, observations: Any, actions: int) -> MixturePolicy:
        return MixturePolicy(tuple(part.prepared(observations, actions) for part in self.parts), self.weights)


@dataclass(frozen=True)
class UniformPolicy(Policy):
    """Every action has the same probability."""

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((1, actions), 1 / actions)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((len(observations), actions), 1 / actions)

    def prepared(self, observations: Any, actions: int) -> Policy:
        return _CheckedRow(self.table(1, actions))


def answers(
    function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...], field: str = "policy"
) -> Any:
    """What a function returns at a batch of observations [batch, *row]: by one call if it takes batches, else one call each."""
    try:
        return _answers(function, batched, observations, row)
    except GvfxError:
        raise
    except Exception as error:
        raise FunctionFailed(f"{field}: the function raised {said_by(error)}; make it accept every observation.") from error


def _answers(function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...]) -> Any:
    if batched is None:
        batched = _takes_batches(function, observations, row)
    if batched:
        return np.asarray(function(observations))
    whole = getattr(observations, "dtype", np.dtype(object)).kind in "iu" and np.ndim(observations) == 1
    return [np.asarray(function(int(o) if whole else o)) for o in observations]


def prepared_function(
    function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...]
) -> tuple[Callable[[Any], Any], bool]:
    """The function, compiled if it returns JAX arrays, and whether it takes batches."""
    if batched is None:
        batched = _takes_batches(function, observations, row)
    try:
        answer = function(observations if batched else observations[0])
    except Exception:  # the next call names the question
        return function, batched
    if type(answer).__module__.partition(".")[0] in ("jax", "jaxlib"):
        import jax

        function = jax.jit(function)
    return function, batched


def _takes_batches(function: Callable[[Any], Any], observations: Any, row: tuple[int, ...]) -> bool:
    """Whether the function returns one row per observation of a batch, tried with a batch size that is no other dimension."""
    if not isinstance(observations, np.ndarray) or not len(observations):
        return False
    size = next(n for n in (5, 7, 11, 13, 17) if n not in (*observations.shape[1:], *row))
    try:
        answer = np.asarray(function(np.repeat(observations[:1], size, axis=0)))
    except Exception:  # a function of one observation may fail on a batch in any way
        return False
    return answer.shape == (size, *row)


PolicyLike = Policy | Row | Rows | Function  # what is accepted wherever a policy is expected


def as_policy(policy: PolicyLike) -> Policy:
    """A policy from a policy, one row of probabilities, one row per state, or a function of the observation."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, type):
        raise InputError(f"policy: {policy.__name__} is a class; give an object or a function of the observation.")
    if callable(policy):
        return CallablePolicy(policy)
    table = checked_rows(policy, "policy")
    return constant_policy(cast(Row, policy)) if table.ndim == 1 else table_policy(cast(Rows, policy))


def constant_policy(probabilities: Row) -> ConstantPolicy:
    """The same action probabilities in every state, e.g. ``constant_policy([.25, .25, .25, .25])``."""
    row = checked_rows(probabilities, "policy")
    if row.ndim != 1:
        raise InputError(f"policy: expected one row of probabilities, but got shape {list(row.shape)}; use table_policy.")
    return ConstantPolicy(tuple(row.tolist()))


def table_policy(rows: Rows) -> TablePolicy:
    """Action probabilities per state, rows [states, actions]."""
    table = checked_rows(rows, "policy")
    if table.ndim != 2:
        raise InputError(f"policy: expected shape [states, actions], but got {table.shape}; use constant_policy for one row.")
    key = table.shape, hashlib.sha256(np.ascontiguousarray(table).tobytes()).digest()
    policy = _TABLES.get(key)
    if policy is None:
        policy = _TABLES[key] = TablePolicy(tuple(map(tuple, table.tolist())))
    return policy


_TABLES: WeakValueDictionary[object, TablePolicy] = WeakValueDictionary()  # in use: a thousand questions share one large table


@checked
def callable_policy(function: Function, batched: bool | None = None) -> CallablePolicy:
    """Action probabilities by a function of the observation, or of a batch of them (`batched`; None: decided by a trial call)."""
    if not callable(function):
        raise InputError(f"function: {function!r:.40} cannot be called; give a function of the observation.")
    return CallablePolicy(function, batched)


@dataclass(frozen=True)
class Softmax:
    """The softmax of a function's scores, along their last axis."""

    function: Callable[[Any], Any]
    temperature: float

    def __call__(self, observations: Any) -> np.ndarray:
        scores = np.asarray(self.function(observations), float) / self.temperature
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)


@checked
def softmax_policy(function: Function, temperature: float = 1.0, batched: bool | None = None) -> CallablePolicy:
    """Probabilities proportional to exp(score / temperature), by a function that returns one score (logit) per action."""
    if not (is_real(temperature) and temperature > 0):
        raise InputError(f"temperature: {shown(temperature)} must be a number above 0.")
    if not callable(function):
        raise InputError(f"function: {function!r:.40} cannot be called; give a function of the observation.")
    return CallablePolicy(Softmax(function, float(temperature)), batched)


@checked
def deterministic_policy(choice: Function | Sequence[int] | np.ndarray, batched: bool | None = None) -> DeterministicPolicy:
    """One action per state: actions [states], or a function of the observation that returns the action."""
    if callable(choice):
        return DeterministicPolicy(choice, batched)
    actions = np.asarray(choice)
    if actions.ndim != 1 or actions.dtype.kind not in "iu":
        raise InputError("policy: a deterministic policy needs one action (an integer) per state, or a function that returns it.")
    return DeterministicPolicy(tuple(actions.tolist()))


def mixture_policy(policies: Sequence[PolicyLike], weights: Sequence[float] | None = None) -> MixturePolicy:
    """A weighted average of policies (equal weights by default)."""
    parts = tuple(as_policy(p) for p in listed(policies, "policies", "policies"))
    if not parts:
        raise InputError("policies: the list is empty; give a mixture at least one policy.")
    shares = checked_rows(weights if weights is not None else np.full(len(parts), 1 / len(parts)), "weights", len(parts))
    return MixturePolicy(parts, tuple(shares.ravel().tolist()))


def uniform_policy() -> UniformPolicy:
    """Every action has the same probability."""
    return UniformPolicy()
