"""The best stationary behaviour near a given one, with the exact horizon, if there is one: L-BFGS on the logits."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from gvfx.compilation.loops import stored
from gvfx.theory.endless import endless_slopes
from gvfx.theory.flow import Model, occupancy
from gvfx.theory.importance import per_visit

WORK = 1e8  # multiplications of all gradients together, some tenths of a second
MEMORY = 2e7  # numbers kept by a gradient; larger problems are not polished
SMALLEST = 1e-12  # probabilities below it are raised to it: the logits of a probability of 0 do not exist


def polished(model: Model, need: np.ndarray, behaviour: np.ndarray) -> np.ndarray:
    """A behaviour [state, action] whose sum G / x is at most that of the given one, and at best a local minimum; need is G.

    The number of steps is limited by `WORK`: a result need not be a minimum.
    """
    transitions, going = model.transitions(), model.going
    arrays = transitions.indptr, transitions.indices, transitions.data
    if (model.horizon or 1) * model.states > MEMORY or not np.isfinite(total_error(model, need, behaviour)):
        return behaviour
    start = np.ascontiguousarray(model.start, dtype=float)

    def behaviour_of(logits: np.ndarray) -> np.ndarray:
        mu = behaviour.copy()
        rows = np.exp(logits.reshape(-1, model.actions) - logits.reshape(-1, model.actions).max(axis=1, keepdims=True))
        mu[going] = rows / rows.sum(axis=1, keepdims=True)
        return mu

    def slope(logits: np.ndarray) -> tuple[float, np.ndarray]:
        """log sum G / x and its gradient."""
        mu = behaviour_of(logits)
        x = occupancy(model, mu)
        error = per_visit(need, x)
        total = float(error.sum())
        if not np.isfinite(total):
            return 1e3, np.zeros(logits.size)
        visits = x.sum(axis=1)
        h = total - np.divide(error.sum(axis=1), visits, out=np.zeros(model.states), where=visits > 0)
        if model.horizon is None:
            later, length = endless_slopes(model, mu, h)
        else:
            later, length = _slopes(*arrays, mu, start, h, model.horizon)
        by_mu = later / length - np.divide(error, mu, out=np.zeros(mu.shape), where=mu > 0)
        by_logit = mu * (by_mu - (mu * by_mu).sum(axis=1, keepdims=True))
        return np.log(total), by_logit[going].ravel() / total

    first = np.log(np.maximum(behaviour[going], SMALLEST)).ravel()
    limit = {"maxfun": max(20, affordable(model)), "maxiter": 2000, "ftol": 1e-7, "gtol": 1e-8}
    found = behaviour_of(scipy.optimize.minimize(slope, first, jac=True, method="L-BFGS-B", options=limit).x)
    return found if total_error(model, need, found) < total_error(model, need, behaviour) else behaviour


def affordable(model: Model) -> int:
    """How many gradients `WORK` pays for, at most 2,000."""
    once = model.states**3 if model.horizon is None else 3 * model.horizon * (model.transitions().nnz + model.states)
    return min(2000, int(WORK / once))


def total_error(model: Model, need: np.ndarray, behaviour: np.ndarray) -> float:
    """Sum G / x of a behaviour [state, action], with the exact horizon; need is G."""
    return float(per_visit(need, occupancy(model, behaviour)).sum())


@stored(nogil=True)
def _slopes(indptr, indices, data, mu, start, h, horizon):
    """The derivative of sum_t <h, d_t> by mu(s, a), d_t(s) = P(s_t = s), t < horizon; and the mean length of an episode."""
    states, actions = mu.shape
    later = np.zeros((horizon, states))  # sum of h over the last r + 1 steps, from each state
    later[0] = h
    for r in range(1, horizon - 1):
        for s in range(states):
            total = h[s]
            for a in range(actions):
                for k in range(indptr[s * actions + a], indptr[s * actions + a + 1]):
                    total += mu[s, a] * data[k] * later[r - 1, indices[k]]
            later[r, s] = total
    out, length = np.zeros(mu.shape), 0.0
    now, after = start.copy(), np.zeros(states)
    for t in range(horizon):
        after[:] = 0.0
        for s in range(states):
            length += now[s]
            for a in range(actions):
                total = 0.0
                for k in range(indptr[s * actions + a], indptr[s * actions + a + 1]):
                    after[indices[k]] += now[s] * mu[s, a] * data[k]
                    total += data[k] * later[horizon - 2 - t, indices[k]]
                if t < horizon - 1:
                    out[s, a] += now[s] * total
        now, after = after, now
    return out, length
