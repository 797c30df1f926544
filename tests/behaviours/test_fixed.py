"""RoundRobin and Mixture on bandits."""

from __future__ import annotations

import numpy as np
from helpers.worlds import gaussian_bandit

import gvfx


def test_round_robin_takes_turns():
    world, cumulant = gaussian_bandit((0, 0), (0, 0))
    result = gvfx.evaluate(world, [gvfx.GVF([1, 0], cumulant), gvfx.GVF([0, 1], cumulant)], gvfx.RoundRobin(), steps=1001)
    np.testing.assert_array_equal(result.visits[0, 0], [501, 500])


def test_mixture_is_the_mean_policy():
    world, cumulant = gaussian_bandit((0, 0), (0, 0))
    result = gvfx.evaluate(world, [gvfx.GVF([1, 0], cumulant), gvfx.GVF([0.5, 0.5], cumulant)], gvfx.Mixture(), steps=10)
    np.testing.assert_allclose(result.details.behaviour[0, 0], [0.75, 0.25])
