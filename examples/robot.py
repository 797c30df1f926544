"""A robot whose motor warms up: a drifting signal, tracked by a learner that never stops learning."""

import gymnasium as gym
import numpy as np

import gvfx
from gvfx.schedules import Fixed

CELLS = 8


class Rover(gym.Env):
    """A corridor with a charger at its left end; current drawn per move grows as the motor ages."""

    observation_space = gym.spaces.Discrete(CELLS)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.age = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = CELLS - 1
        return self.x, {}

    def step(self, action):
        slipped = self.np_random.random() < 0.2
        self.x = int(np.clip(self.x + (0 if slipped else 2 * action - 1), 0, CELLS - 1))
        self.age += 1e-4
        current = 1.0 + self.age + 0.1 * self.np_random.normal()
        return self.x, 0.0, self.x == 0, False, {"current": current, "slipped": float(slipped)}


home = gvfx.constant_policy([0.9, 0.1])
questions = [
    gvfx.GVF(home, gvfx.Info("current"), 1.0, name="charge needed to get home"),
    gvfx.GVF(home, gvfx.Info("slipped"), 1.0, name="slips on the way"),
    gvfx.GVF([0.5, 0.5], gvfx.Info("current"), lambda x, action, x2: 0.9 if x2 > 3 else 0.0, name="charge until the middle"),
]
rover = gym.wrappers.TimeLimit(Rover(), 200)
learner = gvfx.ExpectedSarsa(Fixed(0.05), Fixed(0.05), initial_q=0.0)  # a constant rate follows the drift
result = gvfx.evaluate(rover, questions, learner=learner, steps=20_000, snapshots=[5_000, 10_000, 15_000])
for snapshot in result.details.snapshots:
    answers = "   ".join(f"{name} {v:6.2f}" for name, v in zip(result.names, snapshot.values[0, :, CELLS - 1], strict=True))
    print(f"after {snapshot.step:6,} steps: {answers}")
