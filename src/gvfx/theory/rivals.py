r"""Designs from the literature on the same arrays, for comparison.

**Characteristic time** (Russo & Pacchiano 2025, "Adaptive Exploration for Multi-Reward Multi-Policy Evaluation"; MR-NaS).
For deterministic policies they minimise over visits $\omega$ the largest
$\gamma^2\max_{s'}\rho_i(s,s')^2/\omega(s,\pi_i(s))$, where $\rho_i(s,s') = V_i(s') - \mathbb E_{P(s,\pi_i(s))}V_i$ is the
value deviation.  *Our reading* for stochastic policies: a pair's deviation is weighed by $\pi_i(a|s)^2$, as in Eq. D1,

$$\min_\omega\max_{i,s,a}\ \gamma^2\pi_i(a|s)^2\max_{s'}\big(V_i(s') - \mathbb E_{P(s,a)}V_i\big)^2 / \omega(s,a),$$

which is a linear program.  $s'$ ranges over the states that can be reached, and termination counts as value 0.

**Second moment** (Liu, Chen & Zhang, "Efficient Multi-Policy Evaluation for Reinforcement Learning"):
$\mu(a|s)\propto\sqrt{\sum_i \pi_i(a|s)^2 u_i(s,a)}$ with $u_i = \mathbb E_{\pi_i}[G_i^2\mid s,a]$, the second moment of the
return.  They have undiscounted finite horizons and one start state; *our reading* keeps the discount and the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
import scipy.sparse as sp

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF
from gvfx.theory import exact
from gvfx.theory.flow import Model, flow_matrix
from gvfx.theory.importance import discounts
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP


@one_thread()
def characteristic_time(model: Model, pi: np.ndarray, gamma: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The characteristic-time design, mu [state, action]; values [gvf, state], the rest as in `importance`.

    Uniform in states where the design requires no visits.  It treats the cumulants as known and ignores their noise.
    """
    going = np.flatnonzero(model.going)
    need = np.zeros(model.next.shape[:2])
    for i in range(len(values)):
        discount = discounts(model, gamma[:, i])
        arrived = discount * values[i][model.next]
        centre = (model.prob * arrived).sum(axis=2)
        high, low = max(0.0, values[i][going].max()), min(0.0, values[i][going].min())
        most = discount.max(axis=2)
        deviation = np.maximum(most * high - centre, centre - most * low) ** 2
        need = np.maximum(need, pi[:, :, i] ** 2 * deviation)
    mu = np.full(need.shape, 1 / model.actions)
    wanted = (need[going] / max(need[going].sum(), 1e-300)).ravel()
    if not wanted.any():
        return mu
    # visits = least * wanted + extra, and least is maximised; variables: extra [pair], least, episodes per step
    flow = sp.csr_array(flow_matrix(model, going, model.restart).T)
    balance = sp.hstack([flow, sp.csr_array((flow @ wanted)[:, None]), sp.csr_array(-model.start[going][:, None])])
    total = sp.csr_array(np.append(np.ones(wanted.size), [1.0, 0.0])[None])
    found = scipy.optimize.linprog(
        np.append(np.zeros(wanted.size), [-1.0, 0.0]),
        A_eq=sp.csc_array(sp.vstack([balance, total])),
        b_eq=np.append(np.zeros(going.size), 1.0),
        method="highs",
    )
    if not found.success:
        raise InputError(f"model: the characteristic-time design was not found ({found.message}); check the model's rows.")
    visits = np.maximum(found.x[:-2] + found.x[-2] * wanted, 0.0).reshape(going.size, model.actions)
    required = wanted.reshape(visits.shape).any(axis=1) & (visits.sum(axis=1) > 0)
    mu[going[required]] = visits[required] / visits[required].sum(axis=1, keepdims=True)
    return mu


@one_thread()
def second_moment(pi: np.ndarray, moments: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """mu proportional to sqrt(sum_i w_i pi_i^2 u_i), [state, action]; moments u [state, action, gvf]; uniform where all are 0."""
    score = np.sqrt((weights * pi**2 * moments).sum(axis=2))
    total = score.sum(axis=1, keepdims=True)
    return np.where(total > 0, score / np.where(total > 0, total, 1.0), 1 / score.shape[1])


@one_thread()
def characteristic_time_of(world: MDP, questions: Sequence[GVF]) -> np.ndarray:
    """The characteristic-time design of a known world, mu [state, action]."""
    asked = exact.asked_of(world, questions)
    return characteristic_time(Model.of(world), asked.pi, asked.gamma, exact.values(world, questions))


@one_thread()
def second_moment_of(world: MDP, questions: Sequence[GVF]) -> np.ndarray:
    """The second-moment rule of a known world, mu [state, action]."""
    asked = exact.asked_of(world, questions)
    moments = exact.variance(world, questions, "return_variance") + exact.action_values(world, questions) ** 2
    return second_moment(asked.pi, moments, asked.weights)
