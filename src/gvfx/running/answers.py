"""What a run on networks leaves behind to answer with: a Q network and how its inputs and outputs were scaled."""

from __future__ import annotations

from collections.abc import Mapping
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
        import equinox as eqx

        from gvfx.learners.networks import Heads

        hidden = tuple(len(b) for b in self.biases[:-1])
        inputs, waves = self.frequencies.shape
        shape = (self.actions, len(self.biases[-1]) // self.actions)
        blank = Heads(np.random.default_rng(0), inputs, hidden, shape, waves=waves)
        own = (list(self.weights), list(self.biases), self.frequencies)
        return eqx.tree_at(lambda h: (h.weights, h.biases, h.frequencies), blank, own)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        layers = {f"weight{k}": w for k, w in enumerate(self.weights)} | {f"bias{k}": b for k, b in enumerate(self.biases)}
        scales = {f.name: getattr(self.scales, f.name) for f in fields(Scales)}
        return {**scales, **layers, "frequencies": self.frequencies, "actions": np.array(self.actions)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Answers:
        depth = sum(name.startswith("weight") for name in arrays)
        weights, biases = (tuple(arrays[f"{kind}{k}"] for k in range(depth)) for kind in ("weight", "bias"))
        scales = Scales(**{f.name: arrays[f.name] for f in fields(Scales)})
        return cls(scales, weights, biases, arrays["frequencies"], int(arrays["actions"]))
