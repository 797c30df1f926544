"""TD3 against plain NumPy, and on a problem known by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.critics import plain, plain_step

from gvfx.learners.networks.deep_updates import columns
from gvfx_paper.training import TD3, TD3Agent


def test_td3_target_and_first_step_are_the_plain_ones():
    agent = TD3Agent(TD3(hidden=(16, 16)), columns(17, 6, 2), task=1)
    learning = agent.begin(np.random.default_rng(3))
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(8, agent.columns.width)).astype(np.float32)
    noise = (3 * generator.normal(size=(8, 6))).astype(np.float32)
    c, s2 = agent.columns, rows[:, agent.columns.following]
    action = np.clip(np.tanh(plain(learning.target_actor, s2)) + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
    q = np.min([plain(net, s2, action)[:, 0] for net in learning.target_critics], axis=0)
    target = rows[:, c.cumulants][:, 1] + 0.99 * q
    assert np.allclose(jax.jit(agent.critic_target)(learning, rows, noise), target, atol=1e-5)
    fresh, _ = jax.jit(agent.update_critics)(learning, rows, noise)
    stepped = plain_step(learning.critics, rows, c, target[:, None], 1e-3)
    pairs = zip(jax.tree.leaves(fresh.critics), jax.tree.leaves(stepped), strict=True)
    assert all(np.allclose(x, y, atol=1e-5) for x, y in pairs)


def test_td3_finds_the_best_action():
    """One state, cumulant 1 - (a - 0.5)^2: the actor goes to 0.5."""
    agent = TD3Agent(TD3(hidden=(16, 16), discount=0.0, tau=0.05, rate=3e-3), columns(1, 1, 1), task=0)
    learning, learn = agent.begin(np.random.default_rng(0)), jax.jit(agent.learn)
    generator = np.random.default_rng(1)
    for _ in range(250):
        action = generator.uniform(-1, 1, (4, 64, 1))
        ones = np.ones_like(action)
        rows = np.concatenate([ones, action, ones, 1 - (action - 0.5) ** 2], axis=2).astype(np.float32)
        learning, _ = learn(learning, rows, generator.normal(size=(4, 64, 1)).astype(np.float32))
    assert float(jnp.tanh(learning.actor(jnp.ones(1)))[0]) == pytest.approx(0.5, abs=0.15)
