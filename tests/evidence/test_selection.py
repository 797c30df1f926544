"""Regression to the mean, which visits that adapt to the data call for."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.worlds import random_mdp, random_question

import gvfx
from gvfx.evidence.uncertainty import LEAST_BETWEEN, error_model, prior_visits, regressed


def counted(steps=400):
    rng = np.random.default_rng(3)
    world = random_mdp(rng, 5, 3)
    (model,) = gvfx.evaluate(world, [random_question(rng, world)], gvfx.Uniform(), steps=steps, progress=False).details.models
    return model


def test_the_other_policy_has_the_values_of_means_drawn_together():
    """By loops: a state's value is the policy's mean of targets, each drawn towards the state's common mean by k visits."""
    model = counted()
    p = error_model(model)
    other = regressed(model, p.noise)
    mean = other.moments(other.values)[0][:, :, 0]  # targets with the regressed values
    k = prior_visits(model.visits.astype(float), model.moments(model.values)[0], p.noise)
    assert k > 0
    for s in range(5):
        if model.world.terminal[s]:
            continue
        trust = [n / (n + k) for n in model.visits[s]]
        centre = sum(z * m for z, m in zip(trust, mean[s], strict=True)) / sum(trust)
        drawn = [z * m + (1 - z) * centre for z, m in zip(trust, mean[s], strict=True)]
        assert other.values[0, s] == pytest.approx(sum(model.policy(0)[s] * drawn))
    np.testing.assert_allclose(other.policy(0).sum(axis=1), model.policy(0).sum(axis=1))


def test_prior_visits_are_noise_over_the_variance_between_actions():
    n, noise = np.full((3, 2), 1e9), np.full((3, 2, 1), 4.0)
    mean = np.array([[0.0, 2.0], [5.0, 7.0], [1.0, 1.0]])[:, :, None]  # variances between actions: 2, 2 and 0
    assert prior_visits(n, mean, noise) == pytest.approx(4.0 / 2.0)
    assert prior_visits(n, np.zeros(mean.shape), noise) == pytest.approx(1 / LEAST_BETWEEN)  # actions that do not differ
    assert prior_visits(n, mean, np.zeros(noise.shape)) == 0.0  # no chance: nothing is drawn anywhere
    few = np.full((3, 2), 4.0)
    assert prior_visits(few, mean, noise) == pytest.approx(4.0 / (2.0 - 4.0 / 4.0))  # what chance explains is taken off


def test_without_noise_nothing_changes():
    model = counted()
    same = regressed(model, np.zeros((5, 3, 1)))
    np.testing.assert_allclose(same.values, model.values)
