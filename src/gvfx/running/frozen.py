"""Answers as they were before an audit: tables, linear features and networks, evaluated in plain NumPy.

For Discrete actions V is the sum of pi Q, without rounding between the two: the scores of audits are unbiased because of that.
For Box actions V is a mean over fresh draws from the policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gvfx.evidence.audits import surprises
from gvfx.evidence.counts import Empirical

DRAWS = 32  # of actions for V, with Box actions
MOST = 20_000  # transitions whose temporal-difference errors are computed


class Frozen(ABC):
    """Answers that do not change; `surprise` and `common` [gvf] are those of `gvfx.evidence.audits.surprises`, so far."""

    surprise: np.ndarray
    common: np.ndarray

    @abstractmethod
    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """V under a distinct policy at what a stream noted, [n, gvf], and Q of the actions in the first of them, if given."""

    def errors(self, found: np.ndarray, times: np.ndarray | None = None) -> None:
        """Set the surprises from temporal-difference errors [n, gvf] and how often they occurred."""
        self.surprise, self.common = surprises(found, times)


class FrozenTable(Frozen):
    """A table; a stream notes states."""

    def __init__(self, q: np.ndarray, pi: Sequence[np.ndarray]) -> None:
        """q [state, action, gvf]; pi: every distinct policy, [state, action]."""
        self.q, self.pi = q, pi
        self.surprise, self.common = np.zeros(q.shape[2]), np.ones(q.shape[2])

    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        q = self.q[np.array(seen)]
        return _both(q, self.pi[policy][np.array(seen)], actions)


def frozen_table(known: Empirical, values: np.ndarray, policies: Sequence[np.ndarray]) -> FrozenTable:
    """Answers in tables, from values [gvf, state] and the model's outcomes; where nothing was tried, Q is V."""
    q = action_values(known, values)
    seen, states = known.seen, len(policies[0])
    arrived, row = known.world.next.ravel()[seen.outcome], known.evidence.row.ravel()[seen.outcome]
    targets = [known.means[row, i] + known.discounts(i) * v[arrived] for i, v in enumerate(values)]
    frozen = FrozenTable(q[:states], policies)
    times = known.evidence.counts.ravel()[seen.outcome]
    frozen.errors(np.stack(targets, axis=1) - q.reshape(-1, q.shape[2])[seen.pair], times)
    return frozen


def action_values(known: Empirical, values: np.ndarray) -> np.ndarray:
    """Q [state, action, gvf] of values [gvf, state] in the model; where nothing was tried, Q is V."""
    return np.where(known.tried[:, :, None], known.moments(values)[0], values.T[:, None])


class FrozenActions(Frozen):
    """A function of observations for Discrete actions; a stream notes an observation [o] and the policies there
    [action, policy]."""

    def __init__(self, action_values: Callable[[np.ndarray], np.ndarray], gvfs: int) -> None:
        """action_values: Q [n, action, gvf] of observations [n, o]."""
        self.action_values = action_values
        self.surprise, self.common = np.zeros(gvfs), np.ones(gvfs)

    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        q = self.action_values(np.array([vector for vector, _ in seen]))
        pi = np.array([each[:, policy] for _, each in seen], float)
        return _both(q, pi / pi.sum(axis=1, keepdims=True), actions)


class FrozenCritics(Frozen):
    """A function of observations and Box actions; a stream notes an observation [o] and the policies' middles there
    [policy, a]."""

    def __init__(self, values: Callable[[np.ndarray, np.ndarray], np.ndarray], spreads: np.ndarray, gvfs: int) -> None:
        """values: Q [..., gvf] of observations [..., o] and actions [..., a]; spreads [policy, a]."""
        self.values, self.spreads = values, spreads
        self.surprise, self.common = np.zeros(gvfs), np.ones(gvfs)

    def at(
        self, policy: int, seen: Sequence[Any], actions: Sequence[Any] | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
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
    total = np.cumsum(pi)
    return int(np.searchsorted(total, rng.random() * total[-1], side="right"))


def drawn_actions(middles: np.ndarray, spread: np.ndarray, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Actions of a Gaussian policy within [-1, 1], float32."""
    return (middles + spread * rng.standard_normal(shape)).clip(-1, 1).astype(np.float32)


def _both(q: np.ndarray, pi: np.ndarray, actions: Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """V [n, gvf] from Q [n, action, gvf] and pi [n, action], and Q of the actions taken in the first rows."""
    v = np.einsum("nai,na->ni", q, pi)
    return v, q[np.arange(len(actions)), np.array(actions)] if actions else np.empty((0, v.shape[1]))
