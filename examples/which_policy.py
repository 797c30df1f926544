"""Which of my policies is better?  Three ways over the ice, compared; and a run that ends when the best of them is sure."""

import gymnasium as gym
import numpy as np

import gvfx

env = gym.make("FrozenLake-v1")
careful = np.eye(4)[[0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]]
policies = {
    "careful": careful,
    "hasty": 0.8 * careful + 0.2 * np.array([0, 0.5, 0.5, 0]),  # now and then straight towards the goal
    "random": gvfx.uniform_policy(),
}
questions = [gvfx.GVF(policy, gvfx.Reward(), 0.95, name=name) for name, policy in policies.items()]

result = gvfx.evaluate(env, questions, steps=20_000, where="start")
print(result.compare(), "\n")

soon = gvfx.evaluate(env, questions, steps=200_000, until=gvfx.decided())
(found,) = soon.details.experiment["decided"]
print(f"after {soon.stopped[0]:,} steps: {found[0]}")
assert "careful is the best" in found[0]
