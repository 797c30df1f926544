"""Scaling of observations: units, inputs that carry nothing, extremes."""

from __future__ import annotations

import numpy as np

from gvfx.features.scaling import Scaling

RNG = np.random.default_rng(0)
SEEN = RNG.normal([3.0, -1.0], [0.1, 40.0], size=(500, 2))


def test_inputs_are_centred_and_have_unit_spread():
    z = Scaling.of(SEEN)(SEEN)
    assert np.allclose(z.mean(axis=0), 0, atol=1e-9)
    assert np.allclose(z.std(axis=0), 1)


def test_an_observation_is_scaled_as_in_its_batch():
    scaling = Scaling.of(SEEN)
    assert np.array_equal(scaling(SEEN[7:8])[0], scaling(SEEN)[7])


def test_constant_inputs_are_left_out():
    scaling = Scaling.of(np.column_stack([np.full(500, 2e6), SEEN[:, 0], np.zeros(500)]))
    assert scaling.kept.tolist() == [1]


def test_an_input_that_never_changed_is_known_only_where_it_was():
    scaling = Scaling.of(np.column_stack([np.full(500, -40.0), SEEN[:, 0], np.zeros(500)]))
    asked = np.array([[-40.0, 9.0, 0.0], [-40.01, 3.0, 0.0], [-41.0, 3.0, 0.0], [-40.0, 3.0, 1e-6]])
    assert scaling.known(asked).tolist() == [True, True, False, False]


def test_copies_of_an_input_are_left_out_also_with_another_unit_or_sign():
    scaling = Scaling.of(np.column_stack([SEEN[:, 0], 1 - 3 * SEEN[:, 0], SEEN[:, 1], SEEN[:, 0]]))
    assert scaling.kept.tolist() == [0, 2]


def test_nearly_equal_inputs_that_differ_are_kept():
    twin = SEEN[:, 0] + 0.01 * RNG.normal(size=500)
    assert Scaling.of(np.column_stack([SEEN[:, 0], twin])).size == 2


def test_nothing_varies():
    scaling = Scaling.of(np.ones((10, 3)))
    assert scaling.size == 0
    assert scaling(np.ones((4, 3))).shape == (4, 0)


def test_a_scale_that_jumps_keeps_the_resolution_of_the_bulk():
    x = np.concatenate([RNG.normal(size=900), 1e6 * RNG.normal(size=100)])[:, None]
    scaling = Scaling.of(x)
    z = scaling(x)
    assert scaling.bent.all()
    assert np.diff(scaling(np.array([[-0.5], [0.5]])), axis=0) > 0.1  # plainly divided by the standard deviation: 3e-6
    assert np.array_equal(np.argsort(z[:, 0]), np.argsort(x[:, 0]))  # the order of the observations is kept


def test_plain_inputs_are_not_bent():
    assert not Scaling.of(RNG.uniform(size=(500, 2))).bent.any()


def test_one_observation_is_enough():
    assert Scaling.of(np.array([[1.0, 2.0]])).size == 0
