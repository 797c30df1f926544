"""Small Gymnasium environments with questions, one for every kind of run in which an environment is stepped from Python."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import gvfx

HALF = [0.5, 0.5]


class Ring(gym.Env[Any, Any]):
    """A walk on a ring of seven states that ends at the last one."""

    observation_space: gym.Space[Any] = gym.spaces.Discrete(7)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = (self.place + self.move(action) + int(self.np_random.random() < 0.3)) % 7
        return self.look(), float(self.place == 3), self.place == 6, False, {}

    def move(self, action: Any) -> int:
        return int(action)

    def look(self) -> Any:
        return self.place


class Pairs(Ring):
    """The same, seen as two whole numbers."""

    observation_space = gym.spaces.MultiDiscrete([7, 2])

    def look(self) -> Any:
        return np.array([self.place, self.place % 2])


class Points(Ring):
    """The same, seen as a point in the plane."""

    observation_space = gym.spaces.Box(-2, 2, (2,), np.float32)

    def look(self) -> Any:
        angle = 2 * np.pi * self.place / 7
        return np.array([np.cos(angle), np.sin(angle)], np.float32)


class Pushed(Points):
    """The same, pushed by a force."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def move(self, action: Any) -> int:
        return int(float(action[0]) > 0)


def questions() -> list[gvfx.GVF]:
    return [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="half"), gvfx.GVF([0.2, 0.8], gvfx.Reward(), 0.8, name="right")]


def tables() -> object:
    return Ring()


def numbered() -> object:
    return Pairs()


def points() -> object:
    return Points()


def pushed() -> object:
    policies = [gvfx.gaussian_policy([mean], 0.5) for mean in (0.0, 0.3)]
    return Pushed(), [gvfx.GVF(policy, gvfx.Reward(), 0.9, name=name) for policy, name in zip(policies, "ab", strict=True)]


def vector() -> object:
    return gym.vector.SyncVectorEnv([Ring for _ in range(3)])


def vector_of_points() -> object:
    return gym.vector.SyncVectorEnv([Points for _ in range(3)])
