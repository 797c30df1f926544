"""Floor, Epsilon and Hold keep what they promise."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.behaviours import ACTIONS, GVFS, policies, probabilities, three_questions, variances
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx.behaviours.fixed import Mixture
from gvfx.behaviours.wrappers import Hold
from gvfx.schedules import Fixed, Geometric, Linear


@pytest.fixture(scope="module")
def asked():
    return three_questions()


@settings(deadline=None)
@given(pi=policies, m=variances, floor=st.floats(0.0, 0.24))
def test_floor_is_respected(asked, pi, m, floor):
    mu = probabilities(gvfx.Floor(gvfx.GVFExplorer(), floor), asked, pi, m)
    assert mu.min() >= floor * (1 - 1e-12)
    assert abs(mu.sum() - 1) < 1e-9
    bare = probabilities(gvfx.GVFExplorer(), asked, pi, m)
    if bare.min() >= floor:
        np.testing.assert_allclose(mu, bare, rtol=1e-6, atol=1e-12)


def test_epsilon_falls_to_its_minimum(asked):
    pi, m = np.full((ACTIONS, GVFS), 0.25), np.zeros((ACTIONS, GVFS))
    m[0] = 1.0
    for schedule, t, epsilon in [
        (Linear(1.0, 0.2, 100), 0, 1.0),
        (Linear(1.0, 0.2, 100), 50, 0.6),
        (Linear(1.0, 0.2, 100), 10**6, 0.2),
        (Geometric(1.0, 0.9, 0.05), 10, 0.9**10),
        (Geometric(1.0, 0.9, 0.05), 10**6, 0.05),
        (Fixed(0.4), 7, 0.4),
    ]:
        mu = probabilities(gvfx.Epsilon(gvfx.GVFExplorer(), schedule), asked, pi, m, t)
        np.testing.assert_allclose(mu, [1 - 0.75 * epsilon, *[epsilon / 4] * 3], rtol=1e-12)


def test_hold_keeps_a_choice_until_chance_or_the_episode_ends_it():
    rule, pull = Hold(Mixture(), steps=4).box_action_rule(), jnp.ones((2, 2))
    state, which = rule.choose(rule.begin(2, 2), jnp.array([[0.1, 0.9], [0.9, 0.9]]), pull)
    assert which.tolist() == [0, 1]
    state, which = rule.choose(state, jnp.array([[0.9, 0.3], [0.1, 0.2]]), pull)
    assert which.tolist() == [0, 0]
    state = rule.episode_end(state, jnp.array([True, False]))
    state, which = rule.choose(state, jnp.array([[0.9, 0.9], [0.9, 0.9]]), pull)
    assert which.tolist() == [1, 0]
