"""evaluate: determinism, truncation and termination, learners on worlds known by hand, and its complaints."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_behaviours import bandit

import gvfx
from gvfx.schedules import Fixed, Linear

PI = [0.25, 0.25, 0.25, 0.25]


def grid_run(seeds, **options):
    setting = gvfx.paper["distinct"]
    behaviour = options.pop("behaviour", None) or setting.behaviour("GVFExplorer")
    return gvfx.evaluate(setting.world, setting.questions, behaviour, setting.learner(), steps=20_000, seeds=seeds, **options)


def test_same_seed_same_bytes_and_different_seeds_differ():
    first, again = grid_run([7, 8]), grid_run([7, 8])
    for field in ("mse", "values", "variances", "visits", "behaviour", "levels"):
        assert getattr(first, field).tobytes() == getattr(again, field).tobytes()
    assert not np.array_equal(first.mse[0], first.mse[1])


def test_workers_order_and_measuring_do_not_change_a_run():
    alone = grid_run([3])
    together = grid_run([1, 2, 3], workers=2, evaluate_every=777, snapshots=[1234])
    assert alone.values[0].tobytes() == together.values[2].tobytes()
    assert alone.visits[0].tobytes() == together.visits[2].tobytes()


def test_drift_depends_on_seed_and_step_only():
    setting = gvfx.paper["fourrooms"]
    runs = [
        gvfx.evaluate(setting.world, setting.questions, behaviour, setting.learner(), steps=5000, seeds=2)
        for behaviour in (gvfx.Uniform(), gvfx.GVFExplorer())
    ]
    assert np.array_equal(runs[0].levels, runs[1].levels)
    assert runs[0].levels[0, -1, 1] != runs[0].levels[1, -1, 1]
    np.testing.assert_allclose(
        runs[0].truth[:, 1], gvfx.exact.values(setting.world, setting.questions)[1] / 100 * runs[0].levels[:, -1:, 1]
    )


def loop_world(terminates):
    """One state that pays 1 per step and is left never, or at once."""
    P = np.zeros((2, 1, 2))
    P[0, 0, int(terminates)] = P[1, 0, 1] = 1
    return gvfx.MDP.from_matrix(P, terminal=[False, True], horizon=3)


@pytest.mark.parametrize(("terminates", "value"), [(True, 1.0), (False, 2.0)])
@pytest.mark.parametrize("learner", [gvfx.ExpectedSarsa(Fixed(0.1)), gvfx.ImportanceSampling(Fixed(0.1))])
def test_truncation_bootstraps_and_termination_does_not(terminates, value, learner):
    question = gvfx.GVF([1.0], gvfx.Constant(1.0), 0.5)
    result = gvfx.evaluate(loop_world(terminates), [question], gvfx.Uniform(), learner, steps=2000)
    assert result.values[0, 0, 0] == pytest.approx(value, abs=1e-6)
    assert result.mse[0, -1, 0] < 1e-10


@pytest.mark.parametrize("kind", [gvfx.ExpectedSarsa, gvfx.ImportanceSampling])
def test_learners_find_values_and_variances_of_a_chain(kind):
    """Three states in a row, noise N(0, 1) at each: V counts the discounted steps, Eq. 6 gives M = 1 + g^2 (1 + g^2)."""
    P = np.zeros((4, 2, 4))
    for s in range(3):
        P[s, :, s + 1] = 1
    P[3, :, 3] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0, 0], terminal=[False, False, False, True])
    question = gvfx.GVF([0.4, 0.6], gvfx.Distractor(1.0, 1.0), 0.5)
    learner = kind(Linear(1.0, 0.005, 20_000), Linear(1.0, 0.005, 20_000))
    result = gvfx.evaluate(world, [question], gvfx.GVFExplorer(), learner, steps=300_000)
    np.testing.assert_allclose(result.truth[0, 0], [1.75, 1.5, 1.0, 0.0])
    np.testing.assert_allclose(result.values[0, 0], result.truth[0, 0], atol=0.2)
    exact = gvfx.exact.state_variance(world, [question])[0]
    np.testing.assert_allclose(exact, [1.3125, 1.25, 1.0, 0.0])
    if kind is gvfx.ExpectedSarsa:
        np.testing.assert_allclose(result.variances[0, 0], exact, atol=0.25)


def test_expected_sarsa_reaches_the_truth_on_the_grid():
    setting = gvfx.paper["semi-greedy"]
    learner = gvfx.ExpectedSarsa(Linear(1.0, 0.02, 500_000))
    result = gvfx.evaluate(setting.world, setting.questions, gvfx.Uniform(), learner, steps=2_000_000)
    assert result.error[0, -1] < 0.01 * (result.truth[0][:, setting.world.live] ** 2).mean()


def test_result_has_the_evidence():
    result = grid_run(2, evaluate_every=4000, snapshots=[5000])
    assert result.steps.tolist() == [4000, 8000, 12000, 16000, 20000]
    assert result.mse.shape == (2, 5, 2)
    assert [s.step for s in result.snapshots] == [5000, 20000]
    assert result.snapshots[0].visits.sum() == 2 * 5000
    assert result.visits.sum() == 2 * 20000
    np.testing.assert_allclose(result.behaviour[:, :400].sum(axis=2), 1)
    gap = (result.values - result.truth)[:, :, :400]
    np.testing.assert_allclose((gap**2).mean(axis=2), result.mse[:, -1])
    np.testing.assert_allclose(result.predict(5), result.values[:, :, 5].mean(axis=0))


def test_variances_are_kept_only_where_a_behaviour_reads_them():
    assert grid_run(1, behaviour=gvfx.Uniform()).variances is None


def test_design_example_runs_as_printed():
    world = gvfx.gridworld(20, goals={"left": (0, 0), "right": (0, 19)}, slip=0.1)
    questions = [
        gvfx.GVF(gvfx.constant_policy([0.175, 0.175, 0.25, 0.4]), gvfx.Distractor(100, 5, at="left"), 0.99),
        gvfx.GVF(gvfx.constant_policy([0.25, 0.15, 0.25, 0.35]), gvfx.Distractor(50, 5, at="right"), 0.99),
    ]
    result = gvfx.evaluate(
        world, questions, gvfx.GVFExplorer(), gvfx.ExpectedSarsa(), steps=200_000, seeds=3, evaluate_every=100_000
    )
    assert result.mse.mean(axis=(0, 2)).shape == (2,)
    assert gvfx.exact.values(world, questions).shape == (2, 401)


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
        (dict(learner=gvfx.ExpectedSarsa(initial_m=-1.0)), "initial_m"),
    ],
)
def test_bad_options_are_named_before_the_first_step(options, field):
    world, cumulant = bandit((0, 1), (1, 1))
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], **{"steps": 100, **options})


def test_bad_learners_and_worlds_are_named():
    with pytest.raises(gvfx.InputError, match="^ratio_low"):
        gvfx.ImportanceSampling(ratio_low=2.0, ratio_high=1.0)
    with pytest.raises(gvfx.InputError, match="^world"):
        gvfx.evaluate("grid", [], steps=10)


def test_averaged_error_is_the_mean_over_the_last_episodes():
    """One-step episodes: the estimate after each is known from single-step runs, and so is the mean of their errors."""
    world, cumulant = bandit((0.0, 1.0), (4.0, 2.0))
    question = gvfx.GVF([0.5, 0.5], cumulant)
    options = {"learner": gvfx.ExpectedSarsa(Fixed(0.3)), "behaviour": gvfx.Uniform()}
    present = gvfx.evaluate(world, [question], steps=40, evaluate_every=1, **options).mse[0, :, 0]
    averaged = gvfx.evaluate(world, [question], steps=40, evaluate_every=1, average_episodes=10, **options).mse[0, :, 0]
    expected = [present[max(0, t - 9) : t + 1].mean() for t in range(40)]
    np.testing.assert_allclose(averaged, expected, rtol=1e-12)


def test_episodic_expected_sarsa_waits_for_the_end_of_the_episode():
    """Two steps per episode at rate 1: the first pass sees Q(1) = 0, so V(0) = 1 after one episode and 1.5 after two."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0], terminal=[False, False, True], horizon=5)
    learner = gvfx.EpisodicExpectedSarsa(Fixed(1.0), Fixed(1.0), initial_q=0.0)
    values = [
        gvfx.evaluate(world, [gvfx.GVF([1.0], gvfx.Constant(1.0), 0.5)], gvfx.GVFExplorer(), learner, steps=n)
        .values[0, 0, :2]
        .tolist()
        for n in (1, 2, 4)
    ]
    assert values == [[0.0, 0.0], [1.0, 1.0], [1.5, 1.0]]


def test_episodic_variance_uses_the_new_q_and_has_a_floor():
    world, cumulant = bandit((3.0, 0.0), (3.0, 0.0), horizon=2)
    learner = gvfx.EpisodicExpectedSarsa(Fixed(1.0), Fixed(1.0), initial_q=0.0, smallest_m=0.01)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], gvfx.GVFExplorer(), learner, steps=50)
    assert result.variances[0, 0, 0] == pytest.approx(0.01)


@pytest.mark.parametrize(("setting", "extra"), [("continuous", "deep"), ("walker", "mujoco")])
def test_a_missing_extra_is_named(monkeypatch, setting, extra):
    from gvfx.experiments.compare import find_setting, run_behaviour

    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(gvfx.InputError, match=rf"^jax: not installed; run pip install 'gvfx\[{extra}\]'\.$"):
        run_behaviour(find_setting(setting), "RoundRobin", steps=3200)


def test_defaults_for_tables_need_few_steps_and_summaries_are_given_for_all():
    questions = [gvfx.GVF([0.25] * 4, gvfx.Constant(1.0, at="goal"), 0.9)]
    result = gvfx.evaluate(gvfx.gridworld(4, {"goal": (0, 0)}), questions, steps=2_000, until=gvfx.error_below(0.5))
    assert "OptimalDesign" in result.summary() and "CertaintyEquivalence(forgetting=0.0" in result.summary()
    assert result.intervals().shape == (1, 17, 2)
    drifting = [gvfx.GVF([0.25] * 4, gvfx.Drifter(1.0, at="goal"), 0.9)]
    assert "forgetting='auto'" in gvfx.evaluate(gvfx.gridworld(4, {"goal": (0, 0)}), drifting, steps=500).summary()
    grouped = gvfx.evaluate(gvfx.gridworld(4, {"goal": (0, 0)}, grouping=2), questions, steps=500)
    assert not grouped.has_intervals and "MSE" in grouped.summary()
