"""Cumulants as tables over outcomes: where they pay, what they pay, and every mistake named."""

import numpy as np
import pytest
from helpers.worlds import golden

import gvfx

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def grid():
    return gvfx.gridworld("L.#\n..R")


def full(world, part):
    return np.broadcast_to(part, (world.states, world.actions, world.successors))


def test_constant_pays_at_its_place_only(grid):
    mean, sd, carry = gvfx.Constant(7.0, at="R").tables(grid)
    assert full(grid, mean)[:, 0, 0].tolist() == [0, 0, 0, 0, 0, 7, 0]
    assert not sd.any() and not carry.any()


def test_without_a_place_every_live_state_pays(grid):
    """Neither the wall (2) nor the absorbing state (6)."""
    mean, _, _ = gvfx.Constant(1.0).tables(grid)
    assert full(grid, mean)[:, 3, 2].tolist() == [1, 1, 0, 1, 1, 1, 0]


def test_distractor_has_a_mean_and_a_spread(grid):
    mean, sd, carry = gvfx.Distractor(100, 5, at=["L", (1, 0)]).tables(grid)
    assert full(grid, mean)[:, 1, 1].tolist() == [100, 0, 0, 100, 0, 0, 0]
    assert full(grid, sd)[:, 1, 1].tolist() == [5, 0, 0, 5, 0, 0, 0]
    assert not carry.any()


def test_drifter_carries_its_level(grid):
    mean, sd, carry = gvfx.Drifter(0.5, at="L").tables(grid)
    assert not mean.any() and not sd.any()
    assert full(grid, carry)[:, 0, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert gvfx.Drifter(0.5).start == 100.0
    assert gvfx.Drifter(0.5).advance == "step"


def test_table_cumulant_per_state_and_per_action():
    world, _ = golden()
    mean, sd, _ = gvfx.table_cumulant([1, 2]).tables(world)
    assert full(world, mean)[:, :, 0].tolist() == [[1, 1], [2, 2]]
    assert not sd.any()
    mean, sd, carry = gvfx.table_cumulant([[1, 2], [3, 4]], [[0, 1], [2, 3]]).tables(world)
    assert full(world, mean)[:, :, 1].tolist() == [[1, 2], [3, 4]]
    assert full(world, sd)[:, :, 1].tolist() == [[0, 1], [2, 3]]
    assert not carry.any()


def test_table_cumulant_is_hashable():
    assert hash(gvfx.table_cumulant(np.ones((2, 2)))) == hash(gvfx.table_cumulant([[1.0, 1.0], [1.0, 1.0]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gvfx.Constant(NAN), r"^Constant.value: nan"),
        (lambda: gvfx.Constant(INF), r"^Constant.value: inf"),
        (lambda: gvfx.Distractor(NAN, 1), r"^Distractor.mean: nan"),
        (lambda: gvfx.Distractor(1, -1), r"^Distractor.sd: -1 is not a standard deviation"),
        (lambda: gvfx.Distractor(1, NAN), r"^Distractor.sd: nan"),
        (lambda: gvfx.Drifter(-0.5), r"^Drifter.sd: -0.5"),
        (lambda: gvfx.Drifter(INF), r"^Drifter.sd: inf"),
        (lambda: gvfx.Drifter(0.5, NAN), r"^Drifter.start: nan"),
        (lambda: gvfx.Drifter(0.5, advance="never"), r"^Drifter.advance: 'never' is unknown; choose 'step' or 'visit'"),
    ],
)
def test_mistakes_in_a_cumulant_name_the_field(make, message):
    with pytest.raises(gvfx.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("mean", "sd", "message"),
    [
        ([1, 2, 3], 0, r"^TableCumulant.mean: expected shape \[2\] or \[2, 2\], but got \[3\]"),
        ([[1, 2, 3]] * 2, 0, r"^TableCumulant.mean: expected shape"),
        ([1, NAN], 0, r"^TableCumulant.mean: contains NaN"),
        ([1, 2], [1, 2, 3], r"^TableCumulant.sd: expected shape"),
        ([1, 2], [0, -1], r"^TableCumulant.sd: a standard deviation is negative"),
        ([1, 2], INF, r"^TableCumulant.sd: contains NaN or infinity"),
    ],
)
def test_mistakes_in_a_table_cumulant_name_the_field(mean, sd, message):
    world, _ = golden()
    with pytest.raises(gvfx.InputError, match=message):
        gvfx.table_cumulant(mean, sd).tables(world)


@pytest.mark.parametrize("cumulant", [gvfx.Constant(1, at="Q"), gvfx.Distractor(1, 1, at="Q"), gvfx.Drifter(1, at="Q")])
def test_an_unknown_place_is_named(grid, cumulant):
    with pytest.raises(gvfx.InputError, match=r"^at: the world has no place called 'Q'; its places are 'L', 'R'"):
        cumulant.tables(grid)
