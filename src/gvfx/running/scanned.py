"""The scanned loop: act, step, store, sample and update on networks, all inside one compiled JAX loop.

Steps are made in blocks of lcm(p, m) (8 in the paper): the behaviour changes only when M does, once per block, so
acting is exactly Algorithm 1's.  The block's transitions are written to the replay in one slice, the batches of all its
updates are gathered by one indexing, and then Q is updated block/p times and M block/m times.  Two things are thereby
shifted by less than a block: Q's first batch may hold transitions of the same block, and target networks are copied at
the end of the block in which a multiple of `target_every` falls.
"""

from __future__ import annotations

import os
import zlib
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.behaviours.base import Behaviour
from gvfx.equations import m_target, q_target
from gvfx.learners import replay as memory
from gvfx.learners.deep import Deep
from gvfx.learners.networks import Heads
from gvfx.worlds import continuous_grid
from gvfx.worlds.continuous_grid import ContinuousGrid

FEATURES = 32  # of the successor representation on networks
STREAMS = ("environment", "behaviour", "cumulants", "replay", "networks")


class Intrinsic(NamedTuple):
    """What SuccessorRepresentation keeps on networks: psi, reward weights and the value of its own reward."""

    psi: Heads  # [actions, gvfs * features]
    weights: jax.Array  # [gvfs, features]
    value: Heads  # [actions, 1]


class Learning(NamedTuple):
    """Everything that learns, and the optimisers' memories."""

    q: Heads
    m: Heads
    target_q: Heads
    target_m: Heads
    adam_q: Any
    adam_m: Any
    intrinsic: Intrinsic | None
    target_intrinsic: Intrinsic | None
    adam_intrinsic: Any


class Trouble(NamedTuple):
    """The first number that was not finite: the step, the GVF (or -1) and what kind it was."""

    step: jax.Array  # [] -1 while all is well
    gvf: jax.Array
    kind: jax.Array  # 0 observation, 1 cumulant, 2 loss of Q, 3 loss of M
    value: jax.Array


class State(NamedTuple):
    """A whole run: what a checkpoint holds."""

    t: jax.Array  # [] environment steps done
    keys: jax.Array  # [stream] random keys
    observation: jax.Array
    age: jax.Array  # [] steps in the episode
    episodes: jax.Array
    acting: Any  # the behaviour's state
    learning: Learning
    replay: memory.Replay
    visits: jax.Array  # [cells, actions]
    trouble: Trouble


class Columns(NamedTuple):
    """Where a transition's parts lie in a replay row."""

    observation: slice
    following: slice
    cumulants: slice
    alive: int
    action: int
    width: int


def columns(size: int, gvfs: int) -> Columns:
    alive = 2 * size + gvfs
    return Columns(slice(0, size), slice(size, 2 * size), slice(2 * size, alive), alive, alive + 1, alive + 2)


def named_keys(seed: int) -> jax.Array:
    """One key per named stream, from the seed and the stream's name alone."""
    return jnp.stack([jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode())) for name in STREAMS])


class Engine:
    """The compiled functions of one experiment: begin(*seeds) and advance(state, blocks)."""

    def __init__(
        self,
        world: ContinuousGrid,
        policies: np.ndarray,
        discounts: np.ndarray,
        weights: np.ndarray,
        signals: np.ndarray,
        behaviour: Behaviour,
        learner: Deep,
        steps: int,
        cells: int = 20,
    ) -> None:
        """policies [gvf, action] constant target policies, signals [gvf] the index of each GVF's cumulant."""
        self.world, self.learner, self.behaviour, self.cells = world, learner, behaviour, cells
        self.pi = jnp.asarray(policies.T)  # [action, gvf]
        self.discounts = jnp.asarray(discounts)
        self.weights = jnp.asarray(weights)
        self.signals = np.asarray(signals)
        self.gvfs, self.actions = policies.shape
        self.rule = behaviour.network_rule()
        self.size = 2
        self.columns = columns(self.size, self.gvfs)
        self.steps = steps
        self.prioritised = learner.replay == "prioritised"
        self.q_updates = learner.block // learner.q_every
        self.m_updates = learner.block // learner.m_every if behaviour.needs_variance or learner.priority == "m" else 0
        self.optimiser_q = self._adam(learner.rate_q, learner.q_every)
        self.optimiser_m = self._adam(learner.rate_m, learner.m_every)
        self.features = jax.random.normal(jax.random.key(7), (self.size + 1, FEATURES))
        self._warm_up = jax.jit(partial(self._advance, False), donate_argnums=0)
        self._go_on = jax.jit(partial(self._advance, True), donate_argnums=0)

    def _adam(self, rate: float, every: int) -> optax.GradientTransformation:
        updates = max(1, (self.steps - self.learner.learning_starts) // every)
        return optax.adam(optax.linear_schedule(rate, rate * self.learner.final_rate, updates))

    # --- beginning ---------------------------------------------------------------------------------------------------

    def begin(self, *seeds: int) -> State:
        """The state before the first step; of several seeds, every array with a leading axis of seeds."""
        if len(seeds) == 1:
            return jax.jit(self._begin)(named_keys(seeds[0]))
        return jax.jit(jax.vmap(self._begin))(jnp.stack([named_keys(seed) for seed in seeds]))

    def row(self, states: State, k: int) -> State:
        """The state of the k-th seed."""
        return states if states.t.ndim == 0 else jax.tree.map(lambda leaf: leaf[k], states)

    def _begin(self, keys: jax.Array) -> State:
        learner, shape = self.learner, (self.actions, self.gvfs)
        q_key, m_key, psi_key, value_key, keep = jax.random.split(keys[4], 5)
        q = Heads(q_key, self.size, learner.hidden, shape)
        m = Heads(m_key, self.size, learner.hidden, shape, positive=True)
        intrinsic = None
        if self.behaviour.needs_intrinsic:
            intrinsic = Intrinsic(
                psi=Heads(psi_key, self.size, learner.hidden, (self.actions, self.gvfs * FEATURES)),
                weights=jnp.zeros((self.gvfs, FEATURES)),
                value=Heads(value_key, self.size, learner.hidden, (self.actions, 1)),
            )
        first, environment = jax.random.split(keys[0])
        return State(
            t=jnp.zeros((), jnp.int32),
            keys=jnp.stack([environment, keys[1], keys[2], keys[3], keep]),
            observation=continuous_grid.reset(self.world, first),
            age=jnp.zeros((), jnp.int32),
            episodes=jnp.zeros((), jnp.int32),
            acting=self.rule.begin(self.weights),
            learning=Learning(
                q=q,
                m=m,
                target_q=q,
                target_m=m,
                adam_q=self.optimiser_q.init(q),
                adam_m=self.optimiser_m.init(m),
                intrinsic=intrinsic,
                target_intrinsic=intrinsic,
                adam_intrinsic=None if intrinsic is None else self.optimiser_q.init(intrinsic),
            ),
            replay=memory.empty(learner.capacity, self.columns.width, self.prioritised),
            visits=jnp.zeros((self.cells * self.cells, self.actions), jnp.int32),
            trouble=Trouble(jnp.full((), -1), jnp.full((), -1), jnp.zeros((), jnp.int32), jnp.zeros(())),
        )

    # --- acting ------------------------------------------------------------------------------------------------------

    def probabilities(self, acting: Any, learning: Learning, t: Any, observation: jax.Array) -> jax.Array:
        """mu [action] at an observation."""
        m = learning.m(observation) if self.behaviour.needs_variance else self.pi
        value = learning.intrinsic.value(observation)[..., 0] if learning.intrinsic is not None else None
        return self.rule.probabilities(acting, t, self.pi, m, value)

    def _step(self, learning: Learning, carry: tuple, chance: tuple) -> tuple[tuple, tuple]:
        """One environment step; its chance is drawn beforehand, for all steps of a block at once."""
        t, observation, age, acting, episodes = carry
        u, moving, starting = chance
        mu = self.probabilities(acting, learning, t, observation)
        action = (u >= jnp.cumsum(mu)[:-1]).sum()
        following, cumulants, terminated = continuous_grid.move(self.world, moving, observation, action)
        cumulants = cumulants[self.signals]
        age = age + 1
        truncated = age >= self.world.horizon
        alive = jnp.where(terminated | (truncated & self.world.timeouts_terminate), 0.0, 1.0)
        row = jnp.concatenate([observation, following, cumulants, jnp.stack([alive, action.astype(jnp.float32)])])
        over = terminated | truncated
        acting = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.rule.episode_end(acting), acting)
        onward = jnp.where(over, continuous_grid.start(self.world, starting), following)
        return (t + 1, onward, jnp.where(over, 0, age), acting, episodes + over), (row, self._cell(observation), action)

    def _cell(self, observation: jax.Array) -> jax.Array:
        column, row = (jnp.clip((observation[k] * self.cells).astype(jnp.int32), 0, self.cells - 1) for k in (0, 1))
        return row * self.cells + column  # as the truth's points: x fastest, from the lower left

    # --- learning ----------------------------------------------------------------------------------------------------

    def _parts(self, batch: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
        """Observation, action, following observation, cumulants [batch, gvf] and discounts [batch, gvf] of rows."""
        c = self.columns
        discounts = batch[:, c.alive, None] * self.discounts
        return (
            batch[:, c.observation],
            batch[:, c.action].astype(jnp.int32),
            batch[:, c.following],
            batch[:, c.cumulants],
            discounts,
        )

    def _taken(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        """Outputs [batch, gvf] of the actions taken."""
        return jnp.take_along_axis(outputs, action[:, None, None], axis=1)[:, 0]

    def q_errors(self, q: Heads, target_q: Heads, batch: jax.Array) -> jax.Array:
        """TD errors delta_Q [batch, gvf]."""
        observation, action, following, cumulants, discounts = self._parts(batch)
        v = (self.pi * target_q(following)).sum(axis=1)
        target = q_target(cumulants, discounts, v)  # Eq. 5 (eq:sarsa-q-update)
        return jax.lax.stop_gradient(target) - self._taken(q(observation), action)

    def m_errors(self, learning: Learning, m: Heads, batch: jax.Array) -> jax.Array:
        """TD errors of M [batch, gvf], from delta_Q of the present Q."""
        observation, action, following, _, discounts = self._parts(batch)
        delta = self.q_errors(learning.q, learning.target_q, batch)
        v = (self.pi * learning.target_m(following)).sum(axis=1)
        target = m_target(delta, discounts, v)  # Eq. 6 (eq:sarsa-m-update)
        return jax.lax.stop_gradient(target) - self._taken(m(observation), action)

    def _update_q(self, learning: Learning, batch: jax.Array, weight: jax.Array) -> tuple[Learning, jax.Array]:
        def loss(q: Heads) -> tuple[jax.Array, jax.Array]:
            delta = self.q_errors(q, learning.target_q, batch)
            return (weight[:, None] * delta**2).mean(axis=0).sum(), delta

        gradient, delta = jax.grad(loss, has_aux=True)(learning.q)
        change, adam = self.optimiser_q.update(gradient, learning.adam_q)
        return learning._replace(q=optax.apply_updates(learning.q, change), adam_q=adam), delta

    def _update_m(self, learning: Learning, batch: jax.Array) -> tuple[Learning, jax.Array]:
        def loss(m: Heads) -> tuple[jax.Array, jax.Array]:
            error = self.m_errors(learning, m, batch)
            return (error**2).mean(axis=0).sum(), error

        gradient, error = jax.grad(loss, has_aux=True)(learning.m)
        change, adam = self.optimiser_m.update(gradient, learning.adam_m)
        return learning._replace(m=optax.apply_updates(learning.m, change), adam_m=adam), error

    def _features(self, observation: jax.Array) -> jax.Array:
        """Fixed random features in [0, 1], [..., FEATURES]."""
        return jax.nn.sigmoid(4 * (observation @ self.features[:-1] + self.features[-1]))

    def _update_intrinsic(self, learning: Learning, batch: jax.Array) -> tuple[Learning, jax.Array]:
        """Successor features, reward weights, and the value of the reward "how far off were they"; returns psi's error."""
        observation, action, following, cumulants, discounts = self._parts(batch)
        phi = self._features(observation)
        target = learning.target_intrinsic
        assert target is not None and learning.intrinsic is not None

        def split(psi: jax.Array) -> jax.Array:
            return psi.reshape(*psi.shape[:-1], self.gvfs, FEATURES)  # [batch, action, gvf, feature]

        onward = (self.pi[:, :, None] * split(target.psi(following))).sum(axis=1)
        psi_target = phi[:, None] + discounts[:, :, None] * onward
        mu = jax.vmap(lambda v: self.rule.probabilities((), 0, self.pi, self.pi, v))(target.value(following)[..., 0])
        value_next = (mu * target.value(following)[..., 0]).sum(axis=1)

        def loss(i: Intrinsic) -> tuple[jax.Array, jax.Array]:
            psi = jnp.take_along_axis(split(i.psi(observation)), action[:, None, None, None], axis=1)[:, 0]
            psi_error = psi_target - psi
            reward_error = cumulants - phi @ i.weights.T
            reward = jnp.abs(psi_error).mean(axis=2).sum(axis=1) + jnp.abs(reward_error).sum(axis=1)
            aim = jax.lax.stop_gradient(reward + discounts.max(axis=1) * value_next)
            value = jnp.take_along_axis(i.value(observation)[..., 0], action[:, None], axis=1)[:, 0]
            total = (psi_error**2).mean() * self.gvfs + (reward_error**2).mean(axis=0).sum() + ((aim - value) ** 2).mean()
            return total, jnp.abs(psi_error).mean(axis=2).sum(axis=1)

        gradient, error = jax.grad(loss, has_aux=True)(learning.intrinsic)
        change, adam = self.optimiser_q.update(gradient, learning.adam_intrinsic)
        return learning._replace(intrinsic=optax.apply_updates(learning.intrinsic, change), adam_intrinsic=adam), error

    def _learn(
        self, t: jax.Array, learning: Learning, replay: memory.Replay, key: jax.Array
    ) -> tuple[Learning, memory.Replay, tuple]:
        """The updates of one block: one draw of indices, one gather, then Q, M and, for SR, its own."""
        size, batches = self.learner.batch, self.q_updates + self.m_updates
        u = jax.random.uniform(key, (batches * size,))
        if self.prioritised:
            beta = self.learner.beta + (1 - self.learner.beta) * jnp.minimum(t / self.steps, 1.0)
            index, weight = memory.sample_prioritised(replay, u, beta)
        else:
            index, weight = memory.sample_uniform(replay, u), jnp.ones(batches * size)
        rows = replay.rows[index].reshape(batches, size, -1)
        weight = weight.reshape(batches, size)
        errors, q_loss, m_loss = [], jnp.zeros(self.gvfs), jnp.zeros(self.gvfs)
        for k in range(self.q_updates):
            learning, delta = self._update_q(learning, rows[k], weight[k])
            q_loss = q_loss + (delta**2).mean(axis=0)
            if learning.intrinsic is not None:
                learning, psi_error = self._update_intrinsic(learning, rows[k])
            errors.append(
                psi_error if self.learner.priority == "sr" and learning.intrinsic is not None else jnp.abs(delta).sum(axis=1)
            )
        for k in range(self.q_updates, batches):
            learning, error = self._update_m(learning, rows[k])
            m_loss = m_loss + (error**2).mean(axis=0)
            if self.learner.priority == "m":
                errors.append(jnp.abs(error).sum(axis=1))
        if self.prioritised:
            chosen = index if self.learner.priority == "m" else index[: self.q_updates * size]
            if self.learner.priority == "m":
                errors = [
                    *([jnp.abs(self.m_errors(learning, learning.m, rows[k])).sum(axis=1) for k in range(self.q_updates)]),
                    *errors[self.q_updates :],
                ]
            replay = memory.set_priorities(replay, chosen, jnp.concatenate(errors), self.learner.alpha)
        return learning, replay, (q_loss, m_loss)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def compile(self, state: State) -> State:
        """The same state, with the loop compiled for it (at once, if it was already)."""
        return self._go_on(self._warm_up(state, 0), 0)

    def advance(self, state: State, blocks: int) -> State:
        """`blocks` blocks of environment steps; learning begins with the block in which `learning_starts` falls."""
        done, block = int(self.row(state, 0).t), self.learner.block
        silent = min(blocks, max(0, -(-(self.learner.learning_starts - done) // block) - 1))
        if silent:
            state = self._warm_up(state, silent)
        return self._go_on(state, blocks - silent) if blocks > silent else state

    def _advance(self, learns: bool, state: State, blocks: jax.Array) -> State:
        body = partial(self._block, learns=learns)
        if state.t.ndim:
            body = jax.vmap(body)
        return jax.lax.fori_loop(0, blocks, lambda _, s: body(s), state)

    def _block(self, state: State, learns: bool) -> State:
        block, learner = self.learner.block, self.learner
        both = jax.vmap(jax.random.split)(state.keys[:4])  # [stream, 2]
        move_key, start_key = jax.random.split(both[0, 1])
        chance = (
            jax.random.uniform(both[1, 1], (block,)),
            jax.random.uniform(move_key, (block, self.world.draws)),
            jax.random.uniform(start_key, (block, self.world.candidates, 2)),
        )
        carry = (state.t, state.observation, state.age, state.acting, state.episodes)
        carry, (rows, cells, actions) = jax.lax.scan(partial(self._step, state.learning), carry, chance)
        t, observation, age, acting, episodes = carry
        replay = memory.write(state.replay, rows)
        learning = state.learning
        losses = (jnp.zeros(self.gvfs), jnp.zeros(self.gvfs))
        if learns:
            learning, replay, losses = self._learn(t, learning, replay, both[3, 1])
        copied = (t // learner.target_every) > (state.t // learner.target_every)
        keep = partial(jax.tree.map, lambda new, old: jnp.where(copied, new, old))
        learning = learning._replace(
            target_q=keep(learning.q, learning.target_q),
            target_m=keep(learning.m, learning.target_m),
            target_intrinsic=keep(learning.intrinsic, learning.target_intrinsic),
        )
        return State(
            t=t,
            keys=jnp.concatenate([both[:, 0], state.keys[4:]]),
            observation=observation,
            age=age,
            episodes=episodes,
            acting=acting,
            learning=learning,
            replay=replay,
            visits=state.visits.at[cells, actions].add(1),
            trouble=self._look(state.trouble, t, rows, losses),
        )

    def _look(self, trouble: Trouble, t: jax.Array, rows: jax.Array, losses: tuple) -> Trouble:
        """Keep the first thing that is not finite."""
        c = self.columns
        found = trouble
        kinds = [
            (0, rows[:, c.observation].sum(axis=1, keepdims=True)),
            (1, rows[:, c.cumulants]),
            (2, losses[0][None]),
            (3, losses[1][None]),
        ]
        for kind, values in reversed(kinds):
            bad = ~jnp.isfinite(values)
            first = jnp.argmax(bad.ravel())
            row, gvf = first // values.shape[1], first % values.shape[1]
            step = t - values.shape[0] + 1 + row
            fresh = Trouble(step, jnp.where(kind == 0, -1, gvf), jnp.full((), kind), values.ravel()[first])
            found = jax.tree.map(lambda new, old: jnp.where(bad.any(), new.astype(old.dtype), old), fresh, found)  # noqa: B023
        return jax.tree.map(lambda old, new: jnp.where(trouble.step >= 0, old, new), trouble, found)
