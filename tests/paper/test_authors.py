"""The authors' learner and behaviour: Expected Sarsa after each episode, and a softmax of the variances."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.behaviours import GVFS, policies, probabilities, three_questions, variances
from helpers.worlds import gaussian_bandit
from hypothesis import given, settings

import gvfx
import gvfx_paper
from gvfx.schedules import Fixed

# --- The episodic learner on worlds known by hand --------------------------------------------------------------------


def test_episodic_expected_sarsa_waits_for_the_end_of_the_episode():
    """Two steps per episode at rate 1: the first pass sees Q(1) = 0, so V(0) = 1 after one episode and 1.5 after two."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0], terminal=[False, False, True], horizon=5)
    learner = gvfx_paper.EpisodicExpectedSarsa(Fixed(1.0), Fixed(1.0), initial_q=0.0)
    values = [
        gvfx.evaluate(world, [gvfx.GVF([1.0], gvfx.Constant(1.0), 0.5)], gvfx.GVFExplorer(), learner, steps=n)
        .values[0, 0, :2]
        .tolist()
        for n in (1, 2, 4)
    ]
    assert values == [[0.0, 0.0], [1.0, 1.0], [1.5, 1.0]]


def test_episodic_variance_uses_the_new_q_and_has_a_floor():
    world, cumulant = gaussian_bandit((3.0, 0.0), (3.0, 0.0), horizon=2)
    learner = gvfx_paper.EpisodicExpectedSarsa(Fixed(1.0), Fixed(1.0), initial_q=0.0, smallest_m=0.01)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], gvfx.GVFExplorer(), learner, steps=50)
    assert result.details.variances[0, 0, 0] == pytest.approx(0.01)


# --- VarianceSoftmax: the formula on tables and on networks, and parameters that make no sense -----------------------


STEPS = (0, 25_000, 10**6)
SOFTMAX = gvfx_paper.VarianceSoftmax()


@pytest.fixture(scope="module")
def asked():
    return three_questions()


def plain(m, t, smallest=0.1):
    """softmax(mean_i max(M_i, smallest) / T), T from 1 to 0.1 within 50,000 steps."""
    score = np.maximum(m, smallest).sum(axis=1) / GVFS / max(1 - 0.9 * t / 50_000, 0.1)
    mu = np.exp(score - score.max())
    return mu / mu.sum()


@settings(deadline=None)
@given(pi=policies, m=variances)
def test_it_is_the_softmax_of_the_mean_variance(asked, pi, m):
    for t in STEPS:
        np.testing.assert_allclose(
            probabilities(gvfx_paper.VarianceSoftmax(), asked, pi, m, t), plain(m, t), rtol=1e-6, atol=1e-12
        )


def test_networks_have_the_same_rule():
    rng, rule = np.random.default_rng(0), gvfx_paper.VarianceSoftmax(smallest_m=0.3).network_rule()
    for t in STEPS:
        m = rng.exponential(size=(4, GVFS))
        np.testing.assert_allclose(rule.probabilities((), t, None, m, None), plain(m, t, 0.3), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "field"), [({"temperature": gvfx.Linear(1.0, 0.0, 10)}, "temperature"), ({"smallest_m": -1.0}, "smallest_m")]
)
def test_bad_parameters_are_named(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx_paper.VarianceSoftmax(**options)
