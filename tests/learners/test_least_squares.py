"""The linear systems against dense ones that are built one transition at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from helpers.linear import plain_sums, plain_weights, some_transitions

from gvfx.features.bases import Basis, Kernel, Lattice, farthest_points, penalty
from gvfx.features.scaling import Scaling
from gvfx.learners import least_squares
from gvfx.learners.least_squares import BLOCKS, FEWEST, Rows, blocks, solved


@pytest.fixture(autouse=True)
def double_precision(monkeypatch):
    monkeypatch.setattr(least_squares, "PRECISION", np.float64)


def bases(data):
    """A lattice and a kernel."""
    scaling = Scaling.of(data.observation)
    z = scaling(data.observation)
    kernel = Kernel.around(z[farthest_points(z, 15)], np.ones(z.shape[1]))
    return {"lattice": Basis(scaling, Lattice.over(z, 5), 0.1, 0.5), "kernel": Basis(scaling, kernel, 0.1, 0.5)}


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
@pytest.mark.parametrize("constant", [False, True])
def test_sums_of_blocks_equal_the_plain_ones_also_in_pieces(kind, constant, monkeypatch):
    data = some_transitions(constant=constant)
    basis = bases(data)[kind]
    block = blocks(data.episode, 0)
    for chunk, held in ((100, 0), (100, 10**9), (10**9, 10**9)):
        monkeypatch.setattr(least_squares, "CHUNK", chunk)
        monkeypatch.setattr(least_squares, "HELD", held)
        rows = Rows.of(data, basis, block, BLOCKS)
        assert (len(rows.pieces) > BLOCKS) == (chunk == 100) and (len(rows.known) > 0) == (held > 0)
        for part in (np.ones(BLOCKS, bool), np.arange(BLOCKS) % 3 == 0):
            found, some = rows.total(part), data.part(part[block])
            gram, cross, paid = plain_sums(some, dense(basis(some.observation)), dense(basis(some.following)))
            assert np.allclose(dense(found.gram), scipy.linalg.block_diag(*gram))
            assert np.allclose([dense(own) for own in found.cross], [np.block(list(map(list, group))) for group in cross])
            assert np.allclose(found.paid, paid.reshape(-1, data.gvfs))


def test_features_of_an_observation_that_two_transitions_share_are_computed_once():
    data = some_transitions(constant=True)
    basis = bases(data)["kernel"]
    rows = Rows.of(data, basis)
    assert len(rows.pieces) == 1
    piece, points = next(iter(rows))
    assert len(points) == len(data) + len(np.unique(data.episode))
    shuffled = data.part(np.random.default_rng(0).permutation(len(data)))
    other, its = next(iter(Rows.of(shuffled, basis)))
    for one, x, of in ((piece, points, data), (other, its, shuffled)):
        assert np.allclose(x[one.here], basis(of.observation[one.index]))
        assert np.allclose(x[one.here + 1], basis(of.following[one.index]))


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
def test_features_times_columns_and_products_with_weights_are_by_action(kind):
    data = some_transitions(150)
    basis = bases(data)[kind]
    piece, points = next(iter(Rows.of(data, basis)))
    here, after = dense(basis(data.observation)), dense(basis(data.following))
    columns = np.random.default_rng(0).normal(size=(150, 3))
    weights, order = np.random.default_rng(1).normal(size=(3, basis.size, 3)), np.argsort(piece.index)
    each = piece.each(points, weights)
    assert np.allclose(piece.taken(each)[order], np.stack([here[t] @ weights[data.action[t]] for t in range(150)]))
    pi = data.pi[:, :, data.member]
    assert np.allclose(piece.following(each, data.member)[order], np.einsum("tai,tk,aki->ti", pi, after, weights))
    for a in range(3):
        own, at = here[data.action == a], slice(a * basis.size, (a + 1) * basis.size)
        assert np.allclose(dense(piece.gram(points))[at, at], own.T @ own)
        assert np.allclose(piece.back(points, columns[piece.index])[a], own.T @ columns[data.action == a])


def test_blocks_are_whole_episodes_dealt_evenly_and_stretches_where_there_are_few():
    many = blocks(np.repeat(np.arange(40), 5), 3)
    assert (many.reshape(40, 5).std(axis=1) == 0).all() and np.bincount(many).tolist() == [25] * BLOCKS
    one = blocks(np.zeros(160, int), 0)
    assert (one.reshape(FEWEST, 10).std(axis=1) == 0).all() and np.bincount(one).tolist() == [20] * BLOCKS


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
def test_weights_solve_one_dense_system_per_question(kind):
    data = some_transitions()
    basis = bases(data)[kind]
    prior, rows = basis.prior(data.actions), Rows.of(data, basis)
    total = rows.total(np.ones(1, bool))
    found = solved(total, data.groups, total.gram + prior).reshape(3, -1, 3)
    plain = plain_weights(data, dense(basis(data.observation)), dense(basis(data.following)), dense(prior))
    assert np.allclose(found, plain, atol=1e-6)


def test_questions_with_one_policy_and_discount_share_a_system():
    data = some_transitions()
    assert data.groups == [[0], [1], [2]]  # the third has the first one's policy and another discount
    same = np.repeat(data.discount[:, :1], 3, axis=1)
    assert replace(data, discount=same).groups == [[0, 2], [1]]


def test_the_first_features_have_the_sums_of_half_the_kernel():
    data = some_transitions()
    basis = bases(data)["kernel"]
    half, own = (Rows.of(data, b).total(np.ones(1, bool), size) for b, size in ((basis, 7), (basis.halved(), None)))
    assert np.allclose(half.paid, own.paid)
    assert np.allclose(half.cross[0], own.cross[0]) and np.allclose(half.gram, own.gram)


def test_sharing_penalises_what_differs_between_actions():
    alike, apart = np.ones(4), np.array([1.0, 1.0, -1.0, -1.0])  # two actions with two features each
    free, shared = (penalty(np.eye(2), 2.0, rho, 2) for rho in (0.0, 0.8))
    assert alike @ free @ alike == pytest.approx(8) == pytest.approx(apart @ free @ apart)
    assert alike @ shared @ alike == pytest.approx(8 / 1.8)  # the eigenvalues of M are 1 + rho and 1 - rho
    assert apart @ shared @ apart == pytest.approx(8 / 0.2)


def test_a_singular_system_gives_nan():
    data = some_transitions()
    basis = bases(data)["kernel"]
    total = Rows.of(data.part(slice(0, 3)), basis).total(np.ones(1, bool))
    assert np.isnan(solved(total, data.groups, total.gram)).any()
