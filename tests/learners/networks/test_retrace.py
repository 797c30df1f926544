"""Stored Retrace targets against a plain backward recursion, one row and one GVF at a time."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.critics import SIGMAS, SMALL, make_agent, plain

from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import RoundRobin
from gvfx.learners.networks import retrace
from gvfx.learners.networks.critic_updates import NetworkScaling, log_clipped
from gvfx.learners.networks.deep_updates import empty, write

DISCOUNTS = np.array([0.99, 0.9])
KEY = jax.random.key(3)


def filled(agent, steps, worlds, generator):
    """A replay buffer after `steps` vector steps of random rows."""
    replay, c = empty(agent.described.capacity, agent.columns.width, False), agent.columns
    for _ in range(steps):
        rows = generator.normal(size=(worlds, c.width)).astype(np.float32)
        rows[:, c.action] = generator.uniform(-1, 1, (worlds, 6))
        rows[:, c.notes] = generator.uniform(-1, 1, (worlds, 12))
        rows[:, c.cumulants] = generator.uniform(0, 1, (worlds, 2))
        rows[:, c.traces] = generator.uniform(0, 1, (worlds, 2)) * (generator.random((worlds, 1)) < 0.9)
        replay = write(replay, jnp.asarray(rows))
    return replay


def plain_targets(agent, critics, rows, noise, power):
    """Targets of Q (power 1) or of M (2) [row, gvf] of one lane's rows in the order of time, by the recursion itself."""
    c, d, out = agent.columns, agent.described, np.zeros((len(rows), 2))
    scaling = [np.float64(part) for part in critics.scaling]

    def answers(twins, seen, action, power):
        x = np.clip((seen - scaling[0]) / scaling[1], -10, 10)
        return np.mean([plain(net, x, action) for net in twins], axis=0) * scaling[2] ** power

    low, high = (np.float64(e) / (1 - DISCOUNTS) for e in critics.seen)
    limits = (low, high) if power == 1 else (0 * low, ((high - low) / 2) ** 2)
    for i in range(2):
        later = 0.0
        for n in reversed(range(len(rows))):
            row, gamma = np.float64(rows[n]), DISCOUNTS[i]
            s, a, s2 = row[c.observation], row[c.action], row[c.following]
            a2 = np.clip(row[c.notes].reshape(2, 6)[i] + SIGMAS[i] * noise[n, i], -1, 1)
            q, q2 = (answers(critics.target_q, *x, 1)[i] for x in ((s, a), (s2, a2)))
            summed, said, onward = row[c.cumulants][i], q, q2
            if power == 2:
                summed = (summed + gamma * q2 - q) ** 2
                said, onward = (answers(critics.target_m, *x, 2)[i] for x in ((s, a), (s2, a2)))
            out[n, i] = np.clip(summed + gamma**power * (onward + later), limits[0][i], limits[1][i])
            later = d.trace * row[c.traces][i] * (out[n, i] - said)
    return out


@pytest.mark.parametrize(("steps", "capacity"), [(40, 800), (230, 320)], ids=["not full", "full, written over"])
@pytest.mark.parametrize("behaviour", [RoundRobin(), GVFExplorer()], ids=["Q", "Q and M"])
def test_stored_targets_are_the_plain_recursion(targets, monkeypatch, steps, capacity, behaviour):
    monkeypatch.setattr(retrace, "CHUNK", 100)  # several chunks, the last one not whole
    agent = make_agent(targets, behaviour, replace(SMALL, capacity=capacity, trace=0.9))
    generator = np.random.default_rng(1)
    replay = filled(agent, steps, 4, generator)
    critics = agent.begin(generator).critics
    scaling = NetworkScaling(*(jnp.asarray(generator.uniform(0.5, 2, n), jnp.float32) for n in (17, 17, 2)))
    critics = agent.critics.look(critics, replay.rows[: min(4 * steps, capacity)])._replace(scaling=scaling)
    begun = retrace.empty(capacity, agent.critics)
    aims = jax.jit(lambda replay: retrace.refreshed(agent.critics, critics, replay, begun, KEY, 4, -1))(replay)
    assert int(aims.until) == 4 * steps
    stored = min(4 * steps, capacity)
    index = (4 * steps - 1 - np.arange(stored)) % capacity  # the newest first
    chunks = [np.asarray(jax.random.normal(jax.random.fold_in(KEY, k), (100, 2, 6))) for k in range(-(-stored // 100))]
    noise = np.concatenate(chunks)[:stored]
    for lane in range(4):
        mine = index[lane::4][::-1]  # in the order of time
        rows, drawn = np.asarray(replay.rows)[mine], noise[lane::4][::-1]
        expected = [plain_targets(agent, critics, rows, drawn, power) for power in (1, 2)[: 1 + behaviour.needs_variance]]
        np.testing.assert_allclose(np.asarray(aims.values)[mine], np.concatenate(expected, axis=1), rtol=2e-3, atol=2e-3)


def test_a_column_with_the_lane_gives_the_same_targets(targets, monkeypatch):
    """Rows of lanes in any order, one group per row, against rows of four lanes in groups."""
    monkeypatch.setattr(retrace, "CHUNK", 1000)
    agent = make_agent(targets, RoundRobin(), replace(SMALL, capacity=160))
    generator = np.random.default_rng(2)
    replay, critics = filled(agent, 40, 4, generator), agent.begin(generator).critics
    critics = agent.critics.look(critics, replay.rows)
    begun = retrace.empty(160, agent.critics)
    refreshed = jax.jit(
        lambda replay, column: retrace.refreshed(agent.critics, critics, replay, begun, KEY, 4, column), static_argnums=1
    )
    grouped = refreshed(replay, -1)
    rows = jnp.concatenate([replay.rows, (jnp.arange(160) % 4)[:, None].astype(jnp.float32)], axis=1)
    single = refreshed(replay._replace(rows=rows), agent.columns.width)
    np.testing.assert_allclose(single.values, grouped.values, rtol=1e-4, atol=1e-4)


def test_only_transitions_with_targets_are_sampled(targets):
    agent = make_agent(targets, RoundRobin(), replace(SMALL, capacity=80))
    replay = filled(agent, 30, 4, np.random.default_rng(0))  # 120 written, 40 of them over the oldest
    aims = retrace.empty(80, agent.critics)._replace(until=jnp.asarray(108))
    index = np.asarray(retrace.sample(replay, aims, jnp.linspace(0, 0.9999, 500)))
    assert set(index) == set(range(80)) - {k % 80 for k in range(108, 120)}


def test_log_clipped_is_a_probability_in_numpy_and_jax():
    grid = np.linspace(-1, 1, 20001)[1:-1, None]
    for middle in (-1.2, 0.3, 0.95):
        inside = np.exp(log_clipped(np.array([middle]), 0.2, grid)).sum() * (grid[1, 0] - grid[0, 0])
        ends = np.exp(log_clipped(np.array([middle]), 0.2, np.array([[-1.0], [1.0]]))).sum()
        assert inside + ends == pytest.approx(1, abs=1e-3)
        jaxed = jax.jit(lambda middle: log_clipped(middle, 0.2, jnp.asarray(grid[::500])))(np.array([middle]))
        np.testing.assert_allclose(jaxed, log_clipped(np.array([middle]), 0.2, grid[::500]), rtol=1e-4, atol=1e-4)
