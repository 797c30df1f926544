"""Expected Sarsa and importance sampling on worlds known by hand."""

from __future__ import annotations

import numpy as np
import pytest

import gvfx
import gvfx_paper
from gvfx.schedules import Fixed, Linear


def loop_world(terminates):
    """One state that pays 1 per step and is left never, or at once."""
    P = np.zeros((2, 1, 2))
    P[0, 0, int(terminates)] = P[1, 0, 1] = 1
    return gvfx.MDP.from_matrix(P, terminal=[False, True], horizon=3)


@pytest.mark.parametrize(("terminates", "value"), [(True, 1.0), (False, 2.0)])
@pytest.mark.parametrize("learner", [gvfx.ExpectedSarsa(Fixed(0.1)), gvfx.ImportanceSampling(Fixed(0.1))])
def test_truncation_bootstraps_and_termination_does_not(terminates, value, learner):
    question = gvfx.GVF([1.0], gvfx.Constant(1.0), 0.5)
    result = gvfx.evaluate(loop_world(terminates), [question], gvfx.Uniform(), learner, steps=2000)
    assert result.values[0, 0, 0] == pytest.approx(value, abs=1e-6)
    assert result.mse[0, -1, 0] < 1e-10


@pytest.mark.compiled(2)
@pytest.mark.parametrize("kind", [gvfx.ExpectedSarsa, gvfx.ImportanceSampling])
def test_learners_find_values_and_variances_of_a_chain(kind):
    """Three states in a row, noise N(0, 1) at each: V counts the discounted steps, Eq. 6 gives M = 1 + g^2 (1 + g^2)."""
    P = np.zeros((4, 2, 4))
    for s in range(3):
        P[s, :, s + 1] = 1
    P[3, :, 3] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0, 0], terminal=[False, False, False, True])
    question = gvfx.GVF([0.4, 0.6], gvfx.Distractor(1.0, 1.0), 0.5)
    learner = kind(Linear(1.0, 0.005, 20_000), Linear(1.0, 0.005, 20_000))
    result = gvfx.evaluate(world, [question], gvfx.GVFExplorer(), learner, steps=300_000)
    np.testing.assert_allclose(result.details.truth[0, 0], [1.75, 1.5, 1.0, 0.0])
    np.testing.assert_allclose(result.values[0, 0], result.details.truth[0, 0], atol=0.2)
    exact = gvfx.exact.state_variance(world, [question])[0]
    np.testing.assert_allclose(exact, [1.3125, 1.25, 1.0, 0.0])
    if kind is gvfx.ExpectedSarsa:
        np.testing.assert_allclose(result.details.variances[0, 0], exact, atol=0.25)


@pytest.mark.compiled(2)
def test_expected_sarsa_reaches_the_truth_on_the_grid():
    setting = gvfx_paper.paper["semi-greedy"]
    learner = gvfx.ExpectedSarsa(Linear(1.0, 0.02, 500_000))
    result = gvfx.evaluate(setting.world, setting.questions, gvfx.Uniform(), learner, steps=2_000_000)
    assert result.error[0, -1] < 0.01 * (result.details.truth[0][:, setting.world.live] ** 2).mean()
