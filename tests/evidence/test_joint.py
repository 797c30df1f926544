"""Differences of values at the start: their standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.environments import Sound, lake_log
from helpers.worlds import random_mdp, random_policy

import gvfx
from gvfx.evidence import decisions
from gvfx.evidence.decisions import correlations, joint_of, joint_of_audits, quantile, quantiles, unpaired
from gvfx.evidence.posterior import posterior
from gvfx.evidence.uncertainty import error_model


def variants(seed, sd=0.0, states=5, actions=2, policies=3):
    """A random world and variants of one policy, asked for the same signal."""
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, states, actions)
    shape = (states, actions)
    paid = gvfx.table_cumulant(rng.normal(size=shape), np.full(shape, sd))
    old = random_policy(rng, world)
    rows = [0.7 * old + 0.3 * random_policy(rng, world) for _ in range(policies)]
    return world, [gvfx.GVF(row, paid, 0.9, name=f"p{k}") for k, row in enumerate(rows)]


def run(world, questions, **options):
    return gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), **{"steps": 4000} | options)


def by_delta(monkeypatch, model, groups):
    """The errors by the delta method, as in large worlds."""
    monkeypatch.setattr(decisions, "drawable", lambda data: False)
    joint = joint_of(model, groups)
    monkeypatch.undo()
    return joint


def test_errors_of_differences_are_those_of_drawn_worlds(monkeypatch):
    """Two ways to the same errors: draws of the world and the delta method, both far below the errors of separate values."""
    world, questions = variants(0)
    (model,) = run(world, questions).details.models
    joint, other = joint_of(model, [(0, 1, 2)]), by_delta(monkeypatch, model, [(0, 1, 2)])
    factor = np.where(np.eye(3, dtype=bool), 1.1, 1.2)
    np.testing.assert_allclose(joint.errors, factor * other.errors, rtol=0.3)
    away = posterior(model).at_start - joint.values
    for i in range(3):
        for j in range(i):
            assert joint.errors[i, j] == pytest.approx(1.2 * np.sqrt(((away[:, i] - away[:, j]) ** 2).mean()))
            assert joint.errors[i, j] < 0.6 * np.hypot(joint.errors[i, i], joint.errors[j, j])
    assert not joint.unsure.any() and not joint.open.any()


def test_the_sum_by_loops(monkeypatch):
    world, questions = variants(1)
    (model,) = run(world, questions).details.models
    p, joint, related = error_model(model), by_delta(monkeypatch, model, [(0, 2)]), correlations(model, (0, 2))
    total = doubt = 0.0
    reach = []
    for i in (0, 2):
        kernel = np.zeros((5, 5))
        for (s, a, k), arrived in np.ndenumerate(p.model.next):
            gamma = 0.0 if world.terminal[arrived] else 0.9
            kernel[s, arrived] += p.pi[s, a, i] * gamma * p.model.prob[s, a, k]
        reach.append(world.start @ np.linalg.inv(np.eye(5) - kernel))
    for s in range(4):
        for a in range(2):
            one, two = (f[s] * p.pi[s, a, i] * np.sqrt(p.noise[s, a, i]) for f, i in zip(reach, (0, 2), strict=True))
            own = one**2 + two**2 - 2 * related[s, a, 0, 1] * one * two
            rough = max(p.doubt[s, a, i] / p.noise[s, a, i] ** 2 for i in (0, 2))
            total += own / model.visits[s, a]
            doubt += own**2 * rough / model.visits[s, a] ** 2
    assert joint.errors[0, 2] ** 2 == pytest.approx(total + doubt / (4 * total))
    assert np.isnan(joint.errors[0, 1]) and joint.errors[2, 0] == joint.errors[0, 2]


@pytest.mark.compiled(6)
def test_correlations_of_outcomes():
    """Each pair's own correlation counts by its visits; equal questions are perfectly correlated, whatever was seen."""
    world, questions = variants(2)
    (model,) = run(world, questions, steps=200_000).details.models
    v, related = model.values, correlations(model, (0, 1))
    P = model.counts / model.visits.clip(1)[:, :, None]
    ahead = np.where(world.terminal[world.next], 0.0, 0.9 * v[:2][:, world.next])
    away = ahead - (P * ahead).sum(axis=-1, keepdims=True)
    own = (P * away[0] * away[1]).sum(axis=-1) / np.sqrt((P * away**2).sum(axis=-1).prod(axis=0).clip(1e-300))
    np.testing.assert_allclose(related[:4, :, 0, 1], own[:4], atol=0.01)
    twice = gvfx.GVF(questions[0].policy, questions[0].cumulant, 0.9, name="again")
    same = joint_of(run(world, [questions[0], twice], steps=500).details.models[0], [(0, 1)])
    assert same.errors[0, 1] < 1e-6 * same.errors[0, 0]


def test_noise_that_a_world_draws_for_each_question_is_not_shared(monkeypatch):
    """Reward noise in an environment is one number for all policies; a gvfx world draws it per question."""
    world, questions = variants(3, sd=2.0)
    (model,) = run(world, questions).details.models
    joint, other = joint_of(model, [(0, 1)]), by_delta(monkeypatch, model, [(0, 1)])
    assert joint.errors[0, 1] == pytest.approx(1.1 * other.errors[0, 1], rel=0.25)
    pair = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.9, name=str(p)) for p in (0.4, 0.5)]
    e = gvfx.evaluate(Sound(), pair, steps=500).details.models[0].evidence
    np.testing.assert_array_equal(e.sums[:, 0], e.sums[:, 1])


@pytest.mark.slow
def test_intervals_of_differences_cover_the_truth():
    """5 worlds, 40 runs, 3 differences: 600 intervals, of which 95 % cover within three standard errors (2.7 %), and more."""
    covered, ratio = [], []
    for seed in range(5):
        result = run(*variants(seed), seeds=40, steps=3000)
        errors = np.stack([joint_of(model, [(0, 1, 2)]).known for model in result.details.models])
        off = result.details.starts[:, :, 0] - result.details.starts[:, :, 2]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            covered.append(np.abs(off[:, i] - off[:, j]) < 1.96 * errors[:, i, j])
            ratio.append(errors[:, i, j] / np.hypot(errors[:, i, i], errors[:, j, j]))
    assert 0.92 < np.mean(covered) < 0.985 and np.median(ratio) < 0.6


def test_starts_that_are_sampled_count_in_differences():
    world, log = lake_log()
    questions = [gvfx.GVF(pi, gvfx.Reward(), 0.9, name=n) for n, pi in (("a", [0.25] * 4), ("b", [0.1, 0.4, 0.4, 0.1]))]
    (model,) = gvfx.evaluate_log(log, questions).details.models
    away = model.values[0] - model.values[1]
    starts, live = model.evidence.starts, model.world.live
    mean = away @ (starts / starts.sum())
    wanted = (((away - mean) ** 2 * starts).sum() + ((away - mean) ** 2)[live].mean()) / starts.sum() ** 2
    assert model.starts_variance_of(away[None])[0] == pytest.approx(wanted)
    assert joint_of(model, [(0, 1)]).errors[0, 1] ** 2 > wanted


def test_what_was_never_tried_leaves_differences_open():
    world, questions = variants(4)
    (model,) = run(world, questions, steps=6).details.models
    joint = joint_of(model, [(0, 1, 2)])
    assert joint.unsure.any() and joint.open.any() and np.isinf(joint.known).any()


def test_quantiles():
    assert quantile(0.025) == pytest.approx(1.959964) and quantile(0.025, 4) == pytest.approx(2.776445)
    np.testing.assert_allclose(quantiles(0.025, np.array([[0, 4], [1e9, 0]])), [[1.96, 2.776], [1.96, 1.96]], atol=1e-3)


def test_audited_values_together():
    """Two equal errors have the sum of their freedoms; what has no error yet is open."""
    errors, freedom = unpaired(np.array([0.3, 0.4, 0.3, np.inf]), np.array([6.0, 9.0, 6.0, 1.0]))
    assert errors[0, 1] == pytest.approx(0.5) and errors[1, 1] == 0.4 and freedom[0, 2] == pytest.approx(12)
    assert freedom[0, 1] == pytest.approx(0.25**2 / (0.09**2 / 6 + 0.16**2 / 9)) and freedom[0, 3] == 1
    joint = joint_of_audits(np.array([1.0, 2.0, 3.0, np.nan]), errors, freedom)
    np.testing.assert_array_equal(joint.open, [False, False, False, True])
    assert np.isinf(joint.known[0, 3]) and np.isfinite(joint.values).all()
    assert joint.quantiles(0.025)[0, 2] == pytest.approx(quantile(0.025, 12))
