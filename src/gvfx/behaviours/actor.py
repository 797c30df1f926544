"""Actor: a learned behaviour for continuous actions, driven by the variance of the return (paper, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gvfx.behaviours.base import Behaviour, BoxActionRule
from gvfx.behaviours.explorer import in_proportion
from gvfx.behaviours.fixed import RoundRobin, memoryless


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
