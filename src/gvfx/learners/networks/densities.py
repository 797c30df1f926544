"""The density of a clipped Gaussian, clip(middle + N(0, sigma^2), -1, 1), in NumPy or JAX."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


def log_clipped(middles: Any, sigmas: Any, actions: Any) -> Any:
    """log pi(a|s) [...] of actions [..., a]: a density inside (-1, 1), and the probability of the bound itself at -1 and 1.

    Ratios of two of them are the ratios of the policies' probabilities, at the bounds too.
    """
    xp, log_ndtr = (np, scipy.special.log_ndtr) if isinstance(actions, np.ndarray) else (jnp, jax.scipy.special.log_ndtr)
    inside = -0.5 * ((actions - middles) / sigmas) ** 2 - xp.log(sigmas) - 0.5 * math.log(2 * math.pi)
    if xp is np and (abs(actions) < 1).all():  # faster
        return inside.sum(axis=-1)
    above, below = log_ndtr((middles - 1) / sigmas), log_ndtr((-1 - middles) / sigmas)
    return xp.where(actions >= 1, above, xp.where(actions <= -1, below, inside)).sum(axis=-1)
