"""evaluate: determinism, what a result holds, defaults, and its complaints."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.worlds import gaussian_bandit

import gvfx
import gvfx_paper
from gvfx.running.plan import Plan
from gvfx.schedules import Fixed


def grid_run(seeds, **options):
    setting = gvfx_paper.paper["distinct"]
    behaviour = options.pop("behaviour", None) or setting.behaviour("GVFExplorer")
    return gvfx.evaluate(setting.world, setting.questions, behaviour, setting.learner(), steps=20_000, seeds=seeds, **options)


@pytest.mark.compiled(2)
def test_same_seed_same_bytes_and_different_seeds_differ():
    first, again = grid_run([7, 8]), grid_run([7, 8])
    for field in ("mse", "values", "variances", "visits", "behaviour"):
        assert getattr(first.details, field).tobytes() == getattr(again.details, field).tobytes()
    assert not np.array_equal(first.mse[0], first.mse[1])


@pytest.mark.compiled(2)
def test_workers_order_and_measuring_do_not_change_a_run():
    alone = grid_run([3])
    together = grid_run([1, 2, 3], workers=2, evaluate_every=777, snapshots=[1234])
    assert alone.values[0].tobytes() == together.values[2].tobytes()
    assert alone.visits[0].tobytes() == together.visits[2].tobytes()


def test_a_drift_by_visits_counts_the_visits_of_its_own_place():
    """Beside a question that pays elsewhere and one that pays everywhere: the level moves by 1 with each visit to `left`."""
    world = gvfx.gridworld(4, {"left": (0, 0), "right": (3, 3)}, horizon=20)
    drifter = gvfx.Drifter(0.0, 100, at="left", advance="visit", mean=1.0)
    others = [gvfx.GVF([0.25] * 4, gvfx.Constant(1.0, at="right"), 0.9), gvfx.GVF([0.25] * 4, gvfx.Constant(1.0), 0.9)]
    result = gvfx.evaluate(world, [*others, gvfx.GVF([0.25] * 4, drifter, 0.9)], gvfx.Uniform(), gvfx.ExpectedSarsa(), steps=2000)
    visits = result.visits[0][world.where("left")].sum()
    assert 0 < visits < result.visits[0].sum() / 4
    assert result.details.extra["levels"][0, -1, 2] == 100 + visits


def test_drift_depends_on_seed_and_step_only():
    setting = gvfx_paper.paper["fourrooms"]
    runs = [
        gvfx.evaluate(setting.world, setting.questions, behaviour, setting.learner(), steps=5000, seeds=2)
        for behaviour in (gvfx.Uniform(), gvfx.GVFExplorer())
    ]
    assert np.array_equal(runs[0].details.extra["levels"], runs[1].details.extra["levels"])
    assert runs[0].details.extra["levels"][0, -1, 1] != runs[0].details.extra["levels"][1, -1, 1]
    np.testing.assert_allclose(
        runs[0].details.truth[:, 1],
        gvfx.exact.values(setting.world, setting.questions)[1] / 100 * runs[0].details.extra["levels"][:, -1:, 1],
    )


@pytest.mark.compiled(2)
def test_result_has_the_evidence():
    result = grid_run(2, evaluate_every=4000, snapshots=[5000])
    assert result.steps.tolist() == [4000, 8000, 12000, 16000, 20000]
    assert result.mse.shape == (2, 5, 2)
    assert [s.step for s in result.details.snapshots] == [5000, 20000]
    assert result.details.snapshots[0].visits.sum() == 2 * 5000
    assert result.visits.sum() == 2 * 20000
    np.testing.assert_allclose(result.details.behaviour[:, :400].sum(axis=2), 1)
    gap = (result.values - result.details.truth)[:, :, :400]
    np.testing.assert_allclose((gap**2).mean(axis=2), result.mse[:, -1])
    np.testing.assert_allclose(result.predict(5), result.values[:, :, 5].mean(axis=0))


@pytest.mark.compiled(2)
def test_variances_are_kept_only_where_a_behaviour_reads_them():
    assert grid_run(1, behaviour=gvfx.Uniform()).details.variances is None


@pytest.mark.compiled(2)
def test_design_example_runs_as_printed():
    world = gvfx.gridworld(20, goals={"left": (0, 0), "right": (0, 19)}, slip=0.1)
    questions = [
        gvfx.GVF(gvfx.constant_policy([0.175, 0.175, 0.25, 0.4]), gvfx.Distractor(100, 5, at="left"), 0.99),
        gvfx.GVF(gvfx.constant_policy([0.25, 0.15, 0.25, 0.35]), gvfx.Distractor(50, 5, at="right"), 0.99),
    ]
    result = gvfx.evaluate(
        world, questions, gvfx.GVFExplorer(), gvfx.ExpectedSarsa(), steps=200_000, seeds=3, evaluate_every=100_000
    )
    truth = gvfx.exact.values(world, questions)
    assert truth.shape == (2, 401) and truth.mean(axis=1) == pytest.approx([1.3045, 0.4934], abs=0.51e-4)
    midway, end = result.mse.mean(axis=(0, 2))
    assert end < midway / 2 and end < 0.1 * (truth[:, world.live] ** 2).mean()  # a tenth of the error of answering 0
    np.testing.assert_allclose(((result.values - truth)[..., world.live] ** 2).mean(axis=2), result.mse[:, -1])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (dict(seeds=0), "seeds"),
        (dict(seeds=[]), "seeds"),
        (dict(seeds=[1, 1]), "seeds"),
        (dict(seeds=[-1]), "seeds"),
        (dict(steps=0), "steps"),
        (dict(evaluate_every=0), "evaluate_every"),
        (dict(snapshots=[10**9]), "snapshots"),
        (dict(workers=0), "workers"),
        (dict(learner=gvfx.ExpectedSarsa(rate_q=0.0)), "rate"),
    ],
)
def test_bad_options_are_named_before_the_first_step(options, field):
    world, cumulant = gaussian_bandit((0, 1), (1, 1))
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], **{"steps": 100, **options})


def test_bad_learners_and_worlds_are_named():
    with pytest.raises(gvfx.InputError, match="^ratio_low"):
        gvfx.ImportanceSampling(ratio_low=2.0, ratio_high=1.0)
    with pytest.raises(gvfx.InputError, match=r"^initial_m: -1.0 lies outside \[0, inf\]"):
        gvfx.ExpectedSarsa(initial_m=-1.0)
    with pytest.raises(gvfx.InputError, match="^world"):
        gvfx.evaluate("grid", [], steps=10)


def test_averaged_error_is_the_mean_over_the_last_episodes():
    """One-step episodes: the estimate after each is known from single-step runs, and so is the mean of their errors."""
    world, cumulant = gaussian_bandit((0.0, 1.0), (4.0, 2.0))
    question = gvfx.GVF([0.5, 0.5], cumulant)
    options = {"learner": gvfx.ExpectedSarsa(Fixed(0.3)), "behaviour": gvfx.Uniform()}
    present = gvfx.evaluate(world, [question], steps=40, evaluate_every=1, **options).mse[0, :, 0]
    averaged = gvfx.evaluate(world, [question], steps=Plan.checked(40, 1, (), 10), **options).mse[0, :, 0]
    expected = [present[max(0, t - 9) : t + 1].mean() for t in range(40)]
    np.testing.assert_allclose(averaged, expected, rtol=1e-12)


def test_defaults_for_tables_need_few_steps_and_summaries_are_given_for_all():
    questions = [gvfx.GVF([0.25] * 4, gvfx.Constant(1.0, at="goal"), 0.9)]
    result = gvfx.evaluate(gvfx.gridworld(4, {"goal": (0, 0)}), questions, steps=2_000, until=gvfx.error_below(0.5))
    assert "OptimalDesign" in result.summary() and "CertaintyEquivalence(forgetting=0.0" in result.summary()
    assert result.intervals().shape == (1, 17, 2)
    drifting = [gvfx.GVF([0.25] * 4, gvfx.Drifter(1.0, at="goal"), 0.9)]
    assert "forgetting='auto'" in gvfx.evaluate(gvfx.gridworld(4, {"goal": (0, 0)}), drifting, steps=500).summary()
    grouped = gvfx.evaluate(gvfx.gridworld(4, {"goal": (0, 0)}, grouping=2), questions, steps=500)
    assert not grouped.details.has_intervals and "MSE" in grouped.summary()
