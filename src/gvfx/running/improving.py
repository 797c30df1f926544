"""Policies defined by a GVF's own values, improved during a run (see `gvfx.theory.improvement`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.evidence.counts import Empirical
from gvfx.learners.base import Learner
from gvfx.questions.gvf import Stacked


class Improvement:
    """When and how a run improves the policies defined by a GVF's own values; does nothing if all policies are given.

    Each seed has its own table pi, which is changed in place at the `times`.  Measurements in between use the policies that
    the data imply at that moment and have no side effects.
    """

    def __init__(self, asked: Stacked, behaviour: Behaviour, learner: Learner, steps: int) -> None:
        self.behaviour, self.learner = behaviour, learner
        self.times = frozenset(learner.improvements(steps) if asked.own else ())

    def begin(self, asked: Stacked) -> Stacked:
        """The questions of one seed."""
        return asked._replace(pi=asked.pi.copy()) if asked.own else asked

    def __call__(self, stop: int, known: Empirical, acting: Any, learning: Any, visits: np.ndarray) -> Empirical:
        """The evidence with the policies that it implies; visits [state, action]."""
        asked, world = known.asked, known.world
        if not asked.own:
            return known
        tried = np.zeros((world.rows, world.actions), dtype=bool)
        np.logical_or.at(tried, world.feature[: len(visits)], visits > 0)
        pi = self.learner.improved(learning, known, tried[world.feature])
        known = replace(known, asked=asked._replace(pi=pi))
        if stop in self.times:
            asked.pi[:] = pi
            self.behaviour.retarget(acting, known)
        return known

    def policies(self, known: Empirical, states: int) -> np.ndarray:
        """The policies [gvf, state, action] of the first `states` states; empty if all policies were given."""
        asked = known.asked
        return np.moveaxis(asked.pi, 2, 0)[:, :states].copy() if asked.own else np.empty(0)
