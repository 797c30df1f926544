r"""A tighter bound: the dual problem in which a behaviour may choose the state in which an episode is truncated.

A behaviour with a horizon of $H$ steps makes visits with $\sum_a x(s,a) - \sum_{s',a'} x(s',a')P(s|s',a') = \tau d_0(s) - e(s)$,
where $e(s) \ge 0$ are truncations per step, at most $1/H$ in all, because a truncated episode had $H$ steps.  This set contains
the visits of every behaviour, those that depend on the time step included.  With a multiplier $\kappa$ for the truncations,

$$\max_{\lambda, \kappa, v}\ \sum_{s,a}\phi(c(s,a)) - \lambda - \kappa/H, \qquad c = \lambda + v - Pv,\quad v + \kappa \ge 0,\quad
\sum_s d_0(s)v(s) = 0. \quad (D6)$$

A restart probability makes it cheap to be truncated anywhere.  Here prices cannot be exploited by ending an episode where $v$ is
low, so their certificate (D5) is often better.  The behaviour is usually worse: it counts on choosing where to end.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gvfx.theory.dual import NEWTON_STEPS, Dual, behaviour_on, definite, spread_over
from gvfx.theory.flow import Model, flow_matrix

FLOORS = (1e-2, 1e-4, 1e-6)  # in units of the mean of G, and of the mean number of truncations


def solve_with_endings(model: Model, need: np.ndarray) -> Dual:
    """Maximise D6 by Newton's method; need [state, action] is G.  Prices are scaled by lambda + kappa / H."""
    assert model.horizon is not None
    going = np.flatnonzero(model.going)
    states, pairs = len(going), len(going) * model.actions
    flow = sp.csr_array(sp.vstack([flow_matrix(model, going, 0.0), sp.eye_array(states)]))  # pairs, then endings
    back = sp.csr_array(flow.T)
    own = np.stack([np.arange(pairs + states) < pairs, np.arange(pairs + states) >= pairs], axis=1).astype(float)
    cost = np.array([1.0, 1 / model.horizon])  # of lambda and kappa
    g = need[going].ravel() / np.sqrt(need[going]).sum() ** 2
    level, price = np.ones(2), np.ones(pairs + states)
    for stage in FLOORS:
        weight = np.append(g + stage * g.mean(), np.full(states, stage / (model.horizon * states**2)))
        for _ in range(NEWTON_STEPS):
            x = np.sqrt(weight / price)
            curvature = 0.5 * x / price
            slope, surplus = back @ x, own.T @ x - cost
            border = back @ (curvature[:, None] * own)
            solved = definite(flow, back, curvature)(np.column_stack([slope, border, model.start[going]]))
            system = np.zeros((3, 3))
            system[:2, :2] = np.diag(own.T @ curvature) - border.T @ solved[:, 1:3]
            system[:2, 2] = -border.T @ solved[:, 3]
            system[2] = model.start[going] @ solved[:, 1:]
            right = np.append(surplus - border.T @ solved[:, 0], model.start[going] @ solved[:, 0])
            moved = np.linalg.solve(system, right)
            d_v = solved @ np.append(1.0, -moved)
            d_price = flow @ d_v + own @ moved[:2]
            gain = float(d_v @ slope + moved[:2] @ surplus)
            objective = 2 * np.sqrt(weight * price).sum() - cost @ level
            step = min(1.0, 0.99 / max(1e-300, float((-d_price / price).max())))
            while step > 1e-12:
                then = 2 * np.sqrt(weight * (price + step * d_price)).sum() - cost @ (level + step * moved[:2])
                if then >= objective + 0.1 * step * gain - 1e-12 * abs(objective):
                    break
                step /= 2
            if not (step > 1e-12 and gain > 0):  # no gain left but rounding
                break
            level, price = level + step * moved[:2], price + step * d_price
            if step == 1.0 and gain <= 1e-9 * abs(objective):
                break
    x = np.sqrt(weight / price)[:pairs]
    return Dual(behaviour_on(going, x, need.shape), spread_over(going, price[:pairs], need.shape), float(cost @ level))
