"""Worlds in which the answers rest on what is seldom seen: chains against a current, corridors, locks, a door, traps.

Each maker returns an MDP and two questions about it: one whose policy strives for the reward, one whose policy is closer to
chance.  `gvfx.worlds.stepped.SteppedMDP` is the same world as a Gymnasium environment that does not show its transition table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import gvfx

Asked = tuple[gvfx.MDP, list[gvfx.GVF]]


def made(
    P: np.ndarray,
    paid: np.ndarray,
    policies: Mapping[str, object],
    discount: float,
    horizon: int | None,
    *,
    start: np.ndarray | None = None,
    terminal: np.ndarray | None = None,
) -> Asked:
    """The world of a matrix P [state, action, next] that pays [state, action] or per next state, and a question per policy.

    It starts in state 0 unless `start` [state] is given.
    """
    states, actions, _ = P.shape
    start = np.eye(states)[0] if start is None else start
    world = gvfx.MDP.from_matrix(P, start=start, horizon=horizon, terminal=terminal)
    per_next = np.broadcast_to(paid if paid.ndim == 3 else paid[:, :, None], (states, actions, states))
    reward = np.take_along_axis(per_next, world.next.astype(np.int64), axis=2)
    world = gvfx.MDP(world.next, world.prob, start, world.terminal, horizon, reward=reward)
    return world, [gvfx.GVF(pi, gvfx.Reward(), discount, name=name) for name, pi in policies.items()]  # type: ignore[arg-type]


def two(strives: object, loose: object) -> dict[str, object]:
    """The two policies that most of these worlds ask about."""
    return {"strives": strives, "loose": loose}


def current(states: int, forward: float = 0.35, back: float = 0.1, discount: float = 0.95) -> Asked:
    """A chain against a current: left always succeeds, right seldom; a little is paid at the start, 1 at the far end."""
    P, paid = np.zeros((states, 2, states)), np.zeros((states, 2))
    for s in range(states):
        P[s, 0, max(0, s - 1)] += 1
        P[s, 1, min(states - 1, s + 1)] += forward
        P[s, 1, max(0, s - 1)] += back
        P[s, 1, s] += 1 - forward - back
    paid[0, 0], paid[-1, 1] = 0.005, 1.0
    return made(P, paid, two([0.05, 0.95], [0.35, 0.65]), discount, 200)


def corridor(states: int, slip: float = 0.1, discount: float = 0.97) -> Asked:
    """A corridor walked left or right, with a chance to slip the other way; the far end pays 1 and ends the episode."""
    P, paid = np.zeros((states + 1, 2, states + 1)), np.zeros((states + 1, 2, states + 1))
    for s in range(states):
        for a, step in enumerate((-1, 1)):
            P[s, a, min(states, max(0, s + step))] += 1 - slip
            P[s, a, min(states, max(0, s - step))] += slip
    P[states, :, states] = 1
    paid[:states, :, states] = 1.0
    return made(P, paid, two([0.1, 0.9], [0.4, 0.6]), discount, 4 * states, terminal=np.arange(states + 1) == states)


def lock(states: int, actions: int = 3, discount: float = 0.97, combination: int | None = None) -> Asked:
    """A combination lock: one action leads on (with 0.9), the others back to the start; the end pays 1."""
    rng = np.random.default_rng(states if combination is None else combination)
    right = rng.integers(actions, size=states)
    P, paid = np.zeros((states + 1, actions, states + 1)), np.zeros((states + 1, actions, states + 1))
    P[:states, :, 0] = 1
    for s in range(states):
        P[s, right[s]] = 0.9 * np.eye(states + 1)[s + 1] + 0.1 * np.eye(states + 1)[0]
    P[states, :, states] = 1
    paid[:states, :, states] = 1.0
    strives, loose = (share * np.eye(actions)[np.append(right, 0)] + (1 - share) / actions for share in (0.85, 0.5))
    return made(P, paid, two(strives, loose), discount, 100, terminal=np.arange(states + 1) == states)


def door(side: int, chance: float, discount: float = 0.97) -> Asked:
    """Two rooms of side x side cells; the door between them opens with a small chance, and the second room pays in a corner."""
    cells = side * side
    states = 2 * cells
    P, paid = np.zeros((states, 4, states)), np.zeros((states, 4))
    moves = ((0, -1), (0, 1), (-1, 0), (1, 0))
    for s in range(states):
        room, (row, column) = s // cells, divmod(s % cells, side)
        for a in range(4):
            for b, (d, r) in enumerate(moves):
                share = 0.85 if a == b else 0.05
                there = room * cells + min(side - 1, max(0, row + d)) * side + min(side - 1, max(0, column + r))
                through = b == 1 and column == side - 1 and row == side // 2 and room == 0
                P[s, a, there] += share * (1 - chance * through)
                P[s, a, cells + row * side] += share * chance * through
    paid[states - 1], paid[side - 1] = 1.0, 0.05
    return made(P, paid, two([0.05, 0.45, 0.05, 0.45], [0.2, 0.3, 0.2, 0.3]), discount, 100)


def traps(states: int, leave: float = 0.04, discount: float = 0.97) -> Asked:
    """A ring walked left or right in which every third state holds whoever enters it; the far side pays 1."""
    P, paid = np.zeros((states, 2, states)), np.zeros((states, 2))
    for s in range(states):
        go = leave if s % 3 == 2 else 0.8
        P[s, 0, (s - 1) % states] += go
        P[s, 1, (s + 1) % states] += go
        P[s, :, s] += 1 - go
    paid[states // 2], paid[0] = 1.0, 0.01
    return made(P, paid, two([0.1, 0.9], [0.4, 0.6]), discount, 300)


def jackpots(states: int = 20, chance: float = 0.02, discount: float = 0.9) -> Asked:
    """A ring with jumps in which every action pays 1, and with a small chance instead 50 and a return to the start."""
    rng = np.random.default_rng(5)
    P, paid = np.zeros((states, 3, states)), np.ones((states, 3, states))
    for s in range(1, states):
        for a in range(3):
            P[s, a, 1 + rng.integers(states - 1, size=2)] += (1 - chance) / 2
            P[s, a, [0]] += chance
    P = P / np.where((total := P.sum(axis=2, keepdims=True)) > 0, total, 1)
    P[0, :, 1:] = 1 / (states - 1)
    paid[1:, :, 0] = 50.0
    return made(P, paid, two([0.8, 0.1, 0.1], [0.3, 0.3, 0.4]), discount, 100)


HARD: dict[str, Callable[[], Asked]] = {
    "current of 6": lambda: current(6),
    "current of 20": lambda: current(20, 0.4, 0.05),
    "current of 50": lambda: current(50, 0.45, 0.02, 0.98),
    "corridor of 30": lambda: corridor(30),
    "corridor of 60": lambda: corridor(60, 0.02),
    "lock of 8": lambda: lock(8),
    "lock of 14": lambda: lock(14, 2),
    "door, 4 x 4": lambda: door(4, 0.05),
    "door, 6 x 6": lambda: door(6, 0.05),
    "traps, ring of 12": lambda: traps(12),
    "traps, ring of 24": lambda: traps(24, 0.02),
}
UNDETECTABLE: dict[str, Callable[[], Asked]] = {"rare door, 6 x 6": lambda: door(6, 0.001)}  # shown, without a bar
