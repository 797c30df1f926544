"""What a behaviour is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.kernel import BehaviourRule, Sizes
from gvfx.questions.gvf import Stacked


class NetworkRule(NamedTuple):
    """The same rule as pure JAX functions, for learners with networks.

    begin(weights)                            a fresh state (a pytree), given the GVFs' weights
    probabilities(state, t, pi, m, value)     mu[action] from pi, m [action, gvf]; `value` [action] is an intrinsic value
    episode_end(state)                        the state after an episode
    """

    begin: Callable[[Any], Any]
    probabilities: Callable[..., Any]
    episode_end: Callable[[Any], Any]


class BoxActionRule(NamedTuple):
    """The rule in many worlds with continuous actions, as pure JAX functions.

    begin(worlds, gvfs)         a fresh state (a pytree)
    choose(state, chance, pull) the state and what each world follows now [world]: the target policy of a GVF, or, where
                                it is the number of GVFs, the behaviour's own actor (uniform actions where it has none);
                                chance [world, 2] is uniform in [0, 1); pull [world, gvf] how much Theorem 4.1 wants the
                                draw of each target policy, for behaviours that need the variance and have no actor
    episode_end(state, over)    the state after episodes ended in the worlds `over` [world]
    """

    begin: Callable[[int, int], Any]
    choose: Callable[..., Any]
    episode_end: Callable[[Any, Any], Any]


class Behaviour(ABC):
    """How to act while learning: probabilities at one state from pi[action, gvf] and m[action, gvf]."""

    needs_variance: ClassVar[bool] = False  # whether the learner must keep the variance function M
    needs_intrinsic: ClassVar[bool] = False  # whether a learner with networks must keep an intrinsic value
    needs_actor: ClassVar[bool] = False  # whether an actor of its own must be learnt (continuous actions)

    @abstractmethod
    def rule(self, sizes: Sizes) -> BehaviourRule:
        """The compiled functions for these sizes."""

    @abstractmethod
    def begin(self, asked: Stacked, world: Any) -> Any:
        """A fresh state: a named tuple of arrays."""

    def stops(self, steps: int, world: Any) -> Sequence[int]:
        """The times at which the loop pauses for `refresh`; the loop keeps evidence when there are any."""
        return ()

    def refresh(self, state: Any, model: Empirical) -> None:  # noqa: B027 (most have nothing to do)
        """Change the state in place, from what is known at one of the stops."""

    def retarget(self, state: Any, model: Empirical) -> None:  # noqa: B027 (most read pi at every step)
        """Change in place what the state keeps of the target policies, when those were improved."""

    def network_rule(self) -> NetworkRule:
        """The rule for learners with networks."""
        raise InputError(f"behaviour: {type(self).__name__} runs on tables only; choose another for networks.")

    def box_action_rule(self) -> BoxActionRule:
        """The rule for continuous actions."""
        raise InputError(f"behaviour: {type(self).__name__} has no continuous actions; choose Actor, RoundRobin or another.")
