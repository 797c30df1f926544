"""When the target networks of Deep are copied, and which learning rate each network has."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gvfx
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks.deep_updates import Batch, DeepUpdates

PI = np.array([[0.3, 0.6], [0.7, 0.4]])  # [action, gvf]


def parts(rows):
    return Batch(rows[:, :2], rows[:, 2].astype(int), rows[:, 3:5], rows[:, 5:7], rows[:, 7:9], PI)


def begun(**options):
    """Updates of two GVFs with SR's networks, and two different sets of networks."""
    learner = gvfx.Deep(hidden=(4,), batch=8, capacity=16, **options)
    rule = gvfx.SuccessorRepresentation(temperature=2.0).network_rule().probabilities
    updates = DeepUpdates(learner, (2, 2, 2), 1000, parts, True, rule)
    return updates, *(updates.begin([np.random.default_rng([k, j]) for j in range(4)]) for k in (0, 1))


def same(one, other):
    return jax.tree.all(jax.tree.map(np.array_equal, one, other))


@pytest.mark.parametrize(("before", "after", "copied"), [(0, 96, False), (96, 104, True), (100, 192, False), (192, 200, True)])
def test_target_networks_are_copied_at_multiples_of_their_period(before, after, copied):
    """l = 100 (Algorithm 1), for Q, M and SR's own networks, at the end of the block that passes it."""
    updates, learning, other = begun()
    learning = learning._replace(target_q=other.q, target_m=other.m, target_intrinsic=other.intrinsic)
    fresh = jax.jit(updates.renewed)(learning, jnp.asarray(before), jnp.asarray(after))
    newest = learning if copied else other
    assert same(fresh.target_q, newest.q) and same(fresh.target_m, newest.m) and same(fresh.target_intrinsic, newest.intrinsic)
    assert same(fresh.q, learning.q) and same(fresh.m, learning.m) and same(fresh.intrinsic, learning.intrinsic)


def test_q_and_m_have_learning_rates_of_their_own_and_waves_are_never_trained():
    """Adam's first step moves every weight that has a gradient by the learning rate."""
    updates, learning, _ = begun(rate_q=1e-2, rate_m=1e-3, q_every=8, waves=3)
    rng = np.random.default_rng(0)
    action, c, gamma = rng.integers(2, size=(16, 1)), rng.normal(0, 3, (16, 2)), np.full((16, 2), 0.9)
    rows = np.concatenate([rng.uniform(-1, 1, (16, 2)), action, rng.uniform(-1, 1, (16, 2)), c, gamma], axis=1)
    replay = memory.write(memory.empty(16, 9, False), jnp.asarray(rows, jnp.float32))
    fresh, _, _ = jax.jit(updates.learn)(jnp.asarray(500), learning, replay, jax.random.key(0))
    for new, old, rate in ((fresh.q, learning.q, 1e-2), (fresh.m, learning.m, 1e-3), (fresh.intrinsic, learning.intrinsic, 1e-2)):
        moves = np.concatenate([np.ravel(x - y) for x, y in zip(*map(jax.tree.leaves, (new, old)), strict=True)])
        assert np.abs(moves).max() == pytest.approx(rate, rel=1e-3)
    assert np.array_equal(fresh.q.frequencies, learning.q.frequencies)
