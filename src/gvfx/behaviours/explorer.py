"""GVFExplorer: act in proportion to the return's standard deviation, summed over GVFs (paper, Theorem 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour, BoxActionRule, NetworkRule
from gvfx.behaviours.fixed import memoryless
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.theory.equations import compiled_explorer, explorer_probabilities, explorer_square
from gvfx.worlds.mdp import MDP


class ExplorerState(NamedTuple):
    weights: np.ndarray  # [gvf]


@dataclass(frozen=True)
class GVFExplorer(Behaviour[ExplorerState]):
    """mu(a|s) proportional to sqrt(sum_i w_i pi_i(a|s)^2 M_i(s, a)); uniform if all of these are zero.

    smallest_m: a smaller M counts as this one, on tables and networks (the authors' code: 1e-4); what is learned stays as it is.
                With calibrate=True it is in units of the GVF's mean square value.
    """

    smallest_m: float = field(default=0.0, metadata={"later": True})

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear", "networks", "box_actions"})
    needs_variance: ClassVar[bool] = True
    allowed: ClassVar = {"smallest_m": "[0, inf)"}

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _rule(*sizes, float(self.smallest_m))

    def begin(self, asked: Stacked, world: MDP) -> ExplorerState:
        return ExplorerState(asked.weights)

    def network_rule(self) -> NetworkRule:
        import jax.numpy as jnp

        def probabilities(weights, t, pi, m, value):
            m = jnp.maximum(m, self.smallest_m) if self.smallest_m else m
            return explorer_probabilities(explorer_square(weights, pi, m), jnp)  # Eq. 3 (eq:behavior_update)

        return NetworkRule(lambda weights: weights, probabilities, lambda state: state)

    def box_action_rule(self) -> BoxActionRule:
        """Follows one of the target policies' samples, with probability proportional to its pull."""
        return memoryless(in_proportion)


def in_proportion(chance: Any, pull: Any) -> Any:
    """An index per world [world], drawn in proportion to its pull [world, gvf]; chance [world, ...] is uniform in [0, 1)."""
    import jax.numpy as jnp

    shares = jnp.cumsum(pull, axis=1)
    return (chance[:, :1] * shares[:, -1:] >= shares[:, :-1]).sum(axis=1)


@cache
def _rule(gvfs: int, actions: int, smallest_m: float) -> BehaviourRule:
    choose = compiled_explorer(gvfs, actions, smallest_m)

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        choose(state.weights, pi, m, mu)

    return BehaviourRule(probabilities, observe_nothing, end_nothing)
