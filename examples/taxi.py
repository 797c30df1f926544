"""Taxi: how long until the passenger is delivered, how many mistakes on the way, and does the tank hold out?"""

import gymnasium as gym
import numpy as np

import gvfx

env = gym.make("Taxi-v4")
SOUTH, NORTH, EAST, WEST, PICKUP, DROP = range(6)


def driver(state: int) -> np.ndarray:
    """Head for the next place at random, act there."""
    row, column, passenger, destination = env.unwrapped.decode(state)
    places = [(0, 0), (0, 4), (4, 0), (4, 3), (row, column)]
    goal = places[destination] if passenger == 4 else places[passenger]
    probabilities = np.full(6, 0.02)
    if goal == (row, column):
        probabilities[DROP if passenger == 4 else PICKUP] += 1
    probabilities[SOUTH if goal[0] > row else NORTH] += goal[0] != row
    probabilities[EAST if goal[1] > column else WEST] += goal[1] != column
    return probabilities / probabilities.sum()


def tank(state, action, reward, following, info):
    """Ends by its own signal: one step in twenty the tank is empty, except when standing at a place."""
    return 1.0 if action in (PICKUP, DROP) else 0.95


questions = [
    gvfx.GVF(driver, gvfx.Reward(), 0.99, name="reward of the driver"),
    gvfx.GVF(driver, lambda s, a, r, s2, info: r == -10, 0.99, name="mistakes of the driver"),
    gvfx.GVF(driver, lambda s, a, r, s2, info: r == 20, tank, name="delivers before the tank is empty"),
    gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="reward of a random driver"),
]
result = gvfx.evaluate(env, questions, steps=500_000, seeds=2)
start, _ = env.reset(seed=1)
low, high = result.intervals(start).T
for i, name in enumerate(result.names):
    answer = f"{result.predict(start)[i]:8.3f}, from {low[i]:8.3f} to {high[i]:8.3f}"
    print(f"{name:>34}: {answer}; true {result.details.truth[0, i, start]:8.3f}")
