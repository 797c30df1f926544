"""Small twin critics on the cheetah, and their networks in plain NumPy."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.learners.networks.critic_updates import CriticQuestions
from gvfx.learners.networks.learners import TwinCritics
from gvfx.running.streams.critic_agent import GVFAgent
from gvfx_paper.worlds.mujoco import CHEETAH

SMALL = TwinCritics(hidden=(16, 16), batch=32, capacity=800, learning_starts=80, worlds=4, updates=2)
ONE_STEP = replace(SMALL, trace=0.0, scaled=False, averaged=False)  # Algorithm 2, otherwise recommended
WORLD = replace(CHEETAH, horizon=40)
SIGMAS = np.float32([0.2, 0.3])


def plain(net, *inputs):
    """A network's outputs in double precision."""
    x = np.concatenate([np.float64(i) for i in inputs], axis=-1)
    for w, b in zip(net.weights[:-1], net.biases[:-1], strict=True):
        x = np.maximum(x @ np.float64(w) + np.float64(b), 0)
    x = x @ np.float64(net.weights[-1]) + np.float64(net.biases[-1])
    x = np.log1p(np.exp(x)) if net.positive else x
    return x.reshape(*x.shape[:-1], *net.shape)


def plain_mu(net, observation, noise):
    """An action of the squashed Gaussian and its log-density."""
    out = plain(net, observation)
    mean, log_sd = out[:, 0], -2 + 3 * np.tanh(out[:, 1])
    before = mean + np.exp(log_sd) * noise
    action = np.tanh(before)
    density = -0.5 * noise**2 - log_sd - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
    return action, density.sum(axis=1)


def make_agent(targets, behaviour, learner):
    asked = CriticQuestions(np.float32([0.99, 0.9]), (0, 1), SIGMAS)
    return GVFAgent(WORLD, targets, asked, np.float32([1.0, 2.0]), behaviour, learner, steps=1000)


def make_batch(agent, batch=8):
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(batch, agent.columns.width)).astype(np.float32)
    rows[:, agent.columns.action] = generator.uniform(-1, 1, (batch, 6))
    rows[:, agent.columns.notes] = generator.uniform(-1, 1, (batch, 12))
    return rows, generator.normal(size=(batch, agent.learn_draws)).astype(np.float32)


def plain_step(nets, rows, columns, targets, rate):
    """The first step of Adam on the twins' plain loss: every number moves by the rate against its gradient's sign."""

    def loss(nets):
        x = jnp.concatenate([rows[:, columns.observation], rows[:, columns.action]], axis=1)
        return sum(((targets - net(x)) ** 2).sum() / len(rows) for net in nets)

    gradient = jax.grad(loss)(nets)
    return jax.tree.map(lambda p, g: p - rate * g / (jnp.abs(g) + 1e-8), nets, gradient)
