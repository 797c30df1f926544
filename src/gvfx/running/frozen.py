"""Answers as they were before an audit: tables, linear features and networks, evaluated in plain NumPy.

For Discrete actions V is the sum of pi Q, without rounding between the two: the scores of audits are unbiased because of that.
For Box actions V is a mean over fresh draws from the policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from gvfx.evidence.counts import Empirical

DRAWS = 32  # of actions for V, with Box actions
MOST = 20_000  # transitions whose temporal-difference errors are computed
NEAR = 32  # of them count as near a state


class Frozen(ABC):
    """Answers that do not change."""

    surprise: np.ndarray  # [gvf] mean squared temporal-difference error on the data so far
    draws: bool = False  # whether V is a mean over random draws, which need a generator

    @abstractmethod
    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """V under a distinct policy at what a stream noted, [n, gvf], and Q of the actions in the first of them, if given."""

    @abstractmethod
    def implied(self, seen: Sequence[Any], actions: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Mean squared temporal-difference errors of the data so far where a stream noted something, and mean fourth powers,
        [n, gvf] each."""


class FrozenTable(Frozen):
    """A table; a stream notes states."""

    def __init__(self, q: np.ndarray, pi: Sequence[np.ndarray], surprise: np.ndarray, powers: np.ndarray) -> None:
        """q [state, action, gvf]; pi: every distinct policy, [state, action]; powers [2, state, action, gvf]: mean squared
        temporal-difference errors, and mean fourth powers."""
        self.q, self.pi, self.surprise, self.powers = q, pi, surprise, powers

    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        q = self.q[np.array(seen)]
        return _both(q, self.pi[policy][np.array(seen)], actions)

    def implied(self, seen: Sequence[Any], actions: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        second, fourth = self.powers[:, np.array(seen), np.array(actions)]
        return second, fourth


def frozen_table(known: Empirical, values: np.ndarray, policies: Sequence[np.ndarray]) -> FrozenTable:
    """Answers in tables, from values [gvf, state] and the model's outcomes; where nothing was tried, Q is V."""
    q = action_values(known, values)
    seen, states = known.seen, len(policies[0])
    arrived, row = known.world.next.ravel()[seen.outcome], known.evidence.row.ravel()[seen.outcome]
    targets = [known.means[row, i] + known.discounts(i) * v[arrived] for i, v in enumerate(values)]
    errors = np.stack(targets, axis=1) - q.reshape(-1, q.shape[2])[seen.pair]
    times = known.evidence.counts.ravel()[seen.outcome].astype(float)
    sums, often = np.zeros((2, q[:, :, 0].size, q.shape[2])), np.zeros(q[:, :, 0].size)
    np.add.at(often, seen.pair, times)
    noise = known.spreads[row]  # one transition may carry all of an outcome's
    second, fourth = errors**2 + noise, errors**4 + 6 * errors**2 * noise + times[:, None] * noise**2
    for total, power in zip(sums, (second, fourth), strict=True):
        np.add.at(total, seen.pair, times[:, None] * power)
    means = (sums / np.maximum(often, 1.0)[:, None]).reshape(2, *q.shape)
    return FrozenTable(q[:states], policies, sums[0].sum(axis=0) / max(1.0, times.sum()), means[:, :states])


def action_values(known: Empirical, values: np.ndarray) -> np.ndarray:
    """Q [state, action, gvf] of values [gvf, state] in the model; where nothing was tried, Q is V."""
    return np.where(known.tried[:, :, None], known.moments(values)[0], values.T[:, None])


class Nearby:
    """Temporal-difference errors of transitions by the observations [n, o] in which they began."""

    def __init__(self, observations: np.ndarray, errors: np.ndarray) -> None:
        """errors [n, gvf]."""
        self.centre, self.unit = observations.mean(axis=0), observations.std(axis=0) + 1e-9
        self.tree = KDTree(self._scaled(observations))
        self.near = min(NEAR, len(observations))
        self.second, self.fourth = errors**2, errors**4

    def _scaled(self, observations: np.ndarray) -> np.ndarray:
        return (observations - self.centre) / self.unit

    @property
    def surprise(self) -> np.ndarray:
        return self.second.mean(axis=0)

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares and fourth powers of the nearest errors, [n, gvf] each."""
        rows = self.tree.query(self._scaled(observations), np.arange(1, self.near + 1))[1]
        return self.second[rows].mean(axis=1), self.fourth[rows].mean(axis=1)


class FrozenFunction(Frozen):
    """Answers by a function of observations; a stream notes an observation [o] and something about the policies there."""

    def __init__(self, nearby: Nearby) -> None:
        self.nearby, self.surprise = nearby, nearby.surprise

    def implied(self, seen: Sequence[Any], actions: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        return self.nearby(np.array([vector for vector, _ in seen]))


class FrozenActions(FrozenFunction):
    """A function of observations for Discrete actions; a stream notes the policies [action, policy]."""

    def __init__(self, action_values: Callable[[np.ndarray], np.ndarray], nearby: Nearby) -> None:
        """action_values: Q [n, action, gvf] of observations [n, o]."""
        super().__init__(nearby)
        self.action_values = action_values

    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        q = self.action_values(np.array([vector for vector, _ in seen]))
        pi = np.array([each[:, policy] for _, each in seen], float)
        return _both(q, pi / pi.sum(axis=1, keepdims=True), actions)


class FrozenCritics(FrozenFunction):
    """A function of observations and Box actions; a stream notes the policies' middles [policy, a]."""

    draws = True

    def __init__(self, values: Callable[[np.ndarray, np.ndarray], np.ndarray], spreads: np.ndarray, nearby: Nearby) -> None:
        """values: Q [..., gvf] of observations [..., o] and actions [..., a]; spreads [policy, a]."""
        super().__init__(nearby)
        self.values, self.spreads = values, spreads

    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        assert rng is not None
        vectors = np.array([vector for vector, _ in seen])
        middles = np.array([each[policy] for _, each in seen])
        drawn = drawn_actions(middles[:, None], self.spreads[policy], rng, (len(seen), DRAWS, middles.shape[1]))
        around = np.broadcast_to(vectors[:, None], (*drawn.shape[:2], vectors.shape[1]))
        v = self.values(around, drawn).mean(axis=1)
        return v, self.values(vectors[: len(actions)], np.array(actions)) if actions else np.empty((0, v.shape[1]))


def layers(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], frequencies: np.ndarray) -> Callable[..., np.ndarray]:
    """The network `gvfx.learners.networks.heads.Heads` of these layers, outputs [..., output] of scaled inputs [..., input]."""

    def network(x: np.ndarray) -> np.ndarray:
        if frequencies.shape[1]:
            turns = x @ frequencies
            waves = [4 * np.abs(t - np.floor(t) - 0.5) - 1 for t in (turns, turns + 0.25)]
            x = np.concatenate([x, *waves], axis=-1)
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            x = np.maximum(x @ w + b, 0.0)
        return np.asarray(x @ weights[-1] + biases[-1], float)

    return network


def recent(rows: np.ndarray) -> np.ndarray:
    """At most `MOST` transitions, evenly spaced among those that are kept."""
    return rows[:: max(1, -(-len(rows) // MOST))]


def drawn_action(pi: np.ndarray, rng: np.random.Generator) -> int:
    """An action drawn from probabilities [action]."""
    total = list(accumulate(pi.tolist()))
    return bisect_right(total, rng.random() * total[-1])


def drawn_actions(middles: np.ndarray, spread: np.ndarray, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Actions of a Gaussian policy within [-1, 1], float32."""
    return (middles + spread * rng.standard_normal(shape)).clip(-1, 1).astype(np.float32)


def _both(q: np.ndarray, pi: np.ndarray, actions: Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """V [n, gvf] from Q [n, action, gvf] and pi [n, action], and Q of the actions taken in the first rows."""
    v = np.einsum("nai,na->ni", q, pi)
    return v, q[np.arange(len(actions)), np.array(actions)] if actions else np.empty((0, v.shape[1]))
