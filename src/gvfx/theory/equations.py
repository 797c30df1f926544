"""The paper's numbered equations, one pure function each.

Every function is elementwise over transitions, so the same code serves plain floats inside a compiled loop, NumPy arrays
(GVFs along the last axis) and JAX arrays.  Sums over actions are left to the caller.
"""

from __future__ import annotations

from gvfx.compilation.loops import formula


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
