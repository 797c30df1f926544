"""BehaviourPolicySearch on a bandit and with extreme ratios."""

from __future__ import annotations

import numpy as np
from helpers.worlds import gaussian_bandit

import gvfx


def test_policy_search_moves_to_the_arm_that_carries_the_variance():
    """Rewards 0 and 10 under an even policy: sampling only the second arm gives a zero-variance estimate."""
    world, cumulant = gaussian_bandit((0.0, 0.0), (10.0, 0.0), horizon=1)
    behaviour = gvfx.BehaviourPolicySearch(step_size=0.05, scale=10.0)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], behaviour, steps=5000)
    assert result.behaviour[0, 0, 1] > 0.9


def test_policy_search_survives_ratios_beyond_floating_point():
    world = gvfx.gridworld(4, {"goal": (0, 0)}, horizon=400)
    question = gvfx.GVF([0.97, 0.01, 0.01, 0.01], gvfx.Constant(1e6))
    behaviour = gvfx.BehaviourPolicySearch(step_size=10.0, scale=1.0, ratio_high=1e6)
    result = gvfx.evaluate(world, [question], behaviour, steps=50_000)
    assert np.isfinite(result.behaviour).all()
    np.testing.assert_allclose(result.behaviour.sum(axis=2), 1.0)
