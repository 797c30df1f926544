"""FrozenLake: three policies times four signals, answered from one stream; predictions beside the exact truth."""

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
for name, predicted, true in zip(result.names, result.predict(0), result.truth[0, :, 0], strict=True):
    print(f"{name:>23}: predicted {predicted:7.4f}   true {true:7.4f}")
