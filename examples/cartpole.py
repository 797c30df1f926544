"""CartPole: three policies times two signals in linear features, with intervals, beside what Monte Carlo says."""

import gymnasium as gym

import gvfx

env = gym.make("CartPole-v1")
policies = {
    "random": gvfx.uniform_policy(),
    "balancing": lambda o: [0.9, 0.1] if o[2] + o[3] < 0 else [0.1, 0.9],  # of one observation: angle and its speed
    "careless": lambda o: [0.7, 0.3] if o[2] + 0.5 * o[3] < 0.05 else [0.3, 0.7],
}
signals = {"time upright": 1.0, "distance": lambda o, action, o2: abs(float(o2[0]))}
questions = [
    gvfx.GVF(policy, signal, 0.95, name=f"{who}: {what}") for who, policy in policies.items() for what, signal in signals.items()
]
result = gvfx.evaluate(env, questions, steps=20_000)

start, _ = env.reset(seed=0)
truth = gvfx.truth_of(env, questions, max_episodes=100, horizon=150)  # of the start distribution
low, high = result.intervals(start).T
for i, name in enumerate(result.names):
    answer = f"{result.predict(start)[i]:6.2f}, from {low[i]:6.2f} to {high[i]:6.2f}"
    print(f"{name:>23}: {answer}; Monte Carlo {truth.values[i, 0]:6.2f} +- {truth.standard_errors[i, 0]:.2f}")
