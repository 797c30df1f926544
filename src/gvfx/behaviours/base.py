"""The base class of behaviours, and the forms of their rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.inputs import check_allowed, check_fields
from gvfx.kernel import BehaviourRule, Sizes, runs_on
from gvfx.questions.gvf import Stacked
from gvfx.worlds.mdp import TableRows


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
    choose(state, chance, pull) the state, and what each world follows now [world]: a GVF's target policy by its index or, from
                                the number of GVFs on, an action of the behaviour's own actor (a uniform one without an actor)
    episode_end(state, over)    the state after episodes have ended in the worlds marked by `over` [world]

    chance [world, 2] is uniform in [0, 1); pull [world, gvf] is the importance weight of each target policy's sample under
    Theorem 4.1 (for behaviours that need the variance), or the probabilities of a mixture actor's gate.
    """

    begin: Callable[[int, int], Any]
    choose: Callable[..., Any]
    episode_end: Callable[[Any, Any], Any]


State = TypeVar("State")  # of a behaviour with `rule`: a named tuple of arrays


class Behaviour(ABC, Generic[State]):
    """How to act while learning: probabilities at one state from pi[action, gvf] and m[action, gvf].

    A frozen dataclass.  `supports` names the kinds of learning it works with, each of which reads its own form of the rule:

    "tables"       `rule` and `begin`, compiled by numba
    "linear"       the same, where a row is a cell of the observations
    "networks"     `network_rule`, in JAX; stepped environments also read `rule`, unless the behaviour needs an intrinsic value
    "box_actions"  `box_action_rule`, in JAX
    """

    needs_variance: ClassVar[bool] = False  # whether the learner must keep the variance function M
    needs_intrinsic: ClassVar[bool] = False  # whether a learner with networks must keep an intrinsic value
    needs_actor: ClassVar[bool] = False  # whether it learns its own actor (Box actions)
    by_episode: ClassVar[bool] = False  # whether it learns from its own actions, one whole episode after another
    explores: ClassVar[bool] = False  # whether it tries every action without Floor(Epsilon(...))
    counts_cells: ClassVar[bool] = False  # whether `observe` must see the transitions between cells of continuous observations
    allowed: ClassVar[Mapping[str, str]] = {}  # the numbers of fields, such as {"share floor": "[0, 1)"}

    def __post_init__(self) -> None:
        check_fields(self, "behaviour")
        check_allowed(self)

    @property
    @abstractmethod
    def supports(self) -> frozenset[str]:
        """The kinds of learning it works with, keys of `gvfx.kernel.KINDS`; for example supports = frozenset({"tables"})."""

    def rule(self, sizes: Sizes) -> BehaviourRule:
        """The compiled functions for these sizes."""
        raise InputError(f"behaviour: {self._runs_on()}; choose another for tables.")

    def begin(self, asked: Stacked, world: TableRows) -> State:
        """A fresh state for `rule`: a named tuple of arrays."""
        raise InputError(f"behaviour: {self._runs_on()}; choose another for tables.")

    def network_rule(self) -> NetworkRule:
        """The rule for learners with networks."""
        raise InputError(f"behaviour: {self._runs_on()}; choose another for networks.")

    def box_action_rule(self) -> BoxActionRule:
        """The rule for Box actions."""
        raise InputError(f"behaviour: {type(self).__name__} does not support continuous actions; choose another for Box actions.")

    def stops(self, steps: int, world: TableRows) -> Sequence[int]:
        """The times at which the loop pauses for `refresh`; the loop keeps evidence when there are any."""
        return ()

    def refresh(self, state: State, model: Empirical) -> None:
        """Update the state in place from the evidence at one of the stops."""

    def shown(self, state: State) -> State:
        """The state whose probabilities a result shows, if those of a single step would mislead."""
        return state

    def on_cells(self) -> Behaviour[State]:
        """The behaviour for rows that are cells of continuous observations, if some of its defaults differ there."""
        return self

    def after_log(self, steps: int, logged: int) -> Behaviour[State]:
        """The behaviour for a run of `steps` that starts from the transitions of a log, if it plans further ahead than that."""
        return self

    def retarget(self, state: State, model: Empirical) -> None:
        """Update in place what the state stores about the target policies, after they were improved."""

    def with_table(self, state: State, q: np.ndarray) -> State:
        """The state with the learner's own table q [row, action, gvf] in it, if the behaviour reads the scales of answers."""
        return state

    def rescale(self, state: State, model: Empirical) -> None:
        """Update those scales in place from the estimated model, for learners that keep no table q."""

    def _runs_on(self) -> str:
        return runs_on(type(self).__name__, self.supports)
