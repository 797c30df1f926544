"""A learned model of deterministic dynamics, with which answers look some steps ahead before they ask Q."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.replay import Columns

HIDDEN = (128, 128)
ROLLOUTS = 32  # per answer


class Model(NamedTuple):
    """The network, its average over the last updates, and the scales of a step's change."""

    network: Heads
    averaged: Heads
    adam: Any
    change: jax.Array  # [o] standard deviation of s' - s, in scaled units


class Dynamics:
    """Learns s' - s and the cumulants of a step from (s, a)."""

    def __init__(self, columns: Columns, optimiser: optax.GradientTransformation) -> None:
        self.columns, self.optimiser = columns, optimiser
        self.size, self.cumulants = columns.sizes[0], columns.cumulants.stop - columns.cumulants.start

    def begin(self, generator: np.random.Generator) -> Model:
        network = Heads(generator, sum(self.columns.sizes), HIDDEN, (self.size + self.cumulants,))
        return Model(network, network, self.optimiser.init(network), jnp.ones(self.size))

    def update(self, model: Model, scaled: Callable[[jax.Array], jax.Array], rows: jax.Array, tau: float) -> Model:
        """One step of Adam on the squared error of the change, in standard deviations, and of the cumulants."""
        c = self.columns
        now, then = scaled(rows[:, c.observation]), scaled(rows[:, c.following])
        x = jnp.concatenate([now, rows[:, c.action]], axis=1)
        y = jnp.concatenate([(then - now) / model.change, rows[:, c.cumulants]], axis=1)
        gradient = jax.grad(lambda network: ((network(x) - y) ** 2).mean())(model.network)
        change, adam = self.optimiser.update(gradient, model.adam)
        network = optax.apply_updates(model.network, change)
        averaged = jax.tree.map(lambda old, new: old + tau * (new - old), model.averaged, network)
        return model._replace(network=network, averaged=averaged, adam=adam)

    def step(self, model: Model, scaled: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The next scaled observations [..., o] and the cumulants [..., cumulant]."""
        out = model.averaged(jnp.concatenate([scaled, actions], axis=-1))
        return scaled + out[..., : self.size] * model.change, out[..., self.size :]
