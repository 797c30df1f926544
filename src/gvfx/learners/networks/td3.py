"""TD3 (Fujimoto et al. 2018): trains the target policies of the MuJoCo experiments (paper, App. MuJoCo).

Twin critics with one output, a deterministic actor tanh(network), noise on the target's action, and an actor that
is updated every `delay` critic updates.  Episodes never terminate: targets always bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.learners.networks.actor_critic import Twins, both, normals, twin_critics
from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.replay import Columns


class TD3Learning(NamedTuple):
    """The networks, their target networks, and the optimisers' states."""

    actor: Heads
    critics: Twins
    target_actor: Heads
    target_critics: Twins
    adam_actor: Any
    adam_critics: Any


@dataclass(frozen=True)
class TD3:
    """`updates` critic updates per vector step of `worlds` worlds; uniform actions until `learning_starts` steps."""

    hidden: tuple[int, ...] = (128, 128)
    batch: int = 256
    capacity: int = 640_000
    updates: int = 4
    worlds: int = 16
    learning_starts: int = 4_000
    rate: float = 1e-3
    discount: float = 0.99
    tau: float = 0.005
    exploration: float = 0.2  # standard deviation of the noise on the actor's action
    smoothing: float = 0.2  # of the noise on the target's action, clipped at `smoothing_clip`
    smoothing_clip: float = 0.5
    delay: int = 2


class TD3Agent:
    """TD3's functions for one task: begin, act and learn."""

    def __init__(self, described: TD3, columns: Columns, task: int) -> None:
        self.described, self.columns, self.task = described, columns, task
        self.adam = optax.adam(described.rate)
        self.act_draws = self.learn_draws = columns.sizes[1]

    def begin(self, generator: np.random.Generator) -> TD3Learning:
        size, actions = self.columns.sizes
        actor = Heads(generator, size, self.described.hidden, (actions,))
        critics = twin_critics(generator, size + actions, self.described.hidden, 1)
        return TD3Learning(actor, critics, actor, critics, self.adam.init(actor), self.adam.init(critics))

    def begin_acting(self) -> tuple:
        return ()

    def begin_aims(self) -> None:
        return None

    def prepare(self, learning: TD3Learning, rows: np.ndarray) -> TD3Learning:
        return learning

    def see(self, learning: TD3Learning, rows: jax.Array) -> TD3Learning:
        return learning

    def annotate(self, rows: jax.Array, acting: tuple) -> jax.Array:
        return rows

    def act(
        self, learning: TD3Learning, acting: tuple, learns: bool, chance: jax.Array, observations: jax.Array, over: jax.Array
    ) -> tuple[tuple, jax.Array]:
        """The actor with exploration noise; uniform actions before learning starts."""
        if not learns:
            return acting, chance
        noise = self.described.exploration * normals(chance)
        return acting, jnp.clip(jnp.tanh(learning.actor(observations)) + noise, -1, 1)

    def learn(self, learning: TD3Learning, batches: jax.Array, noise: jax.Array) -> tuple[TD3Learning, jax.Array]:
        """Updates on batches [updates, batch, columns] with normal noise; also returns the critics' last loss, []."""
        delay = self.described.delay

        def group(learning: TD3Learning, each: tuple) -> tuple[TD3Learning, jax.Array]:
            rows, noise = each
            for k in range(delay):
                learning, loss = self.update_critics(learning, rows[k], noise[k])
            return self.update_actor(learning, rows[-1]), loss

        groups = (batches.reshape(-1, delay, *batches.shape[1:]), noise.reshape(-1, delay, *noise.shape[1:]))
        learning, losses = jax.lax.scan(group, learning, groups)
        return learning, losses[-1]

    def critic_target(self, learning: TD3Learning, rows: jax.Array, noise: jax.Array) -> jax.Array:
        """c + gamma * min over the twins of Q(s', a'), [batch]; a' is the target actor's action with clipped noise."""
        d, following = self.described, rows[:, self.columns.following]
        noise = jnp.clip(d.smoothing * noise, -d.smoothing_clip, d.smoothing_clip)
        action = jnp.clip(jnp.tanh(learning.target_actor(following)) + noise, -1, 1)
        cumulant = rows[:, self.columns.cumulants][:, self.task]
        return cumulant + d.discount * both(learning.target_critics, following, action).min(axis=0)[:, 0]

    def update_critics(self, learning: TD3Learning, rows: jax.Array, noise: jax.Array) -> tuple[TD3Learning, jax.Array]:
        target = self.critic_target(learning, rows, noise)

        def loss(critics: Twins) -> jax.Array:
            values = both(critics, rows[:, self.columns.observation], rows[:, self.columns.action])[..., 0]
            return ((target - values) ** 2).mean(axis=1).sum()

        value, gradient = jax.value_and_grad(loss)(learning.critics)
        change, adam = self.adam.update(gradient, learning.adam_critics)
        return learning._replace(critics=optax.apply_updates(learning.critics, change), adam_critics=adam), value

    def update_actor(self, learning: TD3Learning, rows: jax.Array) -> TD3Learning:
        observation = rows[:, self.columns.observation]

        def loss(actor: Heads) -> jax.Array:
            x = jnp.concatenate([observation, jnp.tanh(actor(observation))], axis=1)
            return -learning.critics[0](x).mean()

        change, adam = self.adam.update(jax.grad(loss)(learning.actor), learning.adam_actor)
        learning = learning._replace(actor=optax.apply_updates(learning.actor, change), adam_actor=adam)
        tau = self.described.tau
        slow = optax.incremental_update((learning.actor, learning.critics), (learning.target_actor, learning.target_critics), tau)
        return learning._replace(target_actor=slow[0], target_critics=slow[1])
