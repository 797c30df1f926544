"""What a learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.kernel import LearnerRule, Sizes, runs_on
from gvfx.questions.gvf import Stacked
from gvfx.theory.improvement import improved
from gvfx.truths.exact import predicted_values


class Learner(ABC):
    """How to learn every GVF's values from transitions of any behaviour.

    A learner is a frozen dataclass.  `supports` names the kinds of learning it is for.  One that supports "tables" gives its
    compiled functions by `rule` and its state by `begin`: tables q and m, [row, action, gvf], of which behaviours read m.
    The learners on networks and for Box actions are descriptions that the loops of `gvfx.running.streams` carry out.
    """

    needs_next_action: ClassVar[bool] = False  # whether updates wait for the next action and its probability
    needs_evidence: ClassVar[bool] = False  # whether the loop must keep counts and cumulant sums
    forgetting_rates: tuple[float, ...] = ()  # the running means of drifting cumulants that the evidence has

    @property
    @abstractmethod
    def supports(self) -> frozenset[str]:
        """The kinds of learning it is for, of `gvfx.kernel.KINDS`; write supports = frozenset({"tables"}) in the class."""

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        """The compiled functions; `variance` says whether the variance function is wanted."""
        raise InputError(f"learner: {runs_on(type(self).__name__, self.supports)}; choose another for tables.")

    def begin(self, asked: Stacked, world: Any) -> Any:
        """A fresh state: a named tuple with q, m and what else the rule needs."""
        raise InputError(f"learner: {runs_on(type(self).__name__, self.supports)}; choose another for tables.")

    def stops(self, steps: int) -> Sequence[int]:
        """The times at which the loop pauses for `refresh`, where the behaviour reads m."""
        return ()

    def refresh(self, state: Any, model: Empirical) -> None:  # noqa: B027 (most have nothing to do)
        """Change the state's tables in place, from what is known at one of the stops."""

    def improvements(self, steps: int) -> Sequence[int]:
        """The times at which policies by a GVF's own values are improved."""
        every = max(100, steps // 1000)
        return range(every, steps, every)

    def improved(self, state: Any, model: Empirical, tried: np.ndarray) -> np.ndarray:
        """pi [state, action, gvf] with policies by a GVF's own values improved; tried [state, action] bool."""
        return improved(model.asked, state.q[model.world.feature], tried)

    def values(self, state: Any, model: Empirical) -> np.ndarray:
        """Predictions [gvf, state] now, changing nothing."""
        return predicted_values(model.world, model.asked, state.q)
