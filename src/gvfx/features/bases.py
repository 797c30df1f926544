"""Features of continuous observations: hats on a lattice, kernels around centres, and how much each input matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from gvfx.compilation.loops import stored
from gvfx.errors import InputError
from gvfx.features.scaling import Scaling

Matrix = Any  # a NumPy array, or a sparse array for lattice features

# --- Lattice features: piecewise (bi)linear functions on a regular lattice over one or two inputs -------------------
# A point has 2^d features that are not 0, the corners of the lattice cell that it lies in, so matrices of features are sparse.
# Points beyond the lattice count as on its border.  The penalty is the sum of squared second differences of the function along
# every axis (with d = 2 along the diagonals of each cell as well), which leaves linear functions free: between data the answers
# are continued smoothly, where a plain ridge would pull them to 0.


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
        second = sp.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(self.side - 2, self.side))
        if len(self.low) == 1:
            return sp.csr_array(second.T @ second)
        eye, first = sp.eye_array(self.side), sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(self.side - 1, self.side))
        along: list[Any] = [sp.kron(second, eye), sp.kron(eye, second), np.sqrt(2.0) * sp.kron(first, first)]
        return sp.csr_array(sum(part.T @ part for part in along))


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


# --- Kernel features: a Nystroem approximation of the Matern-5/2 kernel on scaled inputs ----------------------------
# With centres z_j and kernel matrix K = k(z_i, z_j) = L L^T the features of a point are phi(x) = L^-1 k(x, z), so that phi(x) .
# phi(y) approximates k(x, y), and a ridge on the weights is the norm of the function in the kernel's space.  Centres are chosen
# from the data one after another, in alternation the farthest from those before it and a random one: the former cover what was
# seen evenly, whatever the behaviour visited most, and the latter lie where most of the data are.

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
    square = squared_distances(x, y)
    square *= 5.0
    r = np.sqrt(square)
    square /= 3.0
    square += r
    square += 1.0
    square *= np.exp(np.negative(r, out=r), out=r)
    return square  # (1 + r + r^2 / 3) exp(-r), in few passes over memory


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared distances between points x [n, d] and y [m, d], [n, m]."""
    out = x @ (-2.0 * y).T
    out += (x**2).sum(axis=1)[:, None]
    out += (y**2).sum(axis=1)
    return np.maximum(out, 0.0, out=out)


def farthest_points(points: np.ndarray, count: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Indices of up to `count` of the points [n, d], each the farthest from those before it; no point comes twice.

    The first is the point nearest to the mean.  With rng, every second is a random one, so that points lie close where most of
    the data are.  Only every k-th point is considered where there are more than CANDIDATES.
    """
    every = max(1, len(points) // CANDIDATES)
    few = points[::every]
    chosen = [int(((few - few.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    away = ((few - few[chosen[0]]) ** 2).sum(axis=1)
    drawn = iter([] if rng is None else rng.permutation(len(few)))
    while len(chosen) < min(count, len(few)):
        own = int(away.argmax())
        if away[own] <= 0:
            break
        if rng is not None and len(chosen) % 2:
            own = next(int(k) for k in drawn if away[k] > 0)
        chosen.append(own)
        np.minimum(away, ((few - few[own]) ** 2).sum(axis=1), out=away)
    return every * np.array(chosen)


# --- Relevance: how much the answers change with each input, for kernels whose lengths differ by input --------------
# An input on which no answer depends only spreads the data out, and a kernel with one length for all inputs then sees neighbours
# nowhere.  The relevance of an input is the root mean square of the answers' derivative along it, relative to the largest.
# Lengths are divided by its square root, because the derivatives of a fit with lengths that differ exaggerate what its lengths
# say; inputs of little relevance get the floor.  Derivatives come from a fit with the lengths so far, so a few rounds are made.

ROUNDS = 3
LITTLE = 0.1  # relevance below which an input counts as irrelevant
FLOOR = 0.03  # what lengths of irrelevant inputs are divided by
STEP = 0.1  # of the differences that stand for derivatives, in scaled units


def relevance(answers: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    """What the lengths [d] of the inputs of `answers` are divided by, within [FLOOR, 1], from differences at points [n, d].

    answers: from points [n, d] to answers [n, ...]; each is counted in units of its standard deviation over the points.
    """
    here = answers(points).reshape(len(points), -1)
    unit = here.std(axis=0)
    used = unit > 1e-9 * np.abs(here).max(axis=0, initial=0.0)
    if not used.any():
        return np.ones(points.shape[1])
    slopes = np.empty(points.shape[1])
    for k in range(points.shape[1]):
        step = STEP * np.eye(points.shape[1])[k]
        change = (answers(points + step) - answers(points - step)).reshape(len(points), -1)[:, used]
        slopes[k] = np.sqrt(((change / unit[used]) ** 2).mean())
    if not slopes.max() > 0:
        return np.ones(points.shape[1])
    relative = slopes / slopes.max()
    return np.where(relative >= LITTLE, np.sqrt(relative), FLOOR)


# --- The features of a linear fit, and how strongly its weights are held back ---------------------------------------

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

    @property
    def filled(self) -> int:
        """The number of features that are not 0 at an observation, at most."""
        return 2**self.scaling.size if isinstance(self.features, Lattice) else self.size

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
        out = self.scaling.arrays()
        if isinstance(self.features, Lattice):
            out |= {"low": self.features.low, "high": self.features.high, "side": np.array(self.features.side)}
        else:
            out |= {"centres": self.features.centres, "lengths": self.features.lengths}
        return out | {"held": np.array([self.strength, self.sharing])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Basis:
        scaling = Scaling.from_arrays(arrays)
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


def penalty(roughness: Matrix, strength: float, sharing: float, actions: int) -> Matrix:
    """Lambda [actions * size, actions * size] for a penalty R [size, size] of one action."""
    shared = sharing * np.ones((actions, actions)) + (1 - sharing) * np.eye(actions)
    between = strength * np.linalg.inv(shared)
    return sp.csr_array(sp.kron(between, roughness)) if sp.issparse(roughness) else np.kron(between, roughness)
