"""truth_of: Monte Carlo values against exact ones on FrozenLake, stopping at a precision, what is cut off."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Sound

import gvfx

HALF = [0.5, 0.5]


@pytest.fixture(scope="module")
def lake():
    env = gym.make("FrozenLake-v1", max_episode_steps=4)  # the limit must not shorten the returns
    safe = gvfx.deterministic_policy([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])
    questions = [
        gvfx.GVF(gvfx.uniform_policy(), 1.0, 1.0, name="length"),
        gvfx.GVF(gvfx.uniform_policy(), lambda s, a, s2: s2 % 4, lambda s, a, s2: 0.5 if s2 == 4 else 0.9, name="column"),
        gvfx.GVF(gvfx.mixture_policy([safe, gvfx.uniform_policy()]), gvfx.Reward(), 0.95, name="goal"),
    ]
    return env, questions, gvfx.exact.values(gvfx.from_gymnasium(env), questions)


def test_values_at_the_start_agree_with_the_exact_ones(lake):
    env, questions, exact = lake
    found = gvfx.truth_of(env, questions, max_episodes=600)
    assert found.names == ("length", "column", "goal") and found.points == ("start",)
    gap = np.abs(found.values[:, 0] - exact[:, 0])
    assert (gap < 4 * found.standard_errors[:, 0]).all() and (found.standard_errors > 0).all()
    assert found.episodes.tolist() == [[600], [600], [600]] and not found.residuals.any()
    assert env.get_wrapper_attr("_max_episode_steps") == 4


def test_recorded_and_given_points_agree_with_the_exact_values(lake):
    env, questions, exact = lake

    def put(env, state):
        env.unwrapped.s = state
        return state

    for options in ({"points": 2}, {"points": [6, 14], "reset_to": put}):
        found = gvfx.truth_of(env, questions[:2], max_episodes=250, **options)
        gap = np.abs(found.values - exact[:2][:, list(found.points)])
        assert (gap < 4.5 * found.standard_errors).all()
        assert (found.standard_errors > 0).all()  # chance is drawn anew after a replay


def test_it_stops_at_the_wanted_precision(lake):
    env, questions, _ = lake
    found = gvfx.truth_of(env, questions[:2], precision=0.5)
    assert found.precise.all() and (found.standard_errors <= 0.5).all() and (found.episodes < 1000).all()
    never = gvfx.truth_of(env, questions[:1], precision=1e-6, max_episodes=60)
    assert not never.precise.any() and never.episodes.tolist() == [[60]]


class Endless(gym.Env):
    """Pays 1 for ever."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, 1.0, False, False, {}


def test_what_is_cut_off_is_bounded():
    found = gvfx.truth_of(Endless(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], max_episodes=2, horizon=20)
    assert found.values[0, 0] + found.residuals[0, 0] == pytest.approx(10)
    assert found.residuals[0, 0] == pytest.approx(10 * 0.9**20)
    whole = gvfx.truth_of(Endless(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], max_episodes=2)
    assert whole.residuals[0, 0] < 1.1e-5


def test_equal_returns_are_not_believed_too_soon():
    found = gvfx.truth_of(Endless(), [gvfx.GVF(HALF, gvfx.Reward(), 0.1)], precision=0.1, max_episodes=200)
    assert not found.precise.any() and found.standard_errors.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"points": [1]}, "reset_to"),
        ({"points": 0}, "points"),
        ({"precision": 0.0}, "precision"),
        ({"max_episodes": 1}, "max_episodes"),
    ],
)
def test_bad_options_are_named(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.truth_of(Sound(), [gvfx.GVF(HALF, 1.0, 0.5)], **options)
    with pytest.raises(gvfx.InputError, match="^env"):
        gvfx.truth_of(gvfx.gridworld(3), [gvfx.GVF(HALF, 1.0, 0.5)])


def test_a_rare_goal_must_be_reached_often_enough():
    """A return of 1 in one of 50 episodes: 25 of them take about 1,250 episodes, whatever the precision."""

    class Rare(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, float(self.np_random.random() < 0.02), True, False, {}

    found = gvfx.truth_of(Rare(), [gvfx.GVF([1.0], gvfx.Reward(), 1.0)], relative=0.9)
    assert found.precise.all() and found.values[0, 0] * found.episodes[0, 0] >= 25
    nothing = gvfx.truth_of(Rare(), [gvfx.GVF([1.0], 0.0, 1.0)], relative=0.9, max_episodes=60)
    assert not nothing.precise.any()
