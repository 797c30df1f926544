"""Networks with one head per GVF: a shared trunk and, for every GVF, one output per action (or a single output)."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

WAVES_PER_UNIT = 2.0
SMALL_VARIANCE = 0.1  # the approximate output of an untrained variance network: small and not zero


def _wave(turns: jax.Array) -> jax.Array:
    """A triangle wave in [-1, 1] of period 1, used instead of a cosine because it is cheaper."""
    return 4 * jnp.abs(turns - jnp.floor(turns) - 0.5) - 1


class Heads(eqx.Module):
    """ReLU trunk and linear heads; calling it on an observation gives an array of the heads' shape, e.g. [actions, gvfs].

    waves: fixed random waves of the observation (two phases each, N(0, WAVES_PER_UNIT^2) cycles per unit) added to the inputs.
    """

    weights: list[jax.Array]
    biases: list[jax.Array]
    frequencies: jax.Array  # [inputs, waves], never trained
    shape: tuple[int, ...] = eqx.field(static=True)
    positive: bool = eqx.field(static=True)
    exponential: bool = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array | np.random.Generator,
        inputs: int,
        hidden: tuple[int, ...],
        shape: tuple[int, ...],
        positive: bool = False,
        waves: int = 0,
        exponential: bool = False,
        layer_norm: bool = False,
    ) -> None:
        """key: randomness of the initial weights; a NumPy generator avoids compilation.

        positive, exponential: positive outputs are the softplus or the exponential of the last layer.
        layer_norm: every hidden layer is scaled to mean 0 and variance 1 over its units before the ReLU (Ba et al. 2016).
        """
        sizes = (inputs + 2 * waves, *hidden, math.prod(shape))
        bounds = [1 / math.sqrt(size) for size in sizes[:-1]]
        pairs = list(zip(sizes[:-1], sizes[1:], bounds, strict=True))
        if isinstance(key, np.random.Generator):
            self.frequencies = jnp.asarray(WAVES_PER_UNIT * key.standard_normal((inputs, waves)), jnp.float32)
            self.weights = [jnp.asarray(key.uniform(-r, r, (a, b)), jnp.float32) for a, b, r in pairs]
            self.biases = [jnp.asarray(key.uniform(-r, r, b), jnp.float32) for a, b, r in pairs]
        else:
            self.frequencies = WAVES_PER_UNIT * jax.random.normal(jax.random.fold_in(key, 1), (inputs, waves))
            keys = jax.random.split(key, 2 * len(sizes))
            self.weights = [jax.random.uniform(keys[2 * k], (a, b), minval=-r, maxval=r) for k, (a, b, r) in enumerate(pairs)]
            self.biases = [jax.random.uniform(keys[2 * k + 1], (b,), minval=-r, maxval=r) for k, (a, b, r) in enumerate(pairs)]
        if positive:  # small initially
            bias = math.log(SMALL_VARIANCE if exponential else math.expm1(SMALL_VARIANCE))
            self.biases[-1] = jnp.full_like(self.biases[-1], bias)
        self.shape, self.positive, self.exponential, self.layer_norm = shape, positive, exponential, layer_norm

    def first(self, count: int) -> Heads:
        """The same network with only the first `count` outputs of the last axis."""
        width = self.shape[-1]
        if count == width:
            return self
        weights, biases = (a[-1].reshape(*a[-1].shape[:-1], -1, width)[..., :count] for a in (self.weights, self.biases))
        own = ([*self.weights[:-1], weights.reshape(len(weights), -1)], [*self.biases[:-1], biases.ravel()])
        out = eqx.tree_at(lambda h: (h.weights, h.biases), self, own)
        object.__setattr__(out, "shape", (*self.shape[:-1], count))
        return out

    def __call__(self, observation: jax.Array) -> jax.Array:
        """Outputs [..., *shape] of observations [..., inputs]."""
        x = observation
        if self.frequencies.shape[1]:
            turns = x @ jax.lax.stop_gradient(self.frequencies)
            x = jnp.concatenate([x, _wave(turns), _wave(turns + 0.25)], axis=-1)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ w + b
            x = jax.nn.relu(jax.nn.standardize(x) if self.layer_norm else x)
        x = x @ self.weights[-1] + self.biases[-1]
        if self.positive:
            x = jnp.exp(x) if self.exponential else jax.nn.softplus(x)
        return x.reshape(*x.shape[:-1], *self.shape)
