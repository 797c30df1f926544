"""Fits: values of worlds that are known, the range of answers, iteration where systems diverge, error bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.linear import some_transitions

from gvfx.features.bases import Basis, Kernel, Lattice
from gvfx.features.scaling import Scaling
from gvfx.learners import least_squares
from gvfx.learners.half_samples import (
    FOLDS,
    FREEDOM,
    HALVES,
    SMALLEST,
    Answers,
    accumulated,
    answered,
    crossfit,
    fitted,
    steadiest,
)
from gvfx.learners.least_squares import BLOCKS, Range, Rows, blocks


@pytest.fixture(autouse=True)
def double_precision(monkeypatch):
    monkeypatch.setattr(least_squares, "PRECISION", np.float64)


def lattice_basis(data, side=6, strength=0.01):
    scaling = Scaling.of(data.observation)
    return Basis(scaling, Lattice.over(scaling(data.observation), side), strength, 0.0)


def fit_to(data, basis, within=None):
    return fitted(Rows.of(data, basis), within)


def test_a_constant_cumulant_without_endings_has_the_geometric_sum():
    data = some_transitions(end=0.0)
    fit = fit_to(data, lattice_basis(data))
    assert np.allclose(fit.following(data)[:, 2], 2.0, atol=1e-6)  # 1 / (1 - 0.5)


def test_the_range_holds_all_discounted_sums_of_the_cumulants():
    data = some_transitions()
    data = replace(data, cumulant=np.stack([data.cumulant[:, 0] + 1, -data.cumulant[:, 0] - 1, data.cumulant[:, 1]], axis=1))
    found = Range.of(data)
    least, most = data.cumulant.min(axis=0), data.cumulant.max(axis=0)
    assert np.allclose(found.low, [least[0], 10 * least[1], 2 * least[2]])  # an episode may end after one cumulant
    assert np.allclose(found.high, [10 * most[0], most[1], 2 * most[2]])


def test_a_discount_of_one_has_no_finite_range():
    data = some_transitions()
    found = Range.of(replace(data, discount=np.where(data.discount > 0, 1.0, 0.0)))
    assert np.isinf(found.high).all()
    assert found.low.tolist() == [data.cumulant[:, 0].min(), -np.inf, 1.0]


def divergent():
    """Two points: from the first the second follows, whose feature is twice as large; the well-known example of Tsitsiklis and
    Van Roy, in which the linear fixed point is far from the values 0."""
    n = 200
    first = np.zeros((n, 1), np.float32)
    data = some_transitions(n, inputs=1, actions=1, gvfs=1)
    one = np.ones((1, 1, 1))
    return replace(
        data, observation=first + 1, following=first + 2, action=np.zeros(n, int), pi=one, cumulant=np.ones((n, 1)),
        discount=np.full((n, 1), 0.9), member=np.zeros(1, int),
    )  # fmt: skip


class Linear:
    """One feature: the input itself."""

    size = 1

    def __call__(self, points):
        return points


def test_answers_stay_in_the_range_where_the_system_diverges():
    data = divergent()
    scaling = Scaling.of(np.array([[-1.0], [1.0]]))  # leaves the input as it is
    basis = Basis(scaling, Linear(), 0.0, 0.0)
    fit = fitted(Rows.of(data, basis))
    # the system gives w = 1 / (1 - 1.8) = -1.25; iteration with targets within [1, 10] gives w = 1 + 0.9 * 10
    assert fit.weights[0, 0, 0] == pytest.approx(10.0)
    assert fit.following(data).max() == pytest.approx(10.0)


def test_iteration_finds_the_solution_of_the_system_where_both_exist(monkeypatch):
    data = some_transitions()
    basis = lattice_basis(data)
    wide = Range(np.full(3, -1e6), np.full(3, 1e6))
    plain = fit_to(data, basis, within=wide).action_values(data.observation)
    monkeypatch.setattr(least_squares, "beyond", lambda rows, parts, weights, within: np.ones((len(parts), 3), bool))
    monkeypatch.setattr(least_squares, "SETTLED", 1e-12)
    monkeypatch.setattr(least_squares, "solved", lambda total, groups, fixed: np.zeros(total.paid.shape))  # a start far away
    for held in (least_squares.HELD, 0):  # with features in memory and computed again
        monkeypatch.setattr(least_squares, "HELD", held)
        assert np.allclose(fit_to(data, basis, within=wide).action_values(data.observation), plain, atol=1e-4)


def test_temporal_difference_errors_are_targets_minus_action_values():
    data = some_transitions()
    fit = fit_to(data, lattice_basis(data))
    t = 7
    q = fit.action_values(data.observation[t : t + 1])[0, data.action[t]]
    v = (fit.action_values(data.following[t : t + 1])[0] * data.pi[t][:, data.member]).sum(axis=0)
    assert np.allclose(fit.errors(data)[t], data.cumulant[t] + data.discount[t] * v - q)


def test_half_samples_are_halves_of_the_blocks_and_differ_in_half_of_them():
    signs = 2 * HALVES.astype(int) - 1
    assert len(HALVES) == FREEDOM == 4
    assert np.array_equal(signs @ signs.T, BLOCKS * np.eye(FREEDOM))
    assert not signs.sum(axis=1).any()


def answers_to(data, basis, seed=0):
    return answered(Rows.of(data, basis, blocks(data.episode, seed), BLOCKS))


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
@pytest.mark.parametrize("off", [False, True])
def test_predictions_are_those_of_fits_to_the_other_folds(kind, off, monkeypatch):
    data = some_transitions(800)
    basis = basis_of(kind, data)
    if off:  # some questions are limited
        monkeypatch.setattr(Range, "of", lambda data: Range(np.array([0.1, -0.2, 0.0]), np.array([1.5, 0.3, 9.0])))
    found, block = crossfit(Rows.of(data, basis, blocks(data.episode, 2), BLOCKS)), blocks(data.episode, 2)
    assert np.array_equal(found.fold, FOLDS[block]) and len(found.fits) == 4
    for k in range(4):
        own = found.fold == k
        fit = fitted(Rows.of(data.part(~own), basis))
        assert np.allclose(found.errors[own], fit.errors(data.part(own)), atol=1e-3 if off else 1e-6)
        assert np.allclose(found.following[own], fit.following(data.part(own)), atol=1e-3 if off else 1e-6)
    assert np.allclose(found.errors, data.cumulant + data.discount * found.following - found.taken)
    values = found.values(data.following, data.pi[:, :, data.member], found.fold)
    assert np.allclose(values.T, found.following)
    each = [fit.values(data.following, data.pi[:, :, data.member]) for fit in found.fits]
    assert np.allclose(found.values(data.following, data.pi[:, :, data.member]), np.mean(each, axis=0))


def basis_of(kind, data):
    basis = lattice_basis(data)
    if kind == "lattice":
        return basis
    return replace(basis, features=Kernel.around(basis.scaling(data.observation[:200:4]), np.full(2, 2.0)), strength=0.1)


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
def test_error_bars_are_the_mean_squares_of_refits_at_half_resolution(kind):
    data = some_transitions(800)
    basis = basis_of(kind, data)
    found = answers_to(data, basis, 5)
    within, pi = Range.of(data), data.pi[:30][:, :, data.member]
    values, errors = found.values(data.following[:30], pi)
    halves = []
    for chosen in HALVES[:, blocks(data.episode, 5)]:
        halves += [fit_to(data.part(part), basis.halved(), within=within) for part in (chosen, ~chosen)]
    squares = np.mean([(half.values(data.following[:30], pi) - values) ** 2 for half in halves], axis=0)
    least = SMALLEST**2 * (found.fit.following(data) ** 2).mean(axis=0)
    assert np.allclose(found.least**2, least)
    assert np.allclose(errors**2, squares + least[:, None], atol=1e-6)
    again = Answers.from_arrays(found.arrays())
    assert np.allclose(again.values(data.following[:30], pi), (values, errors))


@pytest.mark.parametrize("kind", ["lattice", "kernel"])
def test_errors_are_infinite_away_from_the_data(kind):
    data = some_transitions(800)
    near = data.observation[:, 0] < 0.2
    data = data.part(near & (data.following[:, 0] < 0.2))
    basis = lattice_basis(data, 12)
    basis = replace(basis, features=Lattice(np.array([-2.0, -2.0]), np.array([4.0, 2.0]), 12))
    if kind == "kernel":
        basis = replace(basis, features=Kernel.around(basis.scaling(data.observation[:60]), np.ones(2)), strength=0.1)
    far = np.array([[5.0, 0.0]], np.float32)
    pi = np.full((1, 3, 3), 1 / 3)
    found = answers_to(data, basis)
    assert np.isinf(found.values(far, pi)[1]).all()
    assert np.isfinite(found.values(data.observation[:1], pi)[1]).all()


def test_errors_are_infinite_for_a_policy_with_an_action_never_tried():
    data = some_transitions(800, actions=3)
    data = replace(data.part(data.action < 2))
    never = np.array(data.pi)
    never[:, 2, 1] = 0
    found = answers_to(replace(data, pi=never), lattice_basis(data))
    assert found.supported.tolist() == [False, True, False]
    assert np.isinf(found.values(data.observation[:4], np.full((1, 3, 3), 1 / 3))[1]).all(axis=1).tolist() == [True, False, True]


def test_accumulated_errors_are_double_sums_of_products_along_episodes():
    data = some_transitions(60)
    errors = np.random.default_rng(3).normal(size=(60, 3))
    total = np.zeros(3)
    for t in range(60):
        for j in range(t, 60):
            for k in range(t, 60):
                if j != k and data.episode[j] == data.episode[k] == data.episode[t]:
                    weights = (np.prod(data.discount[t:end], axis=0) for end in (j, k))
                    total += errors[j] * errors[k] * next(weights) * next(weights)
    assert np.allclose(accumulated(data, errors), total / 60)
    mixed = np.argsort(-data.episode, kind="stable")  # episodes may lie in any order
    assert np.allclose(accumulated(data.part(mixed), errors[mixed]), total / 60)


def test_the_penalty_is_that_whose_errors_accumulate_least():
    data = some_transitions(800)
    rows = Rows.of(data, basis_of("kernel", data), blocks(data.episode, 0), BLOCKS)
    chosen = steadiest(rows, (1e-3, 1.0, 1e3))
    found = {}
    for strength in (1e-3, 1.0, 1e3):
        own = Rows.of(data, replace(rows.basis, strength=strength), blocks(data.episode, 0), BLOCKS)
        found[strength] = (accumulated(data, crossfit(own).errors) / crossfit(rows).following.var(axis=0)).mean()
    assert chosen.basis.strength == min(found, key=found.get)
    assert found[1e3] > found[1.0]


def test_features_in_single_precision_give_nearly_the_same_answers(monkeypatch):
    data = some_transitions(800)
    basis = basis_of("kernel", data)
    exact = fit_to(data, basis).action_values(data.observation)
    monkeypatch.setattr(least_squares, "PRECISION", np.float32)
    single = fit_to(data, basis).action_values(data.observation)
    assert not np.array_equal(single, exact) and np.allclose(single, exact, atol=1e-4)
