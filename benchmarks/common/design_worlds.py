"""Worlds that are hard for the solver of the best design: many G = 0, absorbing parts, deterministic policies, ties, horizons.

Each maker returns a model and the importance G [state, action] of its pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

import gvfx
from benchmarks.common.worlds import HARD
from benchmarks.study import Asked
from gvfx.theory.importance import Model, importance_of, reached_in_time

Designed = tuple[Model, np.ndarray]


def double_chain(half: int, seed: int, horizon: int | None, forward: float = 0.7) -> Designed:
    """Two arms of a chain, entered from state 0, each paid at its end; three deterministic policies with random choices."""
    rng = np.random.default_rng(seed)
    states = 2 * half + 1
    P = np.zeros((states, 2, states))
    P[0, 0, 1], P[0, 1, half + 1] = 1, 1
    for first in (1, half + 1):
        for s in range(first, first + half):
            P[s, 0, min(s + 1, first + half - 1)] += forward
            P[s, 0, s] += 1 - forward
            P[s, 1, s - 1 if s > first else 0] += 1
    paid = np.zeros((states, 2))
    paid[half, 0], paid[2 * half, 0] = 0.5, 1.0
    world = gvfx.MDP.from_matrix(P, start=np.eye(states)[0], horizon=horizon)
    policies = [np.eye(2)[rng.integers(2, size=states)] for _ in range(3)]
    return _important((world, [gvfx.GVF(pi, gvfx.table_cumulant(paid), 0.9) for pi in policies]))


def sparse_random(seed: int, states: int, actions: int, horizon: int | None, needed: float = 0.3) -> Designed:
    """Random dynamics with two successors a pair and an end; a share `needed` of the pairs has G > 0, over four decades."""
    rng = np.random.default_rng(seed)
    following = rng.integers(states, size=(states, actions, 2))
    prob = rng.dirichlet(np.ones(2), size=(states, actions))
    need = 10 ** rng.uniform(-4, 0, (states, actions)) * (rng.random((states, actions)) < needed)
    need[0, 0] = 1.0
    model = Model(following, prob, np.eye(states)[0], np.arange(states) == states - 1, horizon)
    return model, np.where(reached_in_time(model)[:, None], need, 0.0)


def one_way(rooms: int, size: int, horizon: int | None, seed: int = 0) -> Designed:
    """Rooms that are left for good: one action of their last state leads on, and the last room is never left."""
    rng = np.random.default_rng(seed)
    states = rooms * size
    following = np.empty((states, 2, 2), int)
    for s in range(states):
        following[s] = s // size * size + rng.integers(size, size=(2, 2))
        following[s, 0, 0] = s // size * size + (s + 1) % size
        if s % size == size - 1 and s + 1 < states:
            following[s, 1] = s + 1
    need = rng.uniform(0, 1, (states, 2)) * (rng.random((states, 2)) < 0.5)
    need[[0, -1]] = 1.0
    return Model(following, np.full(following.shape, 0.5), np.eye(states)[0], np.zeros(states, bool), horizon), need


def line(states: int, horizon: int | None, needed: Sequence[tuple[int, int]], ends: bool = False) -> Designed:
    """A deterministic line from its left end, left or right; only the pairs `needed` have G = 1.  `ends`: the right end ends."""
    following = np.stack([np.maximum(np.arange(states) - 1, 0), np.minimum(np.arange(states) + 1, states - 1)], axis=1)
    need = np.zeros((states, 2))
    need[tuple(np.transpose(needed))] = 1.0
    terminal = np.arange(states) == (states - 1 if ends else -1)
    return Model(following[:, :, None], np.ones((states, 2, 1)), np.eye(states)[0], terminal, horizon), need


def tree(depth: int, horizon: int | None) -> Designed:
    """A binary tree with the same G at all its leaves, which lead back to the root: every way is as good."""
    states = 2 ** (depth + 1) - 1
    inner = 2**depth - 1
    following = np.zeros((states, 2, 1), int)
    following[:inner, :, 0] = 2 * np.arange(inner)[:, None] + [1, 2]
    need = np.repeat(np.arange(states) >= inner, 2).reshape(states, 2).astype(float)
    return Model(following, np.ones(following.shape), np.eye(states)[0], np.zeros(states, bool), horizon), need


def bandits(states: int, horizon: int | None, seed: int = 0) -> Designed:
    """Every action ends the episode at once; some pairs have G = 0."""
    rng = np.random.default_rng(seed)
    need = np.append(rng.uniform(0, 1, (states, 3)) * (rng.random((states, 3)) < 0.7), np.zeros((1, 3)), axis=0)
    start = np.append(rng.dirichlet(np.ones(states)), 0.0)
    following = np.full((states + 1, 3, 1), states)
    return Model(following, np.ones(following.shape), start, np.arange(states + 1) == states, horizon), need


def holes(seed: int, states: int, horizon: int) -> Designed:
    """An estimate in which the outcomes of some pairs are missing: their rows of probabilities are 0."""
    model, need = sparse_random(seed, states, 2, horizon, 0.6)
    known = np.random.default_rng(seed).random((states, 2, 1)) < 0.7
    known[0] = True
    model = model._replace(prob=model.prob * known)
    return model, np.where(reached_in_time(model)[:, None], need, 0.0)


def _hard(name: str) -> Designed:
    return _important(HARD[name]())


def _important(asked: Asked) -> Designed:
    return Model.of(asked[0]), importance_of(*asked)


DESIGNS: dict[str, Callable[[], Designed]] = {
    **{f"double chain {n}, horizon {h}": partial(double_chain, n, n, h) for n, h in ((8, None), (10, 60), (15, 1000))},
    "double chain 8, other policies": lambda: double_chain(8, 3, 100),
    **{
        f"random {seed}, horizon {h}": partial(sparse_random, seed, n, a, h)
        for seed, n, a, h in (
            *((0, 5, 2, 1), (1, 5, 3, 2), (2, 8, 2, 3), (3, 8, 3, 10), (4, 12, 2, 30)),
            *((5, 12, 3, 200), (6, 10, 2, None), (7, 20, 3, None)),
        )
    },
    **{f"one way, horizon {h}": partial(one_way, 3, 4, h) for h in (20, 100, 2000, None)},
    "line, both ends, horizon 12": lambda: line(10, 12, [(0, 0), (9, 1)]),
    "line, both ends, horizon 40": lambda: line(10, 40, [(0, 0), (9, 1)]),
    "line, both ends, horizon 5000": lambda: line(10, 5000, [(0, 0), (9, 1)]),
    "line, far end only": lambda: line(12, 30, [(11, 1)]),
    "line, just in time": lambda: line(10, 10, [(9, 1), (0, 0)]),
    "line with an end": lambda: line(8, 50, [(0, 0), (6, 1), (3, 0)], ends=True),
    "tree, horizon 8": lambda: tree(3, 8),
    "tree, no horizon": lambda: tree(3, None),
    "bandits, horizon 1": lambda: bandits(4, 1),
    "bandits, no horizon": lambda: bandits(4, None, 1),
    "holes": lambda: holes(8, 9, 15),
    "holes, two minima": lambda: holes(2006, 12, 4),
    "holes, a poor minimum": lambda: holes(2012, 10, 4),
    "two rooms, no horizon": lambda: one_way(2, 4, None, 103),
    "two other rooms, no horizon": lambda: one_way(2, 4, None, 115),
    "holes, long": lambda: holes(9, 9, 300),
    **{name: partial(_hard, name) for name in ("current of 6", "corridor of 30", "lock of 8")},
    **{name: partial(_hard, name) for name in ("door, 4 x 4", "traps, ring of 12")},
}
