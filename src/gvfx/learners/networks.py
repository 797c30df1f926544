"""Networks with one head per GVF: a shared trunk and, for every GVF, one output per action (or one in all)."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

SMALL_VARIANCE = 0.1  # about what an untrained variance network answers: small and not zero


class Heads(eqx.Module):
    """ReLU trunk and linear heads; calling it on an observation gives an array of the heads' shape, e.g. [actions, gvfs]."""

    weights: list[jax.Array]
    biases: list[jax.Array]
    shape: tuple[int, ...] = eqx.field(static=True)
    positive: bool = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array | np.random.Generator,
        inputs: int,
        hidden: tuple[int, ...],
        shape: tuple[int, ...],
        positive: bool = False,
    ) -> None:
        """key: chance of the first weights; a NumPy generator spares compiling."""
        sizes = (inputs, *hidden, math.prod(shape))
        bounds = [1 / math.sqrt(size) for size in sizes[:-1]]
        pairs = list(zip(sizes[:-1], sizes[1:], bounds, strict=True))
        if isinstance(key, np.random.Generator):
            self.weights = [jnp.asarray(key.uniform(-r, r, (a, b)), jnp.float32) for a, b, r in pairs]
            self.biases = [jnp.asarray(key.uniform(-r, r, b), jnp.float32) for a, b, r in pairs]
        else:
            keys = jax.random.split(key, 2 * len(sizes))
            self.weights = [jax.random.uniform(keys[2 * k], (a, b), minval=-r, maxval=r) for k, (a, b, r) in enumerate(pairs)]
            self.biases = [jax.random.uniform(keys[2 * k + 1], (b,), minval=-r, maxval=r) for k, (a, b, r) in enumerate(pairs)]
        if positive:  # softplus(bias) is small at first
            self.biases[-1] = jnp.full_like(self.biases[-1], math.log(math.expm1(SMALL_VARIANCE)))
        self.shape, self.positive = shape, positive

    def __call__(self, observation: jax.Array) -> jax.Array:
        """Outputs [..., *shape] of observations [..., inputs]."""
        x = observation
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jax.nn.relu(x @ w + b)
        x = x @ self.weights[-1] + self.biases[-1]
        x = jax.nn.softplus(x) if self.positive else x
        return x.reshape(*x.shape[:-1], *self.shape)
