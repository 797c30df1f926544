"""The MDP estimated from data, with the same questions: whatever works on a known world then works on the estimate.

States are table rows.  Transitions are smoothed (`smoothing`), so that an action never tried does what the row's actions did
on average.  A row in which nothing was tried is terminal, has value 0 and is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import RowOutcomes, smoothed
from gvfx.questions.cumulants import Cumulant, OutcomeTables
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import as_policy
from gvfx.theory.flow import ENDLESS
from gvfx.worlds.mdp import MDP

ALMOST_NONE = 1e-9  # prior visits: an average is used only for outcomes without data


def estimated(data: Empirical, prior: float = 1.0) -> tuple[MDP, list[GVF]]:
    """The estimated MDP over table rows, and the questions as questions about it; `prior` as in `smoothing`."""
    world, asked, e = data.world, data.asked, data.evidence
    seen = RowOutcomes.of(data)
    counts = seen.per_successor(seen.n)
    acted = counts.sum(axis=(1, 2)) > 0
    prob = smoothed(counts, counts.sum(axis=2, keepdims=True), prior)
    prob[~acted, :, 0] = 1.0
    starts = np.bincount(world.feature, e.starts, seen.rows) * acted
    live = np.zeros(seen.rows, dtype=bool)
    live[world.feature[world.live]] = True
    model = MDP(seen.following, prob, starts / starts.sum(), ~acted, world.horizon, live & acted)

    paid = e.row.ravel()[seen.outcome]
    policies = _policies(data)
    questions = []
    for i, name in enumerate(asked.names):
        first = data.means[paid, i]
        mean = smoothed(seen.per_successor(seen.n * first), counts, ALMOST_NONE)
        square = smoothed(seen.per_successor(seen.n * (first**2 + data.spreads[paid, i])), counts, ALMOST_NONE)
        cumulant = _PerOutcome(mean, np.sqrt(np.maximum(square - mean**2, 0.0)))
        discount: Any = min(float(asked.gamma[0, i]), 1 - ENDLESS)  # an end that was not seen yet remains possible
        if asked.gamma_stride:
            share = seen.per_edge(data.discount(i, seen.outcome))[seen.edge]
            discount = _looked_up(dict(zip(zip(seen.row.tolist(), seen.next_row.tolist(), strict=True), share, strict=True)))
        questions.append(GVF(policies[i], cumulant, discount, float(data.weights[i]), name))
    return model, questions


def _policies(data: Empirical) -> list[Any]:
    """The questions' policies over table rows; equal policies are the same object."""
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
