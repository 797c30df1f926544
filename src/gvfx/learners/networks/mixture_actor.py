"""The mixture actor: a gate over the target policies and a small residual on each, drawn to Theorem 4.1's behaviour.

mu(a|s) = sum_k g_k(s) N(a; m_k(s) + r_k(s), sigma_k^2) with the target policies' middle actions m_k.  The loss is
KL(mu || mu*) with mu* ~ sqrt(sum_i w_i pi_i^2 M_i) (Eq. 3): a soft actor-critic whose value of an action is log mu*(a|s),
known up to a constant from the variance critics, at temperature 1.  The expectation over the gate is exact; the actions of
each component are reparametrised samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.learners.networks.actor_critic import wide
from gvfx.learners.networks.densities import log_clipped
from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.soft_actor import Acting, Surroundings, Updated, log_gaussians
from gvfx.theory.explorer import log_explorer_score


class Options(Updated, Protocol):
    """The options of `gvfx.behaviours.actor.MixtureActor`, where they are documented."""

    @property
    def residual(self) -> float: ...
    @property
    def floor(self) -> float: ...


class MixtureUpdates:
    """The updates and choices of one mixture actor."""

    def __init__(self, options: Options, sizes: tuple[int, int], sigmas: np.ndarray) -> None:
        """sigmas: [gvf] or [gvf, action], of the target policies."""
        self.options, self.sizes, self.sigmas = options, sizes, wide(jnp.asarray(sigmas))
        self.gvfs = len(sigmas)
        self.draws = self.gvfs * sizes[1]  # normal numbers that an update of one state takes
        self.adam = optax.adam(options.rate)

    def begin(self, generator: np.random.Generator) -> Acting:
        actor = Heads(generator, self.sizes[0], self.options.hidden, (self.gvfs, 1 + self.sizes[1]))
        return Acting(actor, jnp.zeros(()), self.adam.init(actor), ())

    def components(self, actor: Heads, observation: jax.Array, middles: jax.Array) -> tuple[jax.Array, jax.Array]:
        """log g [..., gvf] and the components' middle actions [..., gvf, action]."""
        out = actor(observation)
        gate = (1 - self.options.floor) * jax.nn.softmax(out[..., 0]) + self.options.floor / self.gvfs
        return jnp.log(gate), middles + self.options.residual * jnp.tanh(out[..., 1:])

    def middle(self, acting: Acting, observation: jax.Array, middles: jax.Array) -> jax.Array:
        """The mean of the components' middle actions, [..., action]."""
        log_gate, shifted = self.components(acting.actor, observation, middles)
        return (jnp.exp(log_gate)[..., None] * shifted.clip(-1, 1)).sum(axis=-2)

    def gate(self, acting: Acting, observation: jax.Array, middles: jax.Array) -> jax.Array:
        """The probability of each component [world, gvf]."""
        return jnp.exp(self.components(acting.actor, observation, middles)[0])

    def own(
        self, acting: Acting, observation: jax.Array, middles: jax.Array, chance: jax.Array, noise: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """An action of each component [world, gvf, action] and its log-density [world, gvf]; noise [world, gvf, action]."""
        _, shifted = self.components(acting.actor, observation, middles)
        actions = (shifted + self.sigmas * noise).clip(-1, 1)
        return actions, log_clipped(shifted, self.sigmas, actions)

    def loss(self, actor: Heads, variance: Callable[[Any], Any], around: Surroundings, noise: jax.Array) -> jax.Array:
        """KL(mu || mu*), up to a constant."""
        log_gate, shifted = self.components(actor, around.observation, around.middles)
        drawn = shifted + self.sigmas * noise.reshape(shifted.shape)  # [batch, component, action]
        gain = []
        for k in range(self.gvfs):
            action = drawn[:, k]
            log_mu = jax.nn.logsumexp(log_gate + log_gaussians(shifted, self.sigmas, action), axis=1)
            log_pi = log_gaussians(around.middles, self.sigmas, action)
            wanted = log_explorer_score(around.weights, log_pi, variance(action.clip(-1, 1)))  # Eq. 3 (eq:behavior_update)
            gain.append(wanted - log_mu)
        return -(jnp.exp(log_gate) * jnp.stack(gain, axis=1)).sum(axis=1).mean()

    def update(
        self, acting: Acting, variance: Callable[[Any], Any], around: Surroundings, noise: jax.Array
    ) -> tuple[Acting, jax.Array]:
        """One step of Adam; and the loss."""
        value, gradient = jax.value_and_grad(self.loss)(acting.actor, variance, around, noise)
        change, adam = self.adam.update(gradient, acting.adam)
        return acting._replace(actor=optax.apply_updates(acting.actor, change), adam=adam), value
