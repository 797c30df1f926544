"""Replay as data and pure functions: transitions in one matrix, priorities beside it.

A transition is a row of a float32 matrix [capacity, columns].  XLA copies the whole matrix on every update unless the
loop body writes it once and gathers from it once, so callers collect a block of steps, `write` it in one slice, and
take all their batches with one `rows[indices]`.

Prioritised sampling (Schaul et al. 2015) draws index i with probability p_i^alpha / sum p^alpha.  Priorities are kept
to the power alpha; their sums over chunks of about sqrt(capacity) are taken afresh at every draw, so nothing drifts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

SMALLEST = 1e-6  # added to every priority


class Replay(NamedTuple):
    rows: jax.Array  # [capacity, columns]
    priorities: jax.Array  # [capacity padded to chunks], to the power alpha; 0 where nothing is stored; [0] if uniform
    largest: jax.Array  # [] the largest priority so far, which new transitions get
    written: jax.Array  # [] transitions ever written


def empty(capacity: int, columns: int, prioritised: bool) -> Replay:
    """A replay with nothing in it."""
    size = chunks(capacity)[0] * chunks(capacity)[1] if prioritised else 0
    return Replay(jnp.zeros((capacity, columns)), jnp.zeros(size), jnp.ones(()), jnp.zeros((), jnp.int32))


def chunks(capacity: int) -> tuple[int, int]:
    """Number and size of the chunks that priorities are summed over."""
    size = max(1, math.isqrt(capacity))
    return -(-capacity // size), size


def write(replay: Replay, block: jax.Array) -> Replay:
    """Store a block [steps, columns], over the oldest; capacity is a multiple of the block's length."""
    capacity, steps = replay.rows.shape[0], block.shape[0]
    at = replay.written % capacity
    rows = jax.lax.dynamic_update_slice(replay.rows, block, (at, 0))
    priorities = replay.priorities
    if priorities.shape[0]:
        priorities = jax.lax.dynamic_update_slice(priorities, jnp.full(steps, replay.largest), (at,))
    return Replay(rows, priorities, replay.largest, replay.written + steps)


def sample_uniform(replay: Replay, u: jax.Array) -> jax.Array:
    """Indices from uniforms u in [0, 1), every stored transition alike."""
    stored = jnp.minimum(replay.written, replay.rows.shape[0])
    return jnp.minimum((u * stored).astype(jnp.int32), stored - 1)


def sample_prioritised(replay: Replay, u: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Indices in proportion to the priorities, and importance weights (N P(i))^-beta over the largest of the batch."""
    number, size = chunks(replay.rows.shape[0])
    table = replay.priorities.reshape(number, size)
    cumulative = jnp.cumsum(table.sum(axis=1))
    total = cumulative[-1]
    aim = u * total
    chunk = jnp.minimum(jnp.searchsorted(cumulative, aim, side="right"), number - 1)
    before = jnp.where(chunk > 0, cumulative[chunk - 1], 0.0)
    inside = jnp.cumsum(table[chunk], axis=1)  # [batch, size]
    offset = jnp.minimum((inside <= (aim - before)[:, None]).sum(axis=1), size - 1)
    stored = jnp.minimum(replay.written, replay.rows.shape[0])
    index = jnp.minimum(chunk * size + offset, stored - 1)
    probability = jnp.maximum(replay.priorities[index], 1e-30) / total
    weight = (stored * probability) ** (-beta)
    return index, weight / weight.max()


def set_priorities(replay: Replay, index: jax.Array, errors: jax.Array, alpha: float) -> Replay:
    """New priorities (|error| + 1e-6)^alpha at index; of an index that comes twice, one of its errors counts."""
    fresh = (jnp.abs(errors) + SMALLEST) ** alpha
    largest = jnp.maximum(replay.largest, fresh.max())
    return Replay(replay.rows, replay.priorities.at[index].set(fresh), largest, replay.written)
