"""What a learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from gvfx.gvf import Stacked
from gvfx.kernel import LearnerRule, Sizes


class Learner(ABC):
    """How to learn every GVF's values from transitions of any behaviour.

    Its state has tables q and m, [row, action, gvf]; a behaviour reads m.
    """

    needs_next_action: ClassVar[bool] = False  # whether updates wait for the next action and its probability

    @abstractmethod
    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        """The compiled functions; `variance` says whether the variance function is wanted."""

    @abstractmethod
    def begin(self, asked: Stacked, world: Any) -> Any:
        """A fresh state: a named tuple with q, m and what else the rule needs."""
