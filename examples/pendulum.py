"""Pendulum: two Gaussian policies times two signals with continuous actions, beside what Monte Carlo says."""

import gymnasium as gym
import numpy as np

import gvfx

env = gym.make("Pendulum-v1")  # observations cos, sin and speed of the angle (0 is up); a torque in [-2, 2]
policies = {
    "idle": gvfx.gaussian_policy([0.0], 0.5),
    "brake": gvfx.gaussian_policy(lambda o: -0.25 * o[..., 2:], 0.5),  # of one observation or of a batch
}
signals = {"cost": lambda o, torque, reward, o2, info: -reward, "upright": lambda o, torque, o2: max(0.0, float(o2[0]))}
questions = [
    gvfx.GVF(policy, signal, 0.9, name=f"{who}: {what}") for who, policy in policies.items() for what, signal in signals.items()
]
for finding in gvfx.check(env, questions):
    print(finding)
result = gvfx.evaluate(env, questions, steps=8_000)
print(result.summary(), "\n")

truth = gvfx.truth_of(env, questions, points=2, max_episodes=60, horizon=60)  # at two states of random walks
for k, point in enumerate(truth.points):
    print(f"cos {point[0]:.2f}, sin {point[1]:.2f}, speed {point[2]:.2f}")
    for name, answer, v, error in zip(
        result.names, result.predict(point), truth.values[:, k], truth.standard_errors[:, k], strict=True
    ):
        print(f"{name:>15}: {answer:6.2f}; Monte Carlo {v:6.2f} +- {error:.2f}")
print("pushed to the left first:", np.round(result.predict(truth.points[0], [-2.0]), 2))
