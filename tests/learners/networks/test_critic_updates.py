"""Algorithm 2's targets, losses and steps against plain NumPy, printed and recommended."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.critics import ONE_STEP, SIGMAS, make_agent, make_batch, plain, plain_mu, plain_step

from gvfx.behaviours.explorer import Actor
from gvfx.behaviours.fixed import RoundRobin
from gvfx_paper.algorithm2 import CRITICS


def plain_targets(agent, learning, rows, noise, discounts):
    """Q_tar, delta_Q and M_tar as printed in Algorithm 2, or as recommended, one GVF and one row at a time."""
    c, learner = agent.columns, agent.described
    s, a, s2, cumulants = (rows[:, part] for part in (c.observation, c.action, c.following, c.cumulants))
    middles = rows[:, c.notes].reshape(len(rows), 2, 6)
    agg = np.min if learner.aggregate == "min" else np.mean
    bonus = np.zeros(len(rows))
    if learner.entropy_in_target:
        _, log_mu = plain_mu(learning.actor.actor, s2, noise[:, 12:18])
        bonus = -np.exp(np.float64(learning.actor.log_alpha)) * log_mu
    q_tar, delta, m_tar = np.empty((3, len(rows), 2))
    for n in range(len(rows)):
        for i in range(2):
            drawn = np.clip(middles[n, i] + SIGMAS[i] * noise[n, 6 * i : 6 * i + 6], -1, 1)
            q_next = agg([plain(net, s2[n], drawn)[i] for net in learning.critics.target_q])
            m_next = agg([plain(net, s2[n], drawn)[i] for net in learning.critics.target_m])
            low, high = (e(cumulants[:, i]) / (1 - discounts[i]) if learner.bounded else 0 for e in (np.min, np.max))
            q_tar[n, i] = cumulants[n, i] + discounts[i] * (q_next + bonus[n])
            q_tar[n, i] = np.clip(q_tar[n, i], low, high) if learner.bounded else q_tar[n, i]
            delta[n, i] = q_tar[n, i] - agg([plain(net, s[n], a[n])[i] for net in learning.critics.q])
            m_tar[n, i] = delta[n, i] ** 2 + discounts[i] ** 2 * (m_next + bonus[n])
            m_tar[n, i] = np.clip(m_tar[n, i], 0, ((high - low) / 2) ** 2) if learner.bounded else m_tar[n, i]
    return q_tar, delta, m_tar


@pytest.mark.parametrize("learner", [replace(CRITICS["paper"], hidden=(16, 16)), ONE_STEP], ids=["printed", "bounded"])
@pytest.mark.parametrize("far", [0.0, 300.0], ids=["near", "beyond the bounds"])
def test_update_is_algorithm_2(targets, learner, far):
    agent = make_agent(targets, Actor(), learner)
    learning = agent.begin(np.random.default_rng(3))
    other = agent.begin(np.random.default_rng(4))  # target networks that differ from the networks
    for net in (*other.critics.q, *other.critics.m):
        net.biases[-1] = net.biases[-1] + jnp.float32([far, -far])
    critics = learning.critics._replace(target_q=other.critics.q, target_m=other.critics.m)
    learning = learning._replace(critics=critics)
    rows, noise = make_batch(agent)
    fresh, q_losses, m_losses, beyond = jax.jit(agent.update, static_argnums=4)(critics, learning.actor, rows, noise, True)

    q_tar, _, _ = plain_targets(agent, learning, rows, noise, (0.99, 0.9))
    c = agent.columns
    possible = np.abs(rows[:, c.cumulants]).max(axis=0) / [0.01, 0.1]
    assert np.allclose(beyond, np.where(np.abs(q_tar).max(axis=0) > 100 * possible, np.abs(q_tar).max(axis=0), 0), rtol=1e-4)
    said = [plain(net, rows[:, c.observation], rows[:, c.action]) for net in critics.q]
    assert np.allclose(q_losses, sum(((q_tar - x) ** 2).mean(axis=0) for x in said), rtol=1e-4)
    stepped = plain_step(critics.q, rows, c, q_tar, learner.rate_q)
    assert all(np.allclose(x, y, atol=1e-5) for x, y in zip(jax.tree.leaves(fresh.q), jax.tree.leaves(stepped), strict=True))

    updated = learning._replace(critics=critics._replace(q=fresh.q))  # the TD error is the updated Q's, from the same Q_tar
    _, delta, m_tar = plain_targets(agent, updated, rows, noise, (0.99, 0.9))
    said = [plain(net, rows[:, c.observation], rows[:, c.action]) for net in critics.m]
    assert np.abs(delta).max() > 0.1
    extremes = rows[:, c.cumulants].min(axis=0), rows[:, c.cumulants].max(axis=0)
    assert np.array_equal(fresh.seen, extremes)
    if far and learner.bounded:
        assert np.allclose(q_tar[:, 0], extremes[1][0] / 0.01) and np.allclose(q_tar[:, 1], extremes[0][1] / 0.1)
    assert np.allclose(m_losses, sum(((m_tar - x) ** 2).mean(axis=0) for x in said), rtol=1e-4)
    stepped = plain_step(critics.m, rows, c, m_tar, learner.rate_m)
    assert all(np.allclose(x, y, atol=1e-5) for x, y in zip(jax.tree.leaves(fresh.m), jax.tree.leaves(stepped), strict=True))

    for new, old, net in ((fresh.target_q, critics.target_q, fresh.q), (fresh.target_m, critics.target_m, fresh.m)):
        share = learner.tau if learner.target_every == 1 else 0.0  # the first of 50 updates copies nothing
        for x, y, z in zip(*(jax.tree.leaves(tree) for tree in (new, old, net)), strict=True):
            assert np.allclose(x, (1 - share) * y + share * z, atol=1e-6)


def test_the_printed_preset_copies_the_target_networks_every_50_updates(targets):
    """docs/box-actions.md; the paper gives no number."""
    agent = make_agent(targets, RoundRobin(), replace(CRITICS["paper"], hidden=(16, 16)))
    critics = agent.begin(np.random.default_rng(3)).critics
    rows, noise = make_batch(agent)
    update, copied = jax.jit(agent.update, static_argnums=4), []
    for k in range(1, 101):
        before = critics
        critics, _, _, _ = update(critics, None, rows, noise, False)
        same = [jax.tree.all(jax.tree.map(jnp.array_equal, critics.target_q, nets)) for nets in (before.target_q, critics.q)]
        assert same in ([True, False], [False, True]), k
        copied += [k] if same[1] else []
    assert copied == [50, 100]
