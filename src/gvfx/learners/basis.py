"""The features of a linear fit, and how strongly its weights are held back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from gvfx.evidence.transitions import Transitions
from gvfx.features.kernel import Kernel
from gvfx.features.lattice import Lattice
from gvfx.features.scaling import Scaling
from gvfx.learners.least_squares import Matrix, Rows, penalty

RIDGE = 1e-8  # relative to a transition's weight, against features that no data reach


@dataclass(frozen=True, eq=False)
class Basis:
    """Features of observations, and how strongly the weights are held back."""

    scaling: Scaling
    features: Lattice | Kernel
    strength: float  # lambda
    sharing: float  # rho between actions

    def __call__(self, observations: np.ndarray) -> Matrix:
        """Features [n, size] of observations [n, o]."""
        return self.features(self.scaling(observations))

    @property
    def size(self) -> int:
        return self.features.size

    def rows(self, data: Transitions) -> Rows:
        """The features of transitions."""
        return Rows.of(data, self, 4 if isinstance(self.features, Lattice) else self.size)

    def prior(self, actions: int) -> Matrix:
        """The penalty Lambda [actions * size, actions * size]."""
        size = self.size
        if isinstance(self.features, Lattice):
            return penalty(self.features.penalty(), self.strength, self.sharing, actions) + RIDGE * sp.eye_array(actions * size)
        return penalty(np.eye(size), self.strength, self.sharing, actions)

    def covered(self, visited: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """Whether observations [n, o] lie where data were, bool [n]; elsewhere answers are extrapolations.

        visited [size]: which features the data have reached.  A kernel's centres are data themselves.
        """
        points, known = self.scaling(observations), self.scaling.known(observations)
        rows = self.features(points)
        if isinstance(self.features, Lattice):
            return known & self.features.holds(points) & (np.asarray(rows @ visited.astype(float)) >= 0.5)
        return known & ((rows**2).sum(axis=1) >= 0.5)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        out = {f"scaling.{name}": array for name, array in self.scaling._asdict().items()}
        if isinstance(self.features, Lattice):
            out |= {"low": self.features.low, "high": self.features.high, "side": np.array(self.features.side)}
        else:
            out |= {"centres": self.features.centres, "lengths": self.features.lengths}
        return out | {"held": np.array([self.strength, self.sharing])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Basis:
        """The basis that `arrays` described."""
        scaling = Scaling(*(arrays[f"scaling.{name}"] for name in Scaling._fields))
        features: Lattice | Kernel
        if "side" in arrays:
            features = Lattice(arrays["low"], arrays["high"], int(arrays["side"]))
        else:
            features = Kernel.around(arrays["centres"], arrays["lengths"])
        return cls(scaling, features, *map(float, arrays["held"]))

    def halved(self) -> Basis:
        """Half the resolution: half the nodes on every axis of a lattice, half the centres of a kernel."""
        if isinstance(self.features, Lattice):
            return replace(self, features=self.features.coarser(max(3, self.features.side // 2 + 1)))
        return replace(self, features=self.features.first(max(1, self.size // 2)))
