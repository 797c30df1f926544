"""Standard errors, intervals and the rule to stop."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import chain, random_mdp, random_question, small_world, two_armed_bandit, two_questions

import gvfx
from gvfx.evidence import uncertainty
from gvfx.evidence.counts import Empirical
from gvfx.evidence.uncertainty import shared_noise, standard_errors


def run(world, questions, steps=20_000, seeds=1, **options):
    return gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=steps, seeds=seeds, **options)


def test_standard_error_of_a_bandit_by_hand():
    """V = 1/4 mean of N(1, 2) + 3/4 * 3, with the arms' shared noise and what is not known about it."""
    result = run(*two_armed_bandit(), steps=5000)
    (model,) = result.details.models
    n, pi = model.visits[0], np.array([0.25, 0.75])
    noise, doubt = (part[0, :, 0] for part in shared_noise(model))
    variance, spread = (pi**2 * noise / n).sum(), (pi**4 * doubt / n**2).sum()
    se = np.sqrt(variance + spread / (4 * variance))
    np.testing.assert_allclose(standard_errors(model)[0], [se, 0])
    assert se == pytest.approx(0.25 * 2 / n[0] ** 0.5, rel=0.05)  # nearly all of it is the first arm's own noise
    below, above = result.details.snapshots[-1].sides[0, 0, 0]
    assert below == pytest.approx(1.1 * se, rel=0.25) and above == pytest.approx(1.1 * se, rel=0.25)
    centre = result.values[0, 0, 0]
    np.testing.assert_allclose(result.intervals(0), [[centre - 1.959964 * below, centre + 1.959964 * above]], rtol=1e-6)


@pytest.mark.full
@pytest.mark.compiled(2)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_intervals_cover_the_truth(seed):
    """40 runs on a random world, and on another one: 95 % intervals cover about 95 % of the values."""
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 5, 2)
    result = run(world, [random_question(rng, world) for _ in range(2)], steps=5000, seeds=40)
    unsure = result.details.snapshots[-1].standard_errors > 0
    ends = result.values[..., None] + [-1.96, 1.96] * result.details.snapshots[-1].sides
    covered = (ends[..., 0] < result.details.truth) & (result.details.truth < ends[..., 1])
    assert 0.90 < covered[unsure].mean() < 0.985


def test_draws_agree_with_the_delta_method_where_much_is_known(monkeypatch):
    rng = np.random.default_rng(0)
    world = random_mdp(rng, 5, 2)
    (model,) = run(world, [random_question(rng, world) for _ in range(2)]).details.models
    errors, drawn = standard_errors(model), uncertainty.interval_errors(model)
    np.testing.assert_allclose(drawn["standard_errors"], 1.1 * errors, rtol=0.3, atol=1e-9)
    monkeypatch.setattr(uncertainty, "DENSE_BELOW", 5)
    assert list(uncertainty.interval_errors(model)) == ["standard_errors"]
    np.testing.assert_array_equal(uncertainty.interval_errors(model)["standard_errors"], errors)
    np.testing.assert_allclose(uncertainty.start_values(model)[:, 3], uncertainty.start_values(model)[:, 4])


@pytest.mark.compiled(4)
def test_what_was_never_tried_makes_answers_unsure():
    world, questions = small_world(), two_questions()
    asked, at = compiled_evidence(world, questions, steps=30)
    se = standard_errors(Empirical(world, asked, at.evidence))
    assert np.isinf(se[:, world.live]).any() and not np.isnan(se).any()
    result = run(world, questions, steps=20_000)
    assert np.isfinite(result.intervals()).all()


@pytest.mark.compiled(2)
@pytest.mark.parametrize(
    "rule", [*(pytest.param(rule, marks=pytest.mark.full) for rule in (dict(), dict(each=True))), dict(relative=True)]
)
def test_stops_when_sure_and_the_error_is_below(rule):
    world, questions = small_world(), two_questions()
    result = run(world, questions, steps=200_000, seeds=3, until=gvfx.error_below(0.01, **rule))
    assert (result.stopped < 200_000).all() and (result.details.bounds < 0.01).all()
    error = result.mse[:, -1]
    scale = (result.details.truth[:, :, world.live] ** 2).mean(axis=2) if "relative" in rule else 1.0
    error = error / scale
    assert ((error.max(axis=1) if "each" in rule else error.mean(axis=1)) < 0.01).all()
    np.testing.assert_array_equal(result.visits.sum(axis=(1, 2)), result.stopped)


def test_says_when_the_steps_do_not_suffice():
    with pytest.warns(UserWarning, match=r"^until: 1 of 1 runs ended before .* best so far; give more steps"):
        result = run(small_world(), two_questions(), steps=3000, until=gvfx.error_below(1e-6))
    assert result.stopped[0] == 3000 and result.details.bounds[0] > 1e-6 and np.isfinite(result.values).all()


def test_says_when_a_target_policy_does_what_was_never_tried():
    world, (question,) = two_armed_bandit()
    with pytest.warns(
        UserWarning, match=r"^until: 1 of 1 runs .*some answers depend on actions that were never tried.* best so far"
    ):
        result = gvfx.evaluate(
            world,
            [question],
            gvfx.Follow([1.0, 0.0]),
            gvfx.CertaintyEquivalence(),
            steps=500,
            until=gvfx.error_below(0.1),
        )
    assert np.isfinite(result.values).all() and result.intervals(0).tolist() == [[-np.inf, np.inf]]


def scaled_questions():
    return [
        gvfx.GVF([0.4, 0.1, 0.4, 0.1], gvfx.Distractor(1, 0.1, at="left"), 0.9, name="small"),
        gvfx.GVF([0.1, 0.4, 0.1, 0.4], gvfx.Distractor(1000, 100, at="right"), 0.9, name="large"),
    ]


def relative_errors(calibrate):
    world = small_world()
    result = gvfx.evaluate(
        world,
        scaled_questions(),
        gvfx.OptimalDesign(first=300),
        gvfx.CertaintyEquivalence(),
        steps=4000,
        seeds=20,
        evaluate_every=4000,
        calibrate=calibrate,
    )
    return result, result.mse[:, -1].mean(axis=0) / (result.details.truth[0][:, world.live] ** 2).mean(axis=1)


@pytest.mark.full
@pytest.mark.compiled(2)
def test_calibrated_weights_serve_small_cumulants_as_well_as_large_ones():
    (_, plain), (result, calibrated) = relative_errors(False), relative_errors(True)
    assert calibrated[0] < plain[0] and max(calibrated[0] / calibrated[1], calibrated[1] / calibrated[0]) < 3
    assert result.details.weights[0] / result.details.weights[1] > 1e4


@pytest.mark.compiled(2)
def test_a_relative_rule_to_stop_weighs_relative_errors_alike():
    options = {"steps": 100_000, "until": gvfx.error_below(0.01, relative=True)}
    plain, calibrated = (run(small_world(), scaled_questions(), calibrate=c, **options) for c in (False, True))
    assert plain.stopped[0] == calibrated.stopped[0] < 100_000


def test_complaints():
    with pytest.raises(gvfx.InputError, match=r"^target: "):
        gvfx.error_below(0.0)
    with pytest.raises(gvfx.InputError, match=r"^until: .*CertaintyEquivalence"):
        gvfx.evaluate(*chain(), gvfx.Uniform(), gvfx.ExpectedSarsa(), until=gvfx.error_below(0.1))
    with pytest.raises(gvfx.InputError, match=r"^intervals: .*CertaintyEquivalence"):
        gvfx.evaluate(*chain(), gvfx.Uniform(), gvfx.ExpectedSarsa(), steps=10).intervals(0)
    with pytest.raises(gvfx.InputError, match=r"^level: "):
        run(*chain(), steps=10).intervals(0, level=95)
    with pytest.raises(gvfx.InputError, match=r"^method: the bootstrap is gone"):
        run(*chain(), steps=10).intervals(0, method="bootstrap")
