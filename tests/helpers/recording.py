"""Logs of environments, and two environments: observations of two whole numbers, and a Box action."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

NAMES = ("observation", "action", "next_observation", "terminated", "reward", "truncated", "force")


def recorded(env, steps, action, seed=0):
    """A log of an environment; action(rng) chooses."""
    rng, rows = np.random.default_rng(seed), []
    s, _ = env.reset(seed=seed)
    for _ in range(steps):
        a = action(rng)
        s2, r, terminated, truncated, info = env.step(a)
        rows.append((s, a, s2, terminated, r, truncated, info.get("force", [0.0])[0]))
        s = env.reset()[0] if terminated or truncated else s2
    return {name: np.array(column) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}


class Blocks(gym.Env):
    """Observations of two whole numbers."""

    observation_space = gym.spaces.MultiDiscrete([5, 3])
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([0, 1])
        return self.at.copy(), {}

    def step(self, action):
        move = np.array([2 * action - 1, self.np_random.integers(-1, 2)])
        self.at = np.clip(self.at + move, 0, [4, 2])
        return self.at.copy(), float(self.at[1]), bool(self.at[0] == 4), False, {}


class Push(gym.Env):
    """A Box action."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = np.zeros(2, np.float32)
        return self.x, {}

    def step(self, action):
        self.x = np.clip(self.x + 0.1 * np.float32([action[0], 1.0]), -1, 1)
        return self.x, float(self.x[0]), bool(self.x[1] >= 1), False, {}
