"""Ground truth on an MDP: the evaluation states, their true values, and the error of predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gvfx.questions.gvf import Stacked
from gvfx.questions.where import EVERYWHERE, Evaluation
from gvfx.theory import exact
from gvfx.theory.equations import squared_error
from gvfx.worlds.mdp import MDP


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """True values, V = base + level * unit for drifting cumulants, both [gvf, state], and where errors count."""

    points: np.ndarray  # [point] state indices, every live state
    base: np.ndarray
    unit: np.ndarray
    where: Evaluation | None = None  # None: every live state equally

    @classmethod
    def exact(cls, world: MDP, asked: Stacked) -> GroundTruth:
        """The truth by linear solves."""
        base, unit = exact.value_parts(world, exact.ideal(world, asked))
        where = None if asked.where == EVERYWHERE else asked.where.on(world)
        return cls(np.flatnonzero(world.live), base, unit, where)

    def values(self, level: np.ndarray) -> np.ndarray:
        """V [gvf, state] if drifting cumulants stayed at their present level [gvf]."""
        return self.base + self.unit * level[:, None]

    def mse(self, estimates: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Mean squared error per GVF [gvf] of estimates [gvf, state]: uniform over live states, or where errors count."""
        if self.where is not None:
            return self.where.squares(self.values(level) - estimates)
        errors = squared_error(self.values(level), estimates)  # Eq. 1 (eq:mse) with uniform d(s)
        return errors[:, self.points].mean(axis=1)


def predicted_values(world: MDP, asked: Stacked, q: np.ndarray) -> np.ndarray:
    """V(s) = sum_a pi(a|s) Q(s, a), [gvf, state], from a learner's q [row, action, gvf]."""
    return np.einsum("san,san->ns", np.broadcast_to(asked.pi, (world.states, *asked.pi.shape[1:])), q[world.feature])
