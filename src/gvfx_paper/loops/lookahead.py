"""Answers that look some steps ahead with a learned model of deterministic dynamics before they ask Q (`lookahead`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.features.scaling import LIMIT
from gvfx.learners.networks.critic_updates import Critics, wide
from gvfx.learners.networks.heads import Heads
from gvfx.running.streams.critic_agent import CriticLearning, GVFAgent

HIDDEN = (128, 128)
ROLLOUTS = 32  # per answer


class LearnedDynamics(NamedTuple):
    """The network, its average over the last updates, and the scales of a step's change."""

    network: Heads
    averaged: Heads
    adam: Any
    change: jax.Array  # [o] standard deviation of s' - s, in scaled units


class LookingAhead(GVFAgent):
    """An agent that also learns s' - s and the cumulants of a step from (s, a), with Q's optimiser."""

    def begin_critics(self, generator: np.random.Generator) -> Critics:
        critics, c = super().begin_critics(generator), self.columns
        outputs = c.sizes[0] + c.cumulants.stop - c.cumulants.start
        network = Heads(generator, sum(c.sizes), HIDDEN, (outputs,))
        adam = self.critics.optimiser_q.init(network)
        return critics._replace(model=LearnedDynamics(network, network, adam, jnp.ones(c.sizes[0])))

    def prepare(self, learning: CriticLearning, rows: np.ndarray) -> CriticLearning:
        learning, c = super().prepare(learning, rows), self.columns
        critics = learning.critics
        if not self.described.scaled:
            return learning
        assert critics.scaling is not None
        then, now = (critics.scaling.scaled(jnp.asarray(rows[:, part])) for part in (c.following, c.observation))
        change = np.asarray(then - now).std(axis=0)
        model = critics.model._replace(change=jnp.asarray(np.where(change > 1e-6, change, 1.0)))
        return learning._replace(critics=critics._replace(model=model))

    def also_learn(self, critics: Critics, rows: jax.Array) -> Critics:
        """One step of Adam on the squared error of the change, in standard deviations, and of the cumulants."""
        c, model, tau = self.columns, critics.model, self.described.tau
        now, then = self.scaled(critics, rows[:, c.observation]), self.scaled(critics, rows[:, c.following])
        x = jnp.concatenate([now, rows[:, c.action]], axis=1)
        y = jnp.concatenate([(then - now) / model.change, rows[:, c.cumulants]], axis=1)
        gradient = jax.grad(lambda network: ((network(x) - y) ** 2).mean())(model.network)
        change, adam = self.critics.optimiser_q.update(gradient, model.adam)
        network = optax.apply_updates(model.network, change)
        averaged = jax.tree.map(lambda old, new: old + tau * (new - old), model.averaged, network)
        return critics._replace(model=model._replace(network=network, averaged=averaged, adam=adam))

    def unbounded(self, critics: Critics, observations: jax.Array, actions: jax.Array) -> jax.Array:
        """sum_h gamma^h c_h over `lookahead` steps of the learned dynamics, with each GVF's policy, and then Q; [point, gvf]."""
        assert critics.scaling is not None
        scaling, model, steps = critics.scaling, critics.model, self.described.lookahead
        noise = jax.random.normal(jax.random.key(0), (steps, ROLLOUTS, len(observations), self.size))
        begun = jnp.broadcast_to(scaling.scaled(observations), (ROLLOUTS, *observations.shape))
        first = jnp.broadcast_to(actions, (ROLLOUTS, *actions.shape))
        sigmas, low, high = wide(self.asked.sigmas), *critics.seen[:2]
        found = []
        for i, (target, signal) in enumerate(zip(self.targets, self.asked.signals, strict=True)):
            seen, action, total = begun, first, jnp.zeros(begun.shape[:2])
            for h in range(steps):
                out = model.averaged(jnp.concatenate([seen, action], axis=-1))  # the change, and the cumulants
                seen = (seen + out[..., : seen.shape[-1]] * model.change).clip(-LIMIT, LIMIT)
                total += self.asked.discounts[i] ** h * out[..., seen.shape[-1] + signal].clip(low[i], high[i])
                middle = target.act(seen * scaling.spread + scaling.centre)
                action = (middle + sigmas[i] * noise[h]).clip(-1, 1)
            at_the_end = super().unbounded(critics, seen * scaling.spread + scaling.centre, action)[..., i]
            found.append((total + self.asked.discounts[i] ** steps * at_the_end).mean(axis=0))
        return jnp.stack(found, axis=1)
