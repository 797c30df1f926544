"""Cells: a partition of the observations into finitely many, on which a behaviour plans as if they were states.

With one or two inputs the cells are those of a lattice, with more the regions nearest to centres chosen from the data.  A plan
on cells needs a rough model only: its errors cost steps, and the answers come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from gvfx.features.bases import farthest_points, squared_distances
from gvfx.features.scaling import Scaling
from gvfx.kernel import piece, whole

NEIGHBOURS = 6  # nearest centres that count as adjacent to a centre's cell


class Cells(NamedTuple):
    """A partition; a lattice of side^d cells if `side` is above 0, else one cell per centre."""

    scaling: Scaling
    low: np.ndarray  # [d] of the lattice
    high: np.ndarray  # [d]
    side: int
    centres: np.ndarray  # [m, d] in scaled units; empty for a lattice
    inputs: np.ndarray  # [d] scratch of compiled functions

    @classmethod
    def of(cls, observations: np.ndarray, count: int) -> Cells:
        """A partition of observations [n, o] into up to `count` cells."""
        scaling = Scaling.of(observations)
        points = scaling(observations)
        none, inputs = np.empty((0, scaling.size)), np.empty(scaling.size)
        if not scaling.size:
            return cls(scaling, none.sum(axis=0), none.sum(axis=0), 0, np.empty((1, 0)), inputs)
        low, high = points.min(axis=0), points.max(axis=0)
        if scaling.size <= 2:
            return cls(scaling, low, high, max(1, int(count ** (1 / scaling.size) + 1e-9)), none, inputs)
        return cls(scaling, low, high, 0, points[farthest_points(points, count)], inputs)

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        out = {name: np.asarray(getattr(self, name)) for name in self._fields if name != "scaling"}
        return {prefix + name: array for name, array in (out | self.scaling.arrays()).items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], prefix: str) -> Cells:
        """The cells that `arrays` described; they share no memory with them."""
        scaling = Scaling(*(array.copy() for array in Scaling.from_arrays(arrays, prefix)))
        own = {name: arrays[prefix + name].copy() for name in ("low", "high", "centres", "inputs")}
        return cls(scaling=scaling, side=int(arrays[f"{prefix}side"]), **own)

    @property
    def size(self) -> int:
        """The number of cells."""
        return int(self.side ** len(self.low)) if self.side else len(self.centres)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """The cell of each observation [n, o], int [n]."""
        out = np.empty(len(observations), np.int64)
        _find_all(self, np.ascontiguousarray(observations), out)
        return out

    def neighbours(self) -> sp.csr_array:
        """Which cells are adjacent to each, itself included, as a sparse matrix of ones [cell, cell]."""
        if self.side:
            width = min(1, self.side - 1)
            diagonals = [np.ones(self.side - abs(k)) for k in range(-width, width + 1)]
            line = sp.diags_array(diagonals, offsets=list(range(-width, width + 1)))
            return sp.csr_array(line if len(self.low) == 1 else sp.kron(line, line))
        count = min(NEIGHBOURS + 1, len(self.centres))
        near = np.argsort(squared_distances(self.centres, self.centres), axis=1, kind="stable")[:, :count]
        rows = np.repeat(np.arange(len(near)), count)
        one_way = sp.csr_array((np.ones(rows.size), (rows, near.ravel())), shape=(len(near), len(near)))
        return sp.csr_array(((one_way + one_way.T) > 0).astype(float))


@piece
def find(cells, observation):
    """The cell of an observation [o]."""
    scaling, z = cells.scaling, cells.inputs
    for k in range(z.shape[0]):
        x = (observation[scaling.kept[k]] - scaling.middle[k]) / scaling.unit[k]
        if scaling.bent[k]:
            x = np.arcsinh(x)
        z[k] = (x - scaling.centre[k]) / scaling.spread[k]
    if cells.side > 0:
        out = 0
        for k in range(z.shape[0]):
            width = cells.high[k] - cells.low[k]
            at = (z[k] - cells.low[k]) / width * cells.side if width > 0.0 else 0.0
            out = out * cells.side + int(min(max(at, 0.0), cells.side - 1.0))
        return out
    best, nearest = 0, np.inf
    for j in range(cells.centres.shape[0]):
        away = 0.0
        for k in range(z.shape[0]):
            off = z[k] - cells.centres[j, k]
            away += off * off
        if away < nearest:
            best, nearest = j, away
    return best


@whole
def _find_all(cells, observations, out):
    for t in range(out.shape[0]):
        out[t] = find(cells, observations[t])
