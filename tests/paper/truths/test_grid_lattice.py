"""The continuous grid as a finite world: its transitions against simulated moves."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx_paper.truths.lattice import Arrival, arrivals, lattice_mdp
from gvfx_paper.worlds.continuous_grid import MOVES, authors_grid, paper_grid

SIDE = 10
POINTS = np.array([[0.55, 0.55], [0.15, 0.85]])


@pytest.mark.parametrize("world", [paper_grid(), authors_grid()], ids=["paper", "authors"])
def test_transitions_are_those_of_positions_drawn_within_a_cell(world):
    mdp, rng, compared = lattice_mdp(world, SIDE, POINTS), np.random.default_rng(0), 0
    for cell, action in ((0, 0), (45, 1), (91, 2), (99, 3), (18, 3)):
        low = np.array([cell % SIDE, cell // SIDE]) / SIDE
        at = low + rng.random((200_000, 2)) / SIDE
        moved = np.clip(at + world.step * np.array(MOVES)[action] + rng.uniform(-world.noise, world.noise, at.shape), 0, 1)
        held = world.inside(moved)
        column, row = np.minimum((moved * SIDE).astype(int), SIDE - 1).T
        arrived = np.where(held.any(axis=1), SIDE**2 + held.argmax(axis=1), row * SIDE + column)
        seen = np.bincount(arrived, minlength=mdp.states) / len(at)
        told = np.bincount(mdp.next[cell, action], mdp.prob[cell, action], mdp.states)
        # a cell that a disc covers in part counts by its area, so only the sum over its outcomes is exact there
        shares = lattice_shares(mdp, world)
        whole = (shares == 0) | (shares == 1)
        if whole[np.flatnonzero(told[: SIDE**2] + seen[: SIDE**2])].all():
            assert np.abs(seen - told).max() < 0.005, (cell, action)
            compared += 1
    assert compared >= 2


def lattice_shares(mdp, world):
    """The share of each cell inside some disc [cell], on a fine grid of points."""
    fine = (np.arange(SIDE * 20) + 0.5) / (SIDE * 20)
    y, x = np.meshgrid(fine, fine, indexing="ij")
    held = world.inside(np.stack([x.ravel(), y.ravel()], axis=1)).any(axis=1)
    return held.reshape(SIDE, 20, SIDE, 20).mean(axis=(1, 3)).ravel()


def test_errors_count_in_the_cells_of_the_points():
    mdp = lattice_mdp(paper_grid(), SIDE, POINTS)
    assert np.flatnonzero(mdp.live).tolist() == [55, 81]
    assert mdp.terminal.sum() == 2
    assert mdp.start[mdp.terminal].sum() == 0


def test_a_goal_pays_on_arrival():
    world = paper_grid()
    mdp, (left, right) = lattice_mdp(world, SIDE, POINTS), arrivals(world, SIDE)
    assert (left, right) == (Arrival(100, 100.0, 5.0), Arrival(101, 50.0, 5.0))
    tables = left.tables(mdp)
    assert (tables.mean != 0).any()
    assert set(mdp.next[np.broadcast_to(tables.mean, mdp.next.shape) != 0]) == {100}
    assert (tables.mean[mdp.terminal] == 0).all()
