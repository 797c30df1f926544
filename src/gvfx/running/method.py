"""Interim."""

from __future__ import annotations

from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Uniform
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.behaviours.wrappers import Blend, Hold
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.twin_critics import TwinCritics
from gvfx.questions.cumulants import Drifter
from gvfx.questions.gvf import expand


def choose_method(kind, questions, behaviour, learner, steps):
    if kind == "tables":
        drifts = any(isinstance(q.cumulant, Drifter) for q in expand(questions))
        return behaviour or OptimalDesign(), learner or CertaintyEquivalence(forgetting="auto" if drifts else 0.0)
    if kind == "grid":
        return behaviour or GVFExplorer(), learner or Deep()
    if kind == "mujoco":
        return behaviour or Hold(GVFExplorer()), learner or TwinCritics()
    if kind == "box_actions":
        block = TwinCritics().worlds
        default = TwinCritics(capacity=-(-min(steps, 200_000) // block) * block, learning_starts=min(1000, steps // 10))
        return behaviour or Hold(GVFExplorer()), learner or default
    capacity = -(-min(steps, 200_000) // 16) * 16
    starts = min(1000, steps // 10)
    default = Deep(rate_q=3e-3, rate_m=3e-3, m_every=16, final_rate=0.03, capacity=capacity, learning_starts=starts, heads=5)
    return behaviour or Blend(GVFExplorer(), Uniform(), 0.5), learner or default
