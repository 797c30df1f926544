"""Networks for continuous actions in [-1, 1]: twin critics of (observation, action), and a squashed-Gaussian actor.

Twins are two separate networks: on a CPU two matrix products are twice as fast as one batched product.
"""

from __future__ import annotations

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.learners.networks.heads import Heads

Aggregate = Literal["min", "mean"]
Twins = tuple[Heads, Heads]
SMALLEST_LOG_SD, LARGEST_LOG_SD = -5.0, 1.0


def normals(chance: jax.Array) -> jax.Array:
    """Standard normal numbers from uniform ones in (-1, 1)."""
    return math.sqrt(2) * jax.lax.erf_inv(chance)


def wide(sigmas: jax.Array) -> jax.Array:
    """Spreads [gvf] or [gvf, action], reshaped to broadcast with actions [..., gvf, action]."""
    return sigmas.reshape(len(sigmas), -1)


def twin_critics(
    generator: np.random.Generator,
    inputs: int,
    hidden: tuple[int, ...],
    gvfs: int,
    positive: bool = False,
    layer_norm: bool = False,
) -> Twins:
    """Two critics of `inputs` numbers (observation and action together), each with one output per GVF."""
    one, other = (Heads(generator, inputs, hidden, (gvfs,), positive, layer_norm=layer_norm) for _ in range(2))
    return one, other


def both(critics: Twins, observation: jax.Array, action: jax.Array) -> jax.Array:
    """The outputs of both twins, [twin, ..., gvf]."""
    x = jnp.concatenate([observation, action], axis=-1)
    return jnp.stack([critics[0](x), critics[1](x)])


def aggregated(answers: jax.Array, how: Aggregate) -> jax.Array:
    """The twins' outputs [twin, ...], aggregated."""
    return answers.min(axis=0) if how == "min" else answers.mean(axis=0)


def gaussian_actor(generator: np.random.Generator, inputs: int, hidden: tuple[int, ...], actions: int) -> Heads:
    """A network whose outputs [2, action] are the mean and log standard deviation before the squashing."""
    return Heads(generator, inputs, hidden, (2, actions))


def squashed_sample(actor: Heads, observation: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An action tanh(mean + sd * noise), [..., action], and its log-probability density, [...]."""
    mean, log_sd = _parameters(actor, observation)
    before = mean + jnp.exp(log_sd) * noise
    gaussian = -0.5 * noise**2 - log_sd - 0.5 * math.log(2 * math.pi)
    return jnp.tanh(before), (gaussian - _log_slope(before)).sum(axis=-1)


def squashed_mean(actor: Heads, observation: jax.Array) -> jax.Array:
    """The middle action tanh(mean)."""
    return jnp.tanh(_parameters(actor, observation)[0])


def _parameters(actor: Heads, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    out = actor(observation)
    middle, half = (LARGEST_LOG_SD + SMALLEST_LOG_SD) / 2, (LARGEST_LOG_SD - SMALLEST_LOG_SD) / 2
    return out[..., 0, :], middle + half * jnp.tanh(out[..., 1, :])


def _log_slope(before: jax.Array) -> jax.Array:
    """log of tanh's slope, 1 - tanh(x)^2, without cancellation."""
    return 2 * (math.log(2) - before - jax.nn.softplus(-2 * before))
