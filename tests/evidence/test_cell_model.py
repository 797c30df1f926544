"""The model of cells: counts, policies and noise against loops over transitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.linear import some_transitions

import gvfx
from gvfx.evidence.transitions import AROUND_VISITS, PRIOR_VISITS, cell_model
from gvfx.features.cells import Cells
from gvfx.questions.gvf import Stacked

ROWS = 10  # one more than the cells


def asked():
    asked = [gvfx.GVF([1 / 3] * 3, 0.0, g, name=str(k)) for k, g in enumerate((0.9, 0.9, 0.5))]
    return Stacked.of_transitions(asked, ROWS, 3)


def modelled(data, **more):
    cells = Cells.of(data.observation, 9)
    return cells, cell_model(data, cells, asked(), ROWS, 40, False, **more)


def test_outcomes_starts_and_cumulants_are_counted_by_cell():
    data = some_transitions(500)
    cells, model = modelled(data)
    here, after = cells(data.observation), cells(data.following)
    counts, paid = np.zeros((ROWS + 1, 3, ROWS + 1)), np.zeros((ROWS + 1, 3, 3))
    for t in range(500):
        counts[here[t], data.action[t], ROWS if data.terminated[t] else after[t]] += 1
        paid[here[t], data.action[t]] += data.cumulant[t]
    found = np.zeros_like(counts)
    for s in range(ROWS + 1):
        for a in range(3):
            np.add.at(found[s, a], model.world.next[s, a], model.counts[s, a])
    assert np.array_equal(found, counts)
    assert np.allclose(model.moments(np.zeros((3, ROWS + 1)))[0] * np.maximum(model.visits, 1)[:, :, None], paid)
    assert model.evidence.starts[:ROWS].tolist() == np.bincount(here[data.first], minlength=ROWS).tolist()
    assert model.world.terminal.tolist() == [False] * ROWS + [True]


def test_policies_are_means_over_the_cells():
    data = some_transitions(500)
    cells, model = modelled(data)
    after = cells(data.following)
    for s in np.unique(after):
        assert np.allclose(model.asked.pi[s], data.pi[after == s].mean(axis=0)[:, data.member])
    assert np.allclose(model.asked.pi[9], 1 / 3)  # never reached


def test_constant_policies_stay_one_row():
    model = modelled(some_transitions(200, constant=True))[1]
    assert model.asked.pi.shape == (1, 3, 3)
    assert model.asked.pi_stride == 0


def test_noise_is_the_mean_squared_error_joined_by_that_around_it():
    data = some_transitions(300)
    errors = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 5.0, 0.1]
    cells, model = modelled(data, errors=errors)
    here, near = cells(data.observation), cells.neighbours().toarray() > 0
    for s, a, i in ((4, 0, 0), (0, 2, 1), (8, 1, 2)):
        own = (here == s) & (data.action == a)
        beside = near[s][here]
        same = beside & (data.action == a)
        square = errors[:, i] ** 2
        every = square[beside].mean() if beside.any() else 0.0
        around = (square[same].sum() + AROUND_VISITS * every) / (same.sum() + AROUND_VISITS)
        expected = (square[own].sum() + PRIOR_VISITS * around) / (own.sum() + PRIOR_VISITS)
        assert model.noise_of_pairs[s, a, i] == pytest.approx(expected)


def test_a_design_on_cells_goes_where_the_learner_errs():
    data = some_transitions(2000, end=0.0, constant=True)
    left = data.observation[:, 0] < 0
    plans = []
    for where in (left, ~left):
        cells, model = modelled(replace(data), errors=np.where(where, 10.0, 0.01)[:, None] * np.ones(3))
        design = gvfx.OptimalDesign().on_cells()
        need = design.needs(model)[1]
        middle = cells(np.array([[-0.7, 0.0], [0.7, 0.0]], np.float32))
        plans.append(need[middle].sum(axis=1))
    assert plans[0][0] > 5 * plans[0][1]
    assert plans[1][1] > 5 * plans[1][0]


def test_defaults_of_the_design_on_cells():
    design = gvfx.OptimalDesign().on_cells()
    assert (design.growth, design.prior) == (1.5, 10.0)
    assert gvfx.OptimalDesign(growth=3.0).on_cells().growth == 3.0
    assert gvfx.Floor(gvfx.OptimalDesign()).on_cells() == gvfx.Floor(design)
    assert gvfx.Blend(gvfx.Uniform(), gvfx.OptimalDesign()).on_cells().second == design
