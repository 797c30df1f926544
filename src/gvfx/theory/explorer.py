"""Theorem 4.1's behaviour in every form that a back end needs: mu(a|s) ~ sqrt(sum_i w_i pi_i(a|s)^2 M_i(s, a)) (Eq. 3).

- `explorer_probabilities`: over whole arrays, in NumPy (exact solutions) and in JAX (networks);
- `compiled_explorer`: at one state, for compiled loops, which may not allocate arrays;
- `log_explorer_score`: in log space and not normalised, for the Gaussian densities of Box actions (JAX).

The first two share the elementwise square `gvfx.theory.equations.explorer_square`; a test holds all of them equal to a
plain loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gvfx.kernel import normalise, piece
from gvfx.theory.equations import explorer_square


def explorer_probabilities(squares: Any, xp: Any = np) -> Any:
    """mu [..., action] from the squares [..., action, gvf]; uniform where all of them are 0.  xp: numpy or jax.numpy."""
    score = xp.sqrt(squares.sum(axis=-1))  # Eq. 3 (eq:behavior_update)
    total = score.sum(axis=-1, keepdims=True)
    return xp.where(total > 0, score / xp.where(total > 0, total, 1.0), 1 / score.shape[-1])


@cache
def compiled_explorer(gvfs: int, actions: int, smallest_m: float = 0.0) -> Callable[..., None]:
    """choose(weights, pi, m, mu): writes mu [action] from weights [gvf] and pi, m [action, gvf]; uniform where all are 0.

    smallest_m: a smaller m counts as this one.
    """

    @piece
    def choose(weights, pi, m, mu):
        for a in range(actions):
            total = 0.0
            for i in range(gvfs):
                variance = max(m[a, i], smallest_m) if smallest_m > 0.0 else m[a, i]
                total += explorer_square(weights[i], pi[a, i], variance)
            mu[a] = math.sqrt(total)  # Eq. 3 (eq:behavior_update)
        normalise(mu, actions)

    return choose


def log_explorer_score(weights: Any, log_pi: Any, m: Any) -> Any:
    """log sqrt(sum_i w_i pi_i^2 M_i) [...] from weights [gvf] and log_pi, m [..., gvf]; the small numbers keep it finite."""
    import jax
    import jax.numpy as jnp

    log_squares = 2 * log_pi + jnp.log(m + 1e-8) + jnp.log(weights + 1e-30)
    return 0.5 * jax.nn.logsumexp(log_squares, axis=-1)  # Eq. 3 (eq:behavior_update)
