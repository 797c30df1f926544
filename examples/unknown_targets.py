"""Unknown targets: the best way over the ice and how good it is, beside known policies, all from one stream."""

import gymnasium as gym

import gvfx

env = gym.make("FrozenLake-v1")
HOLES = {5, 7, 11, 12}


def falls(state, action, following):
    return following in HOLES


questions = [
    gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.99, name="goal, at best"),
    gvfx.GVF(gvfx.own_greedy(0.1), gvfx.Reward(), 0.99, name="goal, 10 % slips of mind"),
    gvfx.GVF(gvfx.own_softmax(0.05), gvfx.Reward(), 0.99, name="goal, softmax"),
    gvfx.GVF(gvfx.own_greedy(), falls, 0.99, name="fall, at worst"),
    gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.99, name="goal, at random"),
]

result = gvfx.evaluate(env, questions, steps=100_000, evaluate_every=25_000)
for name, predicted, true in zip(result.names, result.predict(0), result.details.truth[0, :, 0], strict=True):
    print(f"{name:>24}: predicted {predicted:.3f}   true {true:.3f}")

policy = result.details.policy("goal, at best")
for row in range(4):
    print("  ".join("H" if s in HOLES else "G" if s == 15 else "<v>^"[policy[s].argmax()] for s in range(4 * row, 4 * row + 4)))
