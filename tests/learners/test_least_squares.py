"""The linear systems against dense ones that are built one transition at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.linear import plain_sums, plain_weights, some_transitions

from gvfx.features.bases import Kernel, Lattice, farthest_points
from gvfx.features.scaling import Scaling
from gvfx.learners import least_squares
from gvfx.learners.half_samples import Basis
from gvfx.learners.least_squares import Back, penalty, solved, sums


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
def test_sums_equal_the_plain_ones_also_in_pieces(kind, constant, monkeypatch):
    data = some_transitions(constant=constant)
    basis = bases(data)[kind]
    monkeypatch.setattr(least_squares, "CHUNK", 360)
    rows = basis.rows(data)
    assert len(rows.pieces) == {"lattice": 5, "kernel": 17}[kind]
    found = sums(rows)
    gram, cross, paid = plain_sums(data, dense(basis(data.observation)), dense(basis(data.following)))
    assert np.allclose([dense(block) for block in found.gram], gram)
    assert np.allclose([[[dense(b) for b in row] for row in group] for group in found.cross], cross)
    assert np.allclose(found.paid, paid)


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
@pytest.mark.parametrize("some", [False, True])
def test_features_times_columns_are_summed_by_action(kind, some):
    data = some_transitions(150)
    here = bases(data)[kind](data.observation)
    columns = np.random.default_rng(0).normal(size=(150, 2))
    among = np.arange(150) % 3 > 0 if some else None
    back = Back(here, data.action, 3, among)
    for a in range(3):
        own = dense(here)[(data.action == a) & (True if among is None else among)]
        its = columns[(data.action == a) & (True if among is None else among)]
        assert np.allclose(dense(back.gram()[a]), own.T @ own)
        assert np.allclose(back.sums(columns)[a], own.T @ its)
        assert np.allclose(dense(back(sp.csr_array(columns) if sp.issparse(here) else columns)[a]), own.T @ its)


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
def test_weights_solve_one_dense_system_per_question(kind):
    data = some_transitions()
    basis = bases(data)[kind]
    prior = basis.prior(data.actions)
    found = solved(sums(basis.rows(data)), data.groups, prior)
    plain = plain_weights(data, dense(basis(data.observation)), dense(basis(data.following)), dense(prior))
    assert np.allclose(found, plain, atol=1e-6)


def test_questions_with_one_policy_and_discount_share_a_system():
    data = some_transitions()
    assert data.groups == [[0], [1], [2]]  # the third has the first one's policy and another discount
    same = np.repeat(data.discount[:, :1], 3, axis=1)
    assert replace(data, discount=same).groups == [[0, 2], [1]]


def test_what_is_left_of_the_sums_are_those_of_the_other_transitions():
    data = some_transitions()
    chosen = data.episode % 2 == 0
    for basis in bases(data).values():
        rest = sums(basis.rows(data)) - sums(basis.rows(data.part(chosen)))
        other = sums(basis.rows(data.part(~chosen)))
        assert np.allclose(rest.paid, other.paid)
        assert np.allclose(dense(rest.gram[1]), dense(other.gram[1]))
        assert np.allclose(dense(rest.cross[1][0][2]), dense(other.cross[1][0][2]))


def test_the_first_features_have_the_sums_of_half_the_kernel():
    data = some_transitions()
    basis = bases(data)["kernel"]
    half, own = sums(basis.rows(data)).first(7), sums(basis.halved().rows(data))
    assert np.allclose(half.paid, own.paid)
    assert np.allclose(half.cross[0][1][1], own.cross[0][1][1])


def test_sharing_penalises_what_differs_between_actions():
    alike, apart = np.ones(4), np.array([1.0, 1.0, -1.0, -1.0])  # two actions with two features each
    free, shared = (penalty(np.eye(2), 2.0, rho, 2) for rho in (0.0, 0.8))
    assert alike @ free @ alike == pytest.approx(8) == pytest.approx(apart @ free @ apart)
    assert alike @ shared @ alike == pytest.approx(8 / 1.8)  # the eigenvalues of M are 1 + rho and 1 - rho
    assert apart @ shared @ apart == pytest.approx(8 / 0.2)


def test_a_singular_system_gives_nan():
    data = some_transitions()
    basis = bases(data)["kernel"]
    total = sums(basis.rows(data.part(slice(0, 3))))
    assert np.isnan(solved(total, data.groups, np.zeros((45, 45)))).any()
