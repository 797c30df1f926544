"""The result of an evaluation: predictions and the evidence for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a run knew after `step` steps; all arrays begin with [seed]."""

    step: int
    values: np.ndarray  # [seed, gvf, state]
    variances: np.ndarray | None  # [seed, gvf, state] sum_a pi M, where the learner kept M
    visits: np.ndarray  # [seed, state, action]
    behaviour: np.ndarray  # [seed, state, action]
    levels: np.ndarray  # [seed, gvf] drifting cumulants


@dataclass(frozen=True, eq=False)
class Result:
    """Learning curves and final tables of one behaviour and learner on one set of questions, for several seeds."""

    names: tuple[str, ...]
    weights: np.ndarray  # [gvf]
    seeds: tuple[int, ...]
    steps: np.ndarray  # [t] evaluation times
    mse: np.ndarray  # [seed, t, gvf]
    levels: np.ndarray  # [seed, t, gvf]
    episodes: np.ndarray  # [seed, t]
    snapshots: tuple[Snapshot, ...]  # at the chosen times; the last is the end of the run
    truth: np.ndarray  # [seed, gvf, state] at the end of the run
    seconds: np.ndarray  # [seed] time spent in the loop, compilation excluded
    mse_outside: np.ndarray | None = None  # [seed, t, gvf] continuous grid: the cells outside the goals' discs
    experiment: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> np.ndarray:
        """Predicted values at the end, [seed, gvf, state]."""
        return self.snapshots[-1].values

    @property
    def variances(self) -> np.ndarray | None:
        """Estimated variances at the end, [seed, gvf, state]."""
        return self.snapshots[-1].variances

    @property
    def visits(self) -> np.ndarray:
        """How often each action was taken in each state, [seed, state, action]."""
        return self.snapshots[-1].visits

    @property
    def behaviour(self) -> np.ndarray:
        """The behaviour's probabilities at the end, [seed, state, action]."""
        return self.snapshots[-1].behaviour

    @property
    def error(self) -> np.ndarray:
        """Weighted mean of the GVFs' squared errors, [seed, t]; plain mean with equal weights."""
        return self.mse @ (self.weights / self.weights.sum())

    def predict(self, state: int) -> np.ndarray:
        """Predictions [gvf] at a state, averaged over seeds."""
        return self.values[:, :, state].mean(axis=0)

    def to_json(self) -> dict[str, Any]:
        """The curves and a summary as plain data."""
        error = self.error
        return {
            "experiment": self.experiment,
            "names": list(self.names),
            "weights": self.weights.tolist(),
            "seeds": list(self.seeds),
            "steps": self.steps.tolist(),
            "mse": self.mse.tolist(),
            "levels": self.levels.tolist() if self.levels.any() else None,
            "episodes": self.episodes.tolist(),
            "seconds": self.seconds.tolist(),
            "final": {
                "error": error[:, -1].mean(),
                "standard_error": float(standard_error(error[:, -1])),
                "mse": dict(zip(self.names, self.mse[:, -1].mean(axis=0).tolist(), strict=True)),
            },
        }


def standard_error(samples: np.ndarray) -> Any:
    """Standard error of the mean over seeds (axis 0); 0 for a single seed."""
    if len(samples) < 2:
        return np.zeros(samples.shape[1:])[()]
    return samples.std(axis=0, ddof=1) / len(samples) ** 0.5
