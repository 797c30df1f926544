"""Outcomes met late are counted like the first."""

from __future__ import annotations

import gymnasium as gym
import pytest

import gvfx

HALF = [0.5, 0.5]


def test_more_outcomes_than_there_was_room_for():
    """A state that leads anywhere: outcomes met late are counted like the first, and the end is one of them."""

    class Roulette(gym.Env):
        observation_space = gym.spaces.Discrete(3000)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return int(self.np_random.integers(3000)), 1.0, bool(self.np_random.random() < 0.5), False, {}

    run = gvfx.evaluate(Roulette(), [gvfx.GVF(HALF, gvfx.Reward(), 1.0)], gvfx.Uniform(), steps=4000)
    assert run.visits.sum() == 4000 and len(run.details.models[0].evidence.sums) > 1024
    assert run.details.models[0].evidence.counts.sum() == 4000 and run.details.models[0].evidence.sums.sum() == 4000
    assert run.predict(0)[0] == pytest.approx(2.0, abs=0.15)
