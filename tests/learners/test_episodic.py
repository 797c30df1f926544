"""The episodic learner on worlds known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.worlds import gaussian_bandit

import gvfx
from gvfx.schedules import Fixed


def test_episodic_expected_sarsa_waits_for_the_end_of_the_episode():
    """Two steps per episode at rate 1: the first pass sees Q(1) = 0, so V(0) = 1 after one episode and 1.5 after two."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0], terminal=[False, False, True], horizon=5)
    learner = gvfx.EpisodicExpectedSarsa(Fixed(1.0), Fixed(1.0), initial_q=0.0)
    values = [
        gvfx.evaluate(world, [gvfx.GVF([1.0], gvfx.Constant(1.0), 0.5)], gvfx.GVFExplorer(), learner, steps=n)
        .values[0, 0, :2]
        .tolist()
        for n in (1, 2, 4)
    ]
    assert values == [[0.0, 0.0], [1.0, 1.0], [1.5, 1.0]]


def test_episodic_variance_uses_the_new_q_and_has_a_floor():
    world, cumulant = gaussian_bandit((3.0, 0.0), (3.0, 0.0), horizon=2)
    learner = gvfx.EpisodicExpectedSarsa(Fixed(1.0), Fixed(1.0), initial_q=0.0, smallest_m=0.01)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], gvfx.GVFExplorer(), learner, steps=50)
    assert result.variances[0, 0, 0] == pytest.approx(0.01)
