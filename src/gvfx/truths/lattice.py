"""True values on the continuous grid, at the 400 cell centres of a 20x20 lattice.

The value of GVF i at a point is E[sum_t gamma^t c_t] when its constant action probabilities are followed from there.
Only the step that enters goal i pays, so V_i = mean_i * E[gamma^(T-1); goal i is entered at step T] and the spread of
the cumulant drops out.  Episodes may start inside a disc, and they are not cut at the horizon.

`simulate` estimates the values by Monte Carlo.  It follows an episode until it ends or gamma^t < 1e-6, which leaves a bias
below mean_i * 1e-6.  The files in `data/` were made with it by `tools/lattice_truths.py`; `tools/lattice_solution.py` has
an independent numerical solution to check them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.compilation.loops import stored
from gvfx.errors import InputError
from gvfx.rng import uniform
from gvfx.truths.cache import Arrays, kept, shipped
from gvfx.worlds.continuous_grid import MOVES, ContinuousGrid

SIDE = 20  # cells per side of the evaluation lattice
NEGLIGIBLE = 1e-6  # an episode is followed while gamma^t is at least this
PAPER_POLICIES = np.array([[0.175, 0.175, 0.25, 0.4], [0.25, 0.15, 0.25, 0.35]])  # the paper's two; L, R, U, D
PAPER_DISCOUNT = 0.99
SHIPPED = Path(__file__).parent / "data"
AXES = dict.fromkeys(("values", "standard_errors"), "float64 gvf point")  # of a file


@dataclass(frozen=True, eq=False)
class LatticeTruth:
    """True values at the evaluation points, with standard errors."""

    points: np.ndarray  # [point, 2]
    values: np.ndarray  # [gvf, point]
    standard_errors: np.ndarray  # [gvf, point]; too small near value 0, where few episodes are paid
    outside: np.ndarray  # bool [point]: whether a point lies outside all discs

    def mse(self, estimates: np.ndarray, outside_only: bool = False) -> np.ndarray:
        """Mean squared error per GVF [gvf] of estimates [gvf, point], over all points or those outside the discs."""
        squared = (np.asarray(estimates) - self.values) ** 2
        return squared[:, self.outside].mean(axis=1) if outside_only else squared.mean(axis=1)

    def evenly(self) -> np.ndarray:
        """The same share of every point, [point]."""
        return np.full(len(self.points), 1 / len(self.points))

    @property
    def noise(self) -> np.ndarray:
        """Mean squared standard error per GVF [gvf]: the MSE of a perfect prediction."""
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
    """The truth by Monte Carlo, stored in the folder `cache` under a hash of all that it depends on.

    policies: action probabilities [gvf, 4], one row per goal.  A damaged cache file is computed again.
    """
    policies = checked_policies(world, policies, discount, episodes, seed, workers)
    asked = {**parameters(world, policies, discount), "episodes": int(episodes), "seed": int(seed)}

    def make() -> Arrays:
        return named(*simulate(world, policies, discount, lattice_points(), episodes, seed, workers))

    return as_truth(world, kept(cache, "lattice", asked, make, AXES, gvf=len(policies), point=SIDE**2))


def shipped_truth(world: ContinuousGrid, policies: Any, discount: float) -> LatticeTruth | None:
    """The truth that ships with gvfx for these parameters, or None if there is none."""
    policies = checked_policies(world, policies, discount)
    found = shipped(SHIPPED, parameters(world, policies, discount), AXES, gvf=len(policies), point=SIDE**2)
    return None if found is None else as_truth(world, found)


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

    Every (GVF, point index) has its own random stream, so the result does not depend on `workers`.
    """
    policies = checked_policies(world, policies, discount, episodes, seed, workers)
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
    """Compiled episodes from one point; the number of discs is a closure constant, so that the loop over them is unrolled."""

    @stored(nogil=True, fastmath={"contract", "nsz"})
    def run(rng, x0, y0, goal, episodes, limit, discount, start, scale, shifts, noise, radius, centres):
        """Sum over episodes of gamma^t for the step t that enters the goal's disc (0 if none does), and sum of the squares."""
        reach = radius * radius if euclidean else radius
        total = 0.0
        squares = 0.0
        for _ in range(episodes):
            x = x0
            y = y0
            entered = -1
            t = 0
            while t < limit:
                # One draw u gives the action and both noises: within the chosen action's interval u is uniform again;
                # its first 25 bits move x, the rest moves y.
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


# ------------------------------------------------------------------------------------------------ parameters


def checked_policies(
    world: ContinuousGrid, policies: Any, discount: float, episodes: int = 1, seed: int = 0, workers: int = 1
) -> np.ndarray:
    """The policies as an array [gvf, 4], after checking all arguments."""
    if not isinstance(world, ContinuousGrid):
        raise InputError(f"world: {type(world).__name__} is not supported; give a ContinuousGrid.")
    try:
        policies = np.asarray(policies, float)
    except (TypeError, ValueError):
        raise InputError("policies: not an array of numbers; give probabilities [gvf, 4].") from None
    if policies.shape != (len(world.goals), len(MOVES)):
        raise InputError(
            f"policies: shape {policies.shape}; give one row of 4 probabilities for each of {len(world.goals)} goals."
        )
    if not (np.isfinite(policies).all() and (policies >= 0).all() and np.allclose(policies.sum(axis=1), 1, atol=1e-9)):
        raise InputError("policies: a row is not a distribution; give probabilities that sum to 1.")
    if not isinstance(discount, int | float | np.number) or not 0 <= discount < 1:
        raise InputError(f"discount: {discount!r} lies outside [0, 1); give a number below 1, because episodes need not end.")
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0), ("workers", workers, 1)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name}: {value!r}; give an integer of at least {least}.")
    return policies


def parameters(world: ContinuousGrid, policies: np.ndarray, discount: float) -> dict[str, Any]:
    """Everything that the true values depend on, as JSON types; not the horizon, names, the cumulants' sd or timeouts."""
    fields = world.as_dict()
    kept = {name: fields[name] for name in ("strays", "step", "noise", "radius", "distance")}
    goals = [[*goal.at, goal.mean] for goal in world.goals]
    return {**kept, "goals": goals, "policies": policies.tolist(), "discount": float(discount), "side": SIDE, "version": 1}


def named(values: np.ndarray, errors: np.ndarray) -> Arrays:
    """Values and standard errors [gvf, point] under the names that files have."""
    return {"values": values, "standard_errors": errors}


def as_truth(world: ContinuousGrid, arrays: Arrays) -> LatticeTruth:
    """The truth from the arrays of a file."""
    points = lattice_points()
    return LatticeTruth(points, arrays["values"], arrays["standard_errors"], np.logical_not(world.inside(points).any(axis=1)))
