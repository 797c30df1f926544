"""The updates of Deep against plain NumPy: prioritised replay with each priority, and the networks of SuccessorRepresentation."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.networks import Adam, forward, gradients, numpy_network

import gvfx
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks.deep_updates import FEATURES, Batch, DeepUpdates

SIZE, ACTIONS, GVFS, ROWS, STEPS, T = 2, 3, 2, 64, 1000, 600
PI = np.array([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]])  # [action, gvf]
BATCH, ALPHA, BETA, BETA_SHARE, TEMPERATURE = 16, 0.6, 0.4, 0.8, 2.0
OUT = (ACTIONS, GVFS)


def parts(rows):
    return Batch(rows[:, :2], rows[:, 2].astype(int), rows[:, 3:5], rows[:, 5:7], rows[:, 7:9], PI)


def updates(priority):
    learner = gvfx.Deep(
        *(1e-2, 1e-2),
        hidden=(8,),
        batch=BATCH,
        capacity=ROWS,
        replay="prioritised",
        priority=priority,
        alpha=ALPHA,
        beta=BETA,
        beta_share=BETA_SHARE,
    )
    rule = gvfx.SuccessorRepresentation(temperature=TEMPERATURE).network_rule() if priority == "sr" else None
    return DeepUpdates(learner, (SIZE, ACTIONS, GVFS), STEPS, parts, priority != "sr", rule and rule.probabilities)


def begun(u):
    """Networks, and target networks that differ from them."""
    learning, other = (u.begin([np.random.default_rng([k, j]) for j in range(4)]) for k in (0, 1))
    return learning._replace(target_q=other.q, target_m=other.m, target_intrinsic=other.intrinsic)


def filled():
    """A full replay with unequal priorities."""
    rng = np.random.default_rng(0)
    o, o2 = rng.uniform(-1, 1, (2, ROWS, SIZE))
    c, gamma = rng.normal(0, 3, (ROWS, GVFS)), np.array([0.9, 0.5]) * (rng.random((ROWS, 1)) > 0.2)
    rows = np.concatenate([o, rng.integers(ACTIONS, size=(ROWS, 1)), o2, c, gamma], axis=1)
    replay = memory.write(memory.empty(ROWS, rows.shape[1], True), jnp.asarray(rows, jnp.float32))
    return rows, memory.set_priorities(replay, jnp.arange(ROWS), jnp.asarray(rng.exponential(size=ROWS), jnp.float32), ALPHA)


class Plain:
    """The same networks and updates in NumPy."""

    def __init__(self, learning, features):
        self.q, self.m, self.target_q, self.target_m = map(numpy_network, learning[:4])
        self.adam_q, self.adam_m = Adam(self.q, 1e-2), Adam(self.m, 1e-2)
        self.features = np.asarray(features, float)
        if learning.intrinsic is not None:
            self.psi, self.value = (numpy_network(n) for n in (learning.intrinsic.psi, learning.intrinsic.value))
            self.w = [(np.asarray(learning.intrinsic.weights, float),)]
            self.target_psi, self.target_value = (
                numpy_network(n) for n in (learning.target_intrinsic.psi, learning.target_intrinsic.value)
            )
            self.adams = [Adam(layers, 1e-2) for layers in (self.psi, self.w, self.value)]

    def q_errors(self, b):
        """delta_Q [batch, gvf] of Eq. 5, and the network's outputs."""
        v = (PI * forward(self.target_q, b.following, False, OUT)[0]).sum(axis=1)
        out, *back = forward(self.q, b.observation, False, OUT)
        return b.cumulants + b.discounts * v - out[np.arange(len(out)), b.action], out, back

    def m_errors(self, b):
        """The error of M's target of Eq. 6."""
        v = (PI * forward(self.target_m, b.following, True, OUT)[0]).sum(axis=1)
        out, *back = forward(self.m, b.observation, True, OUT)
        return self.q_errors(b)[0] ** 2 + b.discounts**2 * v - out[np.arange(len(out)), b.action], out, back

    def stepped(self, layers, adam, found, action, positive, weight):
        """The layers after a step on the mean over the batch of weight * error^2, summed over the GVFs."""
        error, out, (kept, z) = found
        slope = np.zeros_like(out)
        slope[np.arange(len(out)), action] = -2 * weight[:, None] * error / len(out)
        return adam.step(layers, gradients(layers, kept, z, slope, positive))

    def update_intrinsic(self, b, weight):
        """Successor features, reward weights, and the value of the intrinsic reward: the size of both errors."""
        each = np.arange(len(b.action))
        phi = 1 / (1 + np.exp(-4 * (b.observation @ self.features[:-1] + self.features[-1])))
        shape = (ACTIONS, GVFS, FEATURES)
        onward = (PI[..., None] * forward(self.target_psi, b.following, False, shape)[0]).sum(axis=1)
        psi, *psi_back = forward(self.psi, b.observation, False, shape)
        psi_error = phi[:, None] + b.discounts[..., None] * onward - psi[each, b.action]
        reward_error = b.cumulants - phi @ self.w[0][0].T
        v = forward(self.target_value, b.following, False, (ACTIONS,))[0]
        mu = np.exp(v / TEMPERATURE)
        v = (mu / mu.sum(axis=1, keepdims=True) * v).sum(axis=1)
        reward = np.abs(psi_error).mean(axis=2).sum(axis=1) + np.abs(reward_error).sum(axis=1)
        value, *value_back = forward(self.value, b.observation, False, (ACTIONS,))
        value_error = reward + b.discounts.max(axis=1) * v - value[each, b.action]
        slopes = np.zeros_like(psi), np.zeros_like(value)
        slopes[0][each, b.action] = -2 * weight[:, None, None] * psi_error / (len(each) * FEATURES)
        slopes[1][each, b.action] = -2 * weight * value_error / len(each)
        steps = (
            gradients(self.psi, *psi_back, slopes[0], False),
            [(-2 * (weight[:, None] * reward_error).T @ phi / len(each),)],
            gradients(self.value, *value_back, slopes[1], False),
        )
        nets = (self.psi, self.w, self.value)
        self.psi, self.w, self.value = (adam.step(*pair) for adam, *pair in zip(self.adams, nets, steps, strict=True))
        return np.abs(psi_error).mean(axis=2).sum(axis=1)

    def learn(self, priority, rows, stored, u):
        """Two updates of Q, one of M unless SR acts; the rows drawn, and the errors that are their new priorities."""
        index = np.searchsorted(np.cumsum(stored), u * stored.sum(), side="right")
        beta = BETA + (1 - BETA) * T / (BETA_SHARE * STEPS)
        weight = (ROWS * stored[index] / stored.sum()) ** -beta
        batches = [parts(rows[drawn]) for drawn in index.reshape(-1, BATCH)]
        weights, errors = (weight / weight.max()).reshape(-1, BATCH), []
        for b, w in zip(batches[:2], weights, strict=False):
            found = self.q_errors(b)
            errors.append(np.abs(found[0]).sum(axis=1))  # Sec. 7.2: the absolute sum of TD errors over the GVFs
            self.q = self.stepped(self.q, self.adam_q, found, b.action, False, w)
            if priority == "sr":
                errors[-1] = self.update_intrinsic(b, w)
        for b, w in zip(batches[2:], weights[2:], strict=True):
            found = self.m_errors(b)
            self.m = self.stepped(self.m, self.adam_m, found, b.action, True, w)
            if priority == "m":
                errors = [*(np.abs(self.m_errors(b)[0]).sum(axis=1) for b in batches[:2]), np.abs(found[0]).sum(axis=1)]
        return index[: BATCH * len(errors)], np.concatenate(errors)


same = partial(np.testing.assert_allclose, rtol=1e-3, atol=3e-5)


def assert_same(net, layers):
    for ours, theirs in zip(numpy_network(net), layers, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            same(x, y)


def assert_same_gradients(mean, adam):
    """Adam's running means of the gradients: its first steps depend on their signs only."""
    for ours, theirs in zip(numpy_network(mean), adam.m, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4 * np.abs(y).max())


@pytest.mark.parametrize("priority", ["q", pytest.param("m", marks=pytest.mark.full), "sr"])
def test_prioritised_updates_are_the_plain_ones(priority):
    """Which rows are drawn, their importance weights in every loss, every network, and the new priorities."""
    u, (rows, replay), key = updates(priority), filled(), jax.random.key(5)
    learning = begun(u)
    plain, before = Plain(learning, u.features), np.asarray(replay.priorities[:ROWS], float)
    draws = np.asarray(jax.random.uniform(key, ((2 if priority == "sr" else 3) * BATCH,)), float)
    index, errors = plain.learn(priority, rows, before, draws)
    fresh, after, _ = jax.jit(u.learn)(jnp.asarray(T), learning, replay, key)
    assert_same(fresh.q, plain.q)
    assert_same(fresh.m, plain.m)
    assert_same_gradients(fresh.adam_q[0].mu, plain.adam_q)
    if priority != "sr":
        assert_same_gradients(fresh.adam_m[0].mu, plain.adam_m)
    else:
        for mean, adam in zip((fresh.adam_intrinsic[0].mu.psi, fresh.adam_intrinsic[0].mu.value), plain.adams[::2], strict=True):
            assert_same_gradients(mean, adam)
    if priority == "sr":
        assert_same(fresh.intrinsic.psi, plain.psi)
        assert_same(fresh.intrinsic.value, plain.value)
        same(fresh.intrinsic.weights, plain.w[0][0])
    found, expected = np.asarray(after.priorities[:ROWS], float), (errors + 1e-6) ** ALPHA
    untouched = np.setdiff1d(np.arange(ROWS), index)
    np.testing.assert_array_equal(found[untouched], before[untouched])
    for row in np.unique(index):  # drawn more than once, a row keeps one of its errors
        assert np.isclose(found[row], expected[index == row], rtol=1e-3).any(), row
    assert len(np.unique(index)) > BATCH and float(after.largest) == pytest.approx(max(expected.max(), before.max()), rel=1e-3)
