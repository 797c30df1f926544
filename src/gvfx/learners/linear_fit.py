"""Answers that are linear in features: what the features are, the fit to transitions, and the range of possible answers.

Off-policy data can make the linear system's solution large where no target policy could earn as much.  Answers are therefore
limited to what the cumulants seen allow.  Where a solution leaves this range by more than a twentieth of its width after more
than a hundredth of the transitions, the question is fitted again by iteration, its targets c + gamma V(s') limited to the range
in every round (fitted Q evaluation), which cannot diverge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.transitions import Transitions
from gvfx.features.kernel import Kernel
from gvfx.features.lattice import Lattice
from gvfx.features.scaling import Scaling
from gvfx.learners.least_squares import CHUNK, Matrix, Rows, Sums, diagonal, penalty, solved, sums
from gvfx.theory.systems import Solve

BEYOND = 0.05  # of the range's width, by which an answer may leave it before the question is fitted by iteration
SELDOM = 0.01  # of the transitions, after which this may happen
ROUNDS = 200  # of the iteration
SETTLED = 1e-3  # of the range's width: the largest change of a value at which the iteration ends
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
        rows = self(observations)
        if isinstance(self.features, Lattice):
            return np.asarray(rows @ visited.astype(float)) >= 0.5
        return (rows**2).sum(axis=1) >= 0.5

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


class Range(NamedTuple):
    """The smallest and the largest answer that the cumulants and discounts seen allow, each [gvf]; possibly infinite."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, data: Transitions) -> Range:
        """A return is a discounted sum of at least one cumulant, of at most 1 / (1 - gamma) of them in all."""
        least, most = data.cumulant.min(axis=0), data.cumulant.max(axis=0)
        largest = data.discount.max(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            whole = 1 / (1 - largest)
            low = np.where(least < 0, least * whole, least)
            high = np.where(most > 0, most * whole, most)
        return cls(low, high)

    @property
    def width(self) -> np.ndarray:
        return self.high - self.low

    def clipped(self, values: np.ndarray) -> np.ndarray:
        """Values [..., gvf] within the range."""
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Fit:
    """Action values that are linear in features, limited to the possible range."""

    basis: Basis
    weights: np.ndarray  # [action, size, gvf]
    within: Range

    def at(self, rows: Matrix) -> np.ndarray:
        """Q [n, action, gvf] at observations whose features are rows [n, size]."""
        return self.within.clipped(np.stack([rows @ w for w in self.weights], axis=1))

    def action_values(self, observations: np.ndarray) -> np.ndarray:
        """Q [n, action, gvf] at observations [n, o]."""
        pieces = [self.at(self.basis(observations[k : k + CHUNK])) for k in range(0, len(observations), CHUNK)]
        return np.concatenate(pieces) if pieces else np.empty((0, self.weights.shape[0], self.weights.shape[2]))

    def values(self, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """V [gvf, n] at observations [n, o] with target probabilities pi [1 or n, action, gvf]."""
        return (self.action_values(observations) * pi).sum(axis=1).T

    def following(self, data: Transitions) -> np.ndarray:
        """V(s') after every transition, [n, gvf]."""
        return self.values(data.following, data.pi[:, :, data.member]).T

    def errors(self, data: Transitions) -> np.ndarray:
        """The temporal-difference errors c + gamma V(s') - Q(s, a), [n, gvf]."""
        taken = self.action_values(data.observation)[np.arange(len(data)), data.action]
        return data.cumulant + data.discount * self.following(data) - taken


def fitted(rows: Rows, basis: Basis, total: Sums | None = None, within: Range | None = None) -> Fit:
    """The fit of all questions to the rows of transitions with this basis; `total` are their sums, if known."""
    total = sums(rows) if total is None else total
    within = Range.of(rows.data) if within is None else within
    prior = basis.prior(rows.data.actions)
    weights = solved(total, rows.data.groups, prior)
    off = np.isnan(weights).any(axis=(0, 1)) | _beyond(rows, weights, within)
    if off.any():
        weights[:, :, off] = _iterated(rows, diagonal(total.gram) + prior, weights, within, off)
    return Fit(basis, weights, within)


def _beyond(rows: Rows, weights: np.ndarray, within: Range) -> np.ndarray:
    """The questions whose values after some transition leave the range, bool [gvf]."""
    out = np.zeros(weights.shape[2])
    weights = np.nan_to_num(weights)
    slack = BEYOND * np.where(np.isfinite(within.width), within.width, 0.0)
    for piece, _, after in rows:
        v = _following(after, piece.pi, piece.member, weights)
        out += ((v < within.low - slack) | (v > within.high + slack)).sum(axis=0)
    return out > SELDOM * len(rows.data)


def _following(after: Matrix, pi: np.ndarray, member: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """V(s') [n, gvf] without limits, from the features of what follows; pi [1 or n, action, policy], member [gvf]."""
    actions, size, gvfs = weights.shape
    each = (after @ weights.swapaxes(0, 1).reshape(size, -1)).reshape(-1, actions, gvfs)
    return np.einsum("nai,nai->ni", each, np.broadcast_to(pi[:, :, member], each.shape))


def _iterated(rows: Rows, matrix: Matrix, weights: np.ndarray, within: Range, off: np.ndarray) -> np.ndarray:
    """Weights [action, size, off] of the questions `off` [gvf], by fitted iteration with limited targets."""
    within, solve = Range(within.low[off], within.high[off]), definite(matrix)
    weights = np.nan_to_num(weights[:, :, off])
    actions, size, gvfs = weights.shape
    before: list[np.ndarray] = []
    for _ in range(ROUNDS):
        right, now = np.zeros((size, actions, gvfs)), []
        for piece, here, after in rows:
            now.append(within.clipped(_following(after, piece.pi, piece.member[off], weights)))
            y = np.zeros((len(piece), actions, gvfs))
            y[np.arange(len(piece)), piece.action] = piece.cumulant[:, off] + piece.discount[:, off] * now[-1]
            right += (here.T @ y.reshape(len(piece), -1)).reshape(right.shape)
        if before and all((np.abs(v - u) <= SETTLED * within.width).all() for u, v in zip(before, now, strict=True)):
            break
        before = now
        weights = solve(right.swapaxes(0, 1).reshape(-1, gvfs)).reshape(actions, size, gvfs)
    return weights


def definite(matrix: Matrix) -> Solve:
    """Solves matrix @ x = b for a symmetric positive definite matrix."""
    if sp.issparse(matrix):
        options = {"SymmetricMode": True}
        return scipy.sparse.linalg.splu(
            sp.csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
        ).solve
    factor = scipy.linalg.cho_factor(matrix, check_finite=False)
    return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
