"""GVFExplorer: act in proportion to the return's standard deviation, summed over GVFs (paper, Theorem 4.1); and its actors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour, BoxActionRule, NetworkRule
from gvfx.behaviours.fixed import RoundRobin, memoryless
from gvfx.kernel import BehaviourRule, Sizes, end_nothing, observe_nothing, piece
from gvfx.questions.gvf import Stacked
from gvfx.theory.equations import compiled_explorer, explorer_probabilities, explorer_square
from gvfx.worlds.mdp import TableRows


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

    def begin(self, asked: Stacked, world: TableRows) -> ExplorerState:
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


# --- Behaviours for Box actions that learn an actor: driven by the variance of the return (paper, Algorithm 2) ------


@dataclass(frozen=True)
class Actor(Behaviour):
    """The SAC-based GVFExplorer: a squashed-Gaussian actor mu driven by the variance critics.

    direction:  "raise" maximises sum_i w_i M_i(s, a) - alpha log mu(a|s), "lower" minimises sum_i w_i M_i + alpha log mu;
                "optimal" minimises KL(mu || mu*) to Theorem 4.1's mu*, without kl_weight, normalised and alpha.
    normalised: divide M's sum by its mean over the batch.
    kl_weight:  weight of KL(mu || target policies); kl_to: their mean ("each") or that to their "mixture".
    target_entropy: what the temperature aims at (None: the target policies' entropy); alpha: its initial value.
    updates:    updates of the actor per vector step.
    share:      the fraction of the worlds that follow the actor; the others follow the target policies in turn.
    """

    direction: Literal["raise", "lower", "optimal"] = "raise"
    normalised: bool = True
    kl_weight: float = 1.0
    kl_to: Literal["each", "mixture"] = "mixture"
    target_entropy: float | None = None
    alpha: float = 0.1
    rate: float = 3e-4
    updates: int = 1
    hidden: tuple[int, ...] = (64, 64)
    share: float = 1.0

    supports: ClassVar[frozenset[str]] = frozenset({"box_actions"})
    needs_variance: ClassVar[bool] = True
    needs_actor: ClassVar[bool] = True
    allowed: ClassVar = {"rate alpha": "(0, inf)", "kl_weight": "[0, inf)", "updates": "[1, inf)", "share": "(0, 1]"}

    def box_action_rule(self) -> BoxActionRule:
        import jax.numpy as jnp

        turns = RoundRobin().box_action_rule()

        def choose(state, chance, pull):
            worlds, gvfs = pull.shape
            acts = jnp.arange(worlds) < round(self.share * worlds)
            return state, jnp.where(acts, gvfs, turns.choose(state, chance, pull)[1])

        return BoxActionRule(turns.begin, choose, turns.episode_end)


@dataclass(frozen=True)
class MixtureActor(Behaviour):
    """A learned mixture of the target policies, drawn to Theorem 4.1's behaviour by the variance critics.

    Its network gives, at every state, each target policy's probability and a residual on its action.  Wrap it in `Hold`, so that
    a choice lasts.

    residual: the largest change of a component of an action.
    floor:    the part of the probability that is spread evenly over the target policies.
    """

    residual: float = 0.1
    floor: float = 0.2
    rate: float = 3e-4
    updates: int = 1
    hidden: tuple[int, ...] = (64, 64)

    supports: ClassVar[frozenset[str]] = frozenset({"box_actions"})
    needs_variance: ClassVar[bool] = True
    needs_actor: ClassVar[bool] = True
    allowed: ClassVar = {"residual": "[0, inf)", "floor": "[0, 1]", "rate": "(0, inf)", "updates": "[1, inf)"}

    def box_action_rule(self) -> BoxActionRule:
        """Follows its own component k, number gvfs + k, with the gate's probability."""
        return memoryless(lambda chance, pull: pull.shape[1] + in_proportion(chance, pull))
