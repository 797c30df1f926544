"""A log of CartPole: what three policies would do, from episodes that another one recorded; intervals say what is known."""

import gymnasium as gym
import numpy as np

import gvfx

env = gym.make("CartPole-v1")


def careful(observation):
    """Mostly against the fall: angle plus its speed."""
    return [0.8, 0.2] if observation[2] + observation[3] < 0 else [0.2, 0.8]


def recorded(episodes, rng):
    """Episodes as Minari has them, of a policy that acts half carefully and half at random."""
    for k in range(episodes):
        seen, actions, ended = [env.reset(seed=k)[0]], [], (False, False)
        while not any(ended):
            right = 0.5 * careful(seen[-1])[1] + 0.25
            actions.append(int(rng.random() < right))
            observation, _, *ended, _ = env.step(actions[-1])
            seen.append(observation)
        last = np.arange(len(actions)) == len(actions) - 1
        yield {
            "observations": np.array(seen),
            "actions": np.array(actions),
            "rewards": np.ones(len(actions)),
            "terminations": last & ended[0],
            "truncations": last & ended[1],
        }


log = list(recorded(120, np.random.default_rng(0)))
policies = {"random": [0.5, 0.5], "careful": careful, "always right": [0.0, 1.0]}
questions = [gvfx.GVF(policy, gvfx.Reward(), 0.95, name=name) for name, policy in policies.items()]
result = gvfx.evaluate_log(log, questions)
print(result.summary())

start, _ = env.reset(seed=1000)
truth = gvfx.truth_of(env, questions, max_episodes=200, horizon=150)
low, high = result.intervals(start).T
print(f"time upright from the start, error bars by {result.details.error_bars}:")
for i, name in enumerate(result.names):
    answer = f"{result.predict(start)[i]:6.2f}, from {low[i]:6.2f} to {high[i]:6.2f}"
    print(f"{name:>13}: {answer}; Monte Carlo {truth.values[i, 0]:6.2f} +- {truth.standard_errors[i, 0]:.2f}")
