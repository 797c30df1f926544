"""Questions about the continuous grid, and their true values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gvfx.errors import InputError
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF, question_names
from gvfx.questions.policies import ConstantPolicy
from gvfx.truths.lattice import LatticeTruth, continuous_truth, shipped_truth
from gvfx.worlds.continuous_grid import ContinuousGrid

TRUTH_EPISODES = 20_000  # episodes per point if no true values are shipped


def grid_questions(world: ContinuousGrid, questions: Sequence[GVF]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target policies [gvf, action], discounts [gvf] and the index of each question's signal [gvf]."""
    goals = [goal.name for goal in world.goals]
    policies, discounts, signals = [], [], []
    for name, q in zip(question_names(questions), questions, strict=True):
        if not isinstance(q.cumulant, Signal) or q.cumulant.name not in goals:
            raise InputError(f"{name}.cumulant: the continuous grid has the signals {', '.join(goals)}; use gvfx.Signal(name).")
        if not isinstance(q.policy, ConstantPolicy) or callable(q.discount):
            raise InputError(f"{name}: the continuous grid takes constant policies and constant discounts.")
        policies.append(q.policy.table(1, 4, f"{name}.policy")[0])
        discounts.append(float(q.discount))
        signals.append(goals.index(q.cumulant.name))
    return np.array(policies), np.array(discounts), np.array(signals)


def grid_truth(world: ContinuousGrid, policies: np.ndarray, discounts: np.ndarray, signals: np.ndarray) -> LatticeTruth:
    """The true values shipped with gvfx, or else by Monte Carlo (stored in the user's cache folder)."""
    if list(signals) != list(range(len(world.goals))) or len(set(discounts)) > 1:
        raise InputError("questions: give one question per goal, in the goals' order, with one discount.")
    found = shipped_truth(world, policies, float(discounts[0]))
    if found is not None:
        return found
    cache = Path.home() / ".cache" / "gvfx"
    return continuous_truth(world, policies, float(discounts[0]), TRUTH_EPISODES, cache=cache)
