"""What a behaviour is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from gvfx.gvf import Stacked
from gvfx.kernel import BehaviourRule, Sizes


class Behaviour(ABC):
    """How to act while learning: probabilities at one state from pi[action, gvf] and m[action, gvf]."""

    needs_variance: ClassVar[bool] = False  # whether the learner must keep the variance function M

    @abstractmethod
    def rule(self, sizes: Sizes) -> BehaviourRule:
        """The compiled functions for these sizes."""

    @abstractmethod
    def begin(self, asked: Stacked, world: Any) -> Any:
        """A fresh state: a named tuple of arrays."""
