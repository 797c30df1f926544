"""The actor's loss, gradient and temperature against plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.critics import ONE_STEP, SIGMAS, make_agent, make_batch, plain, plain_mu
from helpers.networks import Adam

from gvfx.behaviours.explorer import Actor
from gvfx.learners.networks.actors import ActorUpdates, Surroundings
from gvfx_paper.algorithm2 import ACTORS

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64  # older versions have it there


def variance(agent, critics, observations):
    """M [batch, gvf] as a function of actions at these observations."""
    return partial(agent.predict, critics.m, critics, observations, power=2)


@pytest.mark.parametrize(
    "behaviour",
    [
        ACTORS["paper"],
        Actor(direction="raise", kl_to="mixture", kl_weight=2.0),
        Actor(direction="lower", kl_to="each", kl_weight=0.5, normalised=False),
        Actor(direction="optimal"),
    ],
    ids=["printed", "raise", "lower", "optimal"],
)
def test_actor_loss_is_the_plain_one(targets, behaviour):
    agent = make_agent(targets, behaviour, replace(ONE_STEP, aggregate="min"))
    learning = agent.begin(np.random.default_rng(3))
    rows, noise = make_batch(agent)
    c, alpha = agent.columns, 0.3
    s, middles, noise = rows[:, c.following], rows[:, c.notes].reshape(-1, 2, 6), noise[:, -6:]
    around = Surroundings(s, middles, SIGMAS, np.float32([1.0, 2.0]))
    assert agent.actor is not None
    value, log_mu = agent.actor.loss(
        learning.actor.actor, variance(agent, learning.critics, s), jnp.float32(alpha), around, noise
    )

    action, plain_log_mu = plain_mu(learning.actor.actor, s, noise)
    m = np.min([plain(net, s, action) for net in learning.critics.m], axis=0)
    z = (action[:, None] - middles) / SIGMAS[:, None]
    log_pi = (-0.5 * z**2 - np.log(SIGMAS)[:, None] - 0.5 * np.log(2 * np.pi)).sum(axis=2)
    score = m @ [1.0, 2.0]
    if behaviour.normalised:
        score = score / score.mean()
    near = np.log(np.exp(log_pi).mean(axis=1)) if behaviour.kl_to == "mixture" else log_pi.mean(axis=1)
    sign = {"raise": 1, "lower": -1, "optimal": 0}[behaviour.direction]
    expected = alpha * plain_log_mu - sign * score + behaviour.kl_weight * (plain_log_mu - near)
    if behaviour.direction == "optimal":
        expected = plain_log_mu - 0.5 * np.log(np.exp(2 * log_pi) @ np.diag([1.0, 2.0]) * m @ np.ones(2))
    assert np.allclose(log_mu, plain_log_mu, rtol=1e-4)
    assert float(value) == pytest.approx(expected.mean(), rel=1e-3)


def test_the_entropy_aimed_at_is_the_targets_unless_given():
    """Gaussians of standard deviation sigma have the entropy log(sigma sqrt(2 pi e)) per action."""
    sigmas = np.array([0.1, 0.4])
    own = 3 * np.log(np.sqrt(2 * np.pi * np.e) * np.sqrt(0.1 * 0.4))
    assert ActorUpdates(Actor(target_entropy=None), (5, 3), sigmas).target_entropy == pytest.approx(own)
    assert ActorUpdates(Actor(target_entropy=-6.0), (5, 3), sigmas).target_entropy == -6.0


def test_temperature_follows_the_entropy_towards_its_target(targets):
    """Twenty steps of Adam on alpha (-log mu - H): alpha falls while mu is more random than the target, and rises below it."""
    agent = make_agent(targets, Actor(target_entropy=0.5, rate=3e-2, alpha=0.3), ONE_STEP)
    learning = agent.begin(np.random.default_rng(3))
    rows, noise = make_batch(agent)
    generator, update, acting = np.random.default_rng(0), jax.jit(agent.update_actor), learning.actor
    log_alpha, adam, too_random = np.log(0.3), Adam([(0.0,)], 3e-2), []
    for _ in range(20):
        noise = generator.normal(size=noise.shape).astype(np.float32)
        _, log_mu = plain_mu(acting.actor, rows[:, agent.columns.following], noise[:, -6:])
        excess = -log_mu.mean() - 0.5
        ((log_alpha,),) = adam.step([(log_alpha,)], [(np.exp(log_alpha) * excess,)])
        acting, _ = update(acting, learning.critics, rows, noise)
        assert float(acting.log_alpha) == pytest.approx(log_alpha, abs=1e-4)
        too_random.append(excess > 0)
    assert 3 < sum(too_random) < 17  # it was above and below


def test_gradient_of_the_actor_is_that_of_finite_differences(targets):
    agent = make_agent(targets, Actor(normalised=False), ONE_STEP)  # the mean that normalises counts as a constant
    assert agent.actor is not None
    with enable_x64(True):
        learning = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, float)), agent.begin(np.random.default_rng(3)))
        rows, noise = (np.float64(x) for x in make_batch(agent))
        middles = rows[:, agent.columns.notes].reshape(-1, 2, 6)
        around = Surroundings(rows[:, agent.columns.following], middles, SIGMAS, np.ones(2))

        def loss(bias):
            net = eqx.tree_at(lambda net: net.biases[-1], learning.actor.actor, bias)
            return agent.actor.loss(
                net, variance(agent, learning.critics, around.observation), jnp.float64(0.3), around, noise[:, -6:]
            )[0]

        bias = learning.actor.actor.biases[-1]
        loss, gradient = jax.jit(loss), jax.jit(jax.grad(loss))(bias)
        for k in (0, 5, 6, 11):  # means and log standard deviations
            step = jnp.zeros_like(bias).at[k].set(1e-5)
            difference = float(loss(bias + step) - loss(bias - step)) / 2e-5
            assert float(gradient[k]) == pytest.approx(difference, rel=1e-4, abs=1e-6)
