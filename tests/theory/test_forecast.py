"""Forecast errors against runs, hand-worked answers and scales."""

import dataclasses

import numpy as np
import pytest
from helpers.worlds import dense, model_arrays, random_case, two_armed_bandit

import gvfx
from gvfx import design, exact
from gvfx.questions.where import START


def test_certainty_equivalence_has_the_predicted_error():
    """Counted models of 3,000 visits per pair, 500 times: mean error, variances per state, and the spread of one run."""
    world, questions = random_case(5, states=4, actions=2)
    rng = np.random.default_rng(0)
    model, pi, gamma, noise = model_arrays(world, questions)
    truth, P, n, runs = exact.values(world, questions), dense(world), 3000, 500
    counts = np.full((4, 2), float(n))
    estimates = np.empty((runs, 2, 4))
    for r in range(runs):
        counted = rng.multinomial(n, P) / n
        counted[-1] = P[-1]
        for i, q in enumerate(questions):
            mean = np.array(q.cumulant.mean) + np.array(q.cumulant.sd) * rng.normal(size=(4, 2)) / n**0.5
            policy = np.array(q.policy.rows)
            onward = np.einsum("sa,sap->sp", policy, counted) * 0.8 * ~world.terminal * ~world.terminal[:, None]
            estimates[r, i] = np.linalg.solve(np.eye(4) - onward, (policy * mean).sum(axis=1) * ~world.terminal)
    squares = (estimates - truth) ** 2
    predicted = design.variances(model, pi, gamma, noise, counts)
    assert squares.mean(axis=0)[:, :-1] == pytest.approx(predicted[:, :-1], rel=0.25)
    errors = squares[:, :, world.live].mean(axis=2).mean(axis=1)
    assert errors.mean() == pytest.approx((design.importance_of(world, questions) / n).sum(), rel=0.1)
    drawn = design.error_draws(model, pi, gamma, noise, truth, design.evaluation(world), counts, 4000).mean(axis=1)
    assert np.quantile(errors, 0.95) == pytest.approx(np.quantile(drawn, 0.95), rel=0.15)
    at_start = (((estimates - truth) @ world.start) ** 2).mean(axis=1)  # 0.2: three standard errors of 500 squared normals
    assert at_start.mean() == pytest.approx((design.importance_of(world, questions, where="start") / n).sum(), rel=0.2)
    drawn = design.error_draws(model, pi, gamma, noise, truth, START.on(world), counts, 4000).mean(axis=1)
    assert np.quantile(at_start, 0.95) == pytest.approx(np.quantile(drawn, 0.95), rel=0.25)


def test_constants_per_question_and_of_a_behaviour_that_leaves_something_out():
    world, questions = random_case(2)
    mu = [0.2, 0.3, 0.5]
    each = design.constants(world, questions, mu)
    assert each.mean() == pytest.approx(design.constant(world, questions, mu))
    assert np.isinf(design.constants(world, questions, [0, 0.5, 0.5])).all()
    assert design.steps_needed(np.inf, 0.1) == np.inf
    assert design.steps_needed(100.0, 0.3) == 334


def test_one_noisy_pair_is_a_chi_square():
    world, questions = two_armed_bandit()
    forecast = design.forecast(world, questions, [0.5, 0.5], draws=20_000)
    assert forecast.constant == pytest.approx(0.25 / 0.5)
    assert forecast.error(100, 0.95) == pytest.approx(0.005 * 3.84, rel=0.05)
    assert forecast.steps(0.005) == 100
    with pytest.raises(gvfx.InputError, match="share:"):
        forecast.error(100, 1.5)


def test_calibrated_weights_undo_scales():
    values, where = np.array([[1.0, 2.0], [1000.0, 2000.0], [0.0, 0.0]]), np.array([0.5, 0.5])
    weights = design.calibrated_weights(values, where)
    assert weights[0] / weights[1] == pytest.approx(1e6)
    assert weights[2] == 0 and weights.mean() == pytest.approx(1)


@pytest.mark.parametrize("where", ["start", [0, 2], {1: 3.0, 2: 1.0}])
def test_the_best_design_is_best_where_errors_count(where):
    """Its constant is certified, the design for all states is above it, and forecasts agree with constants."""
    world, questions = random_case(7, states=6)
    world = dataclasses.replace(world, start=np.array([0.7, 0.3, 0, 0, 0, 0]))
    best, everywhere = design.optimal(world, questions, where=where), design.optimal(world, questions)
    assert best.constant == pytest.approx(design.constant(world, questions, best.behaviour, where=where))
    rival = design.constant(world, questions, everywhere.behaviour, where=where)
    assert best.bound <= best.constant < 0.999 * rival
    assert design.forecast(world, questions, everywhere.behaviour, where=where).constant == pytest.approx(rival)
