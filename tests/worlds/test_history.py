"""Observations with what came before."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import gvfx


class Counter(gymnasium.Env):
    """Observes twice the step, and its negative."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,))
    action_space = gymnasium.spaces.Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 1
        return np.array([2.0, -1.0], np.float32), {}

    def step(self, action):
        self.t += 1
        return np.array([2.0 * self.t, -self.t], np.float32), 1.0, False, False, {"a": action}


def test_the_present_comes_first_then_each_action_with_the_observation_before_it():
    env = gvfx.history(Counter(), 2)
    first, _ = env.reset()
    assert first.tolist() == [2, -1, 0, 0, 0, 2, -1, 0, 0, 0, 2, -1]
    env.step(1)
    second, reward, terminated, truncated, info = env.step(3)
    assert second.tolist() == [6, -3, 0, 0, 1, 4, -2, 1, 0, 0, 2, -1]
    assert (reward, terminated, truncated, info) == (1.0, False, False, {"a": 3})
    assert env.observation_space.contains(second) and env.observation_space.shape == (12,)
    assert env.reset()[0].tolist() == first.tolist()


def test_numbers_and_boxes_are_vectors():
    env = gvfx.history(gymnasium.make("FrozenLake-v1"))
    assert env.observation_space.shape == (36,) and env.reset()[0].sum() == 2
    pendulum = gvfx.history(gymnasium.make("Pendulum-v1"))
    pendulum.reset(seed=0)
    assert pendulum.step(np.array([1.5], np.float32))[0][3] == 1.5


def test_what_cannot_be_a_vector_is_refused():
    class Named(Counter):
        observation_space = gymnasium.spaces.Text(5)

    with pytest.raises(gvfx.InputError, match=r"^env: its observations are Text; give"):
        gvfx.history(Named())
    with pytest.raises(gvfx.InputError, match=r"^k: "):
        gvfx.history(Counter(), 0)
    with pytest.raises(gvfx.InputError, match=r"^env: 3 is not an environment"):
        gvfx.history(3)
