"""The standard error at the ends of an interval."""

from __future__ import annotations

import numpy as np

import gvfx
from gvfx.evidence.uncertainty import FURTHEST, error_model, side_factors


def reaching(chance, steps):
    """One step that leads to a state worth 1 with a chance, and to the end otherwise."""
    transitions = [[[0, chance, 1 - chance]], [[0, 0, 1]], [[0, 0, 1]]]
    world = gvfx.MDP.from_matrix(transitions, start=[1, 0, 0], terminal=[False, False, True])
    question = gvfx.GVF([1.0], gvfx.Constant(1.0, at=1), 0.9)
    (model,) = gvfx.evaluate(world, [question], gvfx.Uniform(), steps=steps, progress=False).details.models
    return model


def test_a_proportion_by_hand():
    """The variance of a share p is p (1 - p) / n, at the end of the interval that of the tilted share."""
    model = reaching(0.1, 200)
    (n,), p = model.visits[0], float(model.values[0, 0]) / 0.9
    u = FURTHEST / (n * np.sqrt(p * (1 - p) / n))
    expected = []
    for t in (-u, u):
        q = p * np.exp(t * (1 - p)) / (p * np.exp(t * (1 - p)) + (1 - p) * np.exp(-t * p))
        expected.append(np.sqrt(q * (1 - q) / (p * (1 - p))))
    np.testing.assert_allclose(side_factors(model, error_model(model))[0], expected)
    assert expected[0] < 1 < expected[1]  # a rare goal: noisier above


def test_values_without_noise_have_equal_sides():
    model = reaching(1.0, 50)
    np.testing.assert_array_equal(side_factors(model, error_model(model)), [[1.0, 1.0]])
