"""Lattice features: piecewise (bi)linear functions on a regular lattice over one or two inputs.

A point has 2^d features that are not 0, the corners of the lattice cell that it lies in, so matrices of features are sparse.
Points beyond the lattice count as on its border.  The penalty is the sum of squared second differences of the function along
every axis (with d = 2 along the diagonals of each cell as well), which leaves linear functions free: between data the answers
are continued smoothly, where a plain ridge would pull them to 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gvfx.compilation.loops import stored
from gvfx.errors import InputError


@dataclass(frozen=True, eq=False)
class Lattice:
    """Hats on `side` nodes per axis, from `low` to `high` [d], over d = 1 or 2 inputs."""

    low: np.ndarray
    high: np.ndarray
    side: int

    @classmethod
    def over(cls, points: np.ndarray, side: int) -> Lattice:
        """The lattice over the range of points [n, d]."""
        if points.shape[1] not in (1, 2):
            raise InputError(f"inputs: a lattice has 1 or 2 inputs, not {points.shape[1]}; use kernel features.")
        return cls(points.min(axis=0), points.max(axis=0), side)

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.side ** len(self.low))

    def coarser(self, side: int) -> Lattice:
        """The same range with another number of nodes per axis."""
        return Lattice(self.low, self.high, side)

    def __call__(self, points: np.ndarray) -> sp.csr_array:
        """Features of points [n, d] as a sparse matrix [n, size]."""
        n, d = points.shape
        index, weight = np.empty((n, 2**d), np.int32), np.empty((n, 2**d))
        _hats(np.ascontiguousarray(points, float), self.low, self.high, self.side, index, weight)
        start = np.arange(0, n * 2**d + 1, 2**d, dtype=np.int64 if n > 2**28 else np.int32)
        return sp.csr_array((weight.ravel(), index.ravel(), start), shape=(n, self.size))

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Whether points [n, d] lie within the lattice or at most one cell beside it, bool [n]."""
        cell = (self.high - self.low) / (self.side - 1)
        return np.asarray(((points >= self.low - cell) & (points <= self.high + cell)).all(axis=1))

    def penalty(self) -> sp.csr_array:
        """The matrix R with w^T R w the sum of squared second differences of the nodes' values w, [size, size]."""
        second = _differences(self.side)
        if len(self.low) == 1:
            return sp.csr_array(second.T @ second)
        eye, first = sp.eye_array(self.side), _steps(self.side)
        along: list[Any] = [sp.kron(second, eye), sp.kron(eye, second), np.sqrt(2.0) * sp.kron(first, first)]
        return sp.csr_array(sum(part.T @ part for part in along))


def squares(rows: sp.csr_array, action: np.ndarray, actions: int, among: np.ndarray) -> list[sp.csr_array]:
    """[action] of features times features [size, size], summed over a lattice's features [n, size] where `among` [n] holds."""
    size, corners = rows.shape[1], rows.nnz // max(1, rows.shape[0])
    if not rows.shape[0]:
        return [sp.csr_array((size, size)) for _ in range(actions)]
    first, weight = rows.indices.reshape(-1, corners)[:, 0], rows.data.reshape(-1, corners)
    total = np.zeros((actions, size, corners, corners))
    _squares(first, weight, action, among, total)
    offsets = rows.indices[:corners] - rows.indices[0]  # of a cell's corners from its first
    out = []
    for own in total:
        used = np.flatnonzero(own[:, 0, 0] + own[:, -1, -1])
        row = np.broadcast_to(used[:, None, None] + offsets[:, None], (len(used), corners, corners))
        column = np.broadcast_to(used[:, None, None] + offsets, (len(used), corners, corners))
        entries = (own[used].ravel(), (row.ravel(), column.ravel()))
        out.append(sp.csr_array(sp.coo_array(entries, shape=(size, size))))
    return out


def scattered(rows: sp.csr_array, action: np.ndarray, actions: int, among: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Features times columns [n, k], [action, size, k], summed over a lattice's features [n, size] where `among` [n] holds."""
    total = np.zeros((actions, rows.shape[1], columns.shape[1]))
    _scatter(rows.indptr, rows.indices, rows.data, action, among, np.ascontiguousarray(columns, float), total)
    return total


def _differences(side: int) -> sp.sparray:
    """Second differences [side - 2, side]."""
    return sp.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(side - 2, side))


def _steps(side: int) -> sp.sparray:
    """First differences [side - 1, side]."""
    return sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(side - 1, side))


@stored(nogil=True)
def _hats(points, low, high, side, index, weight):
    """Write the nodes around every point [n, d], sorted, and their weights, each [n, 2^d]."""
    n, d = points.shape
    for t in range(n):
        index[t, 0] = 0
        weight[t, 0] = 1.0
        known = 1
        for k in range(d):
            width = high[k] - low[k]
            at = (points[t, k] - low[k]) / width * (side - 1) if width > 0 else 0.0
            at = min(max(at, 0.0), side - 1.0)
            cell = min(int(at), side - 2)
            share = at - cell
            for j in range(known - 1, -1, -1):
                node = index[t, j] * side + cell
                amount = weight[t, j]
                index[t, 2 * j] = node
                weight[t, 2 * j] = amount * (1.0 - share)
                index[t, 2 * j + 1] = node + 1
                weight[t, 2 * j + 1] = amount * share
            known *= 2


@stored(nogil=True)
def _squares(first, weight, action, among, total):
    """Add the products of every point's weights [n, corner] to those of its action and cell, [action, node, corner, corner]."""
    n, corners = weight.shape
    for t in range(n):
        if among[t]:
            own = total[action[t], first[t]]
            for j in range(corners):
                for k in range(corners):
                    own[j, k] += weight[t, j] * weight[t, k]


@stored(nogil=True)
def _scatter(start, index, weight, action, among, columns, total):
    """Add every point's columns [n, k], times its features, to those of its action, [action, size, k]."""
    for t in range(columns.shape[0]):
        if among[t]:
            for j in range(start[t], start[t + 1]):
                for i in range(columns.shape[1]):
                    total[action[t], index[j], i] += weight[j] * columns[t, i]
