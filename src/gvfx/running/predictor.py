"""Predictors: how a result predicts at observations, from its tables or from its seeds' networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import scipy
from numpy.random import Generator

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.features.scaling import LIMIT, Origin
from gvfx.learners.half_samples import FREEDOM, Answers
from gvfx.learners.least_squares import Range
from gvfx.questions.reader import Gaussians, Targets
from gvfx.worlds.spaces import Key, batched, described, key_of, label_of, observation_of
from gvfx.worlds.spec import BoxActionSpec, BoxSpec

# --- Answers as they were before an audit: tables, linear features and networks, evaluated in plain NumPy -----------
# For Discrete actions V is the sum of pi Q, without rounding between the two: the scores of audits are unbiased because of
# that.
# For Box actions V is a mean over fresh draws from the policy.


Pair = tuple[np.ndarray, np.ndarray]
DRAWS = 32  # of actions for V, with Box actions
MOST = 20_000  # transitions whose temporal-difference errors are computed


class Frozen(ABC):
    """Answers that do not change."""

    surprise: Pair  # [gvf] each, `surprises` of the errors on the data so far
    draws: bool = False  # whether V is a mean over random draws, which need a generator

    @abstractmethod
    def at(self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: Generator | None) -> Pair:
        """V under a distinct policy at what a stream noted, [n, gvf], and Q of the actions in the first of them, if given."""


class FrozenTable(Frozen):
    """A table; a stream notes states."""

    def __init__(self, q: np.ndarray, pi: Sequence[np.ndarray], surprise: Pair) -> None:
        """q [state, action, gvf], 0 in states that are met first later on; pi: every distinct policy, [state, action]."""
        self.q, self.pi, self.surprise = np.concatenate([q, np.zeros((1, *q.shape[1:]))]), pi, surprise

    def at(self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: Generator | None) -> Pair:
        states = np.minimum(np.array(seen, int), len(self.q) - 1)
        return _both(self.q[states], self.pi[policy][np.minimum(states, len(self.pi[policy]) - 1)], actions)


def frozen_table(known: Empirical, values: np.ndarray, policies: Sequence[np.ndarray]) -> FrozenTable:
    """Answers in tables, from values [gvf, state] and the model's outcomes; where nothing was tried, Q is V."""
    q = action_values(known, values)
    seen, states = known.seen, len(policies[0])
    targets = [known.targets(i, v) for i, v in enumerate(values)]
    errors = np.stack(targets, axis=1) - q.reshape(-1, q.shape[2])[seen.pair]
    times = known.evidence.counts.ravel()[seen.outcome].astype(float)
    noise = known.spreads[seen.row]  # one transition may carry all of an outcome's
    second, fourth = errors**2 + noise, errors**4 + 6 * errors**2 * noise + times[:, None] * noise**2
    second, fourth = ((times @ power) / max(1.0, times.sum()) for power in (second, fourth))
    size = np.divide(fourth, second, out=np.zeros(len(second)), where=second > 0)
    return FrozenTable(q[:states], policies, (second, size))


def action_values(known: Empirical, values: np.ndarray) -> np.ndarray:
    """Q [state, action, gvf] of values [gvf, state] in the model; where nothing was tried, Q is V."""
    return np.where(known.tried[:, :, None], known.moments(values)[0], values.T[:, None])


class FrozenActions(Frozen):
    """A function of observations for Discrete actions; a stream notes the policies [action, policy]."""

    def __init__(self, action_values: Callable[[np.ndarray], np.ndarray], surprise: Pair) -> None:
        """action_values: Q [n, action, gvf] of observations [n, o]."""
        self.action_values, self.surprise = action_values, surprise

    def at(self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: Generator | None) -> Pair:
        q = self.action_values(np.array([vector for vector, _ in seen]))
        pi = np.array([each[:, policy] for _, each in seen], float)
        return _both(q, pi / pi.sum(axis=1, keepdims=True), actions)


class FrozenCritics(Frozen):
    """A function of observations and Box actions; a stream notes the policies' middles [policy, a]."""

    draws = True

    def __init__(self, values: Callable[[np.ndarray, np.ndarray], np.ndarray], spreads: np.ndarray, surprise: Pair) -> None:
        """values: Q [..., gvf] of observations [..., o] and actions [..., a]; spreads [policy, a]."""
        self.values, self.spreads, self.surprise = values, spreads, surprise

    def at(self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: Generator | None) -> Pair:
        assert rng is not None
        vectors = np.array([vector for vector, _ in seen])
        middles = np.array([each[policy] for _, each in seen])
        drawn = drawn_actions(middles[:, None], self.spreads[policy], rng, (len(seen), DRAWS, middles.shape[1]))
        around = np.broadcast_to(vectors[:, None], (*drawn.shape[:2], vectors.shape[1]))
        v = self.values(around, drawn).mean(axis=1)
        return v, self.values(vectors[: len(actions)], np.array(actions)) if actions else np.empty((0, v.shape[1]))


def layers(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], frequencies: np.ndarray) -> Callable[..., np.ndarray]:
    """The network `gvfx.learners.networks.heads.Heads` of these layers, outputs [..., output] of scaled inputs [..., input]."""

    def network(x: np.ndarray) -> np.ndarray:
        if frequencies.shape[1]:
            turns = x @ frequencies
            waves = [4 * np.abs(t - np.floor(t) - 0.5) - 1 for t in (turns, turns + 0.25)]
            x = np.concatenate([x, *waves], axis=-1)
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            x = np.maximum(x @ w + b, 0.0)
        return np.asarray(x @ weights[-1] + biases[-1], float)

    return network


def recent(rows: np.ndarray) -> np.ndarray:
    """At most `MOST` transitions, evenly spaced among those that are kept."""
    return rows[:: max(1, -(-len(rows) // MOST))]


def drawn_actions(middles: np.ndarray, spread: np.ndarray, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Actions of a Gaussian policy within [-1, 1], float32."""
    return (middles + spread * rng.standard_normal(shape)).clip(-1, 1).astype(np.float32)


def _both(q: np.ndarray, pi: np.ndarray, actions: Sequence[Any] | None) -> Pair:
    """V [n, gvf] from Q [n, action, gvf] and pi [n, action], and Q of the actions taken in the first rows."""
    v = np.einsum("nai,na->ni", q, pi)
    return v, q[np.arange(len(actions)), np.array(actions)] if actions else np.empty((0, v.shape[1]))


@dataclass(frozen=True, eq=False)
class Scales:
    """Observations enter networks as (o - centre) / spread, cumulants as c / unit; found in a run's first steps, then fixed."""

    centre: np.ndarray  # [o]
    spread: np.ndarray  # [o]
    unit: np.ndarray  # [gvf]

    @classmethod
    def none(cls, size: int, gvfs: int) -> Scales:
        return cls(np.zeros(size, np.float32), np.ones(size, np.float32), np.ones(gvfs, np.float32))

    @classmethod
    def found(cls, observations: np.ndarray, cumulants: np.ndarray, discounts: np.ndarray) -> Scales:
        """Scales from transitions; a GVF's unit is about the size of its returns, |mean c| h + sd(c) sqrt(h) with horizon h."""
        spread = observations.std(axis=0)
        horizon = 1 / (1 - np.minimum(discounts.mean(axis=0), 0.999))
        unit = np.abs(cumulants.mean(axis=0)) * horizon + cumulants.std(axis=0) * np.sqrt(horizon)
        parts = (observations.mean(axis=0), np.where(spread > 1e-6, spread, 1.0), np.where(unit > 0, unit, 1.0))
        return cls(*(part.astype(np.float32) for part in parts))

    def scaled(self, observations: np.ndarray) -> np.ndarray:
        return np.clip((observations - self.centre) / self.spread, -LIMIT, LIMIT)

    def unscaled(self, observations: np.ndarray) -> np.ndarray:
        return observations * self.spread + self.centre

    def nearest(self, observations: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The index of the point nearest to each observation, in scaled units."""
        near, at = [], self.scaled(points)
        for part in np.array_split(observations, max(1, len(observations) // 4096)):
            near.append(((self.scaled(part)[:, None] - at) ** 2).sum(axis=2).argmin(axis=1))
        return np.concatenate(near)


@dataclass(frozen=True, eq=False)
class StoredNetwork:
    """One seed's layers with their scales, as named arrays."""

    scales: Scales
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    within: Range | None = field(default=None, kw_only=True)  # the possible answers; None: not known
    origin: np.ndarray | None = field(default=None, kw_only=True)  # [o] what was subtracted from observations

    def possible(self, answers: np.ndarray) -> np.ndarray:
        """Answers [..., gvf] within the possible range."""
        return answers if self.within is None else self.within.clipped(answers)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        scales = {f.name: getattr(self.scales, f.name) for f in fields(Scales)}
        numbers = {f"weight{k}": w for k, w in enumerate(self.weights)} | {f"bias{k}": b for k, b in enumerate(self.biases)}
        own = {f.name: np.asarray(getattr(self, f.name)) for f in fields(self) if f not in fields(StoredNetwork)}
        within = {} if self.within is None else {"range": np.stack(self.within)}
        return {**scales, **numbers, **own, **within, **Origin(self.origin).arrays()}


@dataclass(frozen=True, eq=False)
class QNetwork(StoredNetwork):
    """One seed's Q network: one main head per GVF, and bootstrapped heads."""

    frequencies: np.ndarray
    actions: int

    def _heads(self, x: np.ndarray) -> np.ndarray:
        """Of scaled observations, [n, action, 1 + heads, gvf]."""
        return layers(self.weights, self.biases, self.frequencies)(x).reshape(len(x), self.actions, -1, len(self.scales.unit))

    def main(self, x: np.ndarray) -> np.ndarray:
        """Q of the main heads at scaled observations, [n, action, gvf]."""
        return self.possible(self._heads(x)[:, :, 0] * self.scales.unit)

    def values(self, vectors: np.ndarray, pi: np.ndarray) -> Pair:
        """Predictions [gvf, n] at observations [n, o] whose target policies are pi [n, action, gvf], and the spread of the
        bootstrapped heads, or empty if there are none."""
        v = np.einsum("nahi,nai->hni", self._heads(self.scales.scaled(vectors)), pi) * self.scales.unit
        v = self.possible(v).swapaxes(1, 2)
        return v[0], v[1:].std(axis=0, ddof=1) if len(v) > 2 else np.empty(0)


@dataclass(frozen=True, eq=False)
class TwinQNetworks(StoredNetwork):
    """One seed's twin critics for Box actions, one head per GVF; the layers of the first twin, then of the second."""

    least: bool  # predict the minimum of the twins, not their mean

    def values(self, vectors: np.ndarray, actions: np.ndarray) -> Pair:
        """Predictions [gvf, n] at observations [n, o], the means over actions [n, draw, gvf, a] of each GVF's policy; and an
        empty array, because twin critics have no standard errors."""
        around = np.broadcast_to(vectors[:, None, None], (*actions.shape[:3], vectors.shape[1]))
        return self.at(around, actions).diagonal(axis1=2, axis2=3).mean(axis=1).T, np.empty(0)

    def at(self, vectors: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Values [..., gvf] of actions [..., a] at observations [..., o]."""
        return self.at_scaled(self.scales.scaled(vectors), actions)

    def at_scaled(self, x: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The same at scaled observations."""
        x = np.concatenate([x, actions], axis=-1, dtype=np.float32)
        depth, none = len(self.weights) // 2, np.empty((0, 0))
        both = np.stack([layers(self.weights[k : k + depth], self.biases[k : k + depth], none)(x) for k in (0, depth)])
        return self.possible((both.min(axis=0) if self.least else both.mean(axis=0)) * self.scales.unit)


class AnswerFunction(Protocol):
    """What answers at vectors, of one seed: a network, twin critics or linear fits."""

    @property
    def origin(self) -> np.ndarray | None: ...
    def values(self, vectors: np.ndarray, pi: np.ndarray) -> Pair: ...
    def arrays(self) -> dict[str, np.ndarray]: ...


def from_arrays(arrays: Mapping[str, np.ndarray]) -> QNetwork | TwinQNetworks | Answers:
    """The networks or linear answers stored in the arrays."""
    if "supported" in arrays:
        return Answers.from_arrays(arrays)
    depth = sum(name.startswith("weight") for name in arrays)
    scales = Scales(**{f.name: arrays[f.name] for f in fields(Scales)})
    weights, biases = (tuple(arrays[f"{name}{k}"] for k in range(depth)) for name in ("weight", "bias"))
    own: dict[str, Any] = {"within": Range(*arrays["range"]) if "range" in arrays else None, "origin": arrays.get("origin")}
    if "least" in arrays:
        return TwinQNetworks(scales, weights, biases, bool(arrays["least"]), **own)
    return QNetwork(scales, weights, biases, arrays["frequencies"], int(arrays["actions"]), **own)


# --- predictors ------------------------------------------------------------------------------------------------------


class ErrorBars(NamedTuple):
    """What the standard errors of a result are."""

    kind: Literal["asymptotic", "half-samples", "spread"]
    missing: str  # the error message where there are none
    freedom: int = 0  # degrees of freedom; 0: many


OF_TABLES = ErrorBars(
    "asymptotic",
    "intervals: this learner has no error estimate; use gvfx.CertaintyEquivalence(), or with continuous observations "
    "gvfx.LinearCertaintyEquivalence().",
)
OF_FUNCTIONS: dict[type, ErrorBars] = {
    QNetwork: ErrorBars(
        "spread",
        "intervals: networks have them at the start alone, from audits: intervals('start'); elsewhere use "
        "gvfx.LinearCertaintyEquivalence(), or result.spread() of gvfx.Deep(heads=5) for a rough idea.",
    ),
    TwinQNetworks: ErrorBars(
        "spread",
        "intervals: with Box actions they are available at the start alone, from audits: intervals('start'); elsewhere run "
        "several seeds and see rows() for their standard error.",
    ),
    Answers: ErrorBars(
        "half-samples",
        "intervals: half-samples were not fitted; use gvfx.LinearCertaintyEquivalence(intervals=True).",
        FREEDOM,
    ),
}


class Predictor(ABC):
    """Predictions [seed, gvf, ...] at observations, and their standard errors (empty if there are none)."""

    points: np.ndarray | None = None  # [point, o] observations of the rows of a result's tables; None: all states
    first_state: int = 0  # the environment's number of the first state
    actions: tuple[str, ...] = ()  # the labels of the last axis of `visits`, if they are not numbers

    @property
    @abstractmethod
    def bars(self) -> ErrorBars:
        """What its standard errors are."""

    def quantile(self, tail: float) -> float:
        """The number of standard errors beyond which an error lies with probability `tail` on either side."""
        freedom = self.bars.freedom
        return float(-(scipy.special.stdtrit(freedom, tail) if freedom else scipy.special.ndtri(tail)))

    @abstractmethod
    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> Pair:
        """Predictions and standard errors at an observation or a batch of them; values and errors [seed, gvf, state] are
        the result's tables."""

    def action_values(self, observation: Any, action: Any) -> np.ndarray:
        """Predictions [gvf, ...] for taking an action first and following the questions' policies afterwards."""
        raise InputError("action: only results with Box actions have action values; leave it out.")

    def choices(self, names: Sequence[str], actions: int) -> tuple[str, ...]:
        """The labels of the last axis of `visits`."""
        return self.actions or tuple(str(a) for a in range(actions))

    def label(self, s: int) -> Any:
        """The s-th state or point as the environment returns it."""
        return s + self.first_state if self.points is None else self.points[s].tolist()

    def arrays(self) -> dict[str, np.ndarray]:
        """What a saved result needs to predict again, as named arrays."""
        return {}

    def metadata(self) -> dict[str, Any]:
        """The same as plain data."""
        found: dict[str, Any] = {"freedom": self.bars.freedom} if self.bars.freedom else {}
        return found | ({"actions": list(self.actions)} if self.actions else {})


def labels_of(listed: Sequence[Any]) -> tuple[str, ...]:
    """The labels of numbered actions: the environment's own."""
    return tuple(str(label_of(action)) for action in listed)


@dataclass(frozen=True, eq=False)
class TablePredictor(Predictor):
    """Tables: an observation is the number of a state."""

    first_state: int = 0
    freedom: int = 0
    actions: tuple[str, ...] = ()

    @property
    def bars(self) -> ErrorBars:
        return OF_TABLES._replace(kind="half-samples", freedom=self.freedom) if self.freedom else OF_TABLES

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> Pair:
        try:
            states = np.asarray(_without_info(observation))
        except ValueError:  # lists of different lengths
            states = np.empty(0, object)
        states = states - self.first_state if states.dtype.kind in "iu" else states
        if states.dtype.kind not in "iu" or (states < 0).any() or (states >= values.shape[2]).any():
            last = self.first_state + values.shape[2] - 1
            start = "; for the value at the start use result.value()" if isinstance(observation, str) else ""
            raise InputError(
                f"observation: {observation!r:.40} is not a state; give a whole number, {self.first_state} to {last}{start}."
            )
        return values[:, :, states], errors[:, :, states] if errors.size else errors


@dataclass(frozen=True, eq=False)
class NumberedPredictor(Predictor):
    """Tables whose states are observations of a few whole numbers, those that were met."""

    actions: tuple[str, ...] = ()
    space: Any = None  # of the observations, without entries that hold no numbers
    keys: tuple[Key, ...] = ()  # of the states

    @property
    def bars(self) -> ErrorBars:
        return OF_TABLES

    @cached_property
    def number(self) -> dict[Key, int]:
        """The state of each key."""
        return {key: s for s, key in enumerate(self.keys)}

    def label(self, s: int) -> Any:
        return label_of(observation_of(self.space, self.keys[s]))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"keys": np.array(self.keys, np.int64)}

    def metadata(self) -> dict[str, Any]:
        return super().metadata() | {"space": described(self.space)}

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> Pair:
        """At an observation that was never met the prediction is NaN and its standard error infinite."""
        rows, alone = batched(self.space, observation)
        states = np.array([self.number.get(key_of(self.space, row), -1) for row in rows])
        values = np.where(states < 0, np.nan, values[:, :, states])
        errors = np.where(states < 0, np.inf, errors[:, :, states]) if errors.size else errors
        return (values[..., 0], errors[..., 0] if errors.size else errors) if alone else (values, errors)


@dataclass(frozen=True, eq=False)
class FunctionPredictor(Predictor):
    """Networks, twin critics or linear answers: one per seed."""

    functions: tuple[Any, ...]  # of one of the kinds in `OF_FUNCTIONS`
    points: np.ndarray | None = None
    spec: BoxSpec | None = None  # of the environment; not stored
    targets: Targets | Gaussians | None = None  # the questions' policies; not stored

    @property
    def bars(self) -> ErrorBars:
        return OF_FUNCTIONS[type(self.functions[0])]

    @property
    def _critics(self) -> bool:
        return isinstance(self.functions[0], TwinQNetworks)

    def arrays(self) -> dict[str, np.ndarray]:
        found = {} if self.points is None else {"points": self.points}
        each = [(f"answers.{k}", function.arrays()) for k, function in enumerate(self.functions)]
        return found | {f"{seed}.{name}": array for seed, arrays in each for name, array in arrays.items()}

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> Pair:
        if self.spec is None or self.targets is None:
            raise InputError("questions: a stored result has no policies; use gvfx.load(path, env, questions) to predict.")
        batch, vectors, alone = self.spec.batch(observation)
        pi = self.targets(batch)  # or draws of Box actions
        both = [function.values(Origin(function.origin).relative(vectors), pi) for function in self.functions]
        values, errors = np.stack([b[0] for b in both]), np.stack([b[1] for b in both])
        return (values[..., 0], errors[..., 0] if errors.size else errors) if alone else (values, errors)

    def action_values(self, observation: Any, action: Any) -> np.ndarray:
        if not self._critics:
            return super().action_values(observation, action)
        if not isinstance(self.spec, BoxActionSpec):
            raise InputError("env: a stored result has no environment; use gvfx.load(path, env, questions) to predict.")
        _, vectors, alone = self.spec.batch(observation)
        own = self.spec.given(action, len(vectors))
        values = np.mean([critics.at(Origin(critics.origin).relative(vectors), own) for critics in self.functions], axis=0).T
        return values[:, 0] if alone else values

    def choices(self, names: Sequence[str], actions: int) -> tuple[str, ...]:
        """Of critics which question's policy was followed, or the behaviour's own actions."""
        return (*(f"as {name}" for name in names), "of its own") if self._critics else super().choices(names, actions)


def _without_info(observation: Any) -> Any:
    """The observation, also if it was given as the pair that `env.reset()` returns."""
    is_reset = isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict)
    return observation[0] if is_reset else observation
