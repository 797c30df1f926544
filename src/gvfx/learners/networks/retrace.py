"""Multi-step targets of all stored transitions at once: Retrace (Munos et al. 2016), for Q and for M.

With t_k = lambda min(1, pi_i(a_k|s_k) / mu(a_k|s_k)) and a' ~ pi_i,

    y_t = c_t + gamma (Q(s_{t+1}, a') + t_{t+1} (y_{t+1} - Q(s_{t+1}, a_{t+1})))

goes backwards through every episode; M has delta^2 in place of c and gamma^2 in place of gamma.  A followed target policy has
traces near lambda, so that its own returns count.  The targets are stored, so an update evaluates no target network.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gvfx.learners.networks.critic_updates import Critics, CriticUpdates, aggregated
from gvfx.learners.networks.deep_updates import Replay
from gvfx.learners.networks.learners import TwinCritics
from gvfx.theory.equations import m_target, q_target

CHUNK = 4096  # transitions whose networks are evaluated together


class RetraceTargets(NamedTuple):
    """The targets of the stored transitions."""

    values: jax.Array  # [capacity, gvf or 2 gvf] of Q, then of M
    until: jax.Array  # [] transitions written when they were computed


def empty(capacity: int, updates: CriticUpdates) -> RetraceTargets:
    return RetraceTargets(jnp.zeros((capacity, updates.gvfs * (1 + updates.variance))), jnp.zeros((), jnp.int32))


def is_due(described: TwinCritics, stored: int, before: int) -> bool:
    """Whether the targets of `stored` transitions are to be computed again, if they were when there were `before` (0: never):
    every `refresh_every` vector steps, or 2 % of the transitions if that is more."""
    return not before or stored - before >= max(described.refresh_every * described.worlds, stored // 50)


def refreshed(
    updates: CriticUpdates, critics: Critics, replay: Replay, aims: RetraceTargets, key: jax.Array, lanes: int, lane: int
) -> RetraceTargets:
    """The targets of all stored transitions from the target networks.

    lanes: number of streams of episodes; lane: the column with a transition's lane, or -1 if every `lanes` successive
    transitions are one of each lane, always in the same order.
    """
    capacity, group = len(replay.rows), lanes if lane < 0 else 1
    chunk = min(capacity, group * max(1, CHUNK // group))
    stored = jnp.minimum(replay.written, capacity)

    def body(k: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        correction, values = carry
        age = k * chunk + jnp.arange(chunk)  # 0: the newest; backwards in time
        index = (replay.written - 1 - age) % capacity
        valid = age < stored
        rows = replay.rows[index]
        sums, discounts, value, value_next, traces = _parts(updates, critics, rows, jax.random.fold_in(key, k))
        traces = traces * valid[:, None]
        least, most = _range(updates, critics)

        def back(correction: jax.Array, now: tuple) -> tuple[jax.Array, jax.Array]:
            which, sums, discounts, value, value_next, traces = now
            mine = correction if lane < 0 else correction[which]
            found = jnp.clip(sums + discounts * (value_next + mine), least, most)
            passed = updates.described.trace * traces * (found - value)
            return passed if lane < 0 else correction.at[which].set(passed), found

        which = jnp.zeros(chunk, jnp.int32) if lane < 0 else rows[:, lane].astype(jnp.int32)
        grouped = [x.reshape(-1, group, *x.shape[1:]) for x in (which, sums, discounts, value, value_next, traces)]
        correction, found = jax.lax.scan(back, correction, tuple(grouped))
        found = found.reshape(chunk, -1)
        return correction, values.at[index].set(jnp.where(valid[:, None], found, values[index]))

    begun = jnp.zeros((lanes, aims.values.shape[1]))
    _, values = jax.lax.fori_loop(0, (stored + chunk - 1) // chunk, body, (begun, aims.values))
    return RetraceTargets(values, replay.written)


def _parts(updates: CriticUpdates, critics: Critics, rows: jax.Array, key: jax.Array) -> tuple[jax.Array, ...]:
    """What is summed, its discounts, the answers at (s, a) and at (s', a'), and the traces; of Q, then of M [row, k]."""
    c, size = updates.columns, updates.columns.sizes[1]
    observation, action, how = rows[:, c.observation], rows[:, c.action], updates.described.aggregate
    drawn = updates.next_actions(rows, jax.random.normal(key, (len(rows), updates.asked.policies, size)))
    value = aggregated(updates.values(critics.target_q, critics, observation, action), how)
    value_next = updates.next_answers(critics.target_q, critics, rows, drawn)
    cumulants, traces = updates.cumulants(rows), rows[:, c.traces]
    discounts = jnp.broadcast_to(updates.discounts(rows), cumulants.shape)
    if not updates.variance:
        return cumulants, discounts, value, value_next, traces
    assert critics.target_m is not None
    delta = q_target(cumulants, discounts, value_next) - value  # Algorithm 2 (algo:sac_gvf), delta_Q
    m = aggregated(updates.values(critics.target_m, critics, observation, action, 2), how)
    m_next = updates.next_answers(critics.target_m, critics, rows, drawn, 2)
    squares = m_target(delta, discounts, 0.0)  # Algorithm 2 (algo:sac_gvf), M_tar without what follows
    pairs = ((cumulants, squares), (discounts, discounts**2), (value, m), (value_next, m_next))
    return *(jnp.concatenate(pair, axis=1) for pair in pairs), jnp.concatenate([traces, traces], axis=1)


def _range(updates: CriticUpdates, critics: Critics) -> tuple[jax.Array, jax.Array]:
    """The smallest and largest possible targets [k]."""
    gvfs = updates.gvfs
    low, high = updates.range(critics) if updates.described.bounded else (jnp.full(gvfs, -jnp.inf), jnp.full(gvfs, jnp.inf))
    if not updates.variance:
        return low, high
    return jnp.concatenate([low, jnp.zeros(gvfs)]), jnp.concatenate([high, ((high - low) / 2) ** 2])


def sample(replay: Replay, aims: RetraceTargets, chance: jax.Array) -> jax.Array:
    """Indices from numbers in [0, 1); every stored transition that has a target is equally likely."""
    capacity = len(replay.rows)
    newest, stored = replay.written - aims.until, jnp.minimum(replay.written, capacity)
    age = jnp.minimum(newest + (chance * (stored - newest)).astype(jnp.int32), stored - 1)
    return (replay.written - 1 - age) % capacity
