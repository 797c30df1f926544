"""M learned in log space: its update against plain NumPy, its fixed point, and the action chosen from it in compiled code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.networks import Adam, forward, gradients, numpy_network

import gvfx
from gvfx.learners.networks.deep_updates import LARGEST_RATIO, Batch, DeepUpdates, relative_loss
from gvfx.learners.networks.heads import SMALL_VARIANCE, Heads

SIZE, ACTIONS, GVFS, BATCH = 2, 3, 2, 16
PI = np.array([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]])  # [action, gvf]
OUT = (ACTIONS, GVFS)


def parts(rows):
    return Batch(rows[:, :2], rows[:, 2].astype(int), rows[:, 3:5], rows[:, 5:7], rows[:, 7:9], PI)


def test_an_update_of_m_is_the_plain_one():
    """The gradient by the network's output log M is weight * (1 - target / M), the ratio at most 10."""
    learner = gvfx.Deep(1e-2, 1e-2, hidden=(8,), batch=BATCH, capacity=64, m_output="exp")
    u = DeepUpdates(learner, (SIZE, ACTIONS, GVFS), 1000, parts, True)
    learning, other = (u.begin([np.random.default_rng([k, j]) for j in range(4)]) for k in (0, 1))
    learning = learning._replace(target_q=other.q, target_m=other.m)
    rng = np.random.default_rng(0)
    o, following = rng.uniform(-1, 1, (2, BATCH, SIZE))
    action, c = rng.integers(ACTIONS, size=BATCH), rng.normal(0, 1, (BATCH, GVFS))
    rows = np.concatenate([o, action[:, None], following, c, np.full((BATCH, GVFS), 0.9)], axis=1)
    weight = rng.uniform(0.1, 1, BATCH)

    each = np.arange(BATCH)
    q, m, target_q, target_m = map(numpy_network, learning[:4])
    v = (PI * forward(target_q, following, False, OUT)[0]).sum(axis=1)
    delta = c + 0.9 * v - forward(q, o, False, OUT)[0][each, action]
    onward = (PI * np.exp(forward(target_m, following, False, OUT)[0])).sum(axis=1)
    logs, kept, z = forward(m, o, False, OUT)
    ratio = (delta**2 + 0.81 * onward) / np.exp(logs[each, action])
    assert (ratio > LARGEST_RATIO).any() and (ratio < LARGEST_RATIO).any()
    slope = np.zeros_like(logs)
    slope[each, action] = weight[:, None] * (1 - np.minimum(ratio, 10.0)) / BATCH
    plain = Adam(m, 1e-2).step(m, gradients(m, kept, z, slope, False))

    fresh, error = jax.jit(u.update_m)(learning, jnp.asarray(rows, jnp.float32), jnp.asarray(weight, jnp.float32))
    np.testing.assert_allclose(error, delta**2 + 0.81 * onward - np.exp(logs[each, action]), rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(numpy_network(fresh.m), plain, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=3e-5)


@pytest.mark.parametrize("targets", [[1.0, 3.0], [0.0, 0.0, 4.0], [1e-4, 3e-4]])
def test_the_loss_is_lowest_at_the_mean_of_the_targets(targets):
    """As the squared error is, so that Eq. 6 has the same fixed point."""
    targets = jnp.asarray(targets)

    slope = jax.jit(lambda m: jax.grad(lambda x: relative_loss(targets - jnp.exp(x), jnp.exp(x)).sum())(jnp.log(m)))

    mean = targets.mean()
    assert slope(mean) == pytest.approx(0, abs=1e-4)
    assert slope(0.8 * mean) < 0 < slope(1.2 * mean)


def test_an_untrained_network_gives_a_small_variance():
    for exponential in (False, True):
        net = Heads(np.random.default_rng(0), SIZE, (8,), OUT, positive=True, exponential=exponential)
        out = np.asarray(net(jnp.zeros(SIZE)))
        assert (out > 0).all() and np.median(out) == pytest.approx(SMALL_VARIANCE, rel=0.5)


def test_it_is_refused_under_another_name():
    with pytest.raises(gvfx.InputError, match="m_output='log'.* does not fit; give 'softplus' or 'exp'"):
        gvfx.Deep(m_output="log")
