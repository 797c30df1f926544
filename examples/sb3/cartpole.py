"""CartPole with policies of Stable-Baselines3: an early and a later PPO, and the greedy choice of the later one."""

import gymnasium as gym
from stable_baselines3 import PPO

import gvfx

env = gym.make("CartPole-v1")
model = PPO("MlpPolicy", env, n_steps=256, seed=0, device="cpu")
early = PPO("MlpPolicy", env, n_steps=256, seed=1, device="cpu")
model.learn(2_048)
policies = {
    "untrained": gvfx.from_sb3(early),
    "trained": gvfx.from_sb3(model),
    "trained, greedy": gvfx.from_sb3(model, deterministic=True),
}
signals = {"time upright": 1.0, "distance": lambda o, action, o2: abs(float(o2[0]))}
questions = [
    gvfx.GVF(policy, signal, 0.95, name=f"{who}: {what}") for who, policy in policies.items() for what, signal in signals.items()
]
truth = gvfx.truth_of(env, questions, max_episodes=20, horizon=100)
for name, value, error in zip(truth.names, truth.values[:, 0], truth.standard_errors[:, 0], strict=True):
    print(f"{name:>29}: {value:6.2f} +- {error:.2f}")
try:
    import jax  # noqa: F401 (networks need it: pip install 'gvfx[deep]')
except ImportError:
    print("jax is not installed: no networks, so no answers from one stream")
else:
    print(gvfx.evaluate(env, questions, steps=10_000).summary())
