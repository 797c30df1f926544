"""True values on the continuous grid, at the 400 cell centres of a 20x20 lattice.

The value of GVF i at a point is E[sum_t gamma^t c_t] when its constant action probabilities are followed from there.
Only the step that enters goal i pays, so V_i = mean_i * E[gamma^(T-1); goal i is entered at step T] and the spread of
the cumulant drops out.  Episodes may start inside a disc, and they are not cut at the horizon.

`simulate` estimates the values by Monte Carlo.  It follows an episode until it ends or gamma^t < 1e-6, which leaves a bias
below mean_i * 1e-6.  The files in `data/` were made with it by `tools/lattice_truths.py`; `tools/lattice_solution.py` has
an independent numerical solution to check them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.compilation.loops import stored
from gvfx.errors import InputError
from gvfx.files import write_whole
from gvfx.questions.gvf import GVF, question_names
from gvfx.questions.policies import ConstantPolicy
from gvfx.questions.signals import Cumulant, OutcomeTables, Signal
from gvfx.rng import uniform
from gvfx.tensors import CorruptFile, fit, misfit, pack, read
from gvfx.worlds.mdp import MDP
from gvfx_paper.worlds.continuous_grid import MOVES, ContinuousGrid

# --- True values stored on disk under a hash of all that they depend on; some files ship with gvfx ------------------

Arrays = Mapping[str, np.ndarray]


def kept(
    cache: Path | None, kind: str, asked: Mapping[str, Any], make: Callable[[], Arrays], axes: Mapping[str, str], **sizes: int
) -> Arrays:
    """The arrays that `make` computes, from the folder `cache` if they are stored there; a damaged file is computed again.

    cache: None: nothing is stored.  asked: everything that the arrays depend on, as JSON types; its hash is in the file's name.
    axes:  of every array its type and axes, as in `gvfx.tensors.fit`; sizes: of the axes that are known.
    """
    if cache is None:
        return make()
    text = json.dumps(asked, sort_keys=True)
    path = Path(cache) / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:20]}.safetensors"
    with _named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)  # before the work, so that a wrong folder is reported at once
        with contextlib.suppress(FileNotFoundError, CorruptFile):
            arrays, metadata = read(path)
            if metadata.get("asked") == text:
                return fitting(arrays, axes, str(path), sizes)
    arrays = dict(make())
    write(path, arrays, asked)
    return arrays


def shipped(folder: Path, wanted: Mapping[str, Any], axes: Mapping[str, str], **sizes: int) -> Arrays | None:
    """The arrays of the file in `folder` whose parameters include all of `wanted`, or None; axes and sizes as in `kept`."""
    for path in sorted(folder.glob("*.safetensors")):
        with _named_errors(path):
            arrays, metadata = read(path)
        try:
            described = json.loads(metadata["asked"]).items()
        except (KeyError, ValueError, AttributeError, RecursionError):
            raise misfit(str(path), "its parameters are missing") from None
        if wanted.items() <= described:
            return fitting(arrays, axes, str(path), sizes)
    return None


def fitting(arrays: Arrays, axes: Mapping[str, str], name: str, sizes: Mapping[str, int]) -> Arrays:
    """The arrays, if they are all there and fit each other; raises CorruptFile, which names the file."""
    found = fit(arrays, axes, name)
    if {*arrays} != {*axes} or any(found[axis] != n for axis, n in sizes.items()):
        raise misfit(name, "its arrays have other names or sizes")
    return arrays


def write(path: Path, arrays: Arrays, asked: Mapping[str, Any]) -> None:
    """Write a file of arrays and their parameters `asked`, atomically."""
    with _named_errors(path):
        write_whole(path, pack(arrays, {"asked": json.dumps(asked, sort_keys=True)}))


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cache: cannot use {path} ({error.strerror}); free some space or choose another folder.") from None


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
        return dict(zip(AXES, simulate(world, policies, discount, lattice_points(), episodes, seed, workers), strict=True))

    return as_truth(world, kept(cache, "lattice", asked, make, AXES, gvf=len(policies), point=SIDE**2))


def shipped_truth(world: ContinuousGrid, policies: Any, discount: float) -> LatticeTruth | None:
    """The truth that ships with gvfx for these parameters, or None if there is none."""
    policies = checked_policies(world, policies, discount)
    found = shipped(SHIPPED, parameters(world, policies, discount), AXES, gvf=len(policies), point=SIDE**2)
    return None if found is None else as_truth(world, found)


# --- the questions of an evaluation, and their truth ---------------------------------------------------------------------

TRUTH_EPISODES = 20_000  # episodes per point if no true values are shipped


def grid_questions(world: ContinuousGrid, questions: Sequence[GVF]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target policies [gvf, action], discounts [gvf] and the index of each question's signal [gvf]."""
    goals = [goal.name for goal in world.goals]
    policies, discounts, signals = [], [], []
    for name, q in zip(question_names(questions), questions, strict=True):
        if not isinstance(q.cumulant, Signal) or q.cumulant.name not in goals:
            raise InputError(f"{name}.cumulant: the continuous grid has the signals {', '.join(goals)}; use gvfx.Signal(name).")
        if not isinstance(q.policy, ConstantPolicy) or callable(q.discount):
            raise InputError(f"{name}: the continuous grid takes constant policies and constant discounts.")
        policies.append(q.policy.table(1, 4, f"{name}.policy")[0])
        discounts.append(float(q.discount))
        signals.append(goals.index(q.cumulant.name))
    return np.array(policies), np.array(discounts), np.array(signals)


def grid_truth(world: ContinuousGrid, policies: np.ndarray, discounts: np.ndarray, signals: np.ndarray) -> LatticeTruth:
    """The true values shipped with gvfx, or else by Monte Carlo (stored in the user's cache folder)."""
    if list(signals) != list(range(len(world.goals))) or len(set(discounts)) > 1:
        raise InputError("questions: give one question per goal, in the goals' order, with one discount.")
    found = shipped_truth(world, policies, float(discounts[0]))
    if found is not None:
        return found
    cache = Path.home() / ".cache" / "gvfx"
    return continuous_truth(world, policies, float(discounts[0]), TRUTH_EPISODES, cache=cache)


def simulate(
    world: ContinuousGrid, policies: Any, discount: float, points: np.ndarray, episodes: int, seed: int = 0, workers: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and its standard error [gvf, point] over episodes from each point.

    Every (GVF, point index) has its own random stream, so the result does not depend on `workers`.
    """
    policies = checked_policies(world, policies, discount, episodes, seed, workers)
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 2 or not ((points >= 0) & (points <= 1)).all():
        raise InputError(f"points: shape {points.shape}; give points of the unit square [point, 2].")
    run, discs = _simulator(world.distance == "euclidean", len(world.centres)), (world.noise, world.radius, world.centres)
    limit = 1 if discount < NEGLIGIBLE else math.ceil(math.log(NEGLIGIBLE) / math.log(discount))
    shifts = world.step * np.array(MOVES)
    values, errors = np.empty((2, len(policies), len(points)))

    def one(task: tuple[int, int]) -> None:
        i, p = task
        key = (zlib.crc32(b"lattice truth"), i, p)
        rng = np.random.SeedSequence(seed, spawn_key=key).generate_state(2, np.uint64)[None, :].copy()
        start = np.concatenate([[0.0], np.cumsum(policies[i])[:-1]])
        scale = np.divide(1.0, policies[i], out=np.zeros(4), where=policies[i] > 0)
        total, squares = run(rng, *points[p], i, episodes, limit, discount, start, scale, shifts, *discs)
        mean = total / episodes
        values[i, p] = world.means[i] * mean
        errors[i, p] = abs(world.means[i]) * math.sqrt(max(squares / episodes - mean**2, 0.0) / max(episodes - 1, 1))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, np.ndindex(values.shape)))
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
    goals = len(world.goals)
    if policies.shape != (goals, len(MOVES)):
        raise InputError(f"policies: shape {policies.shape}; give one row of 4 probabilities for each of {goals} goals.")
    if not (np.isfinite(policies).all() and (policies >= 0).all() and np.allclose(policies.sum(axis=1), 1, atol=1e-9)):
        raise InputError("policies: a row is not a distribution; give probabilities that sum to 1.")
    if not isinstance(discount, int | float | np.number) or not 0 <= discount < 1:
        raise InputError(f"discount: {discount!r} lies outside [0, 1); give a number below 1, because episodes need not end.")
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0), ("workers", workers, 1)):
        check_count(name, value, least)
    return policies


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not an integer of at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InputError(f"{name}: {value!r}; give an integer of at least {least}.")


def parameters(world: ContinuousGrid, policies: np.ndarray, discount: float) -> dict[str, Any]:
    """Everything that the true values depend on, as JSON types; not the horizon, names, the cumulants' sd or timeouts."""
    kept: dict[str, Any] = {name: getattr(world, name) for name in ("step", "noise", "radius", "distance")}
    kept["strays"], goals = [*map(list, world.strays)], [[*goal.at, goal.mean] for goal in world.goals]
    return {**kept, "goals": goals, "policies": policies.tolist(), "discount": float(discount), "side": SIDE, "version": 1}


def as_truth(world: ContinuousGrid, arrays: Arrays) -> LatticeTruth:
    """The truth from the arrays of a file."""
    points = lattice_points()
    return LatticeTruth(points, arrays["values"], arrays["standard_errors"], np.logical_not(world.inside(points).any(axis=1)))


# --- The continuous grid as a finite world: cells of a regular lattice, for the error theory ------------------------
# A position is uniform in its cell.  A move with its noise, and clipping at the borders, act on both coordinates on their own,
# so each has its matrix of transitions between intervals, in closed form.  A cell that a disc covers in part ends an episode
# with the share that it covers.

FINE = 20  # points per axis with which the share of a cell inside a disc is measured
TINY = 1e-12  # probabilities below it are left out


def lattice_mdp(world: ContinuousGrid, side: int, points: np.ndarray) -> MDP:
    """side^2 cells, x running fastest, then one terminal state per disc; errors count in the cells of points [n, 2]."""
    cells, discs = side * side, len(world.centres)
    inside = _shares(world, side)  # [cell, disc]
    outside = 1 - inside.sum(axis=1)
    rows: list[list[tuple[np.ndarray, np.ndarray]]] = []
    shifts = {float(shift): _interval_moves(side, float(shift), world.noise) for shift in world.step * np.array([-1, 0, 1])}
    for dx, dy in world.step * np.array(MOVES):
        moved = np.kron(shifts[float(dy)], shifts[float(dx)])  # [cell, cell]
        prob = np.concatenate([moved * outside, moved @ inside], axis=1)
        prob[prob < TINY] = 0.0
        prob /= prob.sum(axis=1, keepdims=True)
        rows.append([(np.flatnonzero(row), row[row > 0]) for row in prob])
    width = max(len(where) for action in rows for where, _ in action)
    following = np.zeros((cells + discs, len(MOVES), width), np.int32)
    chance = np.zeros(following.shape)
    following[cells:], chance[cells:, :, 0] = np.arange(cells, cells + discs)[:, None, None], 1.0
    for a, action in enumerate(rows):
        for s, (where, prob) in enumerate(action):
            following[s, a, : len(where)], chance[s, a, : len(where)] = where, prob
    starts = 1 - inside[:, : len(world.goals)].sum(axis=1)
    start = np.concatenate([starts / starts.sum(), np.zeros(discs)])
    terminal = np.arange(cells + discs) >= cells
    live = np.zeros(cells + discs, bool)
    column, row = np.minimum((points * side).astype(int), side - 1).T
    live[row * side + column] = True
    return MDP(following, chance, start, terminal, world.horizon, live)


@dataclass(frozen=True)
class Arrival(Cumulant):
    """A draw from N(mean, sd^2) on arriving in one state."""

    state: int
    mean: float
    sd: float

    def tables(self, world: MDP) -> OutcomeTables:
        there = (world.next == self.state) & ~world.terminal[:, None, None]
        return OutcomeTables(self.mean * there, self.sd * there)


def arrivals(world: ContinuousGrid, side: int) -> list[Arrival]:
    """The cumulants of the goals in `lattice_mdp`."""
    return [Arrival(side * side + k, goal.mean, goal.sd) for k, goal in enumerate(world.goals)]


def _shares(world: ContinuousGrid, side: int) -> np.ndarray:
    """The share of each cell inside each disc, [cell, disc]."""
    fine = (np.arange(side * FINE) + 0.5) / (side * FINE)
    y, x = np.meshgrid(fine, fine, indexing="ij")
    held = world.inside(np.stack([x.ravel(), y.ravel()], axis=1)).astype(float)  # [point, disc]
    return held.reshape(side, FINE, side, FINE, -1).mean(axis=(1, 3)).reshape(side * side, -1)


def _interval_moves(side: int, shift: float, noise: float) -> np.ndarray:
    """Transitions [from, to] between `side` intervals of [0, 1]: uniform within one, shifted, noise U[-noise, noise], clipped."""
    width = 1 / side
    edges = np.append(np.append(-np.inf, np.arange(1, side) / side), np.inf)  # what is clipped lands in the outer intervals
    low = np.arange(side)[:, None] / side + shift
    if noise == 0:
        below = np.clip((edges - low) / width, 0.0, 1.0)
    else:  # P(x + noise <= edge), from the integral of the noise's distribution function
        below = (_integral(edges - low, noise) - _integral(edges - low - width, noise)) / width
        below[:, 0], below[:, -1] = 0.0, 1.0
    return np.diff(below, axis=1)


def _integral(z: np.ndarray, noise: float) -> np.ndarray:
    """The integral up to z of P(U[-noise, noise] <= z)."""
    z = np.where(np.isfinite(z), z, 0.0)
    return np.where(z <= -noise, 0.0, np.where(z >= noise, z, (z + noise) ** 2 / (4 * noise)))
