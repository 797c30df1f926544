"""The squashed-Gaussian behaviour actor and its temperature (paper, Algorithm 2; Haarnoja et al. 2018), in pure JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.learners.networks.actor_critic import gaussian_actor, normals, squashed_mean, squashed_sample, wide
from gvfx.learners.networks.heads import Heads
from gvfx.theory.explorer import log_explorer_score


class Updated(Protocol):
    """The options of every actor."""

    @property
    def rate(self) -> float: ...
    @property
    def updates(self) -> int: ...
    @property
    def hidden(self) -> tuple[int, ...]: ...


class Options(Updated, Protocol):
    """The options of `gvfx.behaviours.actor.Actor`, where they are documented."""

    @property
    def direction(self) -> str: ...
    @property
    def kl_weight(self) -> float: ...
    @property
    def kl_to(self) -> str: ...
    @property
    def normalised(self) -> bool: ...
    @property
    def target_entropy(self) -> float | None: ...
    @property
    def alpha(self) -> float: ...


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

    def __init__(self, options: Options, sizes: tuple[int, int], sigmas: np.ndarray) -> None:
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
