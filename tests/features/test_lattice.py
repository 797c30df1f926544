"""Lattice features against a plain version, and their penalty."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.linear import plain_hats

from gvfx.errors import InputError
from gvfx.features.bases import Lattice

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("inputs", [1, 2])
def test_features_equal_the_plain_ones(inputs):
    points = RNG.uniform(-1, 2, size=(60, inputs))
    lattice = Lattice(np.full(inputs, -0.5), np.full(inputs, 1.5), 5)  # some points lie outside
    assert np.allclose(lattice(points).toarray(), plain_hats(points, lattice.low, lattice.high, 5))


def test_features_reproduce_bilinear_functions():
    points = RNG.uniform(size=(50, 2))
    lattice = Lattice.over(points, 4)
    nodes = np.stack(np.meshgrid(*np.linspace(lattice.low, lattice.high, 4).T, indexing="ij"), axis=-1).reshape(-1, 2)

    def f(x):
        return 1 + 2 * x[:, 0] - x[:, 1] + 0.5 * x[:, 0] * x[:, 1]

    assert np.allclose(lattice(points) @ f(nodes), f(points))


def test_the_penalty_is_zero_for_linear_functions_alone():
    lattice = Lattice(np.zeros(2), np.ones(2), 6)
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(6.0), np.arange(6.0), indexing="ij"))
    rough = lattice.penalty()
    for w in (np.ones(36), x, y, 3 * x - y):
        assert abs(w @ (rough @ w)) < 1e-12
    assert x * x @ (rough @ (x * x)) == pytest.approx(6 * 4 * 2.0**2)  # 6 lines of 4 second differences, each 2
    assert x * y @ (rough @ (x * y)) == pytest.approx(2 * 25 * 1.0)  # the twist counts twice, in each of 25 squares


def test_the_penalty_of_one_input_sums_squared_second_differences():
    w = RNG.normal(size=7)
    assert w @ (Lattice(np.zeros(1), np.ones(1), 7).penalty() @ w) == pytest.approx((np.diff(w, 2) ** 2).sum())


def test_a_range_of_zero_width_has_one_cell():
    lattice = Lattice(np.zeros(1), np.zeros(1), 3)
    assert lattice(np.array([[0.0], [5.0]])).toarray()[:, 0].tolist() == [1.0, 1.0]


def test_points_up_to_one_cell_beside_the_lattice_are_held():
    lattice = Lattice(np.zeros(2), np.ones(2), 5)
    assert lattice.holds(np.array([[0.5, 0.5], [1.2, -0.2], [1.3, 0.5], [0.5, -1e9]])).tolist() == [True, True, False, False]


def test_more_than_two_inputs_are_refused():
    with pytest.raises(InputError, match="1 or 2 inputs, not 3"):
        Lattice.over(np.zeros((4, 3)), 5)
