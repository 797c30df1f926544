"""Relevance of inputs: slopes of known functions."""

from __future__ import annotations

import numpy as np

from gvfx.features.bases import FLOOR, relevance

POINTS = np.random.default_rng(4).normal(size=(200, 3))


def test_relevance_is_the_root_of_the_slopes_above_the_least():
    found = relevance(lambda z: 3.0 * z[:, 0] - 1.5 * z[:, 1] + 0.27 * z[:, 2], POINTS)
    assert np.allclose(found, [1.0, np.sqrt(0.5), FLOOR])  # 0.09 counts as irrelevant
    assert np.allclose(relevance(lambda z: z[:, 0] + 0.11 * z[:, 2], POINTS), [1.0, FLOOR, np.sqrt(0.11)])


def test_an_input_without_influence_gets_the_floor():
    assert np.allclose(relevance(lambda z: z[:, 1] ** 2, POINTS), [FLOOR, 1.0, FLOOR])


def test_answers_count_in_their_own_units():
    found = relevance(lambda z: np.stack([1e6 * z[:, 0], 1e-3 * z[:, 1]], axis=1), POINTS)
    spread = POINTS.std(axis=0)
    assert np.isclose(found[1] / found[0], np.sqrt(spread[0] / spread[1]))


def test_constant_answers_make_all_inputs_equal():
    assert relevance(lambda z: np.zeros(len(z)), POINTS).tolist() == [1.0, 1.0, 1.0]
