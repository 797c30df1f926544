"""The world that the data describe, as a world: what answers questions about a known one then answers them about it.

States are table rows.  The transitions of a pair are joined by `prior` visits in which the action did what the row's actions
did on average, so that an action never tried does that.  A row in which nothing was tried ends the episode, is worth 0 and
does not count in errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.questions.cumulants import Cumulant, OutcomeTables
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import as_policy
from gvfx.worlds.mdp import MDP


def estimated(data: Empirical, prior: float = 1.0) -> tuple[MDP, list[GVF]]:
    """The estimated world over table rows, and the same questions about it."""
    world, asked, e = data.world, data.asked, data.evidence
    rows, actions = world.rows, world.actions
    outcome = np.flatnonzero(e.counts)
    n = e.counts.ravel()[outcome].astype(float)
    state, action = np.divmod(outcome // world.successors, actions)
    row, arrived = world.feature[state], world.feature[world.next.ravel()[outcome]]
    edge, slot, width = slots(row, arrived, rows)
    shape = (rows, actions, width)

    def total(amount: np.ndarray) -> np.ndarray:
        return np.bincount((row * actions + action) * width + slot, amount, rows * actions * width).reshape(shape)

    seen = total(n)
    acted = seen.sum(axis=(1, 2)) > 0
    prob = _joined(seen, seen.sum(axis=2, keepdims=True), prior)
    prob[~acted, :, 0] = 1.0
    following = np.zeros((rows, width), dtype=np.int64)
    following[row, slot] = arrived
    starts = np.bincount(world.feature, e.starts, rows) * acted
    live = np.zeros(rows, dtype=bool)
    live[world.feature[world.live]] = True
    model = MDP(np.repeat(following[:, None], actions, axis=1), prob, starts / starts.sum(), ~acted, world.horizon, live & acted)

    paid = e.row.ravel()[outcome]
    policies = _policies(data)
    questions = []
    for i, name in enumerate(asked.names):
        first = data.means[paid, i]
        mean = _joined(total(n * first), seen, 1e-9)
        square = _joined(total(n * (first**2 + data.spreads[paid, i])), seen, 1e-9)
        cumulant = _PerOutcome(mean, np.sqrt(np.maximum(square - mean**2, 0.0)))
        discount: Any = float(asked.gamma[0, i])
        if asked.gamma_stride:
            share = np.bincount(edge, n * data.discount(i, outcome)) / np.bincount(edge, n)
            discount = _looked_up(dict(zip(zip(row.tolist(), arrived.tolist(), strict=True), share[edge], strict=True)))
        questions.append(GVF(policies[i], cumulant, discount, float(data.weights[i]), name))
    return model, questions


def slots(row: np.ndarray, arrived: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Every distinct (row, next row) numbered, its place among the row's successors, and the largest number of those."""
    edges, edge = np.unique(row.astype(np.int64) * rows + arrived, return_inverse=True)
    owner = edges // rows
    place = np.arange(len(edges)) - np.searchsorted(owner, owner)
    return edge, place[edge], int(place.max()) + 1


def _joined(total: np.ndarray, visits: np.ndarray, prior: float) -> np.ndarray:
    """Totals per visit, [row, action, successor], the average over the row's actions added `prior` times."""
    average = total.sum(axis=1, keepdims=True) / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    return (total + prior * average) / (visits + prior)


def _policies(data: Empirical) -> list[Any]:
    """The questions' policies over table rows; equal ones are one object."""
    asked, world = data.asked, data.world
    pi = asked.pi
    if asked.pi_stride and world.features is not None:
        pi = np.full((world.rows, *pi.shape[1:]), 1 / world.actions)
        pi[world.feature] = 0.0
        np.add.at(pi, world.feature, asked.pi)
        pi /= pi.sum(axis=1, keepdims=True)
    made: dict[bytes, Any] = {}
    tables = [np.ascontiguousarray(pi[:, :, i]) for i in range(pi.shape[2])]
    return [made.setdefault(t.tobytes(), as_policy(t if asked.pi_stride else t[0])) for t in tables]


def _looked_up(table: Mapping[tuple[int, int], float]) -> Callable[[int, int, int], float]:
    return lambda row, action, arrived: float(table.get((row, arrived), 0.0))


@dataclass(frozen=True, eq=False)
class _PerOutcome(Cumulant):
    """Mean and standard deviation of every outcome, [row, action, successor]."""

    mean: np.ndarray
    sd: np.ndarray

    def tables(self, world: Any) -> OutcomeTables:
        return OutcomeTables(self.mean, self.sd, np.zeros((1, 1, 1)))
