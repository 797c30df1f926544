"""Where errors count: what a user may give, and the weights that it means."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.worlds import small_world

import gvfx
from gvfx.questions.where import EVERYWHERE, START, Evaluation, as_where, counted

WORLD = small_world()
N = WORLD.states


def test_weights_of_states():
    assert as_where(None, WORLD) == EVERYWHERE and as_where("start", WORLD) == START
    np.testing.assert_array_equal(EVERYWHERE.on(WORLD).weights, WORLD.live / WORLD.live.sum())
    start = START.on(WORLD)
    assert start.of_mean and (start.weights == WORLD.start).all()
    expected = np.zeros(N)
    expected[[1, 3]] = 0.75, 0.25
    for given in ({1: 3, 3: 1}, 4 * expected, [1, 1, 3, 1], np.array([1, 1, 1, 3])):
        own = as_where(given, WORLD).on(WORLD)
        np.testing.assert_allclose(own.weights, expected)
        assert not own.of_mean
    np.testing.assert_array_equal(
        as_where((1, 2), WORLD).on(WORLD).weights, as_where(WORLD.where((1, 2)), WORLD).on(WORLD).weights
    )
    assert as_where([5, 6], WORLD, 4).states == (1, 2) and str(as_where([5, 6], WORLD, 4)) == "state 5, state 6"
    assert counted(np.array([2, 2, 0])).weights == pytest.approx((1 / 3, 2 / 3))


def test_weights_of_table_rows():
    rows = np.arange(N) // 2
    grouped = WORLD.with_features(rows)
    where = as_where({1: 3, 3: 1, 2: 1}, grouped)
    np.testing.assert_allclose(where.on_rows(grouped).weights[:3], [0.6, 0.4, 0])
    assert where.grouped(grouped).states == (0, 1)
    np.testing.assert_allclose(EVERYWHERE.on_rows(grouped).weights.sum(), 1)


def test_squares_of_means_and_means_of_squares():
    x, d = np.array([[1.0, 3.0], [2.0, -2.0]]), np.array([0.75, 0.25])
    assert Evaluation(d).squares(x) == pytest.approx([0.75 + 9 / 4, 4.0])
    assert Evaluation(d, of_mean=True).squares(x) == pytest.approx([2.25, 1.0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("begin", "'begin' is unknown; give 'start'"),
        ([N], f"state {N} does not exist; the world has states 0 to {N - 1}"),
        ([-1], "state -1 does not exist"),
        ({1: -0.5}, "not a finite number of at least 0"),
        ({1: np.nan}, "not a finite number of at least 0"),
        ({1: "much"}, "not a finite number of at least 0"),
        ({1: 0.0}, "no state has a weight above 0"),
        ([], "no state has a weight above 0"),
        (np.zeros(N), "no state has a weight above 0"),
        (np.ones(3), f"weights of shape [3] do not fit {N} states"),
        (np.ones(N), "terminal or cannot be reached; leave it out"),
        (object(), "is not a place"),
    ],
)
def test_mistakes(given, said):
    with pytest.raises(gvfx.InputError) as caught:
        as_where(given, WORLD)
    assert str(caught.value).startswith("where: ") and said in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize("given", [0, [3], "begin", [4 + N], [[4, 5], [6]]])
def test_states_are_numbered_as_the_environment_does(given):
    with pytest.raises(gvfx.InputError, match=rf"^where: .* is not within the states 4 to {N + 3}; give"):
        as_where(given, WORLD, 4)
