"""The replay buffer as data and pure functions: transitions in one matrix, priorities in a second array.

A transition is a row of a float32 matrix [capacity, columns].  XLA copies the whole matrix on every update unless the
loop body writes it once and gathers from it once, so callers collect a block of steps, `write` it in one slice, and
take all their batches with one `rows[indices]`.

Prioritised sampling (Schaul et al. 2015) draws index i with probability p_i^alpha / sum p^alpha.  Priorities are kept
to the power alpha, in a cube of side about capacity^(1/3); its sums over the last axis and the last two are recomputed
at every draw, so rounding errors do not accumulate, and a draw searches three short rows.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

SMALLEST = 1e-6  # added to every priority


class Replay(NamedTuple):
    rows: jax.Array  # [capacity, columns]
    priorities: jax.Array  # [capacity padded to a cube], to the power alpha; 0 in empty slots; [0] if uniform
    largest: jax.Array  # [] the largest priority so far, assigned to new transitions
    written: jax.Array  # [] transitions ever written


class Columns(NamedTuple):
    """The columns of a transition with continuous actions in a row; `notes` are added by an agent."""

    observation: slice
    action: slice
    following: slice
    cumulants: slice
    notes: slice
    discounts: slice  # empty if every transition has the same
    traces: slice  # min(1, pi_i(a|s) / mu(a|s)) of each GVF, 0 at the first transition of an episode; empty if not needed
    width: int

    @property
    def sizes(self) -> tuple[int, int]:
        """The lengths of an observation and an action."""
        return self.observation.stop - self.observation.start, self.action.stop - self.action.start


def columns(observation: int, action: int, cumulants: int, notes: int = 0, discounts: int = 0, traces: int = 0) -> Columns:
    ends = list(accumulate((observation, action, observation, cumulants, notes, discounts, traces), initial=0))
    parts = [slice(low, high) for low, high in pairwise(ends)]
    return Columns(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], ends[-1])


def empty(capacity: int, columns: int, prioritised: bool) -> Replay:
    """An empty replay buffer."""
    size = side(capacity) ** 3 if prioritised else 0
    return Replay(jnp.zeros((capacity, columns)), jnp.zeros(size), jnp.ones(()), jnp.zeros((), jnp.int32))


def side(capacity: int) -> int:
    """The side of the smallest cube that holds all priorities."""
    k = max(1, round(capacity ** (1 / 3)))
    return k if k**3 >= capacity else k + 1


def write(replay: Replay, block: jax.Array) -> Replay:
    """Store a block [steps, columns] over the oldest rows; capacity is a multiple of the block's length."""
    capacity, steps = replay.rows.shape[0], block.shape[0]
    at = replay.written % capacity
    rows = jax.lax.dynamic_update_slice(replay.rows, block, (at, 0))
    priorities = replay.priorities
    if priorities.shape[0]:
        priorities = jax.lax.dynamic_update_slice(priorities, jnp.full(steps, replay.largest), (at,))
    return Replay(rows, priorities, replay.largest, replay.written + steps)


def sample_uniform(replay: Replay, u: jax.Array) -> jax.Array:
    """Indices from uniforms u in [0, 1); every stored transition is equally likely."""
    stored = jnp.minimum(replay.written, replay.rows.shape[0])
    return jnp.minimum((u * stored).astype(jnp.int32), stored - 1)


def sample_prioritised(replay: Replay, u: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Indices in proportion to the priorities, and importance weights (N P(i))^-beta divided by the batch's largest."""
    n = side(replay.rows.shape[0])
    cube = replay.priorities.reshape(n * n, n)
    planes = cube.sum(axis=1).reshape(n, n)
    running = jnp.cumsum(planes.sum(axis=1))
    total = running[-1]
    plane, aim = _passed(jnp.broadcast_to(running, (len(u), n)), u * total)
    line, aim = _descend(planes[plane], aim)
    offset, _ = _descend(cube[plane * n + line], aim)
    stored = jnp.minimum(replay.written, replay.rows.shape[0])
    index = jnp.minimum((plane * n + line) * n + offset, stored - 1)
    probability = jnp.maximum(replay.priorities[index], 1e-30) / total
    weight = (stored * probability) ** (-beta)
    return index, weight / weight.max()


def _descend(rows: jax.Array, aim: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The position in each row [batch, n] where the running sum passes the aim [batch], and the remainder of the aim."""
    return _passed(jnp.cumsum(rows, axis=1), aim)


def _passed(running: jax.Array, aim: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same, from running sums."""
    at = jnp.minimum((running <= aim[:, None]).sum(axis=1), running.shape[1] - 1)
    before = jnp.where(running <= aim[:, None], running, 0.0).max(axis=1)
    return at, aim - jnp.where(at > 0, before, 0.0)


def set_priorities(replay: Replay, index: jax.Array, errors: jax.Array, alpha: float) -> Replay:
    """New priorities (|error| + 1e-6)^alpha at the indices; for a repeated index, one of its errors is used."""
    fresh = (jnp.abs(errors) + SMALLEST) ** alpha
    largest = jnp.maximum(replay.largest, fresh.max())
    return Replay(replay.rows, replay.priorities.at[index].set(fresh), largest, replay.written)
