"""What a run on networks leaves behind to answer with: a Q network and how its inputs and outputs were scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

LIMIT = 10.0  # scaled observations are cut here, so that one never met in the beginning does no harm


@dataclass(frozen=True, eq=False)
class Scales:
    """Observations enter as (o - centre) / spread, cumulants as c / unit; found in the first steps of a run, then fixed."""

    centre: np.ndarray  # [o]
    spread: np.ndarray  # [o]
    unit: np.ndarray  # [gvf]

    @classmethod
    def none(cls, size: int, gvfs: int) -> Scales:
        return cls(np.zeros(size, np.float32), np.ones(size, np.float32), np.ones(gvfs, np.float32))

    @classmethod
    def found(cls, observations: np.ndarray, cumulants: np.ndarray, discounts: np.ndarray) -> Scales:
        """From transitions: the unit of a GVF is about the size of its returns, |mean c| h + sd(c) sqrt(h) with horizon h."""
        spread = observations.std(axis=0)
        horizon = 1 / (1 - np.minimum(discounts.mean(axis=0), 0.999))
        unit = np.abs(cumulants.mean(axis=0)) * horizon + cumulants.std(axis=0) * np.sqrt(horizon)
        parts = (observations.mean(axis=0), np.where(spread > 1e-6, spread, 1.0), np.where(unit > 0, unit, 1.0))
        return cls(*(part.astype(np.float32) for part in parts))

    def scaled(self, observations: np.ndarray) -> np.ndarray:
        return np.clip((observations - self.centre) / self.spread, -LIMIT, LIMIT)

    def nearest(self, observations: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The index of the point nearest to each observation, in scaled units."""
        near, at = [], self.scaled(points)
        for part in np.array_split(observations, max(1, len(observations) // 4096)):
            near.append(((self.scaled(part)[:, None] - at) ** 2).sum(axis=2).argmin(axis=1))
        return np.concatenate(near)


@dataclass(frozen=True, eq=False)
class Answers:
    """One seed's Q network: one head per GVF that answers, and bootstrapped ones."""

    scales: Scales
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    frequencies: np.ndarray
    actions: int

    def values(self, vectors: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions [gvf, n] at observations [n, o] whose target policies are pi [n, action, gvf], and their standard
        errors: the spread of the bootstrapped heads, or nothing where there are none."""
        gvfs = len(self.scales.unit)
        q = np.asarray(self._network(gvfs)(self.scales.scaled(vectors)), float)  # [n, action, (1 + heads) * gvf]
        v = np.einsum("nahi,nai->hin", q.reshape(*q.shape[:2], -1, gvfs), pi) * self.scales.unit[:, None]
        return v[0], v[1:].std(axis=0, ddof=1) if len(v) > 2 else np.empty(0)

    def _network(self, gvfs: int) -> Any:
        shape = (self.actions, len(self.biases[-1]) // self.actions)
        return _heads(self.weights, self.biases, shape, self.frequencies)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        own = {"frequencies": self.frequencies, "actions": np.array(self.actions)}
        return {**_of_scales(self.scales), **_of_layers(self.weights, self.biases), **own}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Answers:
        return cls(_scales(arrays), *_layers(arrays), arrays["frequencies"], int(arrays["actions"]))


@dataclass(frozen=True, eq=False)
class CriticAnswers:
    """One seed's twin critics of Box actions, one head per GVF; layers of the one twin, then of the other."""

    scales: Scales
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    least: bool  # the twins' least answer counts, not their mean

    def values(self, vectors: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictions [gvf, n] at observations [n, o], the means over actions [n, draw, gvf, a] of each GVF's policy; and
        nothing, for standard errors: twin critics do not say how sure they are."""
        around = np.broadcast_to(vectors[:, None, None], (*actions.shape[:3], vectors.shape[1]))
        return self.at(around, actions).diagonal(axis1=2, axis2=3).mean(axis=1).T, np.empty(0)

    def at(self, vectors: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Values [..., gvf] of actions [..., a] at observations [..., o]."""
        x = np.concatenate([self.scales.scaled(vectors), actions], axis=-1, dtype=np.float32)
        depth = len(self.weights) // 2
        twins = [_heads(self.weights[k : k + depth], self.biases[k : k + depth]) for k in (0, depth)]
        said = np.stack([np.asarray(twin(x), float) for twin in twins])
        return (said.min(axis=0) if self.least else said.mean(axis=0)) * self.scales.unit

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        return {**_of_scales(self.scales), **_of_layers(self.weights, self.biases), "least": np.array(self.least)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> CriticAnswers:
        return cls(_scales(arrays), *_layers(arrays), bool(arrays["least"]))


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Answers | CriticAnswers:
    """Whichever answers the arrays hold."""
    return CriticAnswers.from_arrays(arrays) if "least" in arrays else Answers.from_arrays(arrays)


def _heads(weights: Sequence[Any], biases: Sequence[Any], shape: tuple[int, ...] | None = None, frequencies: Any = None) -> Any:
    """The network of these layers, with as many outputs as the last one has unless `shape` says how they lie."""
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
