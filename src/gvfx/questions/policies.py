"""Target policies: pi(a|s) for every action of a state.

Plain arrays and functions are accepted wherever a policy is expected (`as_policy`); functions may use NumPy or JAX and take one
observation or a batch of them.  Policies of Box actions are in `gaussian`, Stable-Baselines3 models in `written`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np

from gvfx.errors import FunctionFailed, GvfxError, InputError, error_text
from gvfx.inputs import checked, is_finite, is_real, listed, shown
from gvfx.types import Function, Observations, Row, Rows
from gvfx.worlds.mdp import TOLERANCE
from gvfx.worlds.returns import own


def checked_rows(rows: Any, field: str, actions: int | None = None) -> np.ndarray:
    """Rows of action probabilities as a float array [actions] or [rows, actions]; raises InputError for the first bad row."""
    try:
        table = np.array(rows, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{field}: expected numbers, one probability per action, but got {rows!r:.80}; give them, or gvfx.uniform_policy()."
        ) from None
    each = "give one probability per action"
    if table.ndim not in (1, 2) or table.size == 0:
        raise InputError(f"{field}: expected shape [actions] or [states, actions], but got {table.shape}; {each}.")
    if actions not in (None, given := table.shape[-1]):
        raise InputError(f"{field}: expected {actions} probabilities per row, one per action, but got {given}; give one each.")
    totals = table.sum(axis=-1, keepdims=True)
    if table.min() >= 0 and np.abs(totals - 1).max() <= TOLERANCE:  # false for NaN
        return table / totals
    flat, logits = table.reshape(-1, table.shape[-1]), "for logits use gvfx.softmax_policy(function)"
    problems = ~np.isfinite(flat).all(axis=1), (flat < 0).any(axis=1), np.abs(flat.sum(axis=1) - 1) > TOLERANCE
    first = next(k for k, rows in enumerate(problems) if rows.any())
    bad = problems[first].argmax()
    why = (
        "; replace NaN and infinity by probabilities.",
        f"; probabilities must not be negative; {logits}.",
        f" and sums to {flat[bad].sum():.6g}; divide it by its sum so that it adds up to 1, or {logits}.",
    )
    raise InputError(f"{field}: row {bad} is {flat[bad].tolist()}{why[first]}")


class Policy(ABC):
    """A target policy."""

    @abstractmethod
    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [1 or states, actions]; one row if they are the same in every state."""

    def at(self, observations: Observations, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [batch, actions] at a batch of observations (state numbers if observations are Discrete)."""
        raise InputError(f"{field}: {type(self).__name__} is for Discrete observations; give a function of the observation.")

    def prepared(self, observations: Observations, actions: int) -> Policy:
        """A copy for repeated calls of `at`, tried with some observations: checked, JAX functions compiled."""
        return self


class _OneRow(Policy):
    """A policy that is the same in every state: its table has one row."""

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(1, actions, field).repeat(len(observations), axis=0)

    def prepared(self, observations: Any, actions: int) -> Policy:
        return _CheckedRow(self.table(1, actions))


@dataclass(frozen=True, eq=False)
class _CheckedRow(_OneRow):
    """A constant policy whose row of probabilities has been checked."""

    row: np.ndarray  # [1, action]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.row


@dataclass(frozen=True)
class ConstantPolicy(_OneRow):
    """The same action probabilities in every state."""

    probabilities: tuple[float, ...]

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return checked_rows(self.probabilities, field, actions)[None]


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
        rows = returned_by(self.function, self.batched, observations, (actions,), field)
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
            chosen = np.asarray(returned_by(self.choice, self.batched, observations, (), field))
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
class StatefulPolicy(Policy):
    """A policy with a memory: `make` begins an episode and returns a function from observations to actions."""

    make: Callable[..., Any]  # of a generator of random numbers

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(f"{field}: a policy with a memory can be followed only; use gvfx.Rollouts() as the learner.")

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(0, actions, field)

    def begun(self, rng: np.random.Generator, field: str = "policy") -> Callable[[Any], Any]:
        """The function that acts in one episode."""

        def chosen(observation: Any) -> Any:
            try:
                return act(observation)
            except Exception as error:
                raise FunctionFailed(
                    f"{field}: the function raised {error_text(error)}; make it accept every observation."
                ) from error

        try:
            act = self.make(rng)
        except Exception as error:
            raise FunctionFailed(
                f"{field}: make raised {error_text(error)}; let it take a generator of random numbers."
            ) from error
        if not callable(act):
            raise InputError(f"{field}: make returned {act!r:.40}; return a function from observations to actions.")
        return chosen


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
class UniformPolicy(_OneRow):
    """Every action has the same probability."""

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((1, actions), 1 / actions)


def returned_by(
    function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...], field: str = "policy"
) -> Any:
    """What a function returns at a batch of observations [batch, *row]: by one call if it takes batches, else one call each."""
    try:
        if batched is None:
            batched = _takes_batches(function, observations, row)
        if batched:
            return np.array(function(_copy(observations)))  # copied, like what it is given: functions may reuse and change arrays
        whole = getattr(observations, "dtype", np.dtype(object)).kind in "iu" and np.ndim(observations) == 1
        return [np.array(function(int(o) if whole else own(o))) for o in observations]
    except GvfxError:
        raise
    except Exception as error:
        raise FunctionFailed(f"{field}: the function raised {error_text(error)}; make it accept every observation.") from error


def _copy(observations: Any) -> Any:
    """A batch that a function may change."""
    return observations.copy() if isinstance(observations, np.ndarray) else own(observations)


def prepared_function(
    function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...]
) -> tuple[Callable[[Any], Any], bool]:
    """The function, compiled if it returns JAX arrays, and whether it takes batches."""
    if batched is None:
        batched = _takes_batches(function, observations, row)
    try:
        answer = function(own(observations if batched else observations[0]))
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


@checked
def stateful_policy(make: Function) -> StatefulPolicy:
    """A policy with a memory, such as a recurrent network or one that plans several actions ahead.

    make: called with a NumPy generator at the beginning of every episode; returns a function from observations to actions of the
          environment.  All that is random must come from the generator, so that episodes can be paired.
    """
    return StatefulPolicy(make)


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


# --- Target policies defined by a GVF's own action values (`gvfx.theory.equations` computes what a model implies) ---


@dataclass(frozen=True)
class OwnPolicy(Policy):
    """Greedy or softmax with respect to its own GVF's action values Q, improved while they are learned.

    epsilon:     probability of a random action instead of a greedy one.
    temperature: if above 0, the softmax of Q / temperature instead of the greedy actions.

    An action never tried in a state keeps its probability 1 / actions.
    """

    epsilon: float = 0.0
    temperature: float = 0.0

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(
            f"{field}: a policy by its own GVF's values is supported by gvfx.evaluate with tables only; give a known policy here."
        )

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(0, actions, field)

    def choices(self, q: np.ndarray, tried: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """Greedy or softmax probabilities over the tried actions; zeros where nothing was tried.  All are [state, action].

        before: earlier greedy choices, which are kept in states where they are still best.
        """
        best = np.where(tried, q, -np.inf).max(axis=1, keepdims=True)
        best = np.where(np.isfinite(best), best, 0.0)
        if self.temperature > 0:
            return _shares(np.where(tried, np.exp(np.minimum(q - best, 0.0) / self.temperature), 0.0))
        good = tried & (q >= best - 1e-9 * np.abs(q).max())
        if before is None:
            return _shares(good)
        worse = ((before > 0) & ~good).any(axis=1, keepdims=True)
        return np.where(worse, _shares(good), before)

    def probabilities(self, choices: np.ndarray, tried: np.ndarray) -> np.ndarray:
        """The complete policy [state, action] from the `choices` among the tried actions [state, action]."""
        known = tried.mean(axis=1, keepdims=True)
        own = (1 - self.epsilon) * choices + self.epsilon * _shares(tried)
        return np.where(tried, known * own, 1 / tried.shape[1])


def _shares(weights: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; rows of zeros stay zero."""
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def own_greedy(epsilon: float = 0.0) -> OwnPolicy:
    """The action with the highest value of the GVF itself; with probability `epsilon` a random action."""
    if not (is_finite(epsilon) and 0 <= epsilon <= 1):
        raise InputError(f"epsilon: {shown(epsilon)} lies outside [0, 1]; give the probability of a random action.")
    return OwnPolicy(epsilon=float(epsilon))


def own_softmax(temperature: float) -> OwnPolicy:
    """Probabilities proportional to exp(Q / temperature) with the GVF's own action values Q."""
    if not (is_finite(temperature) and temperature > 0):
        raise InputError(f"temperature: {shown(temperature)} must be a number above 0; use gvfx.own_greedy() for temperature 0.")
    return OwnPolicy(temperature=float(temperature))


# --- Whether policies are functions of the observation: they are asked again where they have answered ---------------
# A function that is random, or remembers earlier calls, would be stored or averaged as if it were something else; discounts that
# are functions of the transition likewise.

SAME = 1e-3  # largest difference of two answers that are the same: of probabilities, or of actions in [-1, 1]
ROUNDS = 16  # times that a policy is asked again at the start, if SECONDS allow it; once if not
ASKED = 96  # observations after which a table has been asked for often enough
SECONDS = 2e-3
KEPT = 16  # observations at which it is asked again
POLICY = (
    "the function answers differently at the same observation, so it is random or has a memory; return the probabilities of all "
    "actions, or the best action (model.predict(o, deterministic=True)), and put what it remembers into the observation, or "
    "into gvfx.stateful_policy."
)
DISCOUNT = (
    "the function answers differently for the same transition, so it is random or has a memory; return its mean, and put what it "
    "remembers into the observation."
)

Ask = Callable[[Any], np.ndarray]


def is_function(policy: Policy) -> bool:
    """Whether a policy calls a function or model of the user's."""
    if isinstance(policy, MixturePolicy):
        return any(map(is_function, policy.parts))
    if isinstance(policy, DeterministicPolicy):
        return callable(policy.choice)
    return not isinstance(policy, ConstantPolicy | TablePolicy | UniformPolicy)


def steady_table(policy: Policy, states: int, actions: int, field: str) -> np.ndarray:
    """The policy's table, [1 or states, actions]; one that answers differently when it is asked again is refused."""
    rows = policy.table(states, actions, field)
    if is_function(policy) and len(rows) == states:
        some = _some(rows)
        _repeat(_rows_of(policy, rows, field), some, rows[some], field)
    return rows


def _some(rows: np.ndarray) -> np.ndarray:
    """Some of the states of a table [states, actions]."""
    return np.unique(np.linspace(0, len(rows) - 1, min(len(rows), KEPT)).astype(int))


def _rows_of(policy: Policy, table: np.ndarray, field: str) -> Ask:
    """Asks for rows of a table [states, actions]."""
    count, actions = table.shape

    def ask(states: np.ndarray) -> np.ndarray:
        try:
            return policy.at(states, actions, field)
        except FunctionFailed:
            raise
        except InputError:  # a policy of one's own that has a table alone
            return np.broadcast_to(policy.table(count, actions, field), (count, actions))[states]

    return ask


class Steady:
    """A policy, or a discount, that is asked again where it has answered: at its 1st, 2nd, 4th, 8th, ... call, and by `again`.

    used, first: called since, and at first, as the user gave it: a compiled function would no longer be random.
    """

    def __init__(self, field: str, used: Ask, first: Ask | None = None, sentence: str = POLICY) -> None:
        self.field, self.used, self.first, self.sentence = field, used, first or used, sentence
        self.kept: list[tuple[Any, np.ndarray]] = []  # observations [1, ...], and the answers there
        self.calls, self.next, self.turn = 0, 1, 0

    @classmethod
    def of_table(cls, policy: Policy, rows: np.ndarray, field: str) -> Steady:
        """A policy whose answers at all states [states, actions] are known."""
        out = cls(field, _rows_of(policy, rows, field))
        out.kept = [(np.array([s]), rows[[s]]) for s in _some(rows)]
        return out

    def __call__(self, observations: Any) -> np.ndarray:
        answers = self.used(observations)
        if len(observations):
            self.look(observations, answers)
        return answers

    def look(self, observations: Any, answers: np.ndarray) -> None:
        """Note a call at a batch of observations; ask again if it is time."""
        self.calls += 1
        if self.calls < self.next:
            return
        self.next *= 2
        observation, answer = _copy(observations[:1]), np.array(answers[:1])
        for seen, before in self.kept:
            _repeat(self.used, seen, before, self.field, self.sentence, 1)
        if len(self.kept) < KEPT:
            ask, rounds = (self.used, 1) if self.kept else (self.first, ROUNDS)
            _repeat(ask, observation, answer, self.field, self.sentence, rounds)
            self.kept.append((observation, answer))

    def again(self) -> None:
        """Ask again at one of the observations."""
        if self.kept:
            self.turn += 1
            _repeat(self.used, *self.kept[self.turn % len(self.kept)], self.field, self.sentence, 1)


def _repeat(ask: Ask, observations: Any, answer: np.ndarray, field: str, sentence: str = POLICY, rounds: int = ROUNDS) -> None:
    """Refuse a function that does not answer the same again; it may count its calls, or remember the one before."""
    begun, last = perf_counter(), len(observations) - 1
    for k in range(min(rounds, max(2, ASKED // (last + 1)))):
        order = list(range(last + 1)) if k % 2 or rounds == 1 else [*range(last, -1, -1), last]  # another order, and one more
        given = observations[order] if isinstance(observations, np.ndarray) else [observations[i] for i in order]
        if not np.abs(ask(given) - answer[order]).max(initial=0.0) <= SAME:
            raise FunctionFailed(f"{field}: {sentence}")
        if perf_counter() - begun > SECONDS:
            return
