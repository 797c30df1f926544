r"""Smoothing: every pair's data joined by some prior visits in which the action did what the row's actions did on average.

A pair with few visits looks free of noise, and a pair never tried has no data at all.  Both are given `prior` further
visits, spread over the outcomes of all actions of the same table row.  With totals $T(x,a)$ over $n(x,a)$ visits the estimate
per visit is

$$\frac{T(x,a) + p\,\bar T(x)}{n(x,a) + p},\qquad \bar T(x) = \frac{\sum_a T(x,a)}{\sum_a n(x,a)},$$

with $p$ the prior visits.  `smoothed` applies this to any totals, `smoothed_noise` to a variance, and `Smoothed` to the
whole estimated model as the error theory reads it.

The average action's variance has two parts, the noise within the actions and the differences between them.  The second keeps an
action from being taken at its word before it was tried often, and it hides the noise where actions differ much, as when an
illegal one costs 10: where pairs without chance are common (`determinism`), it is added fewer times than the first.

Shapes: table rows are states, or groups of them with state aggregation; pairs are (row, action).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.theory.flow import Model

PRIOR_VISITS = 1.0  # of the noise in standard errors
LEAST_CHANCE = 1e-3  # of a pair
COMMON = 4.0  # from the share 1 / COMMON of pairs without chance on, differences between actions are added once


def smoothed(total: np.ndarray, visits: np.ndarray, prior: float | np.ndarray) -> np.ndarray:
    """Totals per visit with the average over the row's actions added `prior` times; total and visits [row, action, ...]."""
    average = total.sum(axis=1, keepdims=True) / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    return (total + prior * average) / (visits + prior)


def smoothed_noise(mean: np.ndarray, noise: np.ndarray, own: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The variance of every pair's target [state, action, gvf] with one prior visit, from its mean, variance and visits n.

    Rare outcomes are often not seen at all, and without prior visits a pair would look more certain the less it has been
    tried.  Agresti and Coull add observations to a binomial proportion for the same reason.
    """
    total = np.maximum(n.sum(axis=1, keepdims=True), 1)
    centre = (n * mean).sum(axis=1, keepdims=True) / total
    around = (n * (noise + (mean - centre) ** 2)).sum(axis=1, keepdims=True) / total
    spread = n * PRIOR_VISITS / (n + PRIOR_VISITS) ** 2 * (mean - centre) ** 2
    return (n * own + PRIOR_VISITS * around) / (n + PRIOR_VISITS) + spread


@dataclass(frozen=True, eq=False)
class RowOutcomes:
    """The outcomes seen as flat lists over table rows: each leads from a (row, action) to a next row.

    A row's successors are the next rows that any of its actions led to; `slot` is an outcome's place among them.
    """

    rows: int
    actions: int
    outcome: np.ndarray  # [seen] place in the world's arrays
    n: np.ndarray  # [seen] times seen, as floats
    row: np.ndarray  # [seen]
    pair: np.ndarray  # [seen] row * actions + action
    arrived: np.ndarray  # [seen] next state
    next_row: np.ndarray  # [seen]
    edge: np.ndarray  # [seen] number of the distinct (row, next row)
    slot: np.ndarray  # [seen]
    width: int  # largest number of successors of a row

    @classmethod
    def of(cls, data: Empirical) -> RowOutcomes:
        """The outcomes of the data, those of aggregated states pooled by table row."""
        world, e = data.world, data.evidence
        rows, actions = world.rows, world.actions
        outcome = np.flatnonzero(e.counts)
        n = e.counts.ravel()[outcome].astype(float)
        state, action = np.divmod(outcome // world.successors, actions)
        arrived = world.next.ravel()[outcome]
        row, next_row = world.feature[state], world.feature[arrived]
        edges, edge = np.unique(row.astype(np.int64) * rows + next_row, return_inverse=True)
        owner = edges // rows
        place = np.arange(len(edges)) - np.searchsorted(owner, owner)
        slot, width = place[edge], int(place.max()) + 1
        return cls(rows, actions, outcome, n, row, row * actions + action, arrived, next_row, edge, slot, width)

    @cached_property
    def following(self) -> np.ndarray:
        """Successors of every pair, [row, action, slot]; those of a row are the same for all its actions."""
        out = np.zeros((self.rows, self.width), dtype=np.int64)
        out[self.row, self.slot] = self.next_row
        return np.repeat(out[:, None], self.actions, axis=1)

    def per_pair(self, amount: np.ndarray) -> np.ndarray:
        """Sums of an amount [seen] over the outcomes of every pair, [row, action]."""
        return np.bincount(self.pair, amount, self.rows * self.actions).reshape(self.rows, self.actions)

    def per_successor(self, amount: np.ndarray) -> np.ndarray:
        """Sums of an amount [seen] over the outcomes of every pair and successor, [row, action, slot]."""
        size = self.rows * self.actions * self.width
        return np.bincount(self.pair * self.width + self.slot, amount, size).reshape(self.rows, self.actions, self.width)

    def per_edge(self, amount: np.ndarray) -> np.ndarray:
        """Means of an amount [seen] over the visits of every distinct (row, next row), [edge]."""
        return np.bincount(self.edge, self.n * amount) / np.bincount(self.edge, self.n)


class Smoothed:
    """The estimated model over table rows with `prior` visits added to every pair, in the form that the error theory reads.

    model:   next, prob [row, action, slot], start and terminal [row].
    visits:  [row, action], without the prior ones.
    pi:      [1 or row, action, gvf];  gamma [1 or row * action * slot, gvf];  noise [row, action, gvf].
    weights: [gvf];  where: where errors count, over rows.

    A pair that is likely to have no chance in it gets fewer prior visits, and counts less in its row's average:
    chance [row, action] is the probability that it has some, and `share` that of a pair in this world.
    """

    def __init__(self, data: Empirical, prior: float, chance: np.ndarray | None = None, share: float = 1.0) -> None:
        world, asked, e = data.world, data.asked, data.evidence
        seen = RowOutcomes.of(data)
        rows, actions = seen.rows, seen.actions
        self.visits = n = seen.per_pair(seen.n)
        self._seen, self._prior = seen, prior
        self.chance = np.ones(n.shape) if chance is None else np.maximum(chance, LEAST_CHANCE)
        ends = np.ones(rows, dtype=bool)
        ends[world.feature[~world.terminal]] = False
        starts = np.bincount(world.feature, e.starts, rows)
        self.model = Model(seen.following, self._transitions(prior * self.chance), starts / starts.sum(), ends, world.horizon)

        self.weights = data.weights
        states_of = np.bincount(world.feature, minlength=rows)
        self.where = asked.where.on_rows(world)
        self.pi = asked.pi
        if asked.pi_stride:
            self.pi = np.zeros((rows, *asked.pi.shape[1:]))
            np.add.at(self.pi, world.feature, asked.pi)
            self.pi /= np.maximum(states_of, 1)[:, None, None]

        values, paid = data.values, e.row.ravel()[seen.outcome]
        self.noise = np.empty((rows, actions, len(values)))
        self.gamma = asked.gamma
        if asked.gamma_stride:
            self.gamma = np.zeros((rows * actions * seen.width, len(values)))
        between = prior ** max(0.0, 1 - COMMON * (1 - share)) * self.chance
        for i, v in enumerate(values):
            discount = data.discount(i, seen.outcome)
            target = data.means[paid, i] + discount * v[seen.arrived]
            first, second = (seen.per_pair(seen.n * x) for x in (target, target**2 + data.spreads[paid, i]))
            self.noise[:, :, i] = self._noise(first, second, prior * self.chance, between)
            if asked.gamma_stride:  # the mean discount between two rows, whatever the action
                apart = np.zeros((rows, seen.width))
                apart[seen.row, seen.slot] = seen.per_edge(discount)[seen.edge]
                self.gamma[:, i] = np.repeat(apart[:, None], actions, axis=1).ravel()
        self.gamma = np.minimum(self.gamma, 1 - self.model.restart)  # termination not seen yet remains possible

    def _average(self, total: np.ndarray) -> np.ndarray:
        """The mean per visit over the row's actions, [row, 1, ...], from totals [row, action, ...]."""
        weight = self.chance.reshape(*self.chance.shape, *(1,) * (total.ndim - 2))
        visits = self.visits.reshape(weight.shape)
        below = (weight * visits).sum(axis=1, keepdims=True)
        return (weight * total).sum(axis=1, keepdims=True) / np.where(below > 0, below, 1.0)

    def _transitions(self, prior: np.ndarray) -> np.ndarray:
        """Transition probabilities with `prior` [row, action] visits of the average action, [row, action, slot]."""
        total = self._seen.per_successor(self._seen.n)
        return (total + prior[:, :, None] * self._average(total)) / (self.visits + prior)[:, :, None]

    def _noise(self, first: np.ndarray, second: np.ndarray, within: np.ndarray, between: np.ndarray) -> np.ndarray:
        """The variance of the targets [row, action] from their totals and those of their squares.

        within, between: how often the average noise of the row's actions, and the differences between them, are added.
        """
        n = self.visits
        mean = first / np.maximum(n, 1)
        own = np.maximum(second - n * mean**2, 0.0)  # a total
        centre = self._average(first)
        apart = self._average(n * (mean - centre) ** 2)
        noise = (own + within * self._average(own)) / (n + within)
        return noise + between * apart / (n + between) + n * between / (n + between) ** 2 * (mean - centre) ** 2

    def joined_by(self, prior: float) -> Model:
        """The model with another number of prior visits."""
        return self.model._replace(prob=self._transitions(prior * self.chance))

    def routes(self) -> Model:
        """The model with every pair's visits filled up to the prior number, instead of added to: for ways that are well known."""
        missing = np.maximum(self._prior - self.visits, LEAST_CHANCE) * self.chance
        return self.model._replace(prob=self._transitions(missing))
