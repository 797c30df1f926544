r"""Counts and cumulant sums of a stream of experience, and the model estimated from them.

A run keeps `Evidence`, the sufficient statistics of a finite MDP: how often each outcome (state, action, successor) was
seen, and the sum and sum of squares of the cumulants that it paid.  `Empirical` is the maximum-likelihood model,
$\hat P(s'|s,a) = n(s,a,s')/n(s,a)$ with the mean cumulants $\hat c$; its values,
$\hat V_i = (I-\hat P_{\pi_i}\gamma_i)^{-1}\hat c_{\pi_i}$, are those of the estimated world (certainty equivalence).

Where data are missing:

- an action never tried in a visited state is ignored: the target policy is renormalised over the tried actions, as if the
  untried one did what the tried ones do on average (without discounting, untried actions that carry more than half of the
  policy end the sum in part, so that answers are drawn towards 0 instead of exploding);
- a state in which nothing was tried has value 0, and so has a state from which the sum of future cumulants does not end
  in the data (a discount of 1 and no termination seen yet).

With state aggregation, counts are pooled over the states of a table row.  Outcomes that were never seen have count 0 and
are ignored, even if the world's arrays contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.kernel import piece
from gvfx.questions.gvf import Stacked
from gvfx.questions.where import Evaluation
from gvfx.theory.equations import converged_policies
from gvfx.theory.exact import ending, groups
from gvfx.worlds.mdp import MDP, TableRows

UNDISCOUNTED = 0.999  # discounts from which on a sum is as good as undiscounted
LEAST_TRIED = 0.5  # of such a question's policy; see `Empirical.policy`


class Evidence(NamedTuple):
    """Sufficient statistics of a stream; empty arrays if no behaviour or learner needs them."""

    counts: np.ndarray  # int64 [states * actions, successors]
    row: np.ndarray  # int32 [states * actions, successors]: the outcome's row in the sums, -1 where nothing is ever paid
    sums: np.ndarray  # [rows, gvf] of the cumulants
    squares: np.ndarray  # [rows, gvf]
    rates: np.ndarray  # [rate] smallest step sizes of running means, for drifting cumulants
    recent: np.ndarray  # [rate, rows, gvf] those running means
    missed: np.ndarray  # [rate, rows, gvf] sums of their squared errors in predicting the next cumulant
    starts: np.ndarray  # int64 [states] how often an episode started there
    found: np.ndarray  # int64 [states] 1 + the steps done when the state was first reached; 0: never


BY_ROW = {"sums": 0, "squares": 0, "recent": 1, "missed": 1}  # arrays with one entry per row, and the axis of the rows


def no_evidence(world: MDP, asked: Stacked, kept: bool, rates: Sequence[float] = ()) -> Evidence:
    """Evidence at the start of a run; without `kept` its arrays are empty and nothing is counted."""
    paying = (asked.pays >= 0) & (world.prob > 0)
    if not kept:
        paying = np.zeros((0, 1, 1), dtype=bool)
    shape = (paying.shape[0] * paying.shape[1], paying.shape[2])
    row = np.full(shape, -1, dtype=np.int32)
    row[paying.reshape(shape)] = np.arange(paying.sum())
    return _nothing(row, int(paying.sum()), len(asked.names), rates, world.states if kept else 0)


def _nothing(row: np.ndarray, rows: int, gvfs: int, rates: Sequence[float], states: int) -> Evidence:
    """Evidence of no steps, with the outcomes' rows in the sums."""
    sums, squares = np.zeros((2, rows, gvfs))
    recent, missed = np.zeros((2, len(rates), rows, gvfs))
    starts, found = np.zeros((2, states), np.int64)
    return Evidence(np.zeros(row.shape, np.int64), row, sums, squares, np.array(rates, float), recent, missed, starts, found)


@cache
def counting(gvfs: int) -> Callable[..., None]:
    """The compiled count(evidence, pair, k, c), which adds a transition to the pair's k-th successor that paid c [gvf]."""

    @piece
    def count(seen, pair, k, c):
        seen.counts[pair, k] += 1
        row = seen.row[pair, k]
        if row >= 0:
            n = seen.counts[pair, k]
            for i in range(gvfs):
                seen.sums[row, i] += c[i]
                seen.squares[row, i] += c[i] * c[i]
            for r in range(seen.rates.shape[0]):
                rate = max(1.0 / n, seen.rates[r])
                for i in range(gvfs):
                    miss = c[i] - seen.recent[r, row, i]
                    seen.recent[r, row, i] += rate * miss
                    if n > 1:
                        seen.missed[r, row, i] += miss * miss

    return count


@piece
def reach(seen, state, t):
    """Note that a state was reached when t steps were done, if it was never reached before."""
    if seen.found[state] == 0:
        seen.found[state] = t + 1


@dataclass(frozen=True, eq=False)
class Empirical:
    """The model estimated from the evidence so far.

    Only what an observer knows is read from the world (outcomes seen, which states are terminal, the horizon, where errors
    are evaluated) and from the questions (policies, discounts, weights).
    """

    world: MDP
    asked: Stacked
    evidence: Evidence
    closed: bool = True  # whether the world has no other states than `world`; not known of a log
    sampled_start: bool = False  # whether `world.start` is the share of episodes that started in each state

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each outcome was seen, [state, action, successor]."""
        return self.evidence.counts.reshape(self.world.next.shape)

    @cached_property
    def visits(self) -> np.ndarray:
        """n(s, a), [state, action]."""
        return self.counts.sum(axis=2)

    @cached_property
    def seen(self) -> Seen:
        """The outcomes seen as flat lists; with state aggregation every state has the outcomes of its whole row."""
        world = self.world
        outcome = np.flatnonzero(self.evidence.counts.ravel())
        n = self.evidence.counts.ravel()[outcome].astype(float)
        pair = outcome // world.successors
        prob = n / np.bincount(pair, n, world.states * world.actions)[pair] if world.features is None else n
        if world.features is not None:
            pair, outcome, prob = _expanded(world, outcome, n, pair)
        return Seen(pair, outcome, prob, pair // world.actions, world.next.ravel()[outcome], self.evidence.row.ravel()[outcome])

    @cached_property
    def tried(self) -> np.ndarray:
        """Whether an action was ever tried in a state (or in another state of its row), [state, action] bool."""
        tried = np.zeros(self.world.states * self.world.actions, dtype=bool)
        tried[self.seen.pair] = True
        return tried.reshape(self.world.states, self.world.actions)

    @cached_property
    def means(self) -> np.ndarray:
        """Mean cumulant of every paying outcome, [row + 1, gvf]; the last row is for outcomes that pay nothing."""
        e = self.evidence
        if not len(e.rates):
            return self._per_count(e.sums)
        best = e.missed.sum(axis=1).argmin(axis=0)  # the rate that predicted each GVF's cumulants best
        gvfs = np.arange(len(best))
        return np.vstack([e.recent[best, :, gvfs].T, np.zeros(len(best))])

    @cached_property
    def spreads(self) -> np.ndarray:
        """Variance of the cumulants around their mean, [row + 1, gvf]."""
        e = self.evidence
        return np.maximum(self._per_count(e.squares) - self._per_count(e.sums) ** 2, 0.0)

    def _per_count(self, totals: np.ndarray) -> np.ndarray:
        e = self.evidence
        n = np.maximum(e.counts[e.row >= 0], 1)
        return np.vstack([totals / n[:, None], np.zeros(totals.shape[1])])

    @cached_property
    def weights(self) -> np.ndarray:
        """The weight of each question's squared error, [gvf]; calibrated weights are estimated from the data."""
        return self.asked.weigh(self.values, self.evaluation) if self.asked.calibrated else self.asked.weights

    @cached_property
    def evaluation(self) -> Evaluation:
        """Where errors count."""
        return self.asked.where.on(self.world)

    @cached_property
    def starts_variance(self) -> np.ndarray:
        """The variance of the value at the start due to the starts themselves (`evidence.uncertainty`), [gvf]; 0 if known."""
        return self.starts_variance_of(self.values)

    def starts_variance_of(self, values: np.ndarray) -> np.ndarray:
        """The same for any values [k, state], such as differences of answers, [k]."""
        if not self.sampled_start:
            return np.zeros(len(values))
        starts, live = self.evidence.starts, self.world.live
        away = (values - (values @ self.world.start)[:, None]) ** 2
        return (away @ starts + away @ (live / max(1, live.sum()))) / float(starts.sum()) ** 2

    def policy(self, i: int) -> np.ndarray:
        """The target policy of GVF i renormalised over the tried actions, [state, action]; 0 where nothing was tried.

        Without discounting, tried actions that carry less than `LEAST_TRIED` of the policy count at most that much more: a state
        whose way on was never tried would otherwise be one in which the sum hardly ends.
        """
        pi = np.where(self.tried, self.asked.pi[:, :, i], 0.0)
        total = pi.sum(axis=1, keepdims=True)
        if self.asked.gamma[:, i].max() >= UNDISCOUNTED:
            total = np.where(total > 0, np.maximum(total, LEAST_TRIED), 0.0)
        return pi / np.where(total > 0, total, 1.0)

    @cached_property
    def values(self) -> np.ndarray:
        """Certainty-equivalent values of every GVF, [gvf, state]."""
        world, seen = self.world, self.seen
        out = np.zeros((len(self.asked.names), world.states))
        paid = self.means[seen.row]  # [seen, gvf]
        for group in self.groups:
            share = self.policy(group[0]).ravel()[seen.pair] * seen.prob
            solve = self.solver(group[0], 1)
            own = np.array([np.bincount(seen.state, share * paid[:, i], world.states) for i in group])
            out[group] = solve(own.T).T
        return out

    def only(self, i: int, pi: np.ndarray) -> Empirical:
        """The same model with question i alone and another policy [state, action]."""
        e = self.evidence
        columns = {name: getattr(e, name)[..., [i]] for name in BY_ROW}
        return Empirical(self.world, self.asked.only(i, pi), e._replace(**columns))

    def converged_policies(self) -> np.ndarray:
        """pi [state, action, gvf] with every OwnPolicy replaced by its fixed point in the model."""

        def action_values(i: int, pi: np.ndarray) -> np.ndarray:
            one = self.only(i, pi)
            return one.moments(one.values)[0][:, :, 0]

        return converged_policies(self.asked, action_values, self.tried, within=1e-6)[0]

    @cached_property
    def groups(self) -> list[list[int]]:
        """Lists of GVFs with the same policy and discount, which share one linear system."""
        return groups(self.asked.pi, self.asked.gamma)

    def discounts(self, i: int) -> np.ndarray:
        """gamma_i of the outcomes seen, [seen]; 0 on termination."""
        return self.discount(i, self.seen.outcome)

    def discount(self, i: int, outcome: np.ndarray) -> np.ndarray:
        """gamma_i of outcomes given by their indices into the world's flattened arrays; 0 on termination."""
        gamma = self.asked.gamma[outcome * self.asked.gamma_stride, i]
        return np.where(self.world.terminal[self.world.next.ravel()[outcome]], 0.0, gamma)

    def solver(self, i: int, power: int) -> Any:
        """A function that solves (I - sum_a pi_i P gamma_i^power) x = b [state, ...]; x is 0 in states whose sums do not end."""
        world, seen = self.world, self.seen
        weight = self.policy(i).ravel()[seen.pair] * seen.prob * self.discounts(i) ** power
        kernel = sp.csc_array(sp.coo_array((weight, (seen.state, seen.arrived)), shape=(world.states, world.states)))
        if self.asked.gamma[:, i].max() < 1:
            return scipy.sparse.linalg.splu(sp.csc_array(sp.eye_array(world.states) - kernel)).solve
        known = ending(kernel)
        kernel = sp.csc_array(sp.diags_array(known.astype(float)) @ kernel)
        solve = scipy.sparse.linalg.splu(sp.csc_array(sp.eye_array(world.states) - kernel)).solve
        return lambda b: solve((b.T * known).T)

    def targets(self, i: int, v: np.ndarray) -> np.ndarray:
        """c + gamma V(s') of question i for the outcomes seen, [seen], with its mean cumulants and values v [state]."""
        return self.means[self.seen.row, i] + self.discounts(i) * v[self.seen.arrived]

    def noise(self, v: np.ndarray) -> np.ndarray:
        """sigma^2(s, a) = Var(c + gamma V(s') | s, a) in the model, [state, action, gvf]."""
        return self.moments(v)[1]

    def moments(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of c + gamma V(s') given s, a in the model, each [state, action, gvf]."""
        world, seen = self.world, self.seen
        pairs = world.states * world.actions
        mean, out = np.zeros((2, pairs, len(v)))
        for i in range(len(v)):
            target = self.targets(i, v[i])
            mean[:, i] = np.bincount(seen.pair, seen.prob * target, pairs)
            spread = (target - mean[seen.pair, i]) ** 2 + self.spreads[seen.row, i]
            out[:, i] = np.bincount(seen.pair, seen.prob * spread, pairs)
        shape = (world.states, world.actions, len(v))
        return mean.reshape(shape), out.reshape(shape)

    def variance(self) -> np.ndarray:
        """The variance function M(s, a) of the model with Expected-Sarsa targets (Eq. 6), [state, action, gvf]."""
        seen, noise = self.seen, self.noise(self.values)
        out = noise.reshape(-1, noise.shape[2]).copy()
        for group in self.groups:
            own = np.stack([(self.policy(group[0]) * noise[:, :, i]).sum(axis=1) for i in group], axis=1)
            m = self.solver(group[0], 2)(own)
            squared = seen.prob * self.discounts(group[0]) ** 2
            for j, i in enumerate(group):
                out[:, i] += np.bincount(seen.pair, squared * m[seen.arrived, j], len(out))
        return out.reshape(noise.shape)


class Seen(NamedTuple):
    """The outcomes seen, [seen] each."""

    pair: np.ndarray  # state * actions + action
    outcome: np.ndarray  # index into the world's flattened arrays
    prob: np.ndarray  # estimated
    state: np.ndarray
    arrived: np.ndarray  # the next state
    row: np.ndarray  # in the sums of cumulants

    def left(self, visits: np.ndarray) -> np.ndarray:
        """How often each pair left its state, [state, action], with visits [state, action]."""
        away = self.arrived != self.state
        times = (self.prob * visits.ravel()[self.pair])[away]
        return np.bincount(self.pair[away], times, visits.size).reshape(visits.shape)


def _expanded(world: MDP, outcome: np.ndarray, n: np.ndarray, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs, outcomes and probabilities of the outcomes seen, with those of a table row given to each of its states."""
    cell = world.feature[pair // world.actions] * world.actions + pair % world.actions
    total = np.bincount(cell, n, world.rows * world.actions)
    prob = n / total[cell]
    order = np.argsort(cell, kind="stable")
    first, past = (np.searchsorted(cell[order], np.arange(world.rows * world.actions), side) for side in ("left", "right"))
    wanted = np.arange(world.states)[:, None]
    cells = (world.feature[wanted] * world.actions + np.arange(world.actions)).ravel()
    length = (past - first)[cells]
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    which = order[np.repeat(first[cells], length) + within]
    return np.repeat(np.arange(world.states * world.actions), length), outcome[which], prob[which]


# --- Evidence from an environment whose outcomes are not known beforehand: each gets a number when it is first seen -
# An outcome is a state, an action and the next state; termination leads to an extra state, numbered after all others.  The
# outcomes of a pair are a linked list, so memory grows with the outcomes seen and not with all possible ones.

FIRST = 1024  # initial capacity, in outcomes


class Outcomes(NamedTuple):
    """The outcomes seen so far: the first `used` entries of the [outcome] arrays, which have spare capacity."""

    evidence: Evidence  # counts and row are [outcome, 1]
    pair: np.ndarray  # int64 [outcome] state * actions + action
    following: np.ndarray  # int64 [outcome]
    link: np.ndarray  # int64 [outcome] the previous new outcome of the same pair; -1: none
    head: np.ndarray  # int64 [pair] the latest new outcome; -1: none
    discounts: np.ndarray  # [outcome, gvf] sums over transitions
    used: np.ndarray  # int64 [1]


def no_outcomes(states: int, actions: int, gvfs: int, rates: Sequence[float], capacity: int = FIRST) -> Outcomes:
    """No outcomes, at the start of a run; with capacity 0 nothing can be counted."""
    pairs = states * actions if capacity else 0
    row = np.arange(capacity, dtype=np.int32)[:, None]
    evidence = _nothing(row, capacity, gvfs, rates, states + 1 if capacity else 0)
    pair, following, link = np.zeros((3, capacity), np.int64)
    return Outcomes(evidence, pair, following, link, np.full(pairs, -1), np.zeros((capacity, gvfs)), np.zeros(1, np.int64))


def grown(outcomes: Outcomes) -> Outcomes:
    """The same outcomes with twice the capacity."""

    def twice(array: np.ndarray, axis: int = 0) -> np.ndarray:
        return np.concatenate([array, np.zeros_like(array)], axis)

    e = outcomes.evidence
    own = {name: twice(getattr(e, name), axis) for name, axis in (("counts", 0), *BY_ROW.items())}
    evidence = e._replace(row=np.arange(2 * len(e.row), dtype=np.int32)[:, None], **own)
    parts = {name: twice(getattr(outcomes, name)) for name in ("pair", "following", "link", "discounts")}
    return outcomes._replace(evidence=evidence, **parts)


@cache
def remembering(gvfs: int) -> Callable[..., None]:
    """The compiled function remember(outcomes, pair, following, c, gamma), which adds a transition; c and gamma [gvf]."""
    count = counting(gvfs)

    @piece
    def remember(met, pair, following, c, gamma):
        o = met.head[pair]
        while o >= 0 and met.following[o] != following:
            o = met.link[o]
        if o < 0:
            o = met.used[0]
            met.used[0] = o + 1
            met.pair[o] = pair
            met.following[o] = following
            met.link[o] = met.head[pair]
            met.head[pair] = o
        count(met.evidence, o, 0, c)
        for i in range(gvfs):
            met.discounts[o, i] += gamma[i]

    return remember


def widened(asked: Stacked) -> Stacked:
    """The questions with one more state, to which termination leads."""
    asked = asked._replace(pays=np.concatenate([asked.pays, np.full_like(asked.pays[:1], -1)]))
    if not asked.pi_stride:
        return asked
    last = np.full((1, *asked.pi.shape[1:]), 1 / asked.pi.shape[1])
    return asked._replace(pi=np.concatenate([asked.pi, last]))


def empirical(outcomes: Outcomes, sizes: TableRows, asked: Stacked, varying: bool) -> Empirical:
    """The model estimated from the outcomes; its last state is terminal, and states where something was tried are evaluated.

    sizes:   those of the environment and its time limit, without the terminal state.
    asked:   the questions as `widened` returns them.
    varying: whether a discount changes between transitions.
    """
    states, actions, used = sizes.states + 1, sizes.actions, int(outcomes.used[0])
    order = np.argsort(outcomes.pair[:used], kind="stable")
    pair = outcomes.pair[order]
    slot = np.arange(used) - np.searchsorted(pair, pair)
    width = int(slot.max()) + 1

    def placed(values: Any, nothing: Any, dtype: Any) -> np.ndarray:
        out = np.full((states * actions, width), nothing, dtype=dtype)
        out[pair, slot] = values
        return out

    e = outcomes.evidence
    counts = placed(e.counts[order, 0], 0, np.int64)
    following = placed(outcomes.following[order], -1, np.int64)
    following = np.where(following < 0, np.repeat(np.arange(states), actions)[:, None], following)
    total = counts.sum(axis=1, keepdims=True)
    prob = np.where(total > 0, counts / np.maximum(total, 1), np.eye(1, width))
    shape = (states, actions, width)
    terminal = np.arange(states) == states - 1
    live = total.reshape(states, actions).sum(axis=1) > 0
    start = e.starts / e.starts.sum()
    world = MDP(following.reshape(shape), prob.reshape(shape), start, terminal, sizes.horizon, live)
    if varying:
        gamma = np.zeros((states * actions, width, len(asked.names)))
        gamma[pair, slot] = outcomes.discounts[order] / e.counts[order]
        asked = asked._replace(gamma=gamma.reshape(-1, gamma.shape[2]), gamma_stride=1)
    sums = {name: getattr(e, name)[(slice(None),) * axis + (order,)] for name, axis in BY_ROW.items()}
    row = placed(np.arange(used), -1, np.int32)
    evidence = e._replace(counts=counts, row=row, starts=e.starts.copy(), found=e.found.copy(), **sums)
    return Empirical(world, asked, evidence, sampled_start=True)
