"""Benchmark exploring: worlds drawn from their numbers, what is worse beyond noise, and the two published experiments."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gvfx
from benchmarks import exploring as bench
from benchmarks.common.published_worlds import (
    WORLDS,
    double_chain,
    forked_river_swim,
    greedy,
    instance,
    n_arms,
    river_swim,
    small_grid,
)
from benchmarks.common.worlds import CLASSES, FAMILIES, corridor, random_world
from gvfx import design
from gvfx.theory.exact import state_variance


def steps_from_start(world):
    """The fewest steps from a start state to every state; infinite where there is no way."""
    steps = np.where(world.start > 0, 0.0, np.inf)
    for _ in range(world.states):
        s, a, k = np.nonzero((world.prob > 0) & np.isfinite(steps)[:, None, None] & ~world.terminal[:, None, None])
        np.minimum.at(steps, world.next[s, a, k], steps[s] + 1)
    return steps


@pytest.mark.parametrize("number", [0, 7, 100, 101])
@pytest.mark.parametrize("name", CLASSES)
def test_cold_worlds_can_be_explored_and_have_an_optimum(name, number):
    world, questions = CLASSES[name](number)
    assert world.states <= 400 and 2 <= len(questions) <= 3
    np.testing.assert_allclose(world.prob.sum(axis=2), 1)
    assert steps_from_start(world)[world.live].max() < world.horizon
    best = design.optimal(world, questions)
    assert 0 < best.bound <= best.constant * (1 + 1e-9) and best.timed <= 1.15 * best.bound
    assert best.constant < design.constant(world, questions, np.full((1, world.actions), 1 / world.actions))


@pytest.mark.parametrize("name", CLASSES)
def test_a_cold_world_is_that_of_its_number(name):
    (world, questions), (again, _), (other, _) = CLASSES[name](3), CLASSES[name](3), CLASSES[name](4)
    np.testing.assert_array_equal(world.next, again.next)
    np.testing.assert_array_equal(world.prob, again.prob)
    assert world.prob.shape != other.prob.shape or (world.prob != other.prob).any()
    assert len({question.name for question in questions}) == len(questions)


def test_most_pairs_of_the_taxi_have_no_chance_in_them():
    world, _ = CLASSES["taxi"](100)
    certain = (world.prob.max(axis=2) == 1)[world.live]
    assert 0.7 < certain.mean() < 1


def ratios(**errors):
    """Ratios of one world at one time, where behaviours that are not named have 100."""
    return {name: np.array(errors.get(name, [100.0] * 4)) for name in bench.BEHAVIOURS}


@pytest.mark.parametrize(
    "ours, rival, worse",
    [
        ([2.0, 2.1, 1.9, 2.0], [1.0, 1.1, 0.9, 1.0], True),
        ([1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0], False),
        ([1.0, 1.0, 1.0, 5.0], [1.1, 0.9, 1.1, 0.9], False),  # one run, and its mean is within noise
        ([1.0, 1.1, 0.9, 1.0], [1.0, 1.1, 0.9, 1.0], False),  # the same
        ([3.0, 3.1, 2.9, 9.0], [1.0, 1.1, 0.9, 8.9], True),  # always worse, though means are within noise: by logarithms
        ([0.0, 0.0, 0.0, 0.0], [1e-9, 1e-9, 1e-9, 1e-9], False),
    ],
)
def test_worse_beyond_noise(ours, rival, worse):
    assert bench.worse_than(ratios(OptimalDesign=ours, Mixture=rival)) == ("Mixture" if worse else "")
    assert bench.worse_than(ratios(OptimalDesign=ours, RoundRobin=rival)) == ""  # not one of those that the bar names


def test_ratios_are_errors_times_steps_over_the_optimum():
    world, questions = corridor(5)
    study = bench.hard_worlds({"corridor": lambda number: corridor(5)}, {"Uniform": gvfx.Uniform}, (100,), 3, (1000, 4000))
    found = study.found()["corridor 100"]["Uniform"]
    r = gvfx.evaluate(
        world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=4000, evaluate_every=1000, seeds=range(7000, 7003)
    )
    limit = design.optimal(world, questions).constant
    np.testing.assert_allclose(found, r.error[:, [0, 3]] * [1000, 4000] / limit)


def test_every_behaviour_runs_on_tables():
    assert all("tables" in make().supports for make in bench.BEHAVIOURS.values()) and set(bench.RIVALS) < set(bench.BEHAVIOURS)


def test_every_class_has_a_table_and_its_bars():
    classes = {"corridor": lambda number: corridor(5), "another": lambda number: corridor(6)}
    behaviours = {name: bench.BEHAVIOURS[name] for name in (bench.OURS, *bench.RIVALS)}
    study = bench.hard_worlds(classes, behaviours, (100,), 2, (1000, 30_000))
    found = study.found()
    assert [row.case for row in study.bars(found)] == ["corridor at 30,000", "another at 30,000", "worse beyond noise"]
    assert "of 4 (world, time)" in list(study.bars(found))[-1].note
    tables = list(study.tables(found))
    assert len(tables) == 3 and tables[0].row_count == 4 and str(tables[0].title).startswith("corridor: MSE")


@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_random_worlds_are_reproducible_and_have_an_optimum(number):
    world, questions = random_world(number)
    again, _ = random_world(number)
    np.testing.assert_array_equal(world.prob, again.prob)
    assert (world.actions, len(questions), world.successors) == FAMILIES[number]
    best = design.optimal(world, questions)
    assert 0 < best.bound <= best.constant < design.constant(world, questions, np.full((1, world.actions), 1 / world.actions))


STAY, BACK = 0.3 * 6 / 7, 0.3 / 7


def row(P, state, action):
    """The successors of a pair that have a chance."""
    return {int(s): pytest.approx(P[state, action, s]) for s in np.flatnonzero(P[state, action])}


def test_river_swim():
    P = river_swim(5)
    assert row(P, 0, 0) == {0: 1} and row(P, 0, 1) == {0: 0.3, 1: 0.7}
    assert row(P, 2, 0) == {1: 1} and row(P, 2, 1) == {1: BACK, 2: STAY, 3: 0.7}
    assert row(P, 4, 0) == {3: 1} and row(P, 4, 1) == {3: 0.3, 4: 0.7}


def test_forked_river_swim():
    """Of length 4: the first river is 0 1 2 3, the second 0 4 5 6."""
    P = forked_river_swim(4)
    assert P.shape == (7, 3, 7) and row(P, 0, 1) == {0: 0.3, 1: 0.7} and row(P, 0, 2) == row(P, 0, 0) == {0: 1}
    assert [row(P, s, 0) for s in (1, 3, 4, 5, 6)] == [{0: 1}, {2: 1}, {0: 1}, {4: 1}, {5: 1}]
    assert [row(P, s, 2) for s in (1, 2, 3, 4, 5, 6)] == [{4: 1}, {5: 1}, {3: 1}, {1: 1}, {2: 1}, {6: 1}]
    assert row(P, 5, 1) == {4: BACK, 5: STAY, 6: 0.7} and row(P, 4, 1) == {3: BACK, 4: STAY, 5: 0.7}
    assert row(P, 3, 1) == {2: 0.3, 3: 0.7} and row(P, 6, 1) == {5: 0.3, 6: 0.7}


def test_double_chain():
    P = double_chain(3)
    assert P.shape == (7, 2, 7) and row(P, 0, 0) == {4: 1} and row(P, 0, 1) == {1: 1}
    assert row(P, 1, 0) == {0: 0.3, 2: 0.7} and row(P, 3, 0) == {2: 0.3, 3: 0.7} and row(P, 4, 0) == {0: 0.3, 5: 0.7}
    assert row(P, 6, 0) == {5: 0.3, 6: 0.7} and row(P, 4, 1) == {0: 1} and row(P, 2, 1) == {1: 1}


def test_n_arms():
    P = n_arms(4)
    assert row(P, 0, 0) == {1: 1} and row(P, 0, 1) == {0: 0.65, 2: 0.35} and row(P, 0, 3) == {0: 0.825, 4: 0.175}
    assert all(row(P, s, a) == {0: 0.3, s: 0.7} for s in (1, 4) for a in range(4))


def test_greedy_policies_are_the_best():
    P, paid = river_swim(4), np.eye(8)[5].reshape(4, 2)  # paid for swimming in state 2
    found = greedy(P, paid, 0.9)

    def values(policy):
        s, a = np.arange(4), np.array(policy)
        return np.linalg.solve(np.eye(4) - 0.9 * P[s, a], paid[s, a])

    best = np.max([values(policy) for policy in product(range(2), repeat=4)], axis=0)
    np.testing.assert_allclose(values(found), best)
    assert greedy(n_arms(3), np.eye(12)[2 * 3 + 1].reshape(4, 3), 0.9).tolist() == [1, 0, 1, 0]  # the first of equals


@pytest.mark.parametrize("name, size", bench.PUBLISHED)
def test_instances_are_drawn_from_their_seed(name, size):
    (world, questions), (_, again), (_, others) = (instance(name, size, seed) for seed in (9000, 9000, 9001))
    assert world.horizon is None and world.start[0] == 1 and not world.terminal.any() and len(questions) == 3
    np.testing.assert_allclose(WORLDS[name](size).sum(axis=2), 1)
    truth = gvfx.exact.values(world, questions)
    np.testing.assert_array_equal(truth, gvfx.exact.values(world, again))
    assert (truth != gvfx.exact.values(world, others)).any()
    assert 1 <= truth.max() < 10  # a reward of 1 in one state, discounted by 0.9


def test_pseudo_counts_are_added_to_every_successor():
    world, questions = instance("RiverSwim", 4, 1)
    r = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=50, seed=0)
    P = np.ones((4, 2, 4))
    for (s, a, k), n in np.ndenumerate(r.details.models[0].counts):
        P[s, a, world.next[s, a, k]] += n
    P /= P.sum(axis=2, keepdims=True)
    states, truth = np.arange(4), gvfx.exact.values(world, questions)
    for i, values in enumerate(bench.pseudo_counted(r.details.models[0], questions)):
        taken = r.details.models[0].asked.pi[:, :, i].argmax(axis=1)
        paid = truth[i] - 0.9 * river_swim(4)[states, taken] @ truth[i]
        np.testing.assert_allclose(values, np.linalg.solve(np.eye(4) - 0.9 * P[states, taken], paid), atol=1e-12)


def test_the_experiment_stands_beside_what_was_published():
    setting = ("RiverSwim", 15)
    study = bench.mrnas({setting: bench.PUBLISHED[setting]}, 2, (2_000,))
    found = study.found()
    (row,) = study.bars(found)
    (shown,) = study.tables(found)
    assert row.case == "RiverSwim 15 at 2,000" and row.bar == "<= 0.031" and shown.row_count == len(bench.MRNAS)
    by_behaviour = dict(zip(shown.columns[1].cells, zip(*(c.cells for c in shown.columns), strict=True), strict=True))
    assert [c.header for c in shown.columns][-2:] == ["2,000, published", "answered with pseudo-counts"]
    assert by_behaviour[bench.OURS][3] == "0.031" and by_behaviour["Uniform"][3:] == ("", "") and by_behaviour[bench.OURS][4]


def test_the_bar_is_for_what_noise_leaves():
    """Errors of 1 and 3: a mean of 2 and a standard error of 1, so 4 must be below what was published."""
    errors = np.array([1.0, 3.0])
    assert bench.below_published("a", errors, 4.1).passed and not bench.below_published("a", errors, 3.9).passed


def test_the_world_is_the_published_one():
    """Their code prints 2.9242, 21.45 and 7.432, from a million episodes; the policy is rounded to three digits here."""
    world, question = small_grid()
    assert gvfx.exact.values(world, [question])[0, 0] == pytest.approx(2.9242, rel=0.005)
    assert state_variance(world, [question], "return_variance")[0, 0] == pytest.approx(21.45, rel=0.01)
    assert world.next[0, :, 0].tolist() == [0, 4, 0, 1] and world.reward[6, :, 0].tolist() == [-1, -1, -10, 1]
    length = gvfx.exact.values(world, [gvfx.GVF(question.policy, 1.0, 1.0)])[0, 0]
    assert length == pytest.approx(7.432, rel=0.01)
    assert [round(n / 7.432) for n in bench.ROS_STEPS] == [32, 128, 512]


def test_monte_carlo_on_policy_has_the_error_of_its_variance():
    """32 episodes: variance over 32, relative; 200 runs, so within 4 standard errors of about 10 %."""
    errors = bench.monte_carlo(False, 237, range(200))
    assert errors.mean() == pytest.approx(21.45 / 32 / 2.9242**2, rel=0.45)


def test_robust_data_follow_the_policy_closely():
    first, again = (bench.monte_carlo(True, 951, seeds) for seeds in (range(3), range(7, 10)))
    np.testing.assert_array_equal(first, again)  # nothing is random
    assert np.ptp(first) == 0 and first[0] < 0.018 / 10


def test_no_episode_that_ends_counts_as_nothing():
    assert bench.monte_carlo(False, 2, [0]).tolist() == [1.0]


def test_the_default_method_tries_every_action_of_every_cell():
    assert bench.by_counts(None, 951, range(3)).max() < bench.EXACT


@pytest.mark.parametrize(("errors", "text"), [([1e-30, 2e-30], "0"), ([0.25, 0.25], "0.25"), ([0.1, 0.3], "0.2 ± 0.1")], ids=str)
def test_means_are_shown_with_their_standard_errors(errors, text):
    assert bench.shown(np.array(errors)) == text


def test_small_samples_stand_beside_what_was_published():
    study = bench.ros(2, bench.ROS_STEPS[:1])
    found = study.found()
    (row,) = study.bars(found)
    assert row.case == "gvfx's default, CE after 237 steps" and row.bar == "<= 0.00056"
    (means,) = study.tables(found)
    assert [list(c.cells)[2] for c in means.columns][-2:] == ["on-policy, FQE", "0.0072"]
