"""Plain versions of linear learning: features and cells from their definitions, dense systems, one transition at a time."""

from __future__ import annotations

import numpy as np

from gvfx.evidence.transitions import Transitions


def plain_hats(points, low, high, side):
    """Lattice features [n, side^d] from the definition: products of hats, one per axis."""
    at = (np.clip(points, low, high) - low) / (high - low) * (side - 1)
    out = np.ones((len(points), 1))
    for k in range(points.shape[1]):
        hats = np.maximum(1 - np.abs(at[:, k, None] - np.arange(side)), 0)
        out = (out[:, :, None] * hats[:, None, :]).reshape(len(points), -1)
    return out


def plain_cell(cells, observation):
    """The cell of one observation."""
    z = cells.scaling(np.asarray(observation, float)[None])[0]
    if not cells.side:
        return int(((z - cells.centres) ** 2).sum(axis=1).argmin())
    out = 0
    for k in range(len(z)):
        share = (z[k] - cells.low[k]) / (cells.high[k] - cells.low[k])
        out = out * cells.side + min(max(int(np.floor(share * cells.side)), 0), cells.side - 1)
    return out


def some_transitions(n=400, inputs=2, actions=3, gvfs=3, seed=0, constant=False, end=0.05):
    """Random transitions of a smooth world: noisy steps in directions that depend on the action, episodes of up to 40."""
    rng = np.random.default_rng(seed)
    moves = 0.3 * rng.normal(size=(actions, inputs))
    observation, following = np.zeros((2, n, inputs), np.float32)
    action = rng.integers(0, actions, n)
    episode, first, ends = np.zeros(n, np.int64), np.zeros(n, bool), rng.random(n) < end
    age = 40
    for t in range(n):
        over = t == 0 or ends[t - 1] or age >= 40
        age = 0 if over else age + 1
        first[t], episode[t] = over, episode[t - 1] + over if t else 0
        observation[t] = rng.uniform(-1, 1, inputs) if over else following[t - 1]
        following[t] = np.clip(observation[t] + moves[action[t]] + 0.05 * rng.normal(size=inputs), -1, 1)
    cumulant = np.stack([following[:, 0] ** 2, rng.normal(size=n), np.ones(n)], axis=1)[:, :gvfs]
    discount = np.where(ends[:, None], 0.0, [0.9, 0.9, 0.5][:gvfs])
    logits = np.stack([following @ rng.normal(size=(inputs, actions)) for _ in range(2)], axis=-1)
    pi = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    pi = pi[:1] if constant else pi
    return Transitions(observation, action, following, cumulant, discount, episode, first, ends, pi, np.array([0, 1, 0])[:gvfs])


def plain_sums(data, here, after):
    """Gram [action], cross [group, action, next action] and paid [action] of `least_squares.Sums`, one transition at a time."""
    size, actions = here.shape[1], data.actions
    gram, paid = np.zeros((actions, size, size)), np.zeros((actions, size, data.gvfs))
    cross = np.zeros((len(data.groups), actions, actions, size, size))
    for t in range(len(data)):
        a, pi = data.action[t], data.pi[t if len(data.pi) > 1 else 0]
        gram[a] += np.outer(here[t], here[t])
        paid[a] += np.outer(here[t], data.cumulant[t])
        for g, members in enumerate(data.groups):
            for b in range(actions):
                weight = data.discount[t, members[0]] * pi[b, data.member[members[0]]]
                cross[g, a, b] += weight * np.outer(here[t], after[t])
    return gram, cross, paid


def plain_weights(data, here, after, prior):
    """The weights [action, size, gvf] of (L1), one dense system per question."""
    n, size = here.shape
    actions = data.actions
    own, mean = np.zeros((2, n, actions, size))
    out = np.empty((actions * size, data.gvfs))
    for i in range(data.gvfs):
        for t in range(n):
            own[t, data.action[t]] = here[t]
            pi = data.pi[t if len(data.pi) > 1 else 0, :, data.member[i]]
            mean[t] = pi[:, None] * after[t]
        left, right = own.reshape(n, -1), mean.reshape(n, -1) * data.discount[:, i, None]
        out[:, i] = np.linalg.solve(left.T @ (left - right) + prior, left.T @ data.cumulant[:, i])
    return out.reshape(actions, size, data.gvfs)
