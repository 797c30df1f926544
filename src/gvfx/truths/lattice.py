"""True values on the continuous grid, at the 400 cell centres of a 20x20 lattice.

The value of GVF i at a point is E[sum_t gamma^t c_t] when its constant action probabilities are followed from there.
Only the step that enters goal i pays, so V_i = mean_i * E[gamma^(T-1); goal i is entered at step T] and the spread of
the cumulant drops out.  A point inside a disc is stepped from like any other; episodes are not cut at the horizon.

Two independent ways to it:

`simulate` draws episodes, each until it ends or gamma^t < 1e-6 (a bias below mean_i * 1e-6).

`solve` puts V on a lattice of nodes, linear between them, and solves V = gamma (K - D) V + mean_i * h:
K is a move in the square (the integral of the hat functions over the noise box, exact and separable in x and y, with
atoms where positions are clipped to the walls), D and h are its part that lands in a disc (exact chords in y, Gauss
quadrature in x).  Its error is the linear interpolation's, of second order in the node distance, so it also combines
the solutions on two lattices (Richardson).

`python -m gvfx.truths.lattice` remakes the files in `truths/`.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import coo_array, csr_array

from gvfx.errors import InputError, UnknownName
from gvfx.rng import uniform
from gvfx.truths.cache import Arrays, kept, shipped, write
from gvfx.worlds.continuous_grid import MOVES, ContinuousGrid, authors_grid, paper_grid

SIDE = 20  # cells per side of the evaluation lattice
NEGLIGIBLE = 1e-6  # an episode is followed while gamma^t is at least this
PAPER_POLICIES = np.array([[0.175, 0.175, 0.25, 0.4], [0.25, 0.15, 0.25, 0.35]])  # L, R, U, D; GVF 1 "left", GVF 2 "right"
PAPER_DISCOUNT = 0.99
SHIPPED = Path(__file__).parent / "data"


@dataclass(frozen=True, eq=False)
class LatticeTruth:
    """True values at the evaluation points and how well they are known."""

    points: np.ndarray  # [point, 2]
    values: np.ndarray  # [gvf, point]
    standard_errors: np.ndarray  # [gvf, point]; too small where only a handful of episodes were paid (values near 0)
    outside: np.ndarray  # bool [point]: the centres that lie in no disc

    def mse(self, estimates: np.ndarray, outside_only: bool = False) -> np.ndarray:
        """Mean squared error per GVF [gvf] of estimates [gvf, point], over all points or those outside the discs."""
        squared = (np.asarray(estimates) - self.values) ** 2
        return squared[:, self.outside].mean(axis=1) if outside_only else squared.mean(axis=1)

    @property
    def noise(self) -> np.ndarray:
        """Mean squared standard error per GVF [gvf]: what a perfect prediction would score."""
        return (self.standard_errors**2).mean(axis=1)


def lattice_points() -> np.ndarray:
    """The 400 cell centres [point, 2], x running fastest, from the lower left."""
    centres = (np.arange(SIDE) + 0.5) / SIDE
    return np.stack(np.meshgrid(centres, centres, indexing="xy"), axis=-1).reshape(-1, 2)


def continuous_truth(
    world: ContinuousGrid,
    policies: Any,
    discount: float,
    episodes: int = 100_000,
    seed: int = 0,
    cache: Path | None = None,
    workers: int = 1,
) -> LatticeTruth:
    """The truth by Monte Carlo, kept in the folder `cache` under the hash of all that it depends on.

    policies: action probabilities [gvf, 4], one row per goal.  A damaged cache file is made again.
    """
    policies = _check(world, policies, discount, episodes, seed, workers)
    asked = {**_parameters(world, policies, discount), "episodes": int(episodes), "seed": int(seed)}

    def make() -> Arrays:
        return _named(*simulate(world, policies, discount, lattice_points(), episodes, seed, workers))

    return _truth(world, kept(cache, "lattice", asked, make))


def shipped_truth(world: ContinuousGrid, policies: Any, discount: float) -> LatticeTruth | None:
    """The truth that comes with gvfx, or None when it has none for these parameters."""
    found = shipped(SHIPPED, _parameters(world, _check(world, policies, discount), discount))
    return None if found is None else _truth(world, found)


# ------------------------------------------------------------------------------------------------ Monte Carlo


def simulate(
    world: ContinuousGrid,
    policies: Any,
    discount: float,
    points: np.ndarray,
    episodes: int,
    seed: int = 0,
    workers: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and its standard error [gvf, point] over episodes from each point.

    Every (GVF, point index) has its own stream, so the result does not depend on `workers`.
    """
    policies = _check(world, policies, discount, episodes, seed, workers)
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 2 or not ((points >= 0) & (points <= 1)).all():
        raise InputError(f"points: shape {points.shape}; give points of the unit square [point, 2].")
    run = _simulator(world.distance == "euclidean", len(world.centres))
    limit = 1 if discount < NEGLIGIBLE else math.ceil(math.log(NEGLIGIBLE) / math.log(discount))
    shifts = world.step * np.array(MOVES)
    values = np.empty((len(policies), len(points)))
    errors = np.empty_like(values)

    def one(task: tuple[int, int]) -> None:
        i, p = task
        key = (zlib.crc32(b"lattice truth"), i, p)
        rng = np.random.SeedSequence(seed, spawn_key=key).generate_state(2, np.uint64)[None, :].copy()
        start = np.concatenate([[0.0], np.cumsum(policies[i])[:-1]])
        scale = np.divide(1.0, policies[i], out=np.zeros(4), where=policies[i] > 0)
        x, y = points[p]
        total, squares = run(
            rng, x, y, i, episodes, limit, discount, start, scale, shifts, world.noise, world.radius, world.centres
        )
        mean = total / episodes
        values[i, p] = world.means[i] * mean
        errors[i, p] = abs(world.means[i]) * math.sqrt(max(squares / episodes - mean**2, 0.0) / max(episodes - 1, 1))

    tasks = [(i, p) for i in range(len(policies)) for p in range(len(points))]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, tasks))
    return values, errors


@lru_cache
def _simulator(euclidean: bool, discs: int) -> Callable[..., tuple[float, float]]:
    """Compiled episodes from one point; the number of discs is a closure constant, so the tests are unrolled."""

    @njit(nogil=True, fastmath={"contract", "nsz"})
    def run(rng, x0, y0, goal, episodes, limit, discount, start, scale, shifts, noise, radius, centres):
        """Sum of gamma^t at which the goal's disc is entered (0 if never), and sum of its squares."""
        reach = radius * radius if euclidean else radius
        total = 0.0
        squares = 0.0
        for _ in range(episodes):
            x = x0
            y = y0
            entered = -1
            t = 0
            while t < limit:
                # One draw serves three times: after the action is read off, its position within that action's interval
                # is uniform again; its first 25 bits move x, the rest moves y.
                u = uniform(rng, 0)
                a = int(u >= start[1]) + int(u >= start[2]) + int(u >= start[3])
                rest = (u - start[a]) * scale[a] * 33554432.0
                high = math.floor(rest)
                x += shifts[a, 0] + noise * ((high + 0.5) * 5.960464477539063e-08 - 1.0)
                y += shifts[a, 1] + noise * (2.0 * (rest - high) - 1.0)
                x = min(max(x, 0.0), 1.0)
                y = min(max(y, 0.0), 1.0)
                for k in range(discs):
                    dx = x - centres[k, 0]
                    dy = y - centres[k, 1]
                    away = dx * dx + dy * dy if euclidean else abs(dx) + abs(dy)
                    if away <= reach:
                        entered = k
                if entered >= 0:
                    break
                t += 1
            if entered == goal:
                worth = discount**t
                total += worth
                squares += worth * worth
        return total, squares

    return run


# ------------------------------------------------------------------------------------------------ numerical solution


def solve(world: ContinuousGrid, policies: Any, discount: float, nodes: int = 401) -> np.ndarray:
    """Values at the lattice points [gvf, point] by a numerical solution; an independent check of the simulation.

    nodes: per side of the finer lattice, 1 + a multiple of 80; the solution on every second node serves to extrapolate.
    On the paper's grid the largest error at a point is 0.003 with 401 nodes and 0.03 with 161 (values up to 98.6).
    """
    policies = _check(world, policies, discount)
    if nodes < 81 or (nodes - 1) % 80:
        raise InputError(f"nodes: {nodes} does not fit the lattice; give 1 + a multiple of 80, such as 161 or 401.")
    if 2 * world.noise < 1e-9:
        raise InputError("noise: the numerical solution needs some noise; simulate this world instead.")
    rows = [
        _solve_one(world, i, policy, discount, m).ravel() for i, policy in enumerate(policies) for m in (nodes, (nodes + 1) // 2)
    ]
    fine, coarse = np.array(rows[::2]), np.array(rows[1::2])
    return fine + (fine - coarse) / 3  # the error is of second order in the node distance


def _solve_one(world: ContinuousGrid, goal: int, policy: np.ndarray, discount: float, nodes: int) -> np.ndarray:
    """V at the cell centres [y, x]; all of them are nodes."""
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
    """x with apply(x) = b (van der Vorst 1992); scipy's own waits for BLAS threads, six times as long on a busy machine."""
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
    """Add to patch [y, x] the landings on the vertical line at x inside a disc, y from U[low, high]; their probability."""
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
    width = int(2.0 * noise * per) + 3  # nodes whose hats a noise box can touch, per axis
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
                if x_low < 0.0:  # what the walls stop
                    share = (min(x_high, 0.0) - x_low) / (x_high - x_low)
                    total += _chord_moves(0.0, share, y_low, y_high, cx, cy, radius, euclidean, per, left, bottom, line, patch)
                if x_high > 1.0:
                    share = (x_high - max(x_low, 1.0)) / (x_high - x_low)
                    total += _chord_moves(1.0, share, y_low, y_high, cx, cy, radius, euclidean, per, left, bottom, line, patch)
                begin = max(x_low, 0.0, cx - radius)
                end = min(x_high, 1.0, cx + radius)
                while begin < end:  # piece by piece, where the integrand is smooth
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


# ------------------------------------------------------------------------------------------------ files


def _check(
    world: ContinuousGrid, policies: Any, discount: float, episodes: int = 1, seed: int = 0, workers: int = 1
) -> np.ndarray:
    if not isinstance(world, ContinuousGrid):
        raise InputError(f"world: {type(world).__name__} has no lattice truth; give a ContinuousGrid.")
    try:
        policies = np.asarray(policies, float)
    except (TypeError, ValueError):
        raise InputError("policies: not an array of numbers; give probabilities [gvf, 4].") from None
    if policies.shape != (len(world.goals), len(MOVES)):
        raise InputError(
            f"policies: shape {policies.shape}; give one row of 4 probabilities for each of {len(world.goals)} goals."
        )
    if not (np.isfinite(policies).all() and (policies >= 0).all() and np.allclose(policies.sum(axis=1), 1, atol=1e-9)):
        raise InputError("policies: a row is no distribution; give probabilities that sum to 1.")
    if not isinstance(discount, int | float | np.number) or not 0 <= discount < 1:
        raise InputError(f"discount: {discount!r} lies outside [0, 1); episodes of this world need not end.")
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0), ("workers", workers, 1)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name}: {value!r}; give an integer of at least {least}.")
    return policies


def _parameters(world: ContinuousGrid, policies: np.ndarray, discount: float) -> dict[str, Any]:
    """What the true values depend on: neither the horizon, the names, the cumulants' spread nor how timeouts are taken."""
    fields = world.as_dict()
    kept = {name: fields[name] for name in ("strays", "step", "noise", "radius", "distance")}
    goals = [[*goal.at, goal.mean] for goal in world.goals]
    return {**kept, "goals": goals, "policies": policies.tolist(), "discount": float(discount), "side": SIDE, "version": 1}


def _named(values: np.ndarray, errors: np.ndarray) -> Arrays:
    return {"values": values, "standard_errors": errors}


def _truth(world: ContinuousGrid, arrays: Arrays) -> LatticeTruth:
    points = lattice_points()
    return LatticeTruth(points, arrays["values"], arrays["standard_errors"], np.logical_not(world.inside(points).any(axis=1)))


def main(arguments: list[str] | None = None, folder: Path = SHIPPED) -> None:
    """Remake the shipped truths and print how well they are known."""
    makers = {"paper_grid": paper_grid, "authors_grid": authors_grid}
    parser = argparse.ArgumentParser(prog="python -m gvfx.truths.lattice", description=main.__doc__)
    parser.add_argument("worlds", nargs="*", default=list(makers), help="paper_grid, authors_grid; both unless given")
    parser.add_argument("--episodes", type=int, default=100_000, help="per GVF and point")
    parser.add_argument("--workers", type=int, default=1, help="threads")
    chosen = parser.parse_args(arguments)
    for name in chosen.worlds:
        if name not in makers:
            raise UnknownName("worlds", name, tuple(makers))
        world = makers[name]()
        began = time.perf_counter()
        values, errors = simulate(
            world, PAPER_POLICIES, PAPER_DISCOUNT, lattice_points(), chosen.episodes, workers=chosen.workers
        )
        asked = {**_parameters(world, PAPER_POLICIES, PAPER_DISCOUNT), "episodes": chosen.episodes, "seed": 0}
        write(folder / f"{name}.safetensors", _named(values, errors), asked)
        truth = _truth(world, _named(values, errors))
        solved = solve(world, PAPER_POLICIES, PAPER_DISCOUNT, 401)
        zeros = np.zeros_like(values)
        print(f"{name}: {chosen.episodes} episodes a point, {time.perf_counter() - began:.0f} s")
        print(f"  noise of the error (mean squared standard error) {truth.noise.mean():.5f}, per GVF {truth.noise.round(5)}")
        print(f"  zero predictor {truth.mse(zeros).mean():.2f}, outside the discs {truth.mse(zeros, True).mean():.2f}")
        apart = np.abs(values - solved)
        seen = (errors > 0) & (values > 10 * errors)  # elsewhere few episodes enter the goal, and their spread says little
        print(f"  against the numerical solution: mean squared difference {(apart**2).mean():.5f}; largest")
        print(f"  {(apart[seen] / errors[seen]).max(initial=0):.2f} standard errors at {seen.sum()} points often paid,")
        print(f"  {apart[~seen].max(initial=0):.4f} at the others")


if __name__ == "__main__":
    main()
