"""Grid worlds from a size or a text map (paper, Sec. 7.1 and App. B.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import is_real, listed, shown, whole
from gvfx.worlds.mdp import MDP, Layout

MOST_CELLS = 4_000_000
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # actions L, R, U, D = 0..3 as (row, column) steps


def gridworld(
    size: int | tuple[int, int] | str = 20,
    goals: Mapping[str, tuple[int, int]] | None = None,
    walls: Iterable[tuple[int, int]] = (),
    slip: float = 0.1,
    horizon: int | None = 500,
    grouping: int = 1,
) -> MDP:
    """A grid of cells with four moves; acting in a goal cell pays its cumulant and ends the episode.

    size:     cells per side, (height, width), or a text map: '#' wall, '.' or ' ' free, any letter a goal of that name.
    goals:    name -> (row, column), row 0 on top.
    walls:    (row, column) cells that cannot be entered.
    slip:     probability that another feasible move is made; a blocked move leaves the state unchanged.
    horizon:  steps after which an episode is truncated; None: never.
    grouping: number of vertically neighbouring cells that share one table row.
    """
    if not isinstance(goals, Mapping | None):
        raise InputError(f"goals: {shown(goals)} does not name its goals; give a dict such as {{'left': (0, 0)}}.")
    cells_of_walls = [_cell(cell, "walls") for cell in listed(walls, "walls", "cells (row, column)")]
    drawn = {str(name): _cell(cell, "goals") for name, cell in (goals or {}).items()}
    if not (is_real(slip) and 0 <= slip < 1):
        raise InputError(f"slip: {shown(slip)} lies outside [0, 1); give the probability of a random move.")
    grouping = whole(grouping, "grouping")
    recipe: dict[str, Any] = {"size": size, "goals": dict(goals or {}), "walls": sorted(cells_of_walls), "slip": slip}
    recipe |= {"horizon": horizon, "grouping": grouping}
    height, width, goals, wall = _read_map(size, drawn, recipe["walls"])
    if grouping < 1 or height % grouping:
        raise InputError(f"grouping: {grouping} does not divide the {height} rows; give a divisor such as 1 or 2.")

    cells = height * width
    places = {name: np.array([r * width + c]) for name, (r, c) in goals.items()}
    free = ~wall.ravel()
    start = free.astype(float)
    start[[r * width + c for r, c in goals.values()]] = 0
    if not start.any():
        raise InputError("walls: no free cell is left to start in; remove some walls or goals.")
    _check_goals_reached(goals, start.reshape(height, width), wall)
    row, column = np.divmod(np.arange(cells), width)
    features = np.append(row // grouping * width + column, height // grouping * width)
    return MDP(
        *_moves(wall, set(goals.values()), slip),
        start=np.append(start / start.sum(), 0.0),
        terminal=np.arange(cells + 1) == cells,
        horizon=horizon,
        live=np.append(free, False),
        features=None if grouping == 1 else features,
        places=places,
        layout=Layout(height, width, wall, goals),
        recipe=("gridworld", recipe),
    )


def _moves(wall: np.ndarray, goals: set[tuple[int, int]], slip: float) -> tuple[np.ndarray, np.ndarray]:
    """Next states and their probabilities, [cell + 1, 4, 5] each; the last state is the absorbing one behind the goals."""
    height, width = wall.shape
    absorbing = height * width
    next_state, prob = np.full((absorbing + 1, 4, 5), absorbing, dtype=np.int32), np.zeros((absorbing + 1, 4, 5))
    prob[absorbing, :, 0] = 1.0
    for s in range(absorbing):
        r, c = divmod(s, width)
        if wall[r, c] or (r, c) in goals:  # any action in a goal leads to the absorbing state
            next_state[s] = s if wall[r, c] else absorbing
            prob[s, :, 0] = 1.0
            continue
        next_state[s] = s
        targets = [(r + dr, c + dc) for dr, dc in MOVES]
        open_moves = [a for a, (y, x) in enumerate(targets) if 0 <= y < height and 0 <= x < width and not wall[y, x]]
        for a in range(4):
            others = [b for b in open_moves if b != a]
            for b in open_moves:
                next_state[s, a, b] = targets[b][0] * width + targets[b][1]
            prob[s, a, a if a in open_moves else 4] = 1 - slip if others else 1.0  # slot 4: no move
            for b in others:
                prob[s, a, b] = slip / len(others)
    return next_state, prob


def four_rooms(goals: Mapping[str, tuple[int, int]] | None = None, slip: float = 0.1, horizon: int | None = 500) -> MDP:
    """FourRooms, 20x20: walls in row 10 and column 10 with two doorways each."""
    doors, default = (4, 15), {"left": (0, 0), "right": (0, 19)}
    walls = {(10, c) for c in range(20) if c not in doors} | {(r, 10) for r in range(20) if r not in doors}
    return gridworld(20, default if isinstance(goals, Mapping | None) and not goals else goals, walls, slip, horizon)


def _cell(given: Any, field: str, form: str = "(row, column)") -> tuple[int, int]:
    pair = list(given) if isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim) else []
    if len(pair) != 2:
        raise InputError(f"{field}: {shown(given)} is not a pair {form}; give two whole numbers.")
    return whole(pair[0], field), whole(pair[1], field)


def _read_map(
    size: Any, goals: dict[str, tuple[int, int]], walls: Iterable[tuple[int, int]]
) -> tuple[int, int, dict[str, tuple[int, int]], np.ndarray]:
    if isinstance(size, str):
        lines = size.strip("\n").splitlines()
        height, width = len(lines), max(map(len, lines), default=0)
        if width == 0:
            raise InputError("size: the text map is empty; draw rows of '.', '#' and goal letters.")
        wall = np.zeros((height, width), dtype=bool)
        for r, line in enumerate(lines):
            for c, mark in enumerate(line.ljust(width, "#")):
                if mark == "#":
                    wall[r, c] = True
                elif mark.isalpha():
                    if mark in goals:
                        raise InputError(f"size: goal {mark!r} is drawn twice on the text map; use one letter per goal.")
                    goals[mark] = (r, c)
                elif mark not in ". ":
                    raise InputError(f"size: row {r} of the text map has {mark!r}; use '.', '#' and goal letters.")
    else:
        height, width = _cell(size if isinstance(size, list | tuple) else (size, size), "size", "(height, width)")
        if height < 1 or width < 1:
            raise InputError(f"size: {size!r} is not a grid; give at least 1 row and 1 column.")
        if height * width > MOST_CELLS:
            raise InputError(f"size: {shown(height * width)} cells are too many for tables; give at most {MOST_CELLS:,}.")
        wall = np.zeros((height, width), dtype=bool)
    for field_name, cells in (("walls", [("", w) for w in walls]), ("goals", list(goals.items()))):
        for name, (r, c) in cells:
            if not (0 <= r < height and 0 <= c < width and int(r) == r and int(c) == c):
                label = f" {name!r}" if name else ""
                raise InputError(
                    f"{field_name}:{label} at ({r}, {c}) lies outside the {height}x{width} map; count rows and columns from 0."
                )
            if field_name == "walls":
                wall[r, c] = True
            elif wall[r, c]:
                raise InputError(f"goals: {name!r} at ({r}, {c}) lies inside a wall; move it to a free cell.")
    if len(set(goals.values())) < len(goals):
        raise InputError("goals: two goals share one cell; give each its own.")
    return height, width, goals, wall


def _check_goals_reached(goals: Mapping[str, tuple[int, int]], start: np.ndarray, wall: np.ndarray) -> None:
    """Every goal must have a free neighbour that is not itself a goal (acting in a goal ends the episode)."""
    height, width = wall.shape
    for name, (r, c) in goals.items():
        around = [(r + dr, c + dc) for dr, dc in MOVES]
        if not any(0 <= y < height and 0 <= x < width and start[y, x] > 0 for y, x in around):
            raise InputError(f"goals: {name!r} at ({r}, {c}) cannot be reached from any start cell; open a way to it.")
