"""Predictors: how a result predicts at observations, from its tables or from its seeds' networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy

from gvfx.errors import InputError
from gvfx.features.scaling import LIMIT
from gvfx.learners.half_samples import FREEDOM, Answers
from gvfx.learners.limits import Range
from gvfx.questions.reader import Gaussians, Targets
from gvfx.worlds.spaces import Key, batched, described, key_of, label_of, observation_of
from gvfx.worlds.spec import BoxActionSpec, BoxSpec

ERROR_BARS = {  # what a summary says of each kind
    "asymptotic": "95 % intervals (asymptotic)",
    "half-samples": "95 % intervals (half-samples)",
    "spread": "none; spread, the disagreement of the networks' heads, is not an interval",
    "none": "none",
}


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
class QNetwork:
    """One seed's Q network: one main head per GVF, and bootstrapped heads."""

    scales: Scales
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    frequencies: np.ndarray
    actions: int
    within: Range | None = None  # the possible answers; None: not known

    def values(self, vectors: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions [gvf, n] at observations [n, o] whose target policies are pi [n, action, gvf], and the spread of the
        bootstrapped heads, or empty if there are none."""
        gvfs = len(self.scales.unit)
        q = np.asarray(self._network(gvfs)(self.scales.scaled(vectors)), float)  # [n, action, (1 + heads) * gvf]
        v = np.einsum("nahi,nai->hin", q.reshape(*q.shape[:2], -1, gvfs), pi) * self.scales.unit[:, None]
        v = v if self.within is None else self.within.clipped(v.swapaxes(1, 2)).swapaxes(1, 2)
        return v[0], v[1:].std(axis=0, ddof=1) if len(v) > 2 else np.empty(0)

    def _network(self, gvfs: int) -> Any:
        shape = (self.actions, len(self.biases[-1]) // self.actions)
        return _heads(self.weights, self.biases, shape, self.frequencies)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        own = {"frequencies": self.frequencies, "actions": np.array(self.actions)}
        return {**_of_scales(self.scales), **_of_layers(self.weights, self.biases), **own, **_of_range(self.within)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> QNetwork:
        return cls(_scales(arrays), *_layers(arrays), arrays["frequencies"], int(arrays["actions"]), _range(arrays))


@dataclass(frozen=True, eq=False)
class TwinQNetworks:
    """One seed's twin critics for Box actions, one head per GVF; the layers of the first twin, then of the second."""

    scales: Scales
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    least: bool  # predict the minimum of the twins, not their mean
    within: Range | None = None  # the possible answers; None: not known

    def values(self, vectors: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions [gvf, n] at observations [n, o], the means over actions [n, draw, gvf, a] of each GVF's policy; and an
        empty array, because twin critics have no standard errors."""
        around = np.broadcast_to(vectors[:, None, None], (*actions.shape[:3], vectors.shape[1]))
        return self.at(around, actions).diagonal(axis1=2, axis2=3).mean(axis=1).T, np.empty(0)

    def at(self, vectors: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Values [..., gvf] of actions [..., a] at observations [..., o]."""
        x = np.concatenate([self.scales.scaled(vectors), actions], axis=-1, dtype=np.float32)
        depth = len(self.weights) // 2
        twins = [_heads(self.weights[k : k + depth], self.biases[k : k + depth]) for k in (0, depth)]
        said = np.stack([np.asarray(twin(x), float) for twin in twins])
        out = (said.min(axis=0) if self.least else said.mean(axis=0)) * self.scales.unit
        return out if self.within is None else self.within.clipped(out)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        own = {"least": np.array(self.least), **_of_range(self.within)}
        return {**_of_scales(self.scales), **_of_layers(self.weights, self.biases), **own}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TwinQNetworks:
        return cls(_scales(arrays), *_layers(arrays), bool(arrays["least"]), _range(arrays))


def from_arrays(arrays: Mapping[str, np.ndarray]) -> QNetwork | TwinQNetworks | Answers:
    """The networks or linear answers stored in the arrays."""
    if "supported" in arrays:
        return Answers.from_arrays(arrays)
    return TwinQNetworks.from_arrays(arrays) if "least" in arrays else QNetwork.from_arrays(arrays)


def _heads(weights: Sequence[Any], biases: Sequence[Any], shape: tuple[int, ...] | None = None, frequencies: Any = None) -> Any:
    """The network of these layers; `shape` is the shape of its outputs (default: a vector)."""
    import equinox as eqx

    from gvfx.learners.networks.heads import Heads

    frequencies = np.empty((len(weights[0]), 0), np.float32) if frequencies is None else frequencies
    hidden = tuple(len(b) for b in biases[:-1])
    inputs, waves = frequencies.shape
    blank = Heads(np.random.default_rng(0), inputs, hidden, shape or (len(biases[-1]),), waves=waves)
    return eqx.tree_at(lambda h: (h.weights, h.biases, h.frequencies), blank, (list(weights), list(biases), frequencies))


def _of_layers(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"weight{k}": w for k, w in enumerate(weights)} | {f"bias{k}": b for k, b in enumerate(biases)}


def _layers(arrays: Mapping[str, np.ndarray]) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    depth = sum(name.startswith("weight") for name in arrays)
    return tuple(arrays[f"weight{k}"] for k in range(depth)), tuple(arrays[f"bias{k}"] for k in range(depth))


def _of_scales(scales: Scales) -> dict[str, np.ndarray]:
    return {f.name: getattr(scales, f.name) for f in fields(Scales)}


def _scales(arrays: Mapping[str, np.ndarray]) -> Scales:
    return Scales(**{f.name: arrays[f.name] for f in fields(Scales)})


def _of_range(within: Range | None) -> dict[str, np.ndarray]:
    return {} if within is None else {"range": np.stack(within)}


def _range(arrays: Mapping[str, np.ndarray]) -> Range | None:
    return Range(*arrays["range"]) if "range" in arrays else None


# --- predictors ------------------------------------------------------------------------------------------------------


class Predictor(ABC):
    """Predictions [seed, gvf, ...] at observations, and their standard errors (empty if there are none)."""

    points: np.ndarray | None = None  # [point, o] observations of the rows of a result's tables; None: all states
    first_state: int = 0  # the environment's number of the first state
    no_intervals: str  # the error message if standard errors are missing

    freedom: int = 0  # degrees of freedom of the standard errors; 0: many

    @property
    def error_bars(self) -> Literal["asymptotic", "half-samples", "spread"]:
        """Where standard errors come from, if there are any."""
        return "half-samples" if self.freedom else "asymptotic"

    def quantile(self, tail: float) -> float:
        """The number of standard errors beyond which an error lies with probability `tail` on either side."""
        return float(-(scipy.special.stdtrit(self.freedom, tail) if self.freedom else scipy.special.ndtri(tail)))

    @abstractmethod
    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and standard errors at an observation or a batch of them; values and errors [seed, gvf, state] are
        the result's tables."""

    def action_values(self, observation: Any, action: Any) -> np.ndarray:
        """Predictions [gvf, ...] for taking an action first and following the questions' policies afterwards."""
        raise InputError("action: only results with Box actions have action values; leave it out.")

    def choices(self, names: Sequence[str], actions: int) -> tuple[str, ...]:
        """The labels of the last axis of `visits`."""
        return tuple(str(a) for a in range(actions))

    def label(self, s: int) -> Any:
        """The s-th state or point as the environment returns it."""
        return s + self.first_state if self.points is None else self.points[s].tolist()

    def arrays(self) -> dict[str, np.ndarray]:
        """What a saved result needs to predict again, as named arrays."""
        return {}

    def told(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"freedom": self.freedom} if self.freedom else {}


def labels_of(listed: Sequence[Any]) -> tuple[str, ...]:
    """The labels of numbered actions: the environment's own."""
    return tuple(str(label_of(action)) for action in listed)


@dataclass(frozen=True, eq=False)
class TablePredictor(Predictor):
    """Tables: an observation is the number of a state."""

    first_state: int = 0
    freedom: int = 0
    actions: tuple[str, ...] = ()  # labels of the actions, if they are not numbers
    no_intervals = (
        "intervals: this learner has no error estimate; use gvfx.CertaintyEquivalence(), or with continuous observations "
        "gvfx.LinearCertaintyEquivalence()."
    )

    def choices(self, names: Sequence[str], actions: int) -> tuple[str, ...]:
        return self.actions or super().choices(names, actions)

    def told(self) -> dict[str, Any]:
        return super().told() | ({"actions": list(self.actions)} if self.actions else {})

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
class NumberedPredictor(TablePredictor):
    """Tables whose states are observations of a few whole numbers, those that were met."""

    space: Any = None  # of the observations, without entries that hold no numbers
    keys: tuple[Key, ...] = ()  # of the states

    @cached_property
    def number(self) -> dict[Key, int]:
        """The state of each key."""
        return {key: s for s, key in enumerate(self.keys)}

    def label(self, s: int) -> Any:
        return label_of(observation_of(self.space, self.keys[s]))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"keys": np.array(self.keys, np.int64)}

    def told(self) -> dict[str, Any]:
        return super().told() | {"space": described(self.space)}

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At an observation that was never met the prediction is NaN and its standard error infinite."""
        rows, alone = batched(self.space, observation)
        states = np.array([self.number.get(key_of(self.space, row), -1) for row in rows])
        values = np.where(states < 0, np.nan, values[:, :, states])
        errors = np.where(states < 0, np.inf, errors[:, :, states]) if errors.size else errors
        return (values[..., 0], errors[..., 0] if errors.size else errors) if alone else (values, errors)


@dataclass(frozen=True, eq=False)
class NetworkPredictor(Predictor):
    """Networks: one per seed."""

    networks: tuple[Any, ...]  # QNetwork or TwinQNetworks
    points: np.ndarray | None = None
    spec: BoxSpec | None = None  # of the environment; not stored
    targets: Targets | Gaussians | None = None  # the questions' policies; not stored
    no_intervals = (
        "intervals: networks have them at the start alone, from audits: intervals('start'); elsewhere use "
        "gvfx.LinearCertaintyEquivalence(), or result.spread() of gvfx.Deep(heads=5) for a rough idea."
    )

    @property
    def error_bars(self) -> Literal["asymptotic", "half-samples", "spread"]:
        return "spread"

    def at(self, observation: Any, values: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.spec is None or self.targets is None:
            raise InputError("questions: a stored result has no policies; use gvfx.load(path, env, questions) to predict.")
        batch, vectors, alone = self.spec.batch(observation)
        pi = self.targets(batch)  # or draws of Box actions
        both = [network.values(vectors, pi) for network in self.networks]
        values, errors = np.stack([b[0] for b in both]), np.stack([b[1] for b in both])
        return (values[..., 0], errors[..., 0] if errors.size else errors) if alone else (values, errors)


@dataclass(frozen=True, eq=False)
class LinearPredictor(NetworkPredictor):
    """Linear answers: one fit per seed, with those of its half-samples."""

    freedom: int = FREEDOM
    no_intervals = "intervals: half-samples were not fitted; use gvfx.LinearCertaintyEquivalence(intervals=True)."

    @property
    def error_bars(self) -> Literal["asymptotic", "half-samples", "spread"]:
        return "half-samples"


@dataclass(frozen=True, eq=False)
class CriticPredictor(NetworkPredictor):
    """Twin critics for Box actions: one pair per seed."""

    no_intervals = (
        "intervals: with Box actions they are available at the start alone, from audits: intervals('start'); elsewhere run "
        "several seeds and see rows() for their standard error."
    )

    def action_values(self, observation: Any, action: Any) -> np.ndarray:
        if not isinstance(self.spec, BoxActionSpec):
            raise InputError("env: a stored result has no environment; use gvfx.load(path, env, questions) to predict.")
        _, vectors, alone = self.spec.batch(observation)
        own = self.spec.given(action, len(vectors))
        values = np.mean([network.at(vectors, own) for network in self.networks], axis=0).T
        return values[:, 0] if alone else values

    def choices(self, names: Sequence[str], actions: int) -> tuple[str, ...]:
        """Which question's policy was followed, or the behaviour's own actions."""
        return (*(f"as {name}" for name in names), "of its own")


def network_predictor(
    networks: Sequence[Any], points: np.ndarray | None, spec: BoxSpec | None, targets: Targets | Gaussians | None
) -> NetworkPredictor:
    """The predictor that fits the networks."""
    kind: type[NetworkPredictor] = CriticPredictor if isinstance(networks[0], TwinQNetworks) else NetworkPredictor
    if isinstance(networks[0], Answers):
        kind = LinearPredictor
    return kind(tuple(networks), points, spec, targets)


def _without_info(observation: Any) -> Any:
    """The observation, also if it was given as the pair that `env.reset()` returns."""
    is_reset = isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict)
    return observation[0] if is_reset else observation
