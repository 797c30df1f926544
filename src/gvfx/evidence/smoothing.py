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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from gvfx.evidence.counts import Empirical
from gvfx.evidence.unseen import RARELY
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import as_policy
from gvfx.questions.signals import Cumulant, OutcomeTables
from gvfx.theory.importance import ENDLESS, Model
from gvfx.worlds.mdp import MDP

# --- Pairs without chance: how likely it is that an action always does the same in a state --------------------------
# Where most pairs have no chance in them, as in a taxi that picks up or does not, one try settles a pair, and a plan that treats
# it like the noisy ones wastes its steps.  A pair that has shown one outcome in n tries either has no chance in it, or it has and
# was lucky:
#
# $$P(\text{no chance}\mid n) = \frac{q}{q + (1-q)\,s(n)},$$
#
# with s(n) the chance that a pair with several outcomes shows only one in n tries, the mean over the pairs that have shown
# several (keep a random n of their tries: rarefaction), but at least 1 / (n + 1), as if its second outcome could have any
# probability; and q the share of pairs without chance among the others of the same action that were tried so often that s(n) is
# below `TELLING`.  A few imaginary pairs (`ALIKE`) pull an action's share to that of all actions, and others with chance
# (`CAUTION`) join all.  Where every pair has chance in it, q is 0 and nothing changes.  A pair that never left a state which
# others seldom leave is not among them: it may only hold.

TELLING = 0.1  # largest s(n) of pairs that say how many have no chance in them
CAUTION, ALIKE = 5.0, 2.0  # imaginary pairs: with chance, and like those of all actions
EXACT = 1e-12  # largest variance of a target, in units of the largest squared value, that counts as 0
FINE, COARSE = 32, 1.25  # s is computed at every n up to FINE, then at multiples of COARSE


class Determinism(NamedTuple):
    """How likely every pair has no chance in it [state, action], and the share of such pairs in the world."""

    sure: np.ndarray
    share: float


def determinism(data: Empirical) -> Determinism:
    """What the data say about pairs without chance."""
    world, seen = data.world, data.seen
    n = data.visits.ravel().astype(float)
    spread = data.noise(data.values).max(axis=2).ravel()
    one = (np.bincount(seen.pair, minlength=n.size) == 1) & (spread <= EXACT * max(1.0, float(np.abs(data.values).max()) ** 2))
    several = (n > 0) & ~one
    one &= ~_holding(data)
    at = several[seen.pair]
    tries, single = shows_one(seen.pair[at], data.evidence.counts.ravel()[seen.outcome[at]].astype(float), n[seen.pair[at]])
    lucky = np.where(n > 0, single[np.searchsorted(tries, np.maximum(n, 1), side="right") - 1], 1.0)
    lucky = np.maximum(lucky, 1 / (n + 1))
    telling = (n > 0) & (lucky < TELLING)
    share = float((one & telling).sum() / (telling.sum() + CAUTION))
    if share == 0:
        return Determinism(np.zeros(data.visits.shape), 0.0)
    action = np.tile(np.arange(world.actions), world.states)
    asked, found = (np.bincount(action[which], minlength=world.actions) for which in (telling, telling & one))
    itself = (telling & one).astype(float)
    own = (found[action] - itself + ALIKE * share) / (asked[action] - telling + ALIKE)
    sure = np.where(one, own / (own + (1 - own) * lucky), 0.0)
    return Determinism(sure.reshape(data.visits.shape), float(sure[n > 0].mean()))


def _holding(data: Empirical) -> np.ndarray:
    """Whether a pair never left its state, and those that did left it seldom, or none did, [pair] bool."""
    n = data.visits.astype(float)
    left = data.seen.left(n)
    tried = np.where(left > 0, n, 0.0).sum(axis=1, keepdims=True)
    seldom = left.sum(axis=1, keepdims=True) < RARELY * np.maximum(tried, 1)
    return ((left == 0) & (n > 0) & seldom).ravel()


def shows_one(pair: np.ndarray, count: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of tries n from 1, increasing, and the chance s(n) that a pair shows one outcome only in n tries.

    pair, count, total: an outcome's pair, how often it was seen, and how often its pair was tried, [outcome]
    """
    most = int(total.max(initial=1.0))
    coarse = np.unique((FINE * COARSE ** np.arange(80)).astype(np.int64))
    tries = np.concatenate([np.arange(1, FINE), coarse[coarse <= max(most, FINE)]])
    chances = np.ones(len(tries))
    log_total, log_count = gammaln(total + 1), gammaln(count + 1)
    for k, j in enumerate(tries):
        pairs = np.unique(pair[total >= j]).size
        if not pairs:
            chances[k:] = chances[k - 1] if k else 1.0
            break
        at = count >= j
        chance = log_count[at] - gammaln(count[at] - j + 1) - log_total[at] + gammaln(total[at] - j + 1)
        chances[k] = np.exp(chance).sum() / pairs
    return tries, np.minimum.accumulate(chances)


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


# --- The MDP estimated from data, with the same questions: whatever works on a known world then works on the estimate
# States are table rows.  Transitions are smoothed, so that an action never tried does what the row's actions did
# on average.  A row in which nothing was tried is terminal, has value 0 and is not evaluated.

ALMOST_NONE = 1e-9  # prior visits: an average is used only for outcomes without data


def estimated(data: Empirical, prior: float = 1.0) -> tuple[MDP, list[GVF]]:
    """The estimated MDP over table rows, and the questions as questions about it; `prior` visits are added to every pair."""
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
        return OutcomeTables(self.mean, self.sd)
