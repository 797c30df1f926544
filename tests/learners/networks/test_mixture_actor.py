"""The mixture actor: its loss against plain NumPy, what it learns, and its actions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.critics import SIGMAS, plain

from gvfx.behaviours.explorer import MixtureActor
from gvfx.learners.networks.actors import MixtureUpdates, Surroundings

SIZES = (3, 2)


def surroundings(generator, batch=6):
    observations = jnp.asarray(generator.normal(size=(batch, 3)), jnp.float32)
    middles = jnp.asarray(generator.uniform(-0.5, 0.5, (batch, 2, 2)), jnp.float32)
    return Surroundings(observations, middles, jnp.asarray(SIGMAS), jnp.asarray([1.0, 2.0]))


def log_gaussian(action, middle, sigma):
    return (-0.5 * ((action - middle) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)).sum()


def test_the_loss_is_the_divergence_from_theorem_4_1():
    generator = np.random.default_rng(0)
    updates = MixtureUpdates(MixtureActor(residual=0.3, floor=0.1, hidden=(8,)), SIZES, SIGMAS)
    acting, around = updates.begin(generator), surroundings(generator)
    noise = generator.normal(size=(6, 4)).astype(np.float32)

    def variance(actions):
        array = np if isinstance(actions, np.ndarray) else jnp
        return array.stack([1 + actions[:, 0] ** 2, 2 + actions.sum(axis=1) ** 2], axis=1)

    expected = []
    for n in range(6):
        out = plain(acting.actor, around.observation[n])
        gate = 0.9 * np.exp(out[:, 0]) / np.exp(out[:, 0]).sum() + 0.05
        middles = np.float64(around.middles[n])
        shifted = middles + 0.3 * np.tanh(out[:, 1:])
        total = 0.0
        for k in range(2):
            a = shifted[k] + SIGMAS[k] * noise[n].reshape(2, 2)[k]
            mu = sum(gate[j] * np.exp(log_gaussian(a, shifted[j], SIGMAS[j])) for j in range(2))
            m = variance(np.clip(a, -1, 1)[None])[0]
            wanted = np.sqrt(sum(w * np.exp(2 * log_gaussian(a, middles[j], SIGMAS[j])) * m[j] for j, w in enumerate((1, 2))))
            total += gate[k] * (np.log(mu) - np.log(wanted))
        expected.append(total)
    loss = jax.jit(lambda actor: updates.loss(actor, variance, around, noise))
    assert loss(acting.actor) == pytest.approx(np.mean(expected), rel=1e-4)


def test_the_gate_learns_to_follow_the_target_with_the_larger_variance():
    """Where the targets differ clearly, g_k ~ sqrt(w_k M_k): 3 to 1 here, apart from the floor."""
    generator = np.random.default_rng(1)
    updates = MixtureUpdates(MixtureActor(residual=0.0, floor=0.0, rate=1e-2, hidden=(8,)), SIZES, np.float32([0.1, 0.1]))
    acting = updates.begin(generator)
    middles = jnp.broadcast_to(jnp.asarray([[0.5, 0.5], [-0.5, -0.5]]), (16, 2, 2))
    around = Surroundings(jnp.zeros((16, 3)), middles, jnp.asarray([0.1, 0.1]), jnp.ones(2))
    step = jax.jit(lambda acting, noise: updates.update(acting, lambda a: jnp.asarray([[9.0, 1.0]] * 16), around, noise)[0])
    for _ in range(400):
        acting = step(acting, generator.normal(size=(16, 4)).astype(np.float32))
    np.testing.assert_allclose(updates.gate(acting, around.observation, middles)[0], [0.75, 0.25], atol=0.02)


def test_its_actions_are_the_targets_with_a_bounded_residual():
    generator = np.random.default_rng(2)
    updates = MixtureUpdates(MixtureActor(residual=0.1), SIZES, SIGMAS)
    acting, around = updates.begin(generator), surroundings(generator)
    at = (around.observation, around.middles)
    actions, log_mu = jax.jit(lambda: updates.own(acting, *at, jnp.zeros((6, 2)), jnp.zeros((6, 2, 2))))()
    assert actions.shape == (6, 2, 2) and log_mu.shape == (6, 2)
    actions = np.asarray(actions)
    assert 0 < np.abs(actions - np.asarray(around.middles)).max() < 0.1
    gate = np.asarray(updates.gate(acting, *at))
    np.testing.assert_allclose(gate.sum(axis=1), 1, rtol=1e-6)
    assert (gate >= 0.1).all()  # the floor of 0.2 over two targets
    expected = (gate[..., None] * actions).sum(axis=1)
    np.testing.assert_allclose(updates.middle(acting, *at), expected, rtol=1e-5)
