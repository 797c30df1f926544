"""Ground truth: true values at the live states, and the error against them."""

import numpy as np
import pytest
from helpers.worlds import chain, golden, two_armed_bandit

import gvfx
import gvfx_paper
from gvfx.questions.gvf import stack
from gvfx.theory import exact
from gvfx.theory.exact import GroundTruth, predicted_values


def test_mse_on_the_chain_by_hand():
    """Truth (1.5, 1); estimates (1, 3): errors .25 and 4, mean 2.125."""
    world, questions = chain(discount=0.5)
    truth = GroundTruth.exact(world, stack(questions, world))
    assert truth.points.tolist() == [0, 1]
    assert truth.mse(np.array([[1.0, 3.0, 0.0]]), np.zeros(1)) == pytest.approx([2.125])
    assert truth.mse(np.array([[1.5, 1.0, 0.0]]), np.zeros(1)) == pytest.approx([0.0])


def test_only_live_states_count():
    """Neither the terminal state's estimate nor a wall cell's moves the error."""
    world, questions = chain(discount=0.5)
    truth = GroundTruth.exact(world, stack(questions, world))
    assert truth.mse(np.array([[1.0, 3.0, 1e6]]), np.zeros(1)) == pytest.approx([2.125])

    grid = gvfx.gridworld("L.\n#.")
    question = gvfx.GVF([0.25] * 4, gvfx.Constant(1, at="L"), 0.9)
    truth = GroundTruth.exact(grid, stack([question], grid))
    assert truth.points.tolist() == [0, 1, 3]
    estimate = exact.values(grid, [question])
    estimate[0, [2, 4]] = 1e6
    assert truth.mse(estimate, np.zeros(1)) == pytest.approx([0.0])
    estimate[0, 3] += 3
    assert truth.mse(estimate, np.zeros(1)) == pytest.approx([3.0])


def test_a_state_left_out_of_live_does_not_count():
    world, _ = chain(discount=0.5)
    partial = gvfx.MDP(world.next, world.prob, world.start, world.terminal, live=np.array([True, False, False]))
    question = gvfx.GVF([1.0], gvfx.table_cumulant([1.0, 1.0, 0.0]), 0.5)
    truth = GroundTruth.exact(partial, stack([question], partial))
    assert truth.mse(np.array([[1.0, 3.0, 0.0]]), np.zeros(1)) == pytest.approx([0.25])


def test_mse_is_per_question_and_ignores_the_weights():
    world, (first, second) = golden()
    heavy = gvfx.GVF(second.policy, second.cumulant, second.discount, weight=5.0)
    truth = GroundTruth.exact(world, stack([first, heavy], world))
    estimates = exact.values(world, [first, heavy]) + np.array([[1.0, 1.0], [2.0, 0.0]])
    assert truth.mse(estimates, np.zeros(2)) == pytest.approx([1.0, 2.0])


def test_truth_follows_a_drifters_present_level():
    world, _ = chain()
    questions = [gvfx.GVF([1.0], gvfx.Drifter(0.5, 100, at=1), 0.5), gvfx.GVF([1.0], 1.0, 0.5)]
    truth = GroundTruth.exact(world, stack(questions, world))
    level = np.array([8.0, 0.0])
    assert truth.values(level) == pytest.approx(np.array([[4.0, 8.0, 0.0], [1.5, 1.0, 0.0]]))
    assert truth.mse(np.zeros((2, 3)), level) == pytest.approx([40.0, 1.625])
    assert truth.values(level) == pytest.approx(exact.values(world, questions, level))


def test_errors_average_over_the_cells_of_each_setting():
    for name, cells in (("distinct", 400), ("fourrooms", 365)):
        s = gvfx_paper.paper[name]
        asked = stack(s.questions, s.world)
        truth = GroundTruth.exact(s.world, asked)
        assert len(truth.points) == cells
        v = exact.values(s.world, s.questions)
        expected = (v[:, s.world.live] ** 2).sum(axis=1) / cells
        assert truth.mse(np.zeros_like(v), asked.level) == pytest.approx(expected)


def test_predicted_values_average_q_over_the_target_policy():
    world, questions = two_armed_bandit()
    q = np.array([[[1.0], [3.0]], [[0.0], [0.0]]])
    assert predicted_values(world, stack(questions, world), q) == pytest.approx(np.array([[2.5, 0.0]]))


def test_predicted_values_of_the_true_q_are_the_truth():
    world, questions = golden()
    q = exact.action_values(world, questions)
    assert predicted_values(world, stack(questions, world), q) == pytest.approx(exact.values(world, questions))


def test_predicted_values_read_the_table_row_of_each_state():
    world, questions = two_armed_bandit()
    one_row = gvfx.MDP(world.next, world.prob, world.start, world.terminal, features=np.array([0, 0]))
    assert predicted_values(one_row, stack(questions, one_row), np.array([[[1.0], [3.0]]])).tolist() == [[2.5, 2.5]]
