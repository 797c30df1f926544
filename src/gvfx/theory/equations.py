"""The paper's numbered equations, one pure function each: elementwise over plain floats in compiled loops, NumPy and JAX arrays.

Sums over actions are left to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from gvfx.compilation.loops import formula
from gvfx.kernel import normalise, piece
from gvfx.questions.gvf import Stacked
from gvfx.questions.policies import OwnPolicy


@formula
def q_target(cumulant, discount, value_next):
    """Expected-Sarsa target: c + gamma * sum_a' pi(a'|s') Q(s', a')."""
    return cumulant + discount * value_next  # Eq. 5 (eq:sarsa-q-update)


@formula
def m_target(delta, discount, variance_next):
    """Variance target: delta_Q^2 + gamma^2 * sum_a' pi(a'|s') M(s', a')."""
    return delta * delta + discount * discount * variance_next  # Eq. 6 (eq:sarsa-m-update)


@formula
def q_target_sampled(cumulant, discount, ratio_next, q_next):
    """Importance-sampling target: c + gamma * rho' * Q(s', a')."""
    return cumulant + discount * ratio_next * q_next  # Sec. 3, "Importance Sampling"; App. B.3.6 (1)


@formula
def m_target_sampled(delta, discount, ratio_next, m_next):
    """Importance-sampling variance target: delta_Q^2 + gamma^2 * rho'^2 * M(s', a')."""
    return delta * delta + discount * discount * ratio_next * ratio_next * m_next  # Eq. 4 (eq:var_s_a)


@formula
def explorer_square(weight, pi, m):
    """One GVF's term of the squared behaviour score; the behaviour is the root of the sum over GVFs, normalised over actions."""
    return weight * pi * pi * m  # Eq. 3 (eq:behavior_update)


@formula
def squared_error(truth, estimate):
    """Squared value error; its mean over states and weighted sum over GVFs is the MSE."""
    return (truth - estimate) * (truth - estimate)  # Eq. 1 (eq:mse)


# --- Theorem 4.1's behaviour, mu(a|s) ~ sqrt(sum_i w_i pi_i(a|s)^2 M_i(s, a)) (Eq. 3), in every form that a back end needs ---
# Over whole arrays in NumPy and JAX; at one state for compiled loops, which may not allocate; and in log space, not normalised,
# for the Gaussian densities of Box actions.  A test holds them equal to a plain loop.


def explorer_probabilities(squares: Any, xp: Any = np) -> Any:
    """mu [..., action] from the squares [..., action, gvf]; uniform where all of them are 0.  xp: numpy or jax.numpy."""
    score = xp.sqrt(squares.sum(axis=-1))  # Eq. 3 (eq:behavior_update)
    total = score.sum(axis=-1, keepdims=True)
    return xp.where(total > 0, score / xp.where(total > 0, total, 1.0), 1 / score.shape[-1])


@cache
def compiled_explorer(gvfs: int, actions: int, smallest_m: float = 0.0) -> Callable[..., None]:
    """choose(weights, pi, m, mu): writes mu [action] from weights [gvf] and pi, m [action, gvf]; uniform where all are 0."""

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


# --- Policies by a GVF's own action values (`gvfx.questions.policies`), by policy iteration -------------------------
# A greedy choice changes only for a better one, so the iteration ends.  Softmax policies take shorter steps in Q if full ones do
# not converge; of several fixed points, the one reached from the uniform policy is used everywhere, also for the truth.

ROUNDS = 1000


def converged_policies(
    asked: Stacked, action_values: Callable[[int, np.ndarray], np.ndarray], tried: np.ndarray, within: float
) -> tuple[np.ndarray, list[int]]:
    """pi [state, action, gvf] with every OwnPolicy replaced by its fixed point, and the GVFs that did not converge.

    action_values: of a GVF's index and a policy [state, action], Q [state, action].
    tried:         [state, action] bool, the actions with known values.
    within:        largest change of a probability in the last round.
    """
    pi, failed = asked.pi.copy(), []
    for i, own in asked.own:
        pi[:, :, i], left = _iterated(own, partial(action_values, i), tried, within)
        failed += [i] if left > within else []
    return pi, failed


def _iterated(
    own: OwnPolicy, action_values: Callable[[np.ndarray], np.ndarray], tried: np.ndarray, within: float
) -> tuple[np.ndarray, float]:
    """The policy after the last round, and by how much one more round would change a probability."""
    followed = np.zeros(tried.shape)
    chosen = own.choices(followed, tried)
    step, left = 1.0, np.inf
    for _ in range(ROUNDS):
        q = action_values(own.probabilities(chosen, tried))
        wanted = own.choices(q, tried, chosen)
        before, left = left, float(np.abs(wanted - chosen).max())
        if left <= within:
            break
        if own.temperature == 0:
            chosen = wanted
            continue
        step = step / 2 if left > before and step > 1 / 64 else step
        followed = followed + step * (q - followed)
        chosen = own.choices(followed, tried)
    return own.probabilities(chosen, tried), left


def improved(asked: Stacked, q: np.ndarray, tried: np.ndarray) -> np.ndarray:
    """pi [state, action, gvf] with every OwnPolicy replaced by that of the present action values q [state, action, gvf]."""
    pi = asked.pi.copy()
    for i, own in asked.own:
        pi[:, :, i] = own.probabilities(own.choices(q[:, :, i], tried), tried)
    return pi
