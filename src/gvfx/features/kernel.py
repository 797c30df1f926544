"""Kernel features: a Nystroem approximation of the Matern-5/2 kernel on scaled inputs.

With centres z_j and kernel matrix K = k(z_i, z_j) = L L^T the features of a point are phi(x) = L^-1 k(x, z), so that
phi(x) . phi(y) approximates k(x, y), and a ridge on the weights is the norm of the function in the kernel's space.  Centres are
chosen from the data one after another, each the farthest from those before it: they cover what was seen evenly, whatever
the behaviour visited most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

JITTER = 1e-6  # added to the diagonal of K, against centres that nearly coincide
CANDIDATES = 20_000  # data points from which centres are chosen


@dataclass(frozen=True, eq=False)
class Kernel:
    """Features of scaled inputs [d] from their distances to centres [m, d], in units of `lengths` [d]."""

    centres: np.ndarray
    lengths: np.ndarray
    factor: np.ndarray  # L [m, m], lower triangle

    @classmethod
    def around(cls, centres: np.ndarray, lengths: np.ndarray) -> Kernel:
        """The features with these centres; lengths [d]."""
        lengths = np.broadcast_to(np.asarray(lengths, float), centres.shape[1:]).copy()
        gram = matern(centres / lengths, centres / lengths)
        gram[np.diag_indices(len(gram))] += JITTER
        return cls(centres, lengths, scipy.linalg.cholesky(gram, lower=True, check_finite=False))

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.centres)

    def first(self, count: int) -> Kernel:
        """The features of the first `count` centres alone: half the resolution with half of them."""
        return replace(self, centres=self.centres[:count], factor=self.factor[:count, :count])

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Features [n, m] of scaled inputs [n, d]."""
        near = matern(points / self.lengths, self.centres / self.lengths)
        return scipy.linalg.solve_triangular(self.factor, near.T, lower=True, check_finite=False, overwrite_b=True).T


def matern(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The Matern-5/2 kernel with length 1 between points x [n, d] and y [m, d], [n, m]."""
    r = np.sqrt(5.0 * squared_distances(x, y))
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared distances between points x [n, d] and y [m, d], [n, m]."""
    out = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2.0 * (x @ y.T)
    return np.maximum(out, 0.0, out=out)


def farthest_points(points: np.ndarray, count: int) -> np.ndarray:
    """Indices of up to `count` of the points [n, d], each the farthest from those before it; no point comes twice.

    The first is the point nearest to the mean.  Only every k-th point is considered where there are more than CANDIDATES.
    """
    every = max(1, len(points) // CANDIDATES)
    few = points[::every]
    chosen = [int(((few - few.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    away = ((few - few[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < min(count, len(few)):
        farthest = int(away.argmax())
        if away[farthest] <= 0:
            break
        chosen.append(farthest)
        np.minimum(away, ((few - few[farthest]) ** 2).sum(axis=1), out=away)
    return every * np.array(chosen)
