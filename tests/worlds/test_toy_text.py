"""Gymnasium's toy-text environments as worlds whose truth is known."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import gvfx
from gvfx.worlds.conversion import is_toy_text
from gvfx.worlds.spec import time_limit

TOYS = ["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "CliffWalkingSlippery-v1"]


@pytest.mark.parametrize("name", TOYS)
def test_toy_text_truth_equals_plain_iteration_over_the_table(name):
    """V by sweeping the environment's own P until nothing moves, termination by outcome: the linear solve must agree."""
    env = gym.make(name)
    world = gvfx.from_gymnasium(env)
    P, rng = env.unwrapped.P, np.random.default_rng(0)
    pi = rng.dirichlet(np.ones(world.actions), world.states)
    outcomes = [(s, a, *outcome) for s in P for a in P[s] for outcome in P[s][a]]
    s, a, p, s2, r, ended = (np.array(column) for column in zip(*outcomes))

    def swept(cumulant, gamma):
        v, weight = np.zeros(world.states), pi[s, a] * p
        for _ in range(400):
            v = np.bincount(s, weight * (cumulant + gamma * ~ended * v[s2]), world.states)
        return v

    questions = [
        gvfx.GVF(pi, gvfx.Reward(), 0.9),
        gvfx.GVF(pi, lambda s, a, s2: [s2 % 3, s != s2], lambda s, a, s2: 0.9 if s2 % 2 else 0.5, name="v"),
    ]
    questions[1] = gvfx.GVF(pi, gvfx.Measure(questions[1].cumulant.function, size=2), questions[1].discount)
    by_signal = np.where(s2 % 2, 0.9, 0.5)
    expected = [swept(r, 0.9), swept(s2 % 3, by_signal), swept(1.0 * (s != s2), by_signal)]
    truth = gvfx.exact.values(world, questions)
    np.testing.assert_allclose(truth[:, world.live], np.array(expected)[:, world.live], atol=1e-9)


def test_time_limits_become_the_horizon():
    assert gvfx.from_gymnasium(gym.make("FrozenLake-v1", max_episode_steps=17)).horizon == 17
    assert gvfx.from_gymnasium(gym.make("CliffWalking-v1")).horizon is None
    assert time_limit(gym.make("Taxi-v4")) == 200


def test_what_changes_the_dynamics_is_not_taken_for_the_table():
    fickle = gym.make("Taxi-v4", fickle_passenger=True)
    sticky = gym.wrappers.StickyAction(gym.make("FrozenLake-v1"), 0.2)
    assert is_toy_text(gym.make("Taxi-v4")) and not is_toy_text(fickle) and not is_toy_text(sticky)
    assert not is_toy_text(gym.make("CartPole-v1"))
    for env, word in ((fickle, "fickle_passenger"), (sticky, "StickyAction"), (gym.make("CartPole-v1"), "has no P")):
        with pytest.raises(gvfx.InputError, match=word):
            gvfx.from_gymnasium(env)


def test_signals_that_a_table_cannot_tell_are_refused_there():
    world, rng = gvfx.from_gymnasium(gym.make("FrozenLake-v1")), np.random.default_rng(0)
    for cumulant in (gvfx.Info("prob"), lambda s, a, r, s2, info: info["prob"], lambda s, a, s2: rng.normal()):
        with pytest.raises(gvfx.InputError, match="let the environment be stepped instead"):
            gvfx.exact.values(world, [gvfx.GVF(gvfx.uniform_policy(), cumulant)])
    with pytest.raises(gvfx.InputError, match="has no reward"):
        gvfx.exact.values(gvfx.gridworld(3), [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward())])
