"""A small world with known values at the start, for audits."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import gvfx


class Ring(gym.Env):
    """Six states in a ring, episodes begin in three of them and may end in one; `rows` shows states as Box observations."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, rows=False, ends=True):
        self.rows, self.ends = rows, ends
        self.observation_space = gym.spaces.Box(0, 1, (6,), np.float32) if rows else gym.spaces.Discrete(6)

    def look(self):
        return np.eye(6, dtype=np.float32)[self.s] if self.rows else self.s

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = int(self.np_random.integers(3))
        return self.look(), {}

    def step(self, action):
        self.s = int(self.s + (1 if action else -1) + (self.np_random.random() < 0.2)) % 6
        over = bool(self.ends and self.s == 5 and self.np_random.random() < 0.3)
        return self.look(), float(self.s == 3) + 0.1 * action, over, False, {}


def true_values(policy, gamma):
    """The values of `Ring`'s states, by a linear solve."""
    P, c = np.zeros((6, 6)), np.zeros(6)
    for s in range(6):
        for a, p in enumerate(policy):
            for noise, q in ((0, 0.8), (1, 0.2)):
                arrived = (s + (1 if a else -1) + noise) % 6
                P[s, arrived] += p * q * (0.7 if arrived == 5 else 1.0)
                c[s] += p * q * ((arrived == 3) + 0.1 * a)
    return np.linalg.solve(np.eye(6) - gamma * P, c)


POLICIES = {"right": [0.3, 0.7], "left": [0.8, 0.2], "near": [0.8, 0.2]}
DISCOUNTS = {"right": 0.9, "left": 0.9, "near": 0.5}


def asked():
    return [gvfx.GVF(POLICIES[name], gvfx.Reward(), DISCOUNTS[name], name=name) for name in POLICIES]


TRUTH = {name: true_values(POLICIES[name], DISCOUNTS[name])[:3].mean() for name in POLICIES}
