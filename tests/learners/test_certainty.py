"""Certainty equivalence: it reaches the truth, tracks drift, is stored as data, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import chain, random_mdp, random_question, small_world, two_questions

import gvfx
import gvfx_paper
from gvfx.evidence.counts import Empirical
from gvfx.experiments.specification import Experiment
from gvfx.running.plan import Plan


def test_evaluate_measures_those_values_and_stays_the_same_however_it_is_measured():
    world, questions = small_world(), two_questions()
    runs = [
        gvfx.evaluate(world, questions, gvfx.GVFExplorer(), gvfx.CertaintyEquivalence(), steps=4000, seeds=[3, 4], **how)
        for how in (dict(), dict(evaluate_every=333, snapshots=[1234], workers=2))
    ]
    for field in ("values", "variances", "visits", "behaviour"):
        assert getattr(runs[0].details, field).tobytes() == getattr(runs[1].details, field).tobytes()
    gap = (runs[0].values - runs[0].details.truth)[:, :, world.live]
    np.testing.assert_allclose((gap**2).mean(axis=2), runs[0].mse[:, -1])
    assert runs[0].error[:, -1].max() < 0.5


@pytest.mark.compiled(2)
@pytest.mark.parametrize("seed", range(3))
def test_random_worlds_reach_the_truth(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 6)
    questions = [random_question(rng, world) for _ in range(3)]
    result = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=200_000)
    assert result.error[0, -1] < 1e-3


def drifting_run(forgetting, sd=0.5):
    world = small_world()
    questions = [two_questions()[0], gvfx.GVF([0.25] * 4, gvfx.Drifter(sd, 10, at="right"), 0.9)]
    return gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(forgetting), steps=100_000, seeds=4)


@pytest.mark.compiled(8)
def test_forgetting_tracks_a_drifting_cumulant():
    plain, last, auto = (drifting_run(f).mse[:, -1].mean(axis=0) for f in (0.0, 1.0, "auto"))
    assert last[1] < plain[1] / 50
    assert auto[1] < 2 * last[1] and auto[0] < 2 * plain[0] < last[0]


def test_a_discount_of_one_that_never_ends_is_refused_and_one_that_was_not_seen_to_end_is_zero():
    world, questions = chain(discount=1.0)
    assert gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=50).values[0, 0].tolist() == [
        2,
        1,
        0,
    ]
    asked, at = compiled_evidence(world, questions, steps=8)
    e = at.evidence._replace(counts=at.evidence.counts.copy())
    e.counts[:] = [[4], [0], [0]]  # nothing was tried in the second state
    np.testing.assert_allclose(Empirical(world, asked, e).values, [[e.sums[0, 0] / 4, 0, 0]])
    endless = gvfx.MDP.from_matrix(np.ones((1, 1, 1)))
    with pytest.raises(gvfx.InputError, match=r"discount: .* endless sum"):
        gvfx.evaluate(endless, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence())
    asked, at = compiled_evidence(endless, [gvfx.GVF([1.0], 1.0, 0.9)], steps=8)
    assert Empirical(endless, asked._replace(gamma=np.ones((1, 1))), at.evidence).values.tolist() == [[0.0]]


def test_round_trip_as_data():
    setting = gvfx_paper.paper["fourrooms"]
    for behaviour in ("OptimalDesign", "GVFExplorer"):
        experiment = setting.experiment(behaviour, learner="certaintyequivalence", steps=10_000)
        again = Experiment.from_json(experiment.json)
        assert again.json == experiment.json and again.learner == gvfx.CertaintyEquivalence("auto")
        assert again.behaviour == experiment.behaviour


@pytest.mark.parametrize(
    ("options", "field"), [({"forgetting": 1.5}, "forgetting"), ({"initial_m": -1}, "initial_m"), ({"growth": 1.0}, "growth")]
)
def test_complaints(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}: "):
        gvfx.CertaintyEquivalence(**options)


def test_averages_over_episodes_are_refused():
    with pytest.raises(gvfx.InputError, match=r"^average_episodes: "):
        gvfx.evaluate(*chain(), gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=Plan.checked(9, None, (), 5))
