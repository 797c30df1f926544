"""FrozenLake: three policies times four signals, answered from one stream; predictions with intervals, beside the exact truth."""

import gymnasium as gym

import gvfx

env = gym.make("FrozenLake-v1")
HOLES, GOAL = {5, 7, 11, 12}, 15

policies = {
    "random": gvfx.uniform_policy(),
    "eager": gvfx.constant_policy([0.05, 0.45, 0.45, 0.05]),  # left, down, right, up
    "careful": gvfx.deterministic_policy([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]),
}
signals = {
    "goal": gvfx.Reward(),
    "fall": lambda state, action, following: following in HOLES,
    "steps": 1.0,
    "standing still": lambda state, action, following: following == state,
}
questions = [
    gvfx.GVF(policy, signal, 0.95, name=f"{who}: {what}") for who, policy in policies.items() for what, signal in signals.items()
]

result = gvfx.evaluate(env, questions, steps=200_000, seeds=3)
low, high = result.intervals(0).T  # 95 %, in state 0
for i, name in enumerate(result.names):
    answer = f"{result.predict(0)[i]:7.4f}, from {low[i]:7.4f} to {high[i]:7.4f}"
    print(f"{name:>23}: {answer}; true {result.details.truth[0, i, 0]:7.4f}")
