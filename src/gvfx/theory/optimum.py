r"""The best behaviour: minimise sum G / x over all possible visits x, by Newton's method on the dual problem.

With a restart probability $\varepsilon$ per step the possible visits are all $x$ with
$\sum_a x(s,a) - (1-\varepsilon)\sum_{s',a'} x(s',a')P(s|s',a') = \tau\,d_0(s)$, $\sum x = 1$, $x \ge 0$.  With multipliers
$v(s)$ and $\lambda$ put a price $c(s,a) = \lambda + v(s) - (1-\varepsilon)\sum_{s'}P(s'|s,a)v(s')$ on each pair, where
$\sum_s d_0(s)v(s) = 0$.  The dual problem is concave, smooth and as small as the number of states:

$$\max_{\lambda, v}\ \sum_{s,a}\phi(c(s,a)) - \lambda,\qquad
\phi(c) = \min_{x>0}\ \frac{G}{\nu + x} + \frac{g}{x} + xc, \quad (D4)$$

with $\nu = n/m$ the visits already made over the steps to come (0 for the optimum from scratch) and $g$ a small floor that
keeps every $x$ positive; it is lowered in stages.  For $\nu = 0$, $\phi = 2\sqrt{(G+g)c}$ and $x = \sqrt{(G+g)/c}$.

**The certificate.**  By Cauchy and Schwarz, for any prices $c > 0$ and any visits $x$

$$\sum G/x \ \ge\ \Big(\sum\sqrt{Gc}\Big)^2 \Big/ \max_{x'}\langle c, x'\rangle. \quad (D5)$$

The maximum is the highest average reward with reward $c$, exact by backward induction over the horizon
(`flow.highest_average`).  It ranges over all behaviours, even those that depend on the time step, so the bound holds for
every one of them; part of the gap to a stationary behaviour is the value of depending on the time step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.compilation.loops import stored
from gvfx.errors import InputError
from gvfx.questions.gvf import GVF
from gvfx.questions.where import WhereLike
from gvfx.theory.flow import Model, flow_matrix, highest_average, occupancy
from gvfx.theory.importance import importance_of, per_visit
from gvfx.theory.systems import DENSE_BELOW, Solve
from gvfx.worlds.mdp import MDP

STAGES = (1e-2, 1e-4, 1e-6, 1e-8)  # floors g in units of the mean of G
NEWTON_STEPS = 60  # per stage


@dataclass(frozen=True, eq=False)
class Design:
    """A behaviour and its error: the MSE is about `constant` / steps, and no behaviour has less than `bound` / steps."""

    behaviour: np.ndarray  # mu [state, action]
    occupancy: np.ndarray  # x [state, action], expected visits per step
    constant: float
    bound: float
    converged: bool

    @property
    def gap(self) -> float:
        """How far the constant can be above the best possible one, relative to the bound."""
        return self.constant / self.bound - 1 if self.bound > 0 else 0.0


def optimal(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None, where: WhereLike = None) -> Design:
    """The best stationary behaviour for a known world, with a certified bound (`best_design`); `where` as in `gvfx.evaluate`."""
    return best_design(Model.of(world), importance_of(world, questions, levels, where=where))


def best_design(model: Model, need: np.ndarray) -> Design:
    """The stationary behaviour that minimises sum G / x, and a lower bound over all behaviours; need [state, action] is G.

    The constant and the bound use the exact horizon.  The search replaces it by a restart probability, of which three
    values are tried.
    """
    need = _checked_need(model, need)
    if not need.any():
        mu = np.full(need.shape, 1 / model.actions)
        return Design(mu, occupancy(model, mu), 0.0, 0.0, True)
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    bound, converged = 0.0, False
    for restart in [model.restart] if model.horizon is None else [model.restart / 100, model.restart / 10, model.restart]:
        found = solve_dual(model, need, np.zeros(need.shape), restart, (*STAGES, 1e-10, 1e-12), 1e-9)
        visits = occupancy(model, found.behaviour)
        constant = float(per_visit(need, visits).sum())
        reward = 1.0 if model.horizon is None else highest_average(model, found.price / found.total)
        bound = max(bound, float(np.sqrt(need * found.price / found.total).sum() ** 2 / reward))
        if best is None or constant < best[0]:
            best, converged = (constant, found.behaviour, visits), found.converged
    assert best is not None
    return Design(best[1], best[2], best[0], bound, converged)


def remaining_design(model: Model, need: np.ndarray, counts: np.ndarray | None = None, steps: float = 1.0) -> np.ndarray:
    """The behaviour for the coming `steps` after `counts` visits of each pair [state, action]: mu [state, action].

    Minimises sum G / (n + m x) over the visits x that the model allows (Eq. D3); `need` is G, from `importance`.
    The search replaces the horizon by a restart probability.  If the uniform behaviour is better with the exact horizon, as
    can happen when important pairs are further away than the horizon, it is returned.  States that cannot be reached have
    a uniform row.  A model of 400 states takes under 0.1 s, one of 40,000 some 20 s.
    """
    need = _checked_need(model, need)
    ratio = np.zeros(need.shape) if counts is None else np.asarray(counts, float) / steps
    if ratio.shape != need.shape or not (ratio >= 0).all():
        raise InputError(f"counts: expected visits of at least 0 for every pair, {list(need.shape)}, and steps above 0.")
    found = solve_dual(model, need, ratio, model.restart, STAGES[:3]).behaviour
    uniform = np.full(need.shape, 1 / model.actions)
    remaining = [per_visit(need, ratio + occupancy(model, mu)).sum() for mu in (found, uniform)]
    return uniform if remaining[1] < remaining[0] else found


def _checked_need(model: Model, need: np.ndarray) -> np.ndarray:
    need = np.asarray(need, float)
    if need.shape != model.next.shape[:2] or not (np.isfinite(need).all() and (need >= 0).all()):
        raise InputError(f"need: expected finite numbers of at least 0 for every pair, {list(model.next.shape[:2])}.")
    return np.where(model.going[:, None], need, 0.0)


class Dual(NamedTuple):
    """The result of `solve_dual`."""

    behaviour: np.ndarray  # [state, action]
    price: np.ndarray  # c [state, action]; 0 in states without actions
    total: float  # lambda: <c, x> of every possible x
    converged: bool


def solve_dual(
    model: Model, need: np.ndarray, ratio: np.ndarray, restart: float, stages: Sequence[float], tolerance: float = 1e-4
) -> Dual:
    """Maximise D4; need and ratio (G and nu) are [state, action].

    A stage (a value of the floor g) ends when the predicted gain of a Newton step, relative to the objective, is below
    `tolerance`.
    """
    going = np.flatnonzero(model.going)
    flow = flow_matrix(model, going, restart)
    back = sp.csr_array(flow.T)
    g, nu = need[going].ravel(), ratio[going].ravel()
    g = g / np.sqrt(g).sum() ** 2 if g.any() else np.full(g.shape, g.size**-2.0)  # scales the optimum to order 1
    total, price, converged = 1.0, np.ones(g.size), False  # v enters only through the prices
    for stage in stages:
        floor = stage * g.mean()
        for _ in range(NEWTON_STEPS):
            x, curvature, value = _pairs(price, g, floor, nu)
            d_total, d_v, gain = _newton(flow, back, model.start[going], x, curvature)
            d_price = d_total + flow @ d_v
            objective = value.sum() - total
            step = min(1.0, 0.99 / max(1e-300, float((-d_price / price).max())))
            while step > 1e-12:
                then = _pairs(price + step * d_price, g, floor, nu)[2].sum() - (total + step * d_total)
                if then >= objective + 0.1 * step * gain - 1e-12 * abs(objective):
                    break
                step /= 2
            if not (step > 1e-12 and gain > 0):  # no gain left but rounding
                converged = abs(gain) <= tolerance * abs(objective)
                break
            total, price = total + step * d_total, price + step * d_price
            converged = step == 1.0 and gain <= tolerance * abs(objective)
            if converged:
                break
    shape = (len(going), model.actions)
    x = _pairs(price, g, floor, nu)[0].reshape(shape)
    behaviour = np.full(need.shape, 1 / model.actions)
    behaviour[going] = x / x.sum(axis=1, keepdims=True)
    prices = np.zeros(need.shape)
    prices[going] = price.reshape(shape)
    return Dual(behaviour, prices, total, converged)


def _newton(
    flow: sp.csr_array, back: sp.csr_array, start: np.ndarray, x: np.ndarray, curvature: np.ndarray
) -> tuple[float, np.ndarray, float]:
    """Newton's direction for lambda and v, keeping start @ v = 0, and the gain that it predicts."""
    slope, surplus = back @ x, x.sum() - 1
    border = back @ curvature
    solved = _definite(flow, back, curvature)(np.stack([slope, border, start], axis=1))
    (p, q, r), (k, m, n) = border @ solved, start @ solved
    d_total, multiplier = np.linalg.solve([[curvature.sum() - q, -r], [m, n]], [surplus - p, k])
    d_v = solved @ [1.0, -d_total, -multiplier]
    return d_total, d_v, float(d_v @ slope + d_total * surplus)


def _pairs(price: np.ndarray, g: np.ndarray, floor: float, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every pair the minimiser x of G / (nu + x) + floor / x + c x, minus phi''(c), and phi(c)."""
    if nu.any():
        x = np.maximum(np.sqrt(floor / price), np.sqrt(g / price) - nu)
        for _ in range(10):  # starting left of the root of a convex decreasing function, Newton's method is monotone
            first, second = g / (nu + x), floor / x
            fall = first / (nu + x) + second / x - price
            x = x + fall / (2 * (first / (nu + x) ** 2 + second / x**2))
            if (fall <= 1e-10 * price).all():
                break
    else:
        x = np.sqrt((g + floor) / price)
    first, second = g / (nu + x), floor / x
    return x, 0.5 / (first / (nu + x) ** 2 + second / x**2), first + second + price * x


SHIFT = 1e-11  # relative, added to the diagonal; without termination and restarts the Hessian is singular


def _definite(flow: sp.csr_array, back: sp.csr_array, curvature: np.ndarray) -> Solve:
    """Solves (flow^T diag(curvature) flow) x = b, symmetric and positive definite."""
    if flow.shape[1] < DENSE_BELOW:
        matrix = np.zeros((flow.shape[1], flow.shape[1]))
        _add_squares(flow.indptr, flow.indices, flow.data, curvature, matrix)
        matrix[np.diag_indices(len(matrix))] *= 1 + SHIFT
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
    hessian = sp.csr_array(back @ (sp.diags_array(curvature) @ flow))
    hessian = hessian + sp.diags_array(SHIFT * hessian.diagonal())
    return scipy.sparse.linalg.splu(
        sp.csc_array(hessian), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    ).solve


@stored(nogil=True)
def _add_squares(indptr, indices, data, weights, out):
    """out += sum_p weights[p] row_p row_p^T over the sparse rows of a matrix."""
    for p in range(len(weights)):
        for j in range(indptr[p], indptr[p + 1]):
            for k in range(indptr[p], indptr[p + 1]):
                out[indices[j], indices[k]] += weights[p] * data[j] * data[k]
