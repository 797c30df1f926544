"""The base class of learners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.inputs import check_allowed, check_fields
from gvfx.kernel import LearnerRule, Sizes, runs_on
from gvfx.questions.gvf import Stacked
from gvfx.theory.equations import improved
from gvfx.theory.exact import predicted_values
from gvfx.worlds.mdp import TableRows


class WithValues(Protocol):
    """A learner's state."""

    @property
    def q(self) -> np.ndarray: ...  # [row, action, gvf]


class NoValues(NamedTuple):
    """The state of a learner whose values are computed on request; m [row, action, gvf] is read by behaviours."""

    q: np.ndarray  # empty
    m: np.ndarray


State = TypeVar("State", bound=WithValues)


class Learner(ABC, Generic[State]):
    """How to learn the values of all GVFs from the transitions of any behaviour.

    A frozen dataclass.  One that supports "tables" returns its compiled functions from `rule` and its state from `begin`: tables
    q and m, [row, action, gvf].  Those for networks only hold options; the loops of `gvfx.running.streams` implement them.
    """

    needs_next_action: ClassVar[bool] = False  # whether updates wait for the next action and its probability
    by_episode: ClassVar[bool] = False  # whether it learns from whole episodes, one at a time, with constant discounts
    needs_evidence: ClassVar[bool] = False  # whether the loop must keep counts and cumulant sums
    bounds_errors: ClassVar[bool] = False  # whether a stopping rule can rest on its standard errors
    forgetting_rates: tuple[float, ...] = ()  # rates of the running means kept for drifting cumulants

    allowed: ClassVar[Mapping[str, str]] = {}  # the numbers of fields, such as {"rate": "(0, 1]"}

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        check_allowed(self)

    @property
    @abstractmethod
    def supports(self) -> frozenset[str]:
        """Its kinds of learning, keys of `gvfx.kernel.KINDS`; for example supports = frozenset({"tables"})."""

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        """The compiled functions; `variance`: whether to learn the variance function."""
        raise InputError(f"learner: {runs_on(type(self).__name__, self.supports)}; choose another for tables.")

    def begin(self, asked: Stacked, world: TableRows) -> State:
        """A fresh state: a named tuple with q, m and anything else the rule needs."""
        raise InputError(f"learner: {runs_on(type(self).__name__, self.supports)}; choose another for tables.")

    def stops(self, steps: int) -> Sequence[int]:
        """The times at which the loop pauses for `refresh`, if the behaviour reads m."""
        return ()

    def refresh(self, state: State, model: Empirical) -> None:
        """Update the state's tables in place from the evidence at one of the stops."""

    def improvements(self, steps: int) -> Sequence[int]:
        """The times at which policies defined by a GVF's own values are improved."""
        every = max(100, steps // 1000)
        return range(every, steps, every)

    def improved(self, state: State, model: Empirical, tried: np.ndarray) -> np.ndarray:
        """pi [state, action, gvf] with improved policies where they are defined by own values; tried [state, action] bool."""
        return improved(model.asked, state.q[model.world.feature], tried)

    def values(self, state: State, model: Empirical) -> np.ndarray:
        """The current predictions [gvf, state], without side effects."""
        return predicted_values(model.world, model.asked, state.q)

    def standard_errors(self, state: State, model: Empirical) -> np.ndarray | None:
        """Its own standard errors [gvf, state], infinite where nothing is known; needed for `bounds_errors`; None without any."""
        return None
