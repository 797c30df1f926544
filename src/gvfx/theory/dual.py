"""Newton's method for the dual problem of the best behaviour (D4, explained in `optimum`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.compilation.loops import stored
from gvfx.theory.flow import Model, flow_matrix
from gvfx.theory.systems import DENSE_BELOW, Solve

NEWTON_STEPS = 60  # per stage


class Dual(NamedTuple):
    """The result of `solve_dual`."""

    behaviour: np.ndarray  # [state, action]
    price: np.ndarray  # c [state, action]; 0 in states without actions
    total: float  # lambda: <c, x> of every possible x


def solve_dual(
    model: Model, need: np.ndarray, ratio: np.ndarray, restart: float, stages: Sequence[float], tolerance: float = 1e-4
) -> Dual:
    """Maximise D4, in stages; see `dual_stages`, of which this is the last."""
    return list(dual_stages(model, need, ratio, restart, stages, tolerance))[-1]


def dual_stages(
    model: Model, need: np.ndarray, ratio: np.ndarray, restart: float, stages: Sequence[float], tolerance: float = 1e-4
) -> Iterator[Dual]:
    """Maximise D4 for one floor g after the other, each from where the last ended; need and ratio (G and nu) are [state, action].

    A stage (a value of the floor g) ends when the predicted gain of a Newton step, relative to the objective, is below
    `tolerance`.
    """
    going = np.flatnonzero(model.going)
    flow = flow_matrix(model, going, restart)
    back = sp.csr_array(flow.T)
    g, nu = need[going].ravel(), ratio[going].ravel()
    g = g / np.sqrt(g).sum() ** 2 if g.any() else np.full(g.shape, g.size**-2.0)  # scales the optimum to order 1
    total, price = 1.0, np.ones(g.size)  # v enters only through the prices
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
                break
            total, price = total + step * d_total, price + step * d_price
            if step == 1.0 and gain <= tolerance * abs(objective):
                break
        x = _pairs(price, g, floor, nu)[0]
        yield Dual(behaviour_on(going, x, need.shape), spread_over(going, price, need.shape), total)


def behaviour_on(going: np.ndarray, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The behaviour [state, action] with visits x over the pairs of the states `going`; uniform elsewhere."""
    mu = np.full(shape, 1 / shape[1])
    x = x.reshape(len(going), shape[1])
    mu[going] = x / x.sum(axis=1, keepdims=True)
    return mu


def spread_over(going: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values of the pairs of the states `going` as [state, action]; 0 elsewhere."""
    out = np.zeros(shape)
    out[going] = values.reshape(len(going), shape[1])
    return out


def _newton(
    flow: sp.csr_array, back: sp.csr_array, start: np.ndarray, x: np.ndarray, curvature: np.ndarray
) -> tuple[float, np.ndarray, float]:
    """Newton's direction for lambda and v, keeping start @ v = 0, and the gain that it predicts."""
    slope, surplus = back @ x, x.sum() - 1
    border = back @ curvature
    solved = definite(flow, back, curvature)(np.stack([slope, border, start], axis=1))
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


def definite(flow: sp.csr_array, back: sp.csr_array, curvature: np.ndarray) -> Solve:
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
