"""Kernel features: the kernel that they approximate, their order, and the choice of centres."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx.features.bases import Kernel, farthest_points, matern

RNG = np.random.default_rng(2)
POINTS = RNG.normal(size=(80, 3))


def test_matern_is_the_textbook_formula():
    x, y = POINTS[:1], POINTS[1:2]
    r = np.linalg.norm(x - y)
    expected = (1 + np.sqrt(5) * r + 5 * r * r / 3) * np.exp(-np.sqrt(5) * r)
    assert matern(x, y)[0, 0] == pytest.approx(expected)
    assert np.allclose(np.diag(matern(POINTS, POINTS)), 1)


def test_features_give_the_kernel_at_the_centres():
    lengths = np.array([1.0, 2.0, 0.5])
    kernel = Kernel.around(POINTS[:20], lengths)
    near = kernel(POINTS[:20])
    assert np.allclose(near @ near.T, matern(POINTS[:20] / lengths, POINTS[:20] / lengths), atol=1e-4)


def test_the_first_features_are_those_of_the_first_centres():
    kernel = Kernel.around(POINTS[:20], np.ones(3))
    half = Kernel.around(POINTS[:10], np.ones(3))
    assert np.allclose(kernel(POINTS)[:, :10], half(POINTS))
    assert np.allclose(kernel.first(10)(POINTS), half(POINTS))


def test_each_centre_is_the_farthest_from_those_before_it():
    chosen = farthest_points(POINTS, 12)
    assert chosen[0] == ((POINTS - POINTS.mean(axis=0)) ** 2).sum(axis=1).argmin()
    for k in range(1, 12):
        away = ((POINTS[:, None] - POINTS[chosen[:k]]) ** 2).sum(axis=2).min(axis=1)
        assert chosen[k] == away.argmax()


def test_every_second_spread_point_is_the_farthest_and_the_others_are_random():
    chosen = farthest_points(POINTS, 12, np.random.default_rng(0))
    for k in range(2, 12, 2):
        away = ((POINTS[:, None] - POINTS[chosen[:k]]) ** 2).sum(axis=2).min(axis=1)
        assert chosen[k] == away.argmax()
    others = farthest_points(POINTS, 12, np.random.default_rng(1))
    assert chosen[0] == others[0] and chosen[1] != others[1]
    assert len(set(farthest_points(POINTS, 200, np.random.default_rng(0)).tolist())) == len(POINTS)


def test_no_centre_comes_twice():
    few = np.repeat(POINTS[:5], 10, axis=0)
    assert len(farthest_points(few, 20)) == 5
