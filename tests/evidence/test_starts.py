"""The value at the start and its standard error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import random_mdp, random_question, small_world, two_armed_bandit, two_questions

import gvfx
from gvfx.evidence.counts import Empirical
from gvfx.evidence.uncertainty import delta_start_errors, error_model, interval_errors, standard_errors, start_values
from gvfx.questions.where import START


def run(world, questions, **options):
    return gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), **{"steps": 5000} | options)


def random_runs(seed, seeds):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 5, 2)
    return run(world, [random_question(rng, world) for _ in range(2)], seeds=seeds)


def test_one_start_has_the_error_of_its_state():
    (model,) = run(*two_armed_bandit()).details.models
    value, error, truth, *sides = start_values(model)[0]
    assert value == model.values[0, 0] and np.isnan(truth)
    np.testing.assert_allclose(sides, interval_errors(model)["sides"][0, 0])
    assert error == pytest.approx(np.sqrt((sides[0] ** 2 + sides[1] ** 2) / 2))


def test_the_variance_of_a_mean_by_loops():
    """Reaches of all starts are added before they are squared, for the noise and for what is not known about it."""
    (model,) = random_runs(0, 1).details.models
    p, d, n = error_model(model), model.world.start, model.visits
    for i in range(2):
        P = np.zeros((5, 5))
        for s in range(5):
            for a in range(2):
                for k, arrived in enumerate(p.model.next[s, a]):
                    gamma = 0.0 if model.world.terminal[arrived] else float(p.gamma[0, i])
                    P[s, arrived] += p.pi[s, a, i] * gamma * p.model.prob[s, a, k]
        F = np.linalg.inv(np.eye(5) - P)
        variance = doubt = 0.0
        for s in range(5):
            reach = sum(d[s0] * F[s0, s] for s0 in range(5))
            for a in range(2):
                if n[s, a]:
                    variance += (reach * p.pi[s, a, i]) ** 2 * p.noise[s, a, i] / n[s, a]
                    doubt += (reach * p.pi[s, a, i]) ** 4 * p.doubt[s, a, i] / n[s, a] ** 2
        error = delta_start_errors(model, p)[i]
        assert error**2 == pytest.approx(variance + doubt / (4 * variance))
        assert error < np.sqrt(d @ standard_errors(model)[i] ** 2)  # errors of different starts cancel in part
        assert start_values(model)[i, 1] == pytest.approx(error, rel=0.35)


@pytest.mark.slow
def test_intervals_of_start_values_cover_the_truth():
    """5 worlds, 40 runs, 2 questions: 400 intervals, of which 95 % cover within three standard errors (3.3 %)."""
    covered = []
    for seed in range(5):
        starts = random_runs(seed, 40).details.starts
        value, _, truth, below, above = np.moveaxis(starts, 2, 0)
        covered.append((truth > value - 1.96 * below) & (truth < value + 1.96 * above))
    assert 0.917 < np.mean(covered) < 0.983


def test_what_was_never_tried_makes_the_start_unsure():
    world, questions = small_world(), two_questions()
    asked, at = compiled_evidence(world, questions, steps=30)
    model = Empirical(world, asked, at.evidence)
    assert np.isinf(standard_errors(model)[:, world.start > 0]).any(axis=1).all()
    assert np.isinf(start_values(model)[:, 1]).all()
    elsewhere = ~np.isinf(standard_errors(model)).any(axis=0) & world.live
    if elsewhere.any():
        sure = Empirical(dataclasses.replace(world, start=elsewhere / elsewhere.sum()), asked, at.evidence)
        assert np.isfinite(start_values(sure)[:, 1]).all()


def test_starts_that_were_sampled_add_their_own_variance():
    """By hand: k starts with values V have the variance of their mean, and one more start stands for those not seen."""
    (model,) = random_runs(1, 1).details.models
    assert (model.starts_variance == 0).all()
    sampled = dataclasses.replace(model, sampled_start=True)
    starts, live = model.evidence.starts, model.world.live
    for i, v in enumerate(model.values):
        seen = np.repeat(v, starts)
        mean = v @ model.world.start
        expected = (((seen - mean) ** 2).sum() + ((v[live] - mean) ** 2).mean()) / len(seen) ** 2
        assert sampled.starts_variance[i] == pytest.approx(expected)
    own, more = start_values(model)[:, 1], start_values(sampled)[:, 1]
    np.testing.assert_allclose(more**2, own**2 + sampled.starts_variance)
    p = error_model(sampled)
    np.testing.assert_allclose(delta_start_errors(sampled, p) ** 2 - sampled.starts_variance, delta_start_errors(model, p) ** 2)


def test_a_rule_to_stop_bounds_the_error_at_the_start():
    """The bound of a single Gaussian number, a quantile of its square; sampled starts make it larger in proportion."""
    (model,) = random_runs(2, 1).details.models
    model = dataclasses.replace(model, asked=model.asked._replace(where=START))
    rule = gvfx.error_below(100.0, each=True)
    bound, counts = rule.bound(model, 0)
    errors = start_values(model)[:, 1] ** 2
    assert counts and bound == pytest.approx(5.02 * errors.max(), rel=0.5)
    sampled = dataclasses.replace(model, sampled_start=True)
    larger = rule.bound(sampled, 0)[0] / bound
    assert larger == pytest.approx(((errors + sampled.starts_variance) / errors)[errors.argmax()], rel=0.3)
    alone = dataclasses.replace(model, asked=model.asked._replace(where=gvfx.questions.where.EVERYWHERE))
    assert rule.bound(alone, 0)[0] != bound


@pytest.mark.full
@pytest.mark.compiled(4)
@pytest.mark.parametrize("rule", [{}, {"relative": True}])
def test_runs_stop_when_the_start_is_sure(rule):
    world, questions = small_world(), two_questions()
    target = 0.01
    result = gvfx.evaluate(world, questions, steps=200_000, seeds=3, where="start", until=gvfx.error_below(target, **rule))
    assert result.reached.all() and (result.stopped < 200_000).all()
    truth = result.details.starts[:, :, 2]
    away = (result.details.starts[:, :, 0] - truth) ** 2 / (truth**2 if rule else 1.0)
    assert (away.mean(axis=1) < target).all()


def test_learners_without_intervals_have_values_alone():
    world, questions = small_world(), two_questions()
    result = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.ExpectedSarsa(0.2), steps=2000)
    assert np.isnan(result.details.starts[:, :, 1]).all()
    np.testing.assert_allclose(result.details.starts[0, :, 0], result.values[0] @ world.start)
