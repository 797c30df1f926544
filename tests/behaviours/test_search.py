"""BehaviourPolicySearch: one episode by hand, on a bandit and with extreme ratios."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_run
from helpers.worlds import gaussian_bandit

import gvfx
from gvfx.schedules import Fixed, Linear


def test_policy_search_moves_to_the_arm_that_carries_the_variance():
    """Rewards 0 and 10 under an even policy: sampling only the second arm gives a zero-variance estimate."""
    world, cumulant = gaussian_bandit((0.0, 0.0), (10.0, 0.0), horizon=1)
    behaviour = gvfx.BehaviourPolicySearch(Fixed(0.05), scale=10.0)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], behaviour, steps=5000)
    assert result.details.behaviour[0, 0, 1] > 0.9


@pytest.mark.compiled(2)
def test_policy_search_survives_ratios_beyond_floating_point():
    world = gvfx.gridworld(4, {"goal": (0, 0)}, horizon=400)
    question = gvfx.GVF([0.97, 0.01, 0.01, 0.01], gvfx.Constant(1e6))
    behaviour = gvfx.BehaviourPolicySearch(Fixed(10.0), scale=1.0, ratio_high=1e6)
    result = gvfx.evaluate(world, [question], behaviour, steps=50_000)
    assert np.isfinite(result.details.behaviour).all()
    np.testing.assert_allclose(result.details.behaviour.sum(axis=2), 1.0)


def logits_after(steps, behaviour):
    """theta [action] of one state with four actions, of which only the first is taken; episodes of five steps."""
    world = gvfx.MDP.from_matrix(np.ones((1, 4, 1)), horizon=5)
    acting = gvfx.Blend(behaviour, gvfx.Follow([1.0, 0.0, 0.0, 0.0]), share=0.0)
    question = gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1.0), 1.0)
    return compiled_run(world, [question], acting, gvfx.ExpectedSarsa(), steps=steps)[1].first.theta[0]


def test_the_gradient_is_the_sum_over_an_episode_with_its_own_policy():
    """Five visits of one pair, step 1, mu 1/4: 5 (1 - 1/4) = 3.75; with mu recomputed after each visit it would be 2.08."""
    behaviour = gvfx.BehaviourPolicySearch(Fixed(1.0), scale=1.0, largest_step=1.0, ratio_low=1.0)  # the product of ratios is 1
    theta = logits_after(10, behaviour) - np.log(0.25)
    once = np.array([3.75, -1.25, -1.25, -1.25])
    mu = np.exp(once) / np.exp(once).sum()
    np.testing.assert_allclose(theta, once + 5 * (np.array([1, 0, 0, 0]) - mu), rtol=1e-12)  # the second episode


def test_the_step_size_falls_and_is_that_of_the_episodes_start():
    """IS = 5, so theta of the pair grows by alpha 25 5 (1 - 1/4) / scale^2 with alpha 1 at step 0."""
    behaviour = gvfx.BehaviourPolicySearch(Linear(1.0, 0.5, 10), scale=1e3, ratio_low=1.0)
    theta = logits_after(15, behaviour)[0] - np.log(0.25)
    np.testing.assert_allclose(theta, (1.0 + 0.75 + 0.5) * 25 * 3.75 / 1e6, rtol=1e-3)  # mu hardly moves
    with pytest.raises(gvfx.InputError, match="rate"):
        logits_after(10, gvfx.BehaviourPolicySearch(1.5))
