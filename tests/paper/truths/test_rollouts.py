"""Plain Monte Carlo without sampling: against returns by hand, the closed form of the variance, and rollouts that are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.worlds import small_world, two_questions

import gvfx
from gvfx.errors import InputError
from gvfx.theory.exact import state_variance, values
from gvfx_paper.truths.rollouts import Rollouts, rollout_error, rollouts


def coin():
    """From 0 a step pays 1 and ends with probability a half; otherwise it goes on in 0.  State 1 is the end."""
    P = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
    return gvfx.MDP.from_matrix(P, start=[1.0, 0.0], terminal=[False, True])


def test_by_hand():
    """With discount 1/2: one step pays 1; two pay 1 + 1/2 with probability 1/2, and take 1.5 steps on average."""
    one, two, many = rollouts(coin(), [gvfx.GVF([1.0], 1.0, 0.5)], (1, 2, 60))
    truth = 1 / (1 - 0.25)
    assert (one.steps, one.variance) == (1.0, 0.0) and one.bias == pytest.approx((truth - 1) ** 2)
    assert two.steps == 1.5 and two.variance == pytest.approx(0.0625) and two.bias == pytest.approx((truth - 1.25) ** 2)
    assert many.steps == pytest.approx(2.0) and many.bias == pytest.approx(0.0, abs=1e-20)


def test_long_rollouts_have_the_variance_of_the_return():
    world, questions = small_world(), two_questions()
    (found,) = rollouts(world, questions, (2000,))
    exact = state_variance(world, questions, "return_variance")[:, world.live].mean()
    assert found.variance == pytest.approx(exact, rel=1e-6) and found.bias == pytest.approx(0.0, abs=1e-9)


def test_against_rollouts_that_are_drawn():
    """4,000 of them from one state: within 4 standard errors."""
    world, (question, _), rng = small_world(), two_questions(), np.random.default_rng(0)
    state = int(np.flatnonzero(world.live)[3])
    alone = replace(world, live=np.arange(world.states) == state)
    (known,) = rollouts(alone, [question], (12,))
    policy = np.broadcast_to(question.policy.table(world.states, world.actions), (world.states, world.actions))
    tables = question.cumulant.tables(world)
    mean, sd = (np.broadcast_to(part, world.next.shape) for part in (tables.mean, tables.sd))
    returns, taken = np.zeros(4000), np.zeros(4000)
    for k in range(4000):
        s, weight = state, 1.0
        for _ in range(12):
            a = rng.choice(world.actions, p=policy[s])
            j = rng.choice(world.next.shape[2], p=world.prob[s, a])
            returns[k] += weight * rng.normal(mean[s, a, j], sd[s, a, j])
            taken[k], weight, s = taken[k] + 1, weight * float(question.discount), int(world.next[s, a, j])
            if world.terminal[s]:
                break
    truth = values(alone, [question])[0, state]
    spread = np.sqrt(known.variance / 4000)
    assert taken.mean() == pytest.approx(known.steps, rel=0.02)
    assert abs((returns.mean() - truth) ** 2 - known.bias) <= 8 * spread * np.sqrt(known.bias) + 16 * spread**2
    assert returns.var() == pytest.approx(known.variance, rel=0.35)


def test_questions_about_one_policy_share_rollouts():
    asked = gvfx.GVF([1.0], 1.0, 0.5), gvfx.GVF([1.0], 2.0, 0.5)
    (one,), (both,) = rollouts(coin(), asked[:1], (5,)), rollouts(coin(), asked, (5,))
    assert both.steps == one.steps and both.variance == pytest.approx(one.variance * (1 + 4) / 2)


def test_the_best_length_is_taken_and_every_state_needs_a_rollout():
    known = [Rollouts(1, 10, 1.0, 0.5), Rollouts(5, 50, 0.0, 4.0)]
    assert rollout_error(known, 9) == np.inf
    assert rollout_error(known, 40) == pytest.approx(1 + 0.5 * 10 / 40)
    assert rollout_error(known, 1000) == pytest.approx(4 * 50 / 1000)


def test_a_varying_discount_is_refused():
    with pytest.raises(InputError, match="constant discounts"):
        rollouts(coin(), [gvfx.GVF([1.0], 1.0, lambda s, a, s2: 0.5)])
