"""GVFExplorer: properties of its probabilities, and bandits whose answer is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.behaviours import GVFS, policies, probabilities, three_questions, variances
from helpers.worlds import gaussian_bandit
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx.schedules import Fixed


@pytest.fixture(scope="module")
def asked():
    return three_questions()


@settings(deadline=None)
@given(pi=policies, m=variances)
def test_explorer_probabilities_sum_to_one_and_follow_eq_3(asked, pi, m):
    mu = probabilities(gvfx.GVFExplorer(), asked, pi, m)
    score = np.sqrt((pi**2 * m).sum(axis=1))
    np.testing.assert_allclose(mu, score / score.sum() if score.sum() > 0 else 0.25, rtol=1e-9, atol=1e-12)
    assert abs(mu.sum() - 1) < 1e-9


@settings(deadline=None)
@given(pi=policies, m=variances, order=st.permutations(range(GVFS)), scale=st.floats(1e-3, 1e3))
def test_explorer_ignores_the_order_of_gvfs_and_the_scale_of_variances(asked, pi, m, order, scale):
    mu = probabilities(gvfx.GVFExplorer(), asked, pi, m)
    same = probabilities(gvfx.GVFExplorer(), asked, np.ascontiguousarray(pi[:, order]), m[:, order] * scale)
    np.testing.assert_allclose(mu, same, rtol=1e-6, atol=1e-9)


def test_explorer_is_uniform_where_nothing_varies(asked):
    np.testing.assert_array_equal(probabilities(gvfx.GVFExplorer(), asked, np.full((4, 3), 0.25), np.zeros((4, 3))), 0.25)


@pytest.mark.compiled(2)
def test_explorer_samples_arms_by_their_standard_deviation():
    """Arms with sd 1 and 3 under an even policy: mu = (1/4, 3/4)."""
    world, cumulant = gaussian_bandit((5.0, 1.0), (-2.0, 3.0))
    learner = gvfx.ExpectedSarsa(rate_q=Fixed(0.002), rate_m=Fixed(0.002))
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], gvfx.GVFExplorer(), learner, steps=60_000)
    np.testing.assert_allclose(result.details.behaviour[0, 0], [0.25, 0.75], atol=0.03)


@pytest.mark.compiled(2)
def test_explorer_honours_weights():
    """One GVF cares for arm 1 only, the other for arm 2 only; a weight of 9 triples the first arm's share."""
    world, cumulant = gaussian_bandit((0.0, 1.0), (0.0, 1.0))
    questions = [gvfx.GVF([1, 0], cumulant, weight=9.0), gvfx.GVF([0, 1], cumulant, weight=1.0)]
    learner = gvfx.ExpectedSarsa(rate_q=Fixed(0.002), rate_m=Fixed(0.002))
    result = gvfx.evaluate(world, questions, gvfx.GVFExplorer(), learner, steps=60_000)
    np.testing.assert_allclose(result.details.behaviour[0, 0], [0.75, 0.25], atol=0.03)
    np.testing.assert_allclose(result.error, result.mse @ [0.9, 0.1])
