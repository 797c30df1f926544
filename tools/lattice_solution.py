"""True values on the continuous grid by a numerical solution: an independent check of the simulated ones.

The values of GVF i solve V = gamma (K - D) V + mean_i * h.  They are put on a lattice of nodes, linear between them:

- K is a move in the square: the integral of the hat functions over the noise box, exact and separable in x and y, with
  point masses where positions are clipped to the walls;
- D and h are the part of K that lands in a disc: exact chords in y, Gauss quadrature in x.

The error is that of linear interpolation, of second order in the distance between nodes, so the solutions on two lattices
are combined (Richardson extrapolation).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import coo_array, csr_array

from gvfx.errors import InputError
from gvfx_paper.truths.lattice import SIDE, checked_policies
from gvfx_paper.worlds.continuous_grid import MOVES, ContinuousGrid


def solve(world: ContinuousGrid, policies: Any, discount: float, nodes: int = 401) -> np.ndarray:
    """Values at the lattice points [gvf, point].

    nodes: per side of the finer lattice, 1 + a multiple of 80; the coarser lattice has every second node.
    On the paper's grid the largest error at a point is 0.003 with 401 nodes and 0.03 with 161 (values up to 98.6).
    """
    policies = checked_policies(world, policies, discount)
    if nodes < 81 or (nodes - 1) % 80:
        raise InputError(f"nodes: {nodes} is not supported; give 1 + a multiple of 80, such as 161 or 401.")
    if 2 * world.noise < 1e-9:
        raise InputError("noise: the numerical solution needs some noise; simulate this world instead.")
    rows = [
        _solve_one(world, i, policy, discount, m).ravel() for i, policy in enumerate(policies) for m in (nodes, (nodes + 1) // 2)
    ]
    fine, coarse = np.array(rows[::2]), np.array(rows[1::2])
    return fine + (fine - coarse) / 3  # the error is of second order in the node distance


def _solve_one(world: ContinuousGrid, goal: int, policy: np.ndarray, discount: float, nodes: int) -> np.ndarray:
    """V at the cell centres [y, x], all of which are nodes."""
    still, back, ahead = (csr_array(_line_moves(nodes, shift, world.noise)) for shift in (0.0, -world.step, world.step))
    sideways = policy[0] * back + policy[1] * ahead
    upright = policy[2] * ahead + policy[3] * back
    data, row, column, landed = _disc_moves(
        nodes,
        policy,
        world.step * np.array(MOVES),
        world.noise,
        world.radius,
        world.centres,
        world.distance == "euclidean",
        *np.polynomial.legendre.leggauss(4),
    )
    lost = csr_array(coo_array((data, (row, column)), shape=(nodes * nodes, nodes * nodes)))

    def apply(v: np.ndarray) -> np.ndarray:
        square = v.reshape(nodes, nodes)  # [y, x]
        moved = still @ (sideways @ square.T).T + upright @ (still @ square.T).T
        return v - discount * (moved.ravel() - lost @ v)

    values = _bicgstab(apply, world.means[goal] * landed[goal])
    stride = (nodes - 1) // (2 * SIDE)
    return values.reshape(nodes, nodes)[stride :: 2 * stride, stride :: 2 * stride]


def _bicgstab(apply: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
    """Solve apply(x) = b (van der Vorst 1992) without BLAS, whose threads make SciPy's version slow on a busy machine."""
    x, v, p = np.zeros_like(b), np.zeros_like(b), np.zeros_like(b)
    r, shadow = b.copy(), b
    rho = alpha = omega = 1.0
    enough = 1e-11 * np.abs(b).max()
    for _ in range(5000):
        if np.abs(r).max() <= enough:
            return x
        rho, before = float((shadow * r).sum()), rho
        p = r + (rho / before) * (alpha / omega) * (p - omega * v)
        v = apply(p)
        alpha = rho / float((shadow * v).sum())
        s = r - alpha * v
        t = apply(s)
        omega = float((t * s).sum() / max((t * t).sum(), 1e-300))
        x += alpha * p + omega * s
        r = s - omega * t
    raise InputError("discount: the numerical solution did not converge; simulate instead.")


@njit
def _add_hats(low, high, per, first, out):
    """Add the integrals over [low, high] of the hat functions of the nodes first, first + 1, ... (per = nodes - 1)."""
    if high <= low:
        return
    cell = min(int(low * per), per - 1)
    while cell < per and cell < high * per:
        p = max(low * per - cell, 0.0)
        q = min(high * per - cell, 1.0)
        rising = 0.5 * (q * q - p * p)
        out[cell - first] += (q - p - rising) / per
        out[cell + 1 - first] += rising / per
        cell += 1


@njit
def _line_moves(nodes, shift, noise):
    """Weights [node, node] of a clipped move on a line: shift plus U[-noise, noise]."""
    per = nodes - 1
    weights = np.zeros((nodes, nodes))
    for k in range(nodes):
        low = k / per + shift - noise
        high = k / per + shift + noise
        _add_hats(max(low, 0.0), min(high, 1.0), per, 0, weights[k])
        weights[k, 0] += max(min(high, 0.0) - low, 0.0)
        weights[k, per] += max(high - max(low, 1.0), 0.0)
    return weights / (2.0 * noise)


@njit
def _chord_moves(x, weight, low, high, cx, cy, radius, euclidean, per, left, bottom, line, patch):
    """Add to patch [y, x] the moves that land on the vertical line at x inside a disc, y from U[low, high]; return their sum."""
    away = abs(x - cx)
    if away > radius:
        return 0.0
    half = math.sqrt(radius * radius - away * away) if euclidean else radius - away
    line[:] = 0.0
    _add_hats(max(low, cy - half, 0.0), min(high, cy + half, 1.0), per, bottom, line)
    if low < 0.0 and cy - half <= 0.0:
        line[0 - bottom] += min(high, 0.0) - low
    if high > 1.0 and cy + half >= 1.0:
        line[per - bottom] += high - max(low, 1.0)
    cell = min(int(x * per), per - 1)
    right = x * per - cell
    total = 0.0
    for j in range(len(line)):
        part = weight * line[j] / (high - low)
        patch[j, cell - left] += part * (1.0 - right)
        patch[j, cell + 1 - left] += part * right
        total += part
    return total


@njit
def _disc_moves(nodes, policy, shifts, noise, radius, centres, euclidean, gauss_points, gauss_weights):
    """The part of a move that lands in discs: weights as (data, row, column) and the probability per disc [disc, node]."""
    per = nodes - 1
    width = int(2.0 * noise * per) + 3  # nodes per axis whose hat functions can overlap a noise box
    patch = np.zeros((width, width))
    line = np.zeros(width)
    landed = np.zeros((len(centres), nodes * nodes))
    data = [0.0 for _ in range(0)]
    row = [0 for _ in range(0)]
    column = [0 for _ in range(0)]
    for k in range(len(centres)):
        cx, cy = centres[k]
        for node in range(nodes * nodes):
            for a in range(4):
                x_low = (node % nodes) / per + shifts[a, 0] - noise
                y_low = (node // nodes) / per + shifts[a, 1] - noise
                x_high = x_low + 2.0 * noise
                y_high = y_low + 2.0 * noise
                if (
                    min(max(x_low, 0.0), 1.0) > cx + radius
                    or min(max(x_high, 0.0), 1.0) < cx - radius
                    or min(max(y_low, 0.0), 1.0) > cy + radius
                    or min(max(y_high, 0.0), 1.0) < cy - radius
                ):
                    continue
                left = max(min(int(max(x_low, 0.0) * per), nodes - width), 0)
                bottom = max(min(int(max(y_low, 0.0) * per), nodes - width), 0)
                patch[:] = 0.0
                total = 0.0
                if x_low < 0.0:  # clipped to the wall
                    share = (min(x_high, 0.0) - x_low) / (x_high - x_low)
                    total += _chord_moves(0.0, share, y_low, y_high, cx, cy, radius, euclidean, per, left, bottom, line, patch)
                if x_high > 1.0:
                    share = (x_high - max(x_low, 1.0)) / (x_high - x_low)
                    total += _chord_moves(1.0, share, y_low, y_high, cx, cy, radius, euclidean, per, left, bottom, line, patch)
                begin = max(x_low, 0.0, cx - radius)
                end = min(x_high, 1.0, cx + radius)
                while begin < end:  # in pieces on which the integrand is smooth
                    stop = min(end, (math.floor(begin * per + 1e-9) + 1.0) / per)
                    if begin < cx < stop:
                        stop = cx
                    for g in range(len(gauss_points)):
                        x = begin + 0.5 * (gauss_points[g] + 1.0) * (stop - begin)
                        share = 0.5 * gauss_weights[g] * (stop - begin) / (x_high - x_low)
                        total += _chord_moves(x, share, y_low, y_high, cx, cy, radius, euclidean, per, left, bottom, line, patch)
                    begin = stop
                landed[k, node] += policy[a] * total
                for j in range(width):
                    for i in range(width):
                        if patch[j, i] != 0.0:
                            data.append(policy[a] * patch[j, i])
                            row.append(node)
                            column.append((bottom + j) * nodes + left + i)
    return np.array(data), np.array(row), np.array(column), landed
