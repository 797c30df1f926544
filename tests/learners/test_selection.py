"""The choice of features by data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.linear import some_transitions

import gvfx
from gvfx.features.bases import Basis, Kernel, Lattice
from gvfx.features.scaling import Scaling
from gvfx.learners.least_squares import Rows
from gvfx.learners.linear import Choice, choose, scores, unresolved


def wavy(n, noise, waves=3.0, seed=0):
    """Transitions that end at once, with cumulants that oscillate over the observations: a plain regression."""
    data = some_transitions(n, gvfs=1, end=1.0, seed=seed)
    rng = np.random.default_rng(seed)
    c = np.sin(waves * np.pi * data.observation[:, 0]) + noise * rng.normal(size=n)
    return replace(data, cumulant=c[:, None], discount=np.zeros((n, 1)))


def test_the_score_is_the_error_of_a_regression_on_the_others():
    data = some_transitions(300, gvfs=2)
    scaling = Scaling.of(data.observation)
    basis = Basis(scaling, Lattice.over(scaling(data.observation), 4), 0.1, 0.0)
    y, held = data.cumulant, np.arange(300) % 4 == 0
    here, missed = basis(data.observation).toarray(), np.zeros(2)
    for a in range(3):
        train, test = (data.action == a) & ~held, (data.action == a) & held
        own = here[train].T @ here[train] + 0.1 * basis.features.penalty().toarray() + 1e-8 * np.eye(16)
        missed += ((y[test] - here[test] @ np.linalg.solve(own, here[train].T @ y[train])) ** 2).sum(axis=0)
    assert np.allclose(scores(Rows.of(data, basis, held.astype(int), 2), [basis], y), missed / held.sum() / y.var(axis=0))


def test_more_detail_gets_a_finer_lattice_and_more_noise_a_coarser_or_smoother_one():
    fine = choose(wavy(4000, 0.05, waves=6.0)).basis
    plain = choose(wavy(4000, 0.05, waves=0.5)).basis
    noisy = choose(wavy(4000, 3.0, waves=0.5)).basis
    assert fine.features.side > plain.features.side
    assert (noisy.features.side, -noisy.strength) < (fine.features.side, -fine.strength)


def test_up_to_two_inputs_that_vary_get_a_lattice_and_more_a_kernel():
    data = some_transitions(600, inputs=2)
    padded = np.column_stack([data.observation, np.ones(600), 2 * data.observation[:, 0]]).astype(np.float32)
    after = np.column_stack([data.following, np.ones(600), 2 * data.following[:, 0]]).astype(np.float32)
    assert isinstance(choose(replace(data, observation=padded, following=after)).basis.features, Lattice)
    assert isinstance(choose(some_transitions(600, inputs=3)).basis.features, Kernel)
    assert isinstance(choose(data, "kernel").basis.features, Kernel)


def test_inputs_of_noise_get_long_lengths_and_are_otherwise_left_alone():
    data = wavy(3000, 0.02, waves=1.0)
    rng = np.random.default_rng(9)
    junk = rng.normal(size=(2, 3000, 4)).astype(np.float32)
    data = replace(
        data, observation=np.column_stack([data.observation, junk[0]]), following=np.column_stack([data.following, junk[1]])
    )
    lengths = choose(data).basis.features.lengths
    assert lengths[0] * 5 < lengths[1:].min()


def test_the_same_data_give_the_same_choice():
    data = some_transitions(500, inputs=3)
    one, other = (choose(data, seed=4) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one.arrays().values(), other.arrays().values(), strict=True))
    again = Choice.from_arrays(one.arrays())
    assert np.array_equal(again.basis(data.observation), one.basis(data.observation))


@pytest.mark.parametrize("n", [2, 5, 40])
@pytest.mark.parametrize("inputs", [1, 2, 4])
def test_few_transitions_are_enough(n, inputs):
    data = some_transitions(n, inputs=inputs)
    learner = gvfx.LinearCertaintyEquivalence()
    found = learner.answers(learner.rows(data, learner.choose(data)))
    assert np.isfinite(found.values(data.observation, np.full((1, 3, 3), 1 / 3))[0]).all()


def test_observations_that_never_change_have_one_answer():
    data = some_transitions(200)
    same = np.ones_like(data.observation)
    data = replace(data, observation=same, following=same)
    learner = gvfx.LinearCertaintyEquivalence()
    values, _ = learner.answers(learner.rows(data, learner.choose(data))).values(same[:3], np.full((1, 3, 3), 1 / 3))
    assert np.ptp(values, axis=1).max() < 1e-9


def test_a_question_whose_detail_is_missed_is_not_resolved():
    data = some_transitions(100)
    choice = Choice(choose(data).basis, np.array([0.7, 0.7, 0.1]), np.array([0.9, 0.71, 0.9]))
    found = unresolved(data, choice, ("rough", "noisy", "smooth"))
    assert list(found) == ["rough"]
    assert found["rough"].startswith("not resolved: 70% of what follows")


def test_bad_options_are_refused():
    with pytest.raises(gvfx.InputError, match="features"):
        gvfx.LinearCertaintyEquivalence(features="hats")
    with pytest.raises(gvfx.InputError, match="capacity: 10 transitions are too few"):
        gvfx.LinearCertaintyEquivalence(capacity=10)
