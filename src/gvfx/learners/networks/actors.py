"""Actors for Box actions: a squashed Gaussian trained against the variance critics, and a mixture of the target policies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.learners.networks.critic_updates import gaussian_actor, log_clipped, normals, squashed_mean, squashed_sample, wide
from gvfx.learners.networks.heads import Heads
from gvfx.theory.equations import log_explorer_score

# --- The squashed-Gaussian behaviour actor and its temperature (paper, Algorithm 2; Haarnoja et al. 2018), in pure JAX


class Acting(NamedTuple):
    """The actor, its temperature, and the optimisers' states."""

    actor: Heads
    log_alpha: jax.Array
    adam: Any
    adam_alpha: Any


class Surroundings(NamedTuple):
    """Inputs of the actor's loss: states as its network sees them [batch, o], the targets' middle actions there
    [batch, gvf, a], sigmas [gvf(, a)]."""

    observation: jax.Array
    middles: jax.Array
    sigmas: jax.Array
    weights: jax.Array  # [gvf]


def log_gaussians(middles: jax.Array, sigmas: jax.Array, action: jax.Array) -> jax.Array:
    """log pi_i(a|s) [batch, gvf] of actions [batch, a] under the target policies' Gaussians before clipping."""
    away = (action[:, None] - middles) / wide(sigmas)
    return (-0.5 * away**2 - jnp.log(wide(sigmas)) - 0.5 * math.log(2 * math.pi)).sum(axis=-1)


class ActorUpdates:
    """The updates of one behaviour's actor."""

    def __init__(self, options: Any, sizes: tuple[int, int], sigmas: np.ndarray) -> None:
        """options: a `gvfx.behaviours.explorer.Actor`;  sigmas: [gvf] or [gvf, action], of the target policies."""
        self.options, self.sizes, self.draws = options, sizes, sizes[1]
        self.adam = optax.adam(options.rate)
        own = sizes[1] * (0.5 * math.log(2 * math.pi * math.e) + float(np.log(sigmas).mean()))  # the targets' entropy
        self.target_entropy = own if options.target_entropy is None else options.target_entropy

    def begin(self, generator: np.random.Generator) -> Acting:
        actor = gaussian_actor(generator, self.sizes[0], self.options.hidden, self.sizes[1])
        log_alpha = jnp.asarray(math.log(self.options.alpha), jnp.float32)
        return Acting(actor, log_alpha, self.adam.init(actor), self.adam.init(log_alpha))

    def middle(self, acting: Acting, observation: jax.Array, middles: jax.Array) -> jax.Array:
        """The middle action [..., action]."""
        return squashed_mean(acting.actor, observation)

    def gate(self, acting: Acting, observation: jax.Array, middles: jax.Array) -> jax.Array:
        """There is none: ones [world, gvf]."""
        return jnp.ones(middles.shape[:2])

    def own(
        self, acting: Acting, observation: jax.Array, middles: jax.Array, chance: jax.Array, noise: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The actor's action [world, 1, action] and its log-density [world, 1]; chance [world, action] in (-1, 1)."""
        action, log_mu = squashed_sample(acting.actor, observation, normals(chance))
        return action[:, None], log_mu[:, None]

    def loss(
        self, actor: Heads, m: Callable[[Any], Any], alpha: jax.Array, around: Surroundings, noise: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The loss that the actor minimises, and log mu(a|s) [batch] of the sampled actions; m(action) is [batch, gvf]."""
        o = self.options
        action, log_mu = squashed_sample(actor, around.observation, noise)
        variance = m(action)  # [batch, gvf]
        log_pi = log_gaussians(around.middles, around.sigmas, action)
        if o.direction == "optimal":  # KL(mu || mu*) with mu* of Eq. 3 (eq:behavior_update)
            return (log_mu - log_explorer_score(around.weights, log_pi, variance)).mean(), log_mu
        score = (around.weights * variance).sum(axis=1)
        if o.normalised:
            score = score / jax.lax.stop_gradient(score.mean() + 1e-8)
        if o.kl_to == "mixture":
            near = jax.nn.logsumexp(log_pi, axis=1) - math.log(log_pi.shape[1])
        else:
            near = log_pi.mean(axis=1)
        sign = 1.0 if o.direction == "raise" else -1.0
        gain = sign * score - alpha * log_mu  # Algorithm 2 (algo:sac_gvf), the update of mu
        return (o.kl_weight * (log_mu - near) - gain).mean(), log_mu

    def update(self, acting: Acting, m: Callable[[Any], Any], around: Surroundings, noise: jax.Array) -> tuple[Acting, jax.Array]:
        """One step of Adam for the actor and one for its temperature; and the actor's loss."""
        alpha = jnp.exp(acting.log_alpha)
        (value, log_mu), gradient = jax.value_and_grad(self.loss, has_aux=True)(acting.actor, m, alpha, around, noise)
        change, adam = self.adam.update(gradient, acting.adam)
        slope = alpha * (-log_mu.mean() - self.target_entropy)  # of alpha (-log mu - H), Algorithm 2 (algo:sac_gvf)
        change_alpha, adam_alpha = self.adam.update(slope, acting.adam_alpha)
        log_alpha = acting.log_alpha + change_alpha
        return Acting(optax.apply_updates(acting.actor, change), log_alpha, adam, adam_alpha), value


# --- The mixture actor: a gate over the target policies and a small residual on each, drawn to Theorem 4.1's behaviour
# mu(a|s) = sum_k g_k(s) N(a; m_k(s) + r_k(s), sigma_k^2) with the target policies' middle actions m_k.  The loss is
# KL(mu || mu*) with mu* ~ sqrt(sum_i w_i pi_i^2 M_i) (Eq. 3), a soft actor-critic at temperature 1 whose value of an action is
# log mu*(a|s).  The expectation over the gate is exact; the actions of each component are reparametrised samples.


class MixtureUpdates:
    """The updates and choices of one mixture actor."""

    def __init__(self, options: Any, sizes: tuple[int, int], sigmas: np.ndarray) -> None:
        """options: a `gvfx.behaviours.explorer.MixtureActor`;  sigmas as in `ActorUpdates`."""
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
