"""Cells: every observation in one, near ones together, and which are adjacent."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.linear import plain_cell

from gvfx.features.cells import Cells

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("inputs", [1, 2, 5])
def test_cells_equal_the_plain_ones(inputs):
    seen = RNG.normal(size=(400, inputs)).astype(np.float32)
    cells = Cells.of(seen, 40)
    beyond = 3 * RNG.normal(size=(50, inputs)).astype(np.float32)
    for points in (seen, beyond):
        assert cells(points).tolist() == [plain_cell(cells, point) for point in points]


@pytest.mark.parametrize("inputs", [2, 5])
def test_cells_come_back_from_their_arrays(inputs):
    seen = RNG.normal(size=(200, inputs))
    cells = Cells.of(seen, 30)
    assert np.array_equal(Cells.from_arrays(cells.arrays("c."), "c.")(seen), cells(seen))


def test_two_inputs_make_a_square_lattice_and_more_make_centres():
    assert Cells.of(RNG.normal(size=(500, 2)), 100).side == 10
    many = Cells.of(RNG.normal(size=(500, 4)), 100)
    assert many.side == 0
    assert many.size == 100


def test_a_bent_input_is_found_as_it_was_scaled():
    x = np.concatenate([RNG.normal(size=900), 1e6 * RNG.normal(size=100)])[:, None]
    cells = Cells.of(x, 10)
    assert cells.scaling.bent.all()
    assert cells(x).tolist() == [plain_cell(cells, point) for point in x]


def test_observations_that_never_change_are_one_cell():
    cells = Cells.of(np.ones((10, 3)), 50)
    assert cells.size == 1
    assert cells(np.ones((4, 3))).tolist() == [0] * 4


def test_adjacent_cells_of_a_lattice_share_a_corner():
    near = Cells.of(RNG.uniform(size=(200, 2)), 16).neighbours().toarray()
    assert near[5].nonzero()[0].tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert near[0].nonzero()[0].tolist() == [0, 1, 4, 5]


def test_adjacency_of_centres_is_symmetric():
    near = Cells.of(RNG.normal(size=(300, 4)), 30).neighbours().toarray()
    assert (near == near.T).all()
    assert (near.sum(axis=1) >= 7).all()
    assert (np.diag(near) == 1).all()
