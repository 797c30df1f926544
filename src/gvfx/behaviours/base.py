"""What a behaviour is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.kernel import BehaviourRule, Sizes, runs_on
from gvfx.questions.gvf import Stacked


class NetworkRule(NamedTuple):
    """A behaviour's rule for learners with networks, as pure JAX functions.

    begin(weights)                            a fresh state (a pytree), given the GVFs' weights
    probabilities(state, t, pi, m, value)     mu[action] from pi, m [action, gvf]; `value` [action] is an intrinsic value
    episode_end(state)                        the state after an episode
    """

    begin: Callable[[Any], Any]
    probabilities: Callable[..., Any]
    episode_end: Callable[[Any], Any]


class BoxActionRule(NamedTuple):
    """A behaviour's rule for Box actions, as pure JAX functions over many worlds at once.

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
    """How to act while learning: probabilities at one state from pi[action, gvf] and m[action, gvf].

    A behaviour is a frozen dataclass.  `supports` names the kinds of learning it runs with; each kind reads its own form of
    the rule, and `gvfx.testing.check_behaviour` compares the forms:

    "tables"       `rule` and `begin`, compiled by numba: finite worlds and environments with Discrete observations
    "linear"       `rule` and `begin`, where a row is a cell of the observations
    "networks"     `network_rule`, in JAX, for networks whose whole loop is compiled; environments stepped from Python also
                   read `rule` and `begin`, unless the behaviour needs an intrinsic value
    "box_actions"  `box_action_rule`, in JAX: which target policy each world follows, or the behaviour's own actor
    """

    needs_variance: ClassVar[bool] = False  # whether the learner must keep the variance function M
    needs_intrinsic: ClassVar[bool] = False  # whether a learner with networks must keep an intrinsic value
    needs_actor: ClassVar[bool] = False  # whether an actor of its own must be learned (Box actions)
    explores: ClassVar[bool] = False  # whether it tries every action by itself, without Floor(Epsilon(...))

    @property
    @abstractmethod
    def supports(self) -> frozenset[str]:
        """The kinds of learning it runs with, of `gvfx.kernel.KINDS`; write supports = frozenset({"tables"}) in the class."""

    def rule(self, sizes: Sizes) -> BehaviourRule:
        """The compiled functions for these sizes."""
        raise InputError(f"behaviour: {self._runs_on()}; choose another for tables.")

    def begin(self, asked: Stacked, world: Any) -> Any:
        """A fresh state for `rule`: a named tuple of arrays."""
        raise InputError(f"behaviour: {self._runs_on()}; choose another for tables.")

    def network_rule(self) -> NetworkRule:
        """The rule for learners with networks."""
        raise InputError(f"behaviour: {self._runs_on()}; choose another for networks.")

    def box_action_rule(self) -> BoxActionRule:
        """The rule for Box actions."""
        raise InputError(f"behaviour: {type(self).__name__} has no continuous actions; choose another for Box actions.")

    def stops(self, steps: int, world: Any) -> Sequence[int]:
        """The times at which the loop pauses for `refresh`; the loop keeps evidence when there are any."""
        return ()

    def refresh(self, state: Any, model: Empirical) -> None:  # noqa: B027 (most have nothing to do)
        """Change the state in place, from what is known at one of the stops."""

    def retarget(self, state: Any, model: Empirical) -> None:  # noqa: B027 (most read pi at every step)
        """Change in place what the state keeps of the target policies, when those were improved."""

    def _runs_on(self) -> str:
        return runs_on(type(self).__name__, self.supports)
