"""The continuous grid as a finite world: cells of a regular lattice, for the error theory.

A position is uniform in its cell.  A move with its noise, and clipping at the borders, act on both coordinates on their own, so
each has its matrix of transitions between intervals, in closed form.  A cell that a disc covers in part ends an episode with the
share that it covers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gvfx.questions.cumulants import Cumulant, OutcomeTables
from gvfx.worlds.continuous_grid import MOVES, ContinuousGrid
from gvfx.worlds.mdp import MDP

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
        return OutcomeTables(self.mean * there, self.sd * there, np.zeros(there.shape))


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
