"""The updates of Deep on a batch of replay rows: Q, M and, for SuccessorRepresentation, its own networks (Algorithm 1).

A loop passes `parts`, which extracts a transition's parts from a row.  With `Deep(heads=k)` the Q network has k further heads per
GVF, for which every transition counts twice or not at all (`Batch.shares`); the first one makes the predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.learners import Deep
from gvfx.theory.equations import m_target, q_target

# --- The replay buffer as data and pure functions: transitions in one matrix, priorities in a second array ----------
# XLA copies the whole matrix [capacity, columns] on every update unless the loop body writes it once and gathers from it once,
# so callers `write` a block of steps in one slice, and take all their batches with one `rows[indices]`.
#
# Prioritised sampling (Schaul et al. 2015) draws index i with probability p_i^alpha / sum p^alpha.  Priorities are kept to the
# power alpha in a cube, whose sums are recomputed at every draw, so that a draw searches three short rows.

SMALLEST = 1e-6  # added to every priority


class Replay(NamedTuple):
    rows: jax.Array  # [capacity, columns]
    priorities: jax.Array  # [capacity padded to a cube], to the power alpha; 0 in empty slots; [0] if uniform
    largest: jax.Array  # [] the largest priority so far, assigned to new transitions
    written: jax.Array  # [] transitions ever written


class ReplayColumns(NamedTuple):
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


def columns(observation: int, action: int, cumulants: int, notes: int = 0, discounts: int = 0, traces: int = 0) -> ReplayColumns:
    ends = list(accumulate((observation, action, observation, cumulants, notes, discounts, traces), initial=0))
    parts = [slice(low, high) for low, high in pairwise(ends)]
    return ReplayColumns(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], ends[-1])


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


FEATURES = 32  # of the successor representation on networks
LARGEST_RATIO = 10.0  # of a target to M in `relative_loss`


class Batch(NamedTuple):
    """A batch of transitions."""

    observation: jax.Array  # [batch, o]
    action: jax.Array  # int32 [batch]
    following: jax.Array  # [batch, o]
    cumulants: jax.Array  # [batch, gvf]
    discounts: jax.Array  # [batch, gvf], 0 on termination
    pi: jax.Array  # the target policies at `following`, [batch, action, gvf] or [action, gvf]
    shares: jax.Array | None = None  # [batch, head] weight of each transition for each bootstrapped head


class Intrinsic(NamedTuple):
    """The networks of SuccessorRepresentation: psi, reward weights and the value of its intrinsic reward."""

    psi: Heads  # [actions, gvfs * features]
    weights: jax.Array  # [gvfs, features]
    value: Heads  # [actions, 1]


class DeepLearning(NamedTuple):
    """The networks, their target networks, and the optimisers' states."""

    q: Heads
    m: Heads
    target_q: Heads
    target_m: Heads
    adam_q: Any
    adam_m: Any
    intrinsic: Intrinsic | None
    target_intrinsic: Intrinsic | None
    adam_intrinsic: Any


def relative_loss(error: jax.Array, m: jax.Array) -> jax.Array:
    """A loss whose gradient by log M is 1 - target / M, with target = M + error: that of the Itakura-Saito divergence.

    It weighs errors relative to M.  A single target counts as at most LARGEST_RATIO times M.
    """
    ratio = jnp.minimum(error / m + 1, LARGEST_RATIO)
    return (1 - jax.lax.stop_gradient(ratio)) * jnp.log(m)


class DeepUpdates:
    """The updates of one learner on batches from its replay buffer.

    probabilities: the behaviour's rule, for the intrinsic value of SuccessorRepresentation.
    """

    def __init__(
        self,
        learner: Deep,
        sizes: tuple[int, int, int],
        steps: int,
        parts: Callable[[jax.Array], Batch],
        variance: bool,
        probabilities: Callable[..., Any] | None = None,
    ) -> None:
        """sizes: length of an observation, number of actions, number of GVFs; variance: whether the behaviour reads M."""
        self.learner, self.steps, self.parts, self.intrinsic_rule = learner, steps, parts, probabilities
        self.size, self.actions, self.gvfs = sizes
        self.prioritised = learner.replay == "prioritised"
        self.q_updates = learner.block // learner.q_every
        self.m_updates = learner.block // learner.m_every if variance or learner.priority == "m" else 0
        self.optimiser_q = self._adam(learner.rate_q, learner.q_every)
        self.optimiser_m = self._adam(learner.rate_m, learner.m_every)
        self.features = jax.random.normal(jax.random.key(7), (self.size + 1, FEATURES))

    def _adam(self, rate: float, every: int) -> optax.GradientTransformation:
        updates = max(1, (self.steps - self.learner.learning_starts) // every)
        return optax.adam(optax.linear_schedule(rate, rate * self.learner.final_rate, updates))

    def begin(self, keys: Any) -> DeepLearning:
        """Fresh networks; keys: random keys for Q, M, psi and the intrinsic value."""
        learner, intrinsic = self.learner, None
        q = Heads(keys[0], self.size, learner.hidden, (self.actions, self.gvfs * (1 + learner.heads)), waves=learner.waves)
        m = Heads(keys[1], self.size, learner.hidden, (self.actions, self.gvfs), True, learner.waves, learner.m_output == "exp")
        if self.intrinsic_rule is not None:
            psi = Heads(keys[2], self.size, learner.hidden, (self.actions, self.gvfs * FEATURES))
            value = Heads(keys[3], self.size, learner.hidden, (self.actions, 1))
            intrinsic = Intrinsic(psi, jnp.zeros((self.gvfs, FEATURES)), value)
        adam = None if intrinsic is None else self.optimiser_q.init(intrinsic)
        return DeepLearning(q, m, q, m, self.optimiser_q.init(q), self.optimiser_m.init(m), intrinsic, intrinsic, adam)

    def renewed(self, learning: DeepLearning, before: jax.Array, t: jax.Array) -> DeepLearning:
        """The networks with target networks copied, if a multiple of `target_every` lies between the two times."""
        copied = (t // self.learner.target_every) > (before // self.learner.target_every)
        keep = partial(jax.tree.map, lambda new, old: jnp.where(copied, new, old))
        return learning._replace(
            target_q=keep(learning.q, learning.target_q),
            target_m=keep(learning.m, learning.target_m),
            target_intrinsic=keep(learning.intrinsic, learning.target_intrinsic),
        )

    def _taken(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        """Outputs [batch, gvf] of the actions taken."""
        return jnp.take_along_axis(outputs, action[:, None, None], axis=1)[:, 0]

    def q_errors(self, q: Heads, target_q: Heads, batch: jax.Array) -> jax.Array:
        """TD errors delta_Q [batch, gvf], or [batch, gvf + heads * gvf] with bootstrapped heads."""
        b, copies = self.parts(batch), q.shape[-1] // self.gvfs
        c, gamma, pi = (jnp.concatenate([x] * copies, axis=-1) if copies > 1 else x for x in (b.cumulants, b.discounts, b.pi))
        v = (pi * target_q(b.following)).sum(axis=1)
        target = q_target(c, gamma, v)  # Eq. 5 (eq:sarsa-q-update)
        return jax.lax.stop_gradient(target) - self._taken(q(b.observation), b.action)

    def m_errors(self, learning: DeepLearning, m: Heads, batch: jax.Array) -> jax.Array:
        """TD errors of M [batch, gvf], from delta_Q of the current Q."""
        b = self.parts(batch)
        delta = self.q_errors(learning.q.first(self.gvfs), learning.target_q.first(self.gvfs), batch)  # main heads
        v = (b.pi * learning.target_m(b.following)).sum(axis=1)
        target = m_target(delta, b.discounts, v)  # Eq. 6 (eq:sarsa-m-update)
        return jax.lax.stop_gradient(target) - self._taken(m(b.observation), b.action)

    def squares(self, learning: DeepLearning, rows: jax.Array) -> jax.Array:
        """Mean square action values [gvf] of the transitions in replay rows [row, column]."""
        b = self.parts(rows)
        return (self._taken(learning.q.first(self.gvfs)(b.observation), b.action) ** 2).mean(axis=0)

    def update_q(self, learning: DeepLearning, batch: jax.Array, weight: jax.Array) -> tuple[DeepLearning, jax.Array]:
        def loss(q: Heads) -> tuple[jax.Array, jax.Array]:
            delta = self.q_errors(q, learning.target_q, batch)
            return (self._counted(weight, batch) * delta**2).mean(axis=0).sum(), delta[:, : self.gvfs]

        gradient, delta = jax.grad(loss, has_aux=True)(learning.q)
        change, adam = self.optimiser_q.update(gradient, learning.adam_q)
        return learning._replace(q=optax.apply_updates(learning.q, change), adam_q=adam), delta

    def _counted(self, weight: jax.Array, batch: jax.Array) -> jax.Array:
        """The weight of every transition, [batch, 1], or per head [batch, gvf + heads * gvf]."""
        shares = self.parts(batch).shares
        if shares is None:
            return weight[:, None]
        whole = jnp.ones((len(weight), 1))
        return weight[:, None] * jnp.repeat(jnp.concatenate([whole, shares], axis=1), self.gvfs, axis=1)

    def update_m(self, learning: DeepLearning, batch: jax.Array, weight: jax.Array) -> tuple[DeepLearning, jax.Array]:
        def loss(m: Heads) -> tuple[jax.Array, jax.Array]:
            error = self.m_errors(learning, m, batch)
            if m.exponential:
                b = self.parts(batch)
                each = relative_loss(error, self._taken(m(b.observation), b.action))
            else:
                each = error**2
            return (weight[:, None] * each).mean(axis=0).sum(), error

        gradient, error = jax.grad(loss, has_aux=True)(learning.m)
        change, adam = self.optimiser_m.update(gradient, learning.adam_m)
        return learning._replace(m=optax.apply_updates(learning.m, change), adam_m=adam), error

    def _features(self, observation: jax.Array) -> jax.Array:
        """Fixed random features in [0, 1], [..., FEATURES]."""
        return jax.nn.sigmoid(4 * (observation @ self.features[:-1] + self.features[-1]))

    def update_intrinsic(self, learning: DeepLearning, batch: jax.Array, weight: jax.Array) -> tuple[DeepLearning, jax.Array]:
        """Update successor features, reward weights, and the value of their error as a reward; also returns psi's error."""
        observation, action, following, cumulants, discounts, pi, _ = self.parts(batch)
        one = pi if pi.ndim == 2 else pi[0]
        phi = self._features(observation)
        target = learning.target_intrinsic
        assert target is not None and learning.intrinsic is not None and self.intrinsic_rule is not None
        rule = self.intrinsic_rule

        def split(psi: jax.Array) -> jax.Array:
            return psi.reshape(*psi.shape[:-1], self.gvfs, FEATURES)  # [batch, action, gvf, feature]

        psi_next = (pi[..., None] * split(target.psi(following))).sum(axis=1)
        psi_target = phi[:, None] + discounts[:, :, None] * psi_next
        mu = jax.vmap(lambda v: rule((), 0, one, one, v))(target.value(following)[..., 0])
        value_next = (mu * target.value(following)[..., 0]).sum(axis=1)

        def loss(i: Intrinsic) -> tuple[jax.Array, jax.Array]:
            psi = jnp.take_along_axis(split(i.psi(observation)), action[:, None, None, None], axis=1)[:, 0]
            psi_error = psi_target - psi
            reward_error = cumulants - phi @ i.weights.T
            reward = jnp.abs(psi_error).mean(axis=2).sum(axis=1) + jnp.abs(reward_error).sum(axis=1)
            aim = jax.lax.stop_gradient(reward + discounts.max(axis=1) * value_next)
            value = jnp.take_along_axis(i.value(observation)[..., 0], action[:, None], axis=1)[:, 0]
            total = (weight[:, None, None] * psi_error**2).mean() * self.gvfs
            total = total + (weight[:, None] * reward_error**2).mean(axis=0).sum() + (weight * (aim - value) ** 2).mean()
            return total, jnp.abs(psi_error).mean(axis=2).sum(axis=1)

        gradient, error = jax.grad(loss, has_aux=True)(learning.intrinsic)
        change, adam = self.optimiser_q.update(gradient, learning.adam_intrinsic)
        return learning._replace(intrinsic=optax.apply_updates(learning.intrinsic, change), adam_intrinsic=adam), error

    def learn(self, t: jax.Array, learning: DeepLearning, replay: Replay, key: jax.Array) -> tuple[DeepLearning, Replay, tuple]:
        """The updates of one block: one draw of indices, one gather, then Q, M and, for SR, its own networks."""
        size, batches = self.learner.batch, self.q_updates + self.m_updates
        u = jax.random.uniform(key, (batches * size,))
        if self.prioritised:
            grown = jnp.minimum(t / (self.learner.beta_share * self.steps), 1.0)
            beta = self.learner.beta + (1 - self.learner.beta) * grown
            index, weight = sample_prioritised(replay, u, beta)
        else:
            index, weight = sample_uniform(replay, u), jnp.ones(batches * size)
        rows = replay.rows[index].reshape(batches, size, -1)
        weight = weight.reshape(batches, size)
        errors, q_loss, m_loss = [], jnp.zeros(self.gvfs), jnp.zeros(self.gvfs)
        for k in range(self.q_updates):
            learning, delta = self.update_q(learning, rows[k], weight[k])
            q_loss = q_loss + (delta**2).mean(axis=0)
            if learning.intrinsic is not None:
                learning, psi_error = self.update_intrinsic(learning, rows[k], weight[k])
            by_psi = self.learner.priority == "sr" and learning.intrinsic is not None
            errors.append(psi_error if by_psi else jnp.abs(delta).sum(axis=1))
        for k in range(self.q_updates, batches):
            learning, error = self.update_m(learning, rows[k], weight[k])
            m_loss = m_loss + (error**2).mean(axis=0)
            if self.learner.priority == "m":
                errors.append(jnp.abs(error).sum(axis=1))
        if self.prioritised:
            chosen = index if self.learner.priority == "m" else index[: self.q_updates * size]
            if self.learner.priority == "m":
                first = [jnp.abs(self.m_errors(learning, learning.m, rows[k])).sum(axis=1) for k in range(self.q_updates)]
                errors = [*first, *errors[self.q_updates :]]
            replay = set_priorities(replay, chosen, jnp.concatenate(errors), self.learner.alpha)
        return learning, replay, (q_loss, m_loss)
