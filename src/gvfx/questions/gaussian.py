"""Target policies for Box actions: clip(middle(observation) + N(0, sigma^2), low, high).

The *middle action* is the mean of the Gaussian before its draws are clipped to the action space.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import checked, shown, unfit
from gvfx.questions.policies import Policy, prepared_function, returned_by
from gvfx.types import Function, Numbers, Observations


class ContinuousPolicy(Policy):
    """A policy of Box actions: Gaussian noise of standard deviation `sigma` around a middle action, clipped to the space."""

    sigma: float | tuple[float, ...]

    @abstractmethod
    def middles(self, observations: Observations, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        """Middle actions [batch, *shape] at a batch of observations, in the environment's units."""

    def ready(self, observations: Observations, shape: tuple[int, ...]) -> ContinuousPolicy:
        """A copy prepared for repeated calls of `middles`; the counterpart of `Policy.prepared`."""
        return self

    def sigmas(self, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        """Standard deviation of the noise in every dimension of an action, [*shape]."""
        spread = np.asarray(self.sigma, float)
        if spread.size not in (1, math.prod(shape)):
            raise InputError(
                f"{field}: sigma has {spread.size} numbers for actions of shape {shape}; give one number, or one per dimension."
            )
        return np.broadcast_to(spread.reshape(shape if spread.size > 1 else ()), shape)

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(f"{field}: {type(self).__name__} is for Box actions; give action probabilities for Discrete ones.")

    def at(self, observations: Observations, actions: int, field: str = "policy") -> np.ndarray:
        return self.table(0, actions, field)


@dataclass(frozen=True)
class GaussianPolicy(ContinuousPolicy):
    """A Gaussian whose middle action is a function of the observation, or the same for all observations."""

    middle: Callable[[Any], Any] | tuple[float, ...]
    sigma: float | tuple[float, ...]
    batched: bool | None = None

    def middles(self, observations: Observations, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        if callable(self.middle):
            rows = returned_by(self.middle, self.batched, observations, shape, field)
        else:
            fits = len(self.middle) == math.prod(shape)
            rows = [np.reshape(self.middle, shape) if fits else self.middle] * len(observations)
        try:
            out = np.asarray(rows, float)
        except (TypeError, ValueError):
            raise InputError(f"{field}: the function must return one action of shape {shape} per observation.") from None
        if out.shape != (len(observations), *shape):
            raise InputError(f"{field}: actions have shape {out.shape[1:]}; return the environment's shape, {shape}.")
        if not np.isfinite(out).all():
            raise InputError(f"{field}: the middle action holds nan or infinity; return finite numbers.")
        return out

    def ready(self, observations: Observations, shape: tuple[int, ...]) -> GaussianPolicy:
        if not callable(self.middle):
            return self
        function, batched = prepared_function(self.middle, self.batched, observations, shape)
        return GaussianPolicy(function, self.sigma, batched)


@checked
def gaussian_policy(middle: Function | Numbers, sigma: Numbers, batched: bool | None = None) -> GaussianPolicy:
    """Box actions: clip(middle(observation) + N(0, sigma^2), low, high), in the environment's units.

    middle:  a function of the observation in NumPy or JAX, or one action for all observations.
    sigma:   standard deviation of the noise: one number above 0, or one per dimension.
    batched: whether the function takes a batch of observations; None: decided by a trial call.
    """
    try:
        spread = np.asarray(sigma, float)
    except (TypeError, ValueError, OverflowError):
        spread = np.empty(0)
    if not (spread.size and np.isfinite(spread).all() and (spread > 0).all()):
        raise InputError(f"sigma: {shown(sigma)} must be above 0; give the noise's standard deviation in the action's units.")
    own = tuple(spread.ravel().tolist()) if spread.ndim else float(spread)
    if callable(middle):
        return GaussianPolicy(middle, own, batched)
    if isinstance(middle, str) or unfit(middle, "np.ndarray"):
        raise InputError(f"middle: {shown(middle)} is not an action; give its numbers, or a function of the observation.")
    return GaussianPolicy(tuple(np.ravel(np.asarray(middle)).tolist()), own, batched)
