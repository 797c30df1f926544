"""Answers that are linear in features: the fit to transitions, limited to what is possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gvfx.evidence.transitions import Transitions
from gvfx.learners.basis import Basis
from gvfx.learners.least_squares import Matrix, Rows, Sums, diagonal, solved, sums
from gvfx.learners.limits import ROUNDS, Range, beyond, limited

AT_ONCE = 50_000  # observations whose features are computed together


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
        pieces = [self.at(self.basis(observations[k : k + AT_ONCE])) for k in range(0, len(observations), AT_ONCE)]
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


def fitted(rows: Rows, basis: Basis, total: Sums | None = None, within: Range | None = None, rounds: int = ROUNDS) -> Fit:
    """The fit of all questions to the rows of transitions with this basis; `total` are their sums, if known; rounds: the
    most of an iteration."""
    total = sums(rows) if total is None else total
    within = Range.of(rows.data) if within is None else within
    prior = basis.prior(rows.data.actions)
    weights = solved(total, rows.data.groups, prior)
    off = beyond(rows, weights, within)
    return Fit(basis, limited(rows, diagonal(total.gram) + prior, weights, within, off, rounds) if off.any() else weights, within)
