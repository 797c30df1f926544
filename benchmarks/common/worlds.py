"""Worlds with questions that are hard to answer: where answers rest on what is seldom seen, or is hard to reach.

Makers with sizes (`current(20)`) return an MDP and two questions about it: one whose policy strives for the reward, one whose
policy is closer to chance; `HARD` lists some.  `CLASSES` has makers of a number, which draws sizes and chances, as
`CLASSES["lock"](100)`: at most 400 states, two or three questions; numbers below 10 are for development, and what is reported
uses numbers from 100 on.  `random_world` draws worlds that are not hard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

import gvfx
from benchmarks.study import Asked
from gvfx_paper import paper

MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (row, column): left, right, up, down
CAREFUL = np.eye(4)[[0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]]  # the careful way over the ice of FrozenLake
FAMILIES = ((2, 1, 3), (3, 2, 4), (4, 5, 2))  # of random worlds: actions, GVFs, successors of a pair


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
    for s in range(states):
        room, (row, column) = s // cells, divmod(s % cells, side)
        for a in range(4):
            for b, (d, r) in enumerate(MOVES):
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


def _prefers(actions: np.ndarray, share: float, of: int) -> np.ndarray:
    """The policy [state, action] that takes the action of each state with `share` and any of them otherwise."""
    return share * np.eye(of)[actions] + (1 - share) / of


def _toward(likeliest: np.ndarray, goal: int) -> tuple[np.ndarray, np.ndarray]:
    """For each state the steps to the goal and the action of a shortest way, given where each pair leads [state, action]."""
    states, actions = likeliest.shape
    steps, way = np.full(states, -1), np.zeros(states, dtype=np.int64)
    arrivals: list[list[tuple[int, int]]] = [[] for _ in range(states)]
    for s in range(states):
        for a in range(actions):
            arrivals[likeliest[s, a]].append((s, a))
    steps[goal] = 0
    waiting = deque([goal])
    while waiting:
        here = waiting.popleft()
        for s, a in arrivals[here]:
            if steps[s] < 0:
                steps[s], way[s] = steps[here] + 1, a
                waiting.append(s)
    return steps, way


def garnet(rng: np.random.Generator, states: int, actions: int, successors: int) -> np.ndarray:
    """Random dynamics [state, action, next]: every pair has some successors, with random chances."""
    P = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):
        P[s, a, rng.choice(states, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    return P


def _ring(rng: np.random.Generator, states: int, actions: int, successors: int) -> np.ndarray:
    """Random dynamics in which action 0 mostly leads to the next state of a ring, so that every state can be reached."""
    P = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):  # successors are drawn before chances, in `garnet` after them
        P[s, a, rng.choice(states, successors, replace=False)] += rng.dirichlet(np.ones(successors))
    P[:, 0] *= 0.3
    P[np.arange(states), 0, (np.arange(states) + 1) % states] += 0.7
    return P


def drawn(make: Callable[..., Asked], draw: Callable[[np.random.Generator], tuple[Any, ...]]) -> Callable[[int], Asked]:
    """A maker of a number, which seeds what is drawn: sizes, chances and the discount."""
    return lambda number: make(*draw(np.random.default_rng(number)))


def maze(number: int) -> Asked:
    """A maze of 7 to 11 cells a side, 20 to 30 % of them walls, in which wind often blows one cell back towards the start."""
    rng = np.random.default_rng(number)
    side, density, wind = int(rng.integers(7, 12)), rng.uniform(0.2, 0.3), rng.uniform(0.1, 0.25)
    while True:
        walls = rng.random((side, side)) < density
        walls[0, 0] = False
        cells = [(0, 0)]  # those connected with the start
        for row, column in cells:
            for d, r in MOVES:
                there = (row + d, column + r)
                if min(there) >= 0 and max(there) < side and not walls[there] and there not in cells:
                    cells.append(there)
        if len(cells) >= 0.6 * side * side:
            break
    index = {cell: s for s, cell in enumerate(cells)}
    step = np.array([[index.get((row + d, column + r), s) for d, r in MOVES] for s, (row, column) in enumerate(cells)])
    goal = int(np.argmax(_toward(step, 0)[0]))
    states = len(cells)
    P, paid = np.zeros((states, 4, states)), np.zeros((states, 4, states))
    for s in range(states):
        for a in range(4):
            P[s, a, step[s, a]] += 0.9 - wind
            P[s, a, s] += 0.1
            for back in (0, 2):  # left and up
                P[s, a, step[s, back]] += wind / 2
    paid[:, :, goal] = 1.0
    way = _toward(step, goal)[1]
    policies = {name: _prefers(way, share, 4) for name, share in (("strives", 0.85), ("half", 0.5), ("loose", 0.2))}
    end = np.arange(states) == goal
    return made(P, paid, policies, rng.uniform(0.95, 0.98), int(rng.integers(150, 301)), terminal=end)


def deep_sea(number: int) -> Asked:
    """A sea 10 to 20 deep: each step leads down, one action to the right with 0.9 to 0.97; the lower right corner pays 1."""
    rng = np.random.default_rng(number)
    depth, works = int(rng.integers(10, 21)), rng.uniform(0.9, 0.97)
    states = depth * (depth + 1) // 2
    right = rng.integers(2, size=states)
    P, paid = np.zeros((states + 1, 2, states + 1)), np.zeros((states + 1, 2))
    for row in range(depth):
        for column in range(row + 1):
            s = row * (row + 1) // 2 + column
            below = [states, states] if row == depth - 1 else [s + row + 1, s + row + 2]  # straight down, right
            P[s, right[s], below[1]] += works
            P[s, right[s], below[0]] += 1 - works
            P[s, 1 - right[s], below[0]] += 1
            paid[s, right[s]] = -0.01 / depth
    P[states, :, states] = 1
    paid[states - 1, right[-1]] = 1.0
    strives, loose = (_prefers(np.append(right, 0), share, 2) for share in (0.85, 0.3))
    return made(P, paid, two(strives, loose), 0.99, depth + 1, terminal=np.arange(states + 1) == states)


def drawn_lock(number: int) -> Asked:
    """A combination lock of 8 to 14 digits (5 to 8 with three actions), of which a wrong one leads back to the start."""
    rng = np.random.default_rng(number)
    actions = int(rng.integers(2, 4))
    digits = int(rng.integers(8, 15) if actions == 2 else rng.integers(5, 9))
    return lock(digits, actions, rng.uniform(0.95, 0.98), combination=number)


def star(number: int) -> Asked:
    """A hub with 4 to 6 arms of 4 to 8 states; the way into one of them succeeds with 0.02 to 0.06, and its end pays most."""
    rng = np.random.default_rng(number)
    arms, length, seldom = int(rng.integers(4, 7)), int(rng.integers(4, 9)), rng.uniform(0.02, 0.06)
    rare = int(rng.integers(arms))
    states = 1 + arms * length
    P, paid = np.zeros((states, arms, states)), np.zeros((states, arms))
    way = np.zeros(states, dtype=np.int64)
    way[0] = rare
    for arm in range(arms):
        enters = seldom if arm == rare else 0.9
        P[0, arm, 1 + arm * length] += enters
        P[0, arm, 0] += 1 - enters
        for k in range(length):
            s = 1 + arm * length + k
            way[s] = rng.integers(arms)  # the action that leads on; the others lead back
            P[s, :, max(s - 1, 0) if k else 0] = 1
            P[s, way[s]] = 0
            P[s, way[s], s + 1 if k < length - 1 else s] += 0.85
            P[s, way[s], 0] += 0.15
        paid[(arm + 1) * length] = 1.0 if arm == rare else rng.uniform(0, 0.3)
    policies = {name: _prefers(way, share, arms) for name, share in (("strives", 0.85), ("half", 0.5), ("loose", 0.1))}
    return made(P, paid, policies, rng.uniform(0.9, 0.97), 200)


def gate(number: int) -> Asked:
    """A cluster of 8 to 20 states, which pay, behind a gate that opens with 0.01 to 0.03 in one pair of 10 to 25 other states."""
    rng = np.random.default_rng(number)
    outside, inside, chance = int(rng.integers(10, 26)), int(rng.integers(8, 21)), rng.uniform(0.01, 0.03)
    states, actions = outside + inside, 3
    P, paid = np.zeros((states, actions, states)), np.zeros((states, actions))
    P[:outside, :, :outside] = _ring(rng, outside, actions, 3)
    P[outside:, :, outside:] = _ring(rng, inside, actions, 3)
    P[outside:, actions - 1] *= 0.95  # one action sometimes leads out again
    P[outside:, actions - 1, 0] += 0.05
    door = int(rng.integers(outside // 2, outside))
    P[door, 1] = (1 - chance) * np.eye(states)[door] + chance * np.eye(states)[outside]
    paid[outside:] = rng.normal(1, 1, (inside, actions))
    paid[:outside] = rng.normal(0, 0.1, (outside, actions))
    wanted = np.where(np.arange(states) == door, 1, 0)
    strives, loose = (_prefers(wanted, share, actions) for share in (0.8, 0.2))
    return made(P, paid, two(strives, loose), rng.uniform(0.93, 0.97), 200)


def arms(number: int) -> Asked:
    """A chain with two arms of 8 to 15 states from its middle; three deterministic policies, each paid in a pair of its own."""
    rng = np.random.default_rng(number)
    length, works = int(rng.integers(8, 16)), rng.uniform(0.7, 0.9)
    states = 2 * length + 1
    order = np.append(np.arange(length, 0, -1), np.append(0, np.arange(length + 1, states)))  # from one end to the other
    P = np.zeros((states, 2, states))
    for k, s in enumerate(order):
        for a, step in enumerate((-1, 1)):
            P[s, a, order[min(states - 1, max(0, k + step))]] += works
            P[s, a, order[min(states - 1, max(0, k - step))]] += 1 - works
    world, _ = made(P, np.zeros((states, 2)), {}, 0.9, 200)
    left, right = np.zeros(states, dtype=np.int64), np.ones(states, dtype=np.int64)
    random = np.where(rng.random(states) < 0.5, left, right)
    questions = []
    for name, actions, at in (("left", left, order[0]), ("right", right, order[-1]), ("random", random, rng.integers(states))):
        paid = np.zeros((states, 2))
        paid[at, actions[at]] = 1.0
        questions.append(gvfx.GVF(np.eye(2)[actions], gvfx.table_cumulant(paid, 0.0), 0.95, name=name))
    return world, questions


def taxi(number: int) -> Asked:
    """A taxi on 4 or 5 cells a side with six actions; only pick-ups and moves from a few slippery cells have chance in them.

    A guest waits in one of three corners and wants to another one, which pays 20 and ends the episode.
    """
    rng = np.random.default_rng(number)
    side = int(rng.integers(4, 6))
    corners = ((0, 0), (0, side - 1), (side - 1, 0))
    slips = rng.random((side, side)) < rng.uniform(0.15, 0.3)
    slips[side // 2, side // 2] = True
    slip, boards = rng.uniform(0.2, 0.5), rng.uniform(0.5, 0.9)
    centre = (side // 2, side // 2)
    kinds = [(guest, to) for to in range(3) for guest in range(4) if guest != to]  # guest 3: on board
    cells = [(row, column) for row in range(side) for column in range(side)]
    index = {(cell, kind): s for s, (kind, cell) in enumerate((kind, cell) for kind in kinds for cell in cells)}
    states = len(index) + 1
    end = states - 1
    P, paid = np.zeros((states, 6, states)), np.full((states, 6), -1.0)
    likeliest = np.full((states, 6), end)

    def moved(cell: tuple[int, int], way: int) -> tuple[int, int]:
        row, column = (min(side - 1, max(0, x + d)) for x, d in zip(cell, MOVES[way], strict=True))
        return row, column

    for (cell, (guest, to)), s in index.items():
        at = corners.index(cell) if cell in corners else -1
        for a in range(4):
            likeliest[s, a] = index[moved(cell, a), (guest, to)]
            P[s, a, likeliest[s, a]] += 1 - slip * slips[cell]
            P[s, a, index[moved(cell, int(rng.integers(4))), (guest, to)]] += slip * slips[cell]
        likeliest[s, 4] = index[cell, (3, to)] if guest == at else s
        P[s, 4, s] += 1 - boards
        P[s, 4, likeliest[s, 4]] += boards
        likeliest[s, 5] = s if guest != 3 or at < 0 else end if at == to else index[cell, (at, to)]
        P[s, 5, likeliest[s, 5]] = 1
        paid[s, 4:] = -10 * (likeliest[s, 4:] == s)
        paid[s, 5] += 20 * (likeliest[s, 5] == end)
    P[end, :, end] = 1
    way = _toward(likeliest, end)[1]
    start = np.zeros(states)
    start[[index[centre, kind] for kind in kinds if kind[0] < 3]] = 1
    strives, loose = (_prefers(way, share, 6) for share in (0.8, 0.25))
    return made(
        P, paid, two(strives, loose), rng.uniform(0.9, 0.95), 100, start=start / start.sum(), terminal=np.arange(states) == end
    )


def random_world(number: int) -> Asked:
    """A random world and its questions: 10 to 60 states, some far from the start, a few of which pay or end the episode."""
    rng = np.random.default_rng(number)
    actions, gvfs, successors = FAMILIES[number % len(FAMILIES)]
    states = int(rng.integers(10, 61))
    following = np.empty((states, actions, successors), dtype=np.int64)
    for s in range(states):  # one step forward or a jump back: distant states take a while to reach
        nearby = np.append(rng.integers(0, s + 1, size=successors + 1), min(s + 1, states - 1))
        for a in range(actions):
            following[s, a] = rng.choice(nearby[:-1], size=successors)
        following[s, rng.integers(actions), 0] = nearby[-1]
    prob = rng.dirichlet(np.ones(successors), size=(states, actions))
    prob = 0.9 * prob + 0.1 / successors
    terminal = np.arange(states) == states - 1
    start = np.where(terminal, 0.0, rng.dirichlet(np.ones(states)) + 0.2 / states)
    horizon = int(rng.integers(20, 200))
    world = gvfx.MDP(following, prob, start / start.sum(), terminal, horizon)
    questions = []
    for i in range(gvfs):
        paying = rng.random((states, 1)) < 0.2
        paying[rng.integers(states - 1)] = True
        mean = np.where(paying, rng.normal(0, 10, (states, actions)), 0.0)
        policy = 0.9 * rng.dirichlet(np.full(actions, 0.7), size=states) + 0.1 / actions
        cumulant = gvfx.table_cumulant(mean, np.where(paying, rng.uniform(0, 3), 0.0) * np.ones(actions))
        questions.append(gvfx.GVF(policy, cumulant, float(rng.uniform(0.8, 0.98)), name=f"question {i + 1}"))
    return world, questions


def frozen_lake(discount: float, policies: Mapping[str, Any], size: str = "4x4") -> Asked:
    """Gymnasium's FrozenLake, and the reward under some policies."""
    world = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1", map_name=size))
    return world, [gvfx.GVF(pi, gvfx.Reward(), discount, name=name) for name, pi in policies.items()]


def paper_setting(name: str) -> Asked:
    """A tabular setting of the paper."""
    return paper[name].world, list(paper[name].questions)


def careful_policies() -> dict[str, np.ndarray]:
    """The careful way over the ice, with more or less chance in it."""
    shares = {"careful": 0.05, "loose": 0.2, "loosest": 0.35}
    return {name: (1 - share) * CAREFUL + share / 4 for name, share in shares.items()}


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

CLASSES: dict[str, Callable[[int], Asked]] = {
    "current": drawn(
        current, lambda r: (int(r.integers(20, 51)), r.uniform(0.35, 0.5), r.uniform(0.02, 0.1), r.uniform(0.95, 0.98))
    ),
    "maze": maze,
    "deep sea": deep_sea,
    "lock": drawn_lock,
    "traps": drawn(traps, lambda r: (3 * int(r.integers(4, 10)), r.uniform(0.02, 0.06), r.uniform(0.95, 0.98))),
    "star": star,
    "gate": gate,
    "two arms": arms,
    "corridor": drawn(corridor, lambda r: (int(r.integers(30, 61)), r.uniform(0.02, 0.1), r.uniform(0.96, 0.98))),
    "door": drawn(door, lambda r: (int(r.integers(4, 7)), r.uniform(0.03, 0.1), r.uniform(0.95, 0.98))),
    "taxi": taxi,
}
