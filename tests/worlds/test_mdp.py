"""MDPs from matrices and arrays: equal dynamics, reachability, places, and every mistake named."""

import numpy as np
import pytest
from helpers.worlds import chain, dense
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx

STAY = [[[1.0, 0.0]], [[0.0, 1.0]]]
SWAP = [[[0.0, 1.0]], [[1.0, 0.0]]]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4), st.floats(0, 0.9))
def test_from_matrix_keeps_every_probability(seed, states, actions, holes):
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.1, 1, (states, actions, states)) * (rng.random((states, actions, states)) >= holes)
    P[..., 0] += P.sum(axis=2) == 0
    P /= P.sum(axis=2, keepdims=True)
    world = gvfx.MDP.from_matrix(P, live=np.zeros(states, bool))
    assert (world.states, world.actions) == (states, actions)
    assert world.successors == (P > 0).sum(axis=2).max()
    assert np.array_equal(dense(world), P)
    assert np.array_equal(world.matrix.toarray().reshape(P.shape), P)


def test_from_matrix_starts_anywhere_that_is_not_terminal():
    world, _ = chain()
    assert world.start.tolist() == [0.5, 0.5, 0.0]
    assert world.live.tolist() == [True, True, False]
    assert world.horizon is None


def test_reached_does_not_pass_through_a_terminal_state():
    P = np.zeros((4, 1, 4))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 3] = P[3, 0, 3] = 1
    terminal = [False, False, True, False]
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0, 0], terminal=terminal, live=[True, True, False, False])
    assert world.reached.tolist() == [True, True, True, False]


def test_reached_ignores_padding():
    """Successors with probability 0 are padding."""
    following = np.array([[[0, 1]], [[1, 0]]])
    prob = np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    with pytest.raises(gvfx.InputError, match=r"^start: state 1 \(1 in all\) cannot be reached"):
        gvfx.MDP(following, prob, np.array([1.0, 0.0]), np.zeros(2, bool))


def test_features_give_table_rows():
    world = gvfx.MDP.from_matrix(SWAP)
    assert world.rows == 2 and world.feature.tolist() == [0, 1]
    seen = world.with_features(np.array([0, 0]))
    assert seen.rows == 1 and seen.feature.tolist() == [0, 0]
    assert np.array_equal(seen.prob, world.prob)
    assert world.features is None, "the original is left alone"


def test_places_by_name_cell_state_and_list():
    world = gvfx.gridworld((2, 3), {"G": (1, 2)})
    assert world.where("G").tolist() == [5]
    assert world.where((1, 0)).tolist() == [3]
    assert world.where((np.int64(1), np.int64(0))).tolist() == [3], "numpy integers make a cell too"
    assert world.where(4).tolist() == [4]
    assert world.where(np.int64(4)).tolist() == [4]
    assert world.where(["G", (0, 1), 2]).tolist() == [5, 1, 2]
    assert gvfx.MDP.from_matrix(SWAP).where((0, 1)).tolist() == [0, 1], "without a map a pair is two states"


@pytest.mark.parametrize("at", [("G", "H"), ((1, 2), (0, 0))], ids=["names", "cells"])
def test_a_tuple_of_two_places_is_a_list_of_places(at):
    """A cumulant with a tuple stays hashable, so a pair of names or cells must not be read as one cell."""
    world = gvfx.gridworld((2, 3), {"G": (1, 2), "H": (0, 0)})
    assert world.where(at).tolist() == [5, 0]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("nowhere", r"^at: the world has no place called 'nowhere'; its places are 'G'"),
        ((2, 0), r"^at: cell \(2, 0\) lies outside the 2x3 map"),
        (7, r"^at: state 7 does not exist"),
        (-1, r"^at: state -1 does not exist"),
        (["G", "nowhere"], r"^at: the world has no place called 'nowhere'"),
        (1.5, r"^at: 1.5 is not a place"),
        (None, r"^at: None is not a place"),
    ],
)
def test_unknown_places(at, message):
    with pytest.raises(gvfx.InputError, match=message):
        gvfx.gridworld((2, 3), {"G": (1, 2)}).where(at)


def test_a_world_without_places_says_so():
    with pytest.raises(gvfx.InputError, match=r"^at: .*'G'; its places are none"):
        gvfx.MDP.from_matrix(SWAP).where("G")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"P": [[[0.5, 0.4]], [[1.0, 0]]]}, r"^P: state 0, action 0 sums to 0.9"),
        ({"P": [[[0, 1.0]], [[0, 0]]]}, r"^P: state 1, action 0 sums to 0"),
        ({"P": [[[0, 1.0]], [[1.5, -0.5]]]}, r"^P: .* state 1, action 0 is negative"),
        ({"P": [[[0, 1.0]], [[float("nan"), 1.0]]]}, r"^P: .* state 1, action 0 is negative or not finite"),
        ({"P": [[0, 1.0], [1.0, 0]]}, r"^P: expected shape \[states, actions, states\]"),
        ({"P": np.ones((2, 1, 3)) / 3}, r"^P: expected shape"),
        ({"P": SWAP, "start": [0.5, 0.4]}, r"^start: must be a distribution .* sums to 0.9"),
        ({"P": SWAP, "start": [1.5, -0.5]}, r"^start: must be a distribution"),
        ({"P": SWAP, "start": [float("nan"), 1.0]}, r"^start: must be a distribution"),
        ({"P": SWAP, "start": [1.0]}, r"^start: expected one entry per state, \[2\]"),
        ({"P": SWAP, "start": [0.5, 0.5], "terminal": [False]}, r"^terminal: expected one entry per state"),
        ({"P": SWAP, "live": [True]}, r"^live: expected one entry per state"),
        ({"P": SWAP, "start": [0.5, 0.5], "terminal": [False, True]}, r"^start: an episode would start in a terminal state"),
        ({"P": STAY, "start": [1.0, 0.0]}, r"^start: state 1 \(1 in all\) cannot be reached"),
        ({"P": SWAP, "terminal": [True, True]}, r"^start: must be a distribution"),
        ({"P": SWAP, "horizon": 0}, r"^horizon: 0 steps"),
        ({"P": SWAP, "features": [0]}, r"^features: expected one table row per state"),
        ({"P": SWAP, "features": [0, -1]}, r"^features: expected one table row per state"),
    ],
)
def test_mistakes_in_an_mdp_name_the_field(arguments, message):
    with pytest.raises(gvfx.InputError, match=message):
        gvfx.MDP.from_matrix(**arguments)


def test_mistakes_in_successor_arrays_name_the_field():
    start, terminal = np.array([1.0]), np.array([False])
    with pytest.raises(gvfx.InputError, match=r"^P: a successor lies outside the 1 states"):
        gvfx.MDP(np.array([[[1]]]), np.array([[[1.0]]]), start, terminal)
    with pytest.raises(gvfx.InputError, match=r"^P: .*must share one shape"):
        gvfx.MDP(np.array([[[0]]]), np.array([[[0.5, 0.5]]]), start, terminal)
    with pytest.raises(gvfx.InputError, match=r"^P: .* state 0, action 0 is negative"):
        gvfx.MDP(np.array([[[0, 0]]]), np.array([[[1.5, -0.5]]]), start, terminal)


def test_rows_of_p_may_miss_one_by_the_tolerance():
    world = gvfx.MDP.from_matrix([[[0, 1 + 9e-7]], [[1.0, 0]]])
    assert world.states == 2
    with pytest.raises(gvfx.InputError, match=r"^P: state 0"):
        gvfx.MDP.from_matrix([[[0, 1 + 2e-6]], [[1.0, 0]]])


def test_an_unreached_state_is_fine_when_it_is_not_live():
    world = gvfx.MDP.from_matrix(STAY, start=[1.0, 0.0], live=[True, False])
    assert world.reached.tolist() == [True, False]


def test_input_errors_are_value_errors():
    with pytest.raises(ValueError, match=r"^P:"):
        gvfx.MDP.from_matrix([[[0.5, 0.4]], [[1.0, 0]]])
