"""Target policies: pi(a|s) for every action of a state.

A policy is anything with ``table(states, actions) -> [1 or states, actions]`` (one row means "the same in every
state") and ``at(observations, actions) -> [batch, actions]`` for observations of any kind.  Plain arrays
and functions are accepted wherever a policy is expected (`as_policy`); functions may be NumPy or JAX, of one
observation or of a batch.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.worlds.mdp import TOLERANCE


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
    totals = table.sum(axis=-1, keepdims=True)
    if table.min() >= 0 and np.abs(totals - 1).max() <= TOLERANCE:  # NaN is neither
        return table / totals
    flat = table.reshape(-1, table.shape[-1])
    bad = np.flatnonzero(~np.isfinite(flat).all(axis=1))
    if bad.size:
        raise InputError(f"{field}: row {bad[0]} is {flat[bad[0]].tolist()}; replace NaN and infinity by probabilities.")
    bad = np.flatnonzero((flat < 0).any(axis=1))
    if bad.size:
        raise InputError(f"{field}: row {bad[0]} is {flat[bad[0]].tolist()}; probabilities must not be negative.")
    first = np.argmax(np.abs(flat.sum(axis=1) - 1) > TOLERANCE)
    raise InputError(
        f"{field}: row {first} is {flat[first].tolist()} and sums to {flat[first].sum():.6g}; "
        "divide it by its sum so that it adds up to 1."
    )


class Policy(ABC):
    """A target policy."""

    @abstractmethod
    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [1 or states, actions]; one row when the state does not matter."""

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        """Probabilities [batch, actions] at a batch of observations (of states: whole numbers)."""
        raise InputError(f"{field}: {type(self).__name__} knows states only; give a function of the observation.")

    def settled(self, observations: Any, actions: int) -> Policy:
        """The same policy for being asked again and again: it knows whether it takes batches, JAX functions are compiled."""
        return self


@dataclass(frozen=True, eq=False)
class _Settled(Policy):
    """One row, already checked."""

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

    def settled(self, observations: Any, actions: int) -> Policy:
        return _Settled(self.table(1, actions))


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

    def settled(self, observations: Any, actions: int) -> CallablePolicy:
        return CallablePolicy(*_settled(self.function, self.batched, observations, (actions,)))


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

    def settled(self, observations: Any, actions: int) -> DeterministicPolicy:
        if not callable(self.choice):
            return self
        return DeterministicPolicy(*_settled(self.choice, self.batched, observations, ()))


class ContinuousPolicy(Policy):
    """A policy of Box actions: a middle action plus Gaussian noise of spread `sigma`, cut at the space's bounds."""

    sigma: float | tuple[float, ...]

    @abstractmethod
    def middles(self, observations: Any, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        """Middle actions [batch, *shape] at a batch of observations, in the environment's units."""

    def ready(self, observations: Any, shape: tuple[int, ...]) -> ContinuousPolicy:
        """The same policy for being asked again and again, as `settled`."""
        return self

    def sigmas(self, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        """The noise's standard deviation in every dimension of an action, [*shape]."""
        spread = np.asarray(self.sigma, float)
        if spread.size not in (1, math.prod(shape)):
            raise InputError(
                f"{field}: sigma has {spread.size} numbers, an action has shape {shape}; give one number, or one per dimension."
            )
        return np.broadcast_to(spread.reshape(shape if spread.size > 1 else ()), shape)

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(f"{field}: {type(self).__name__} has continuous actions; numbered actions need probabilities.")

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(0, actions, field)


@dataclass(frozen=True)
class GaussianPolicy(ContinuousPolicy):
    """The middle action by a function of the observation, or one for all of them."""

    middle: Callable[[Any], Any] | tuple[float, ...]
    sigma: float | tuple[float, ...]
    batched: bool | None = None

    def middles(self, observations: Any, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        if callable(self.middle):
            answers = _each(self.middle, self.batched, observations, shape)
        else:
            fits = len(self.middle) == math.prod(shape)
            answers = [np.reshape(self.middle, shape) if fits else self.middle] * len(observations)
        try:
            out = np.asarray(answers, float)
        except (TypeError, ValueError):
            raise InputError(f"{field}: the function must return numbers, one action of shape {shape}.") from None
        if out.shape != (len(observations), *shape):
            raise InputError(f"{field}: gives actions of shape {out.shape[1:]}, the environment's have {shape}; give that shape.")
        if not np.isfinite(out).all():
            raise InputError(f"{field}: the middle action holds nan or infinity; return finite numbers.")
        return out

    def ready(self, observations: Any, shape: tuple[int, ...]) -> GaussianPolicy:
        if not callable(self.middle):
            return self
        function, batched = _settled(self.middle, self.batched, observations, shape)
        return GaussianPolicy(function, self.sigma, batched)


def _each(function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...]) -> Any:
    """A function's answers at a batch of observations: one call where it takes batches, else one call each."""
    if batched is None:
        batched = _takes_batches(function, observations, row)
    if batched:
        return np.asarray(function(observations))
    whole = getattr(observations, "dtype", np.dtype(object)).kind in "iu" and np.ndim(observations) == 1
    return [np.asarray(function(int(o) if whole else o)) for o in observations]


def _settled(
    function: Callable[[Any], Any], batched: bool | None, observations: Any, row: tuple[int, ...]
) -> tuple[Callable[[Any], Any], bool]:
    """The function, compiled where it answers with a JAX array, and whether it takes batches."""
    if batched is None:
        batched = _takes_batches(function, observations, row)
    answer = function(observations if batched else observations[0])
    if type(answer).__module__.partition(".")[0] in ("jax", "jaxlib"):
        import jax

        function = jax.jit(function)
    return function, batched


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

    def settled(self, observations: Any, actions: int) -> MixturePolicy:
        return MixturePolicy(tuple(part.settled(observations, actions) for part in self.parts), self.weights)


@dataclass(frozen=True)
class UniformPolicy(Policy):
    """Every action alike."""

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((1, actions), 1 / actions)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return np.full((len(observations), actions), 1 / actions)

    def settled(self, observations: Any, actions: int) -> Policy:
        return _Settled(self.table(1, actions))


@dataclass(frozen=True)
class OwnPolicy(Policy):
    """Greedy or softmax with respect to its own GVF's action values: not known beforehand, improved as learning goes on.

    epsilon:     share of random actions beside the greedy ones.
    temperature: above 0, the softmax of Q / temperature instead.

    An action never tried in a state keeps the share 1 / actions it starts with; the tried ones divide the rest.
    """

    epsilon: float = 0.0
    temperature: float = 0.0

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(
            f"{field}: a policy by its own GVF's values is found by gvfx.evaluate on tables alone; give a known policy here."
        )

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(0, actions, field)

    def choices(self, q: np.ndarray, tried: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """The greedy or softmax probabilities among the tried actions [state, action], 0 where nothing was tried.

        q [state, action]; equally good actions get equal shares, and greedy choices `before` stay where they are still best.
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
        """The whole policy [state, action] from the choices among the tried actions."""
        known = tried.mean(axis=1, keepdims=True)
        own = (1 - self.epsilon) * choices + self.epsilon * _shares(tried)
        return np.where(tried, known * own, 1 / tried.shape[1])


def _shares(weights: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; 0 where a row has nothing."""
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def own_greedy(epsilon: float = 0.0) -> OwnPolicy:
    """The best action by the GVF's own values, found as learning goes on; with probability `epsilon` a random one."""
    if not (isinstance(epsilon, Real) and 0 <= epsilon <= 1):
        raise InputError(f"epsilon: {epsilon!r} lies outside [0, 1]; give a share of random actions.")
    return OwnPolicy(epsilon=float(epsilon))


def own_softmax(temperature: float) -> OwnPolicy:
    """Probabilities proportional to exp(Q / temperature) with the GVF's own values Q, found as learning goes on."""
    if not (isinstance(temperature, Real) and 0 < temperature < np.inf):
        raise InputError(f"temperature: {temperature!r} must be a number above 0; use gvfx.own_greedy() for the limit of 0.")
    return OwnPolicy(temperature=float(temperature))


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


def gaussian_policy(middle: Any, sigma: Any, batched: bool | None = None) -> GaussianPolicy:
    """Box actions: clip(middle(observation) + N(0, sigma^2), low, high), in the environment's units.

    middle:  a function of the observation, or of a batch of them (`batched`; None: found out), NumPy or JAX, that returns
             the middle action; or one action for all observations.
    sigma:   one number above 0, or one per dimension.
    """
    try:
        spread = np.asarray(sigma, float)
    except (TypeError, ValueError):
        spread = np.empty(0)
    if not (spread.size and np.isfinite(spread).all() and (spread > 0).all()):
        raise InputError(f"sigma: {sigma!r:.40} must be above 0; give the noise's standard deviation in the action's units.")
    own = tuple(spread.ravel().tolist()) if spread.ndim else float(spread)
    return GaussianPolicy(middle if callable(middle) else tuple(np.ravel(middle).tolist()), own, batched)


def uniform_policy() -> UniformPolicy:
    """Every action alike."""
    return UniformPolicy()


@dataclass(frozen=True, eq=False)
class StableBaselines(Policy):
    """A model of Stable-Baselines3 with numbered actions: one call of its network per batch of observations.

    temperature:   for DQN: probabilities are the softmax of Q / temperature.
    deterministic: the model's best action always.
    """

    model: Any
    temperature: float | None
    deterministic: bool

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        import torch

        if isinstance(observations, list) and isinstance(observations[0], dict):
            observations = {key: np.stack([o[key] for o in observations]) for key in observations[0]}
        policy = self.model.policy
        with torch.no_grad():
            seen, _ = policy.obs_to_tensor(observations)
            if hasattr(policy, "q_net"):
                scores = policy.q_net(seen) / (self.temperature or 1.0)
                rows = torch.softmax(scores.double(), dim=1).cpu().numpy()
            else:
                rows = policy.get_distribution(seen).distribution.probs.double().cpu().numpy()
        if rows.ndim != 2 or rows.shape[1] != actions:
            raise InputError(f"{field}: the model chooses among {rows.shape[-1]} actions, the environment has {actions}.")
        return np.eye(actions)[rows.argmax(axis=1)] if self.deterministic else checked_rows(rows, field, actions)


def from_sb3(
    model: Any, *, temperature: float | None = None, deterministic: bool = False, algorithm: str = "", trust: bool = False
) -> StableBaselines:
    """A Stable-Baselines3 model (PPO, A2C or DQN with Discrete actions) as a policy.

    model:         the model, or the file it was saved to (then say which `algorithm`, "PPO", and `trust=True`).
    temperature:   DQN has action values only: give a temperature for their softmax, or deterministic=True.
    deterministic: the model's best action always, instead of its probabilities.
    trust:         such files hold pickled Python objects, which can run any code when they are read.
    """
    if isinstance(model, str | os.PathLike):
        model = _sb3_file(str(model), algorithm, trust)
    policy = getattr(model, "policy", None)
    if not (hasattr(policy, "q_net") or hasattr(policy, "get_distribution")):
        raise InputError(f"model: {type(model).__name__} gives no action probabilities; use PPO, A2C or DQN.")
    if not hasattr(getattr(model, "action_space", None), "n"):
        raise InputError(
            "model: its actions are not numbered (Discrete); use a model that has them, or for Box actions "
            "gvfx.gaussian_policy(lambda o: model.predict(o, deterministic=True)[0], sigma)."
        )
    if hasattr(policy, "q_net") and (temperature is None) != deterministic:
        raise InputError(
            "temperature: DQN has action values, not probabilities; give temperature=1.0 (softmax) or deterministic=True."
        )
    if temperature is not None and not (temperature > 0 and hasattr(policy, "q_net")):
        raise InputError("temperature: give a number above 0, and only for DQN.")
    return StableBaselines(model, temperature, deterministic)


def _sb3_file(path: str, algorithm: str, trust: bool) -> Any:
    if not trust:
        raise InputError(
            f"model: {path} holds pickled Python objects, which can run any code when read; "
            "if you made the file or trust who did, say trust=True, or load it yourself and give the model."
        )
    try:
        import stable_baselines3
    except ImportError:
        raise InputError("stable_baselines3: is not installed; pip install 'gvfx[sb3]'.") from None
    if algorithm not in ("PPO", "A2C", "DQN"):
        raise InputError(f"algorithm: {algorithm!r} is unknown; say which model was saved: 'PPO', 'A2C' or 'DQN'.")
    try:
        return getattr(stable_baselines3, algorithm).load(path, device="cpu")
    except (OSError, ValueError) as error:
        raise InputError(f"model: cannot read {path} ({error}); name a file written by model.save.") from None


def as_policy(policy: Any) -> Policy:
    """A policy from a policy, one row, a table of rows or a function of the state."""
    if isinstance(policy, Policy):
        return policy
    if callable(policy):
        return CallablePolicy(policy)
    table = checked_rows(policy, "policy")
    return constant_policy(policy) if table.ndim == 1 else table_policy(policy)
