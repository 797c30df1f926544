r"""Draws of the world given the counts: how probable outcomes may be, also of those not shown yet, with a prior from all pairs.

An outcome that an action showed c times in n tries has a chance r with the likelihood of a binomial.  Its prior says first
whether the outcome exists at all, and then how large r is: r is 0, or it has a Beta distribution with the mean g and the strength
$\kappa$, for every g and $\kappa$ of a grid.  The weights of these components are learned from all pairs of the world (EM), so
that a world in which rare outcomes are common gets wide intervals, and a world without them does not.  This does not depend on
how the visits were chosen, and the draws are skewed as rare outcomes make them.

Two kinds of outcomes have priors of their own.  *Related* ones were shown by another action of the same state; their weights are
those of the action, drawn towards all actions'.  *Single* ones lead elsewhere: their weights are those of the destination, drawn
towards all destinations'; every destination is a candidate everywhere, so there may be outcomes that nobody has seen.  The
priors are uncertain too: each of `PRIORS` is learned from states with random weights (Bayesian bootstrap).

A draw has, for every pair, r of all its outcomes, divided by their sum; a pair that has no chance in it (`determinism`) keeps
its counts.  Mean cumulants are drawn around their estimates.  What an outcome pays that an action has not shown is what others
paid for it, if cumulants depend on the next state more than on the action, or else what the action pays on average.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.special import betaln, expit

from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import EXACT, determinism
from gvfx.theory.exact import ending
from gvfx.theory.importance import ENDLESS

DRAWS, PRIORS = 200, 8
STRENGTHS, MEANS = (x.ravel() for x in np.meshgrid((2.0, 8.0, 30.0), expit(np.linspace(-6.5, 5.0, 22))))  # kappa, g
FIRST, SECOND = STRENGTHS * MEANS, STRENGTHS * (1 - MEANS)  # of the Beta components
START = np.append(0.5, np.full(MEANS.size, 0.5 / MEANS.size))  # weights of the components; the first: no such outcome
IMAGINARY = 3.0  # related outcomes with these weights join the others
LIKE_ALL, LIKE_ANYWHERE = 20.0, 4.0  # outcomes like those of all actions, and existing ones like those of all destinations
ROUNDS, MORE_ROUNDS, OWN_ROUNDS = 60, 180, 25  # of EM: related, single, of one action or destination
FINE, COARSE = 32, 1.05  # tries without an outcome are told apart up to FINE, then by the factor COARSE
POOLED = 5.0  # visits of all outcomes' cumulant variance that join each one's own
DENSE = 100  # states below which all draws are solved at once


class Candidates(NamedTuple):
    """Outcomes of tried pairs, [each]: those seen, then those that only other actions of the state showed."""

    pair: np.ndarray
    edge: np.ndarray  # the number of the (state, next state)
    label: np.ndarray  # the number of the next state among all that were seen
    times: np.ndarray  # seen
    related: np.ndarray  # bool


class Drawn(NamedTuple):
    """Outcomes of some draws, [drawn] each."""

    draw: np.ndarray
    pair: np.ndarray
    arrived: np.ndarray
    prob: np.ndarray
    paid: np.ndarray  # number of the outcome seen; then, in the same count, of the edge, and of the label


def likelihood(count: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Of `count` in n tries by component, [outcome, component], up to a factor of each outcome."""
    log = betaln(count[:, None] + FIRST, (n - count)[:, None] + SECOND) - betaln(FIRST, SECOND)
    log -= np.where(count > 0, log.max(axis=1), 0.0)[:, None]
    return np.concatenate([(count == 0)[:, None], np.exp(log)], axis=1)


def learned(like: np.ndarray, times: np.ndarray, start: np.ndarray, prior: np.ndarray, rounds: int) -> np.ndarray:
    """Weights of the components [..., component] by EM.

    like [outcome, component];  times [..., outcome]: how often each counts;  prior [..., component]: counts that join.
    """
    w = start
    for _ in range(rounds):
        w = w * ((times / np.maximum(w @ like.T, 1e-300)) @ like) + prior
        w = w / w.sum(axis=-1, keepdims=True)
    return np.asarray(w)


class Posterior:
    """The worlds that the data leave possible."""

    def __init__(self, data: Empirical) -> None:
        self.data, self.rng = data, np.random.default_rng(0x706F7374)
        seen, world = data.seen, data.world
        self.n = data.visits.ravel().astype(float)
        outcomes, place = np.unique(seen.pair.astype(np.int64) * world.states + seen.arrived, return_inverse=True)
        times = data.evidence.counts.ravel()[seen.outcome].astype(float)
        count, known = np.bincount(place, times), len(outcomes)
        self.known = known  # outcomes seen; several of the world's own may lead from a pair to one state
        self.joined = sp.csr_array((times / count[place], (place, np.arange(len(place)))), shape=(known, len(place)))
        own, arrived = np.divmod(outcomes, world.states)
        edges, edge = np.unique(own // world.actions * world.states + arrived, return_inverse=True)
        shown = np.zeros((len(edges), world.actions), dtype=bool)
        shown[edge, own % world.actions] = True
        state, arrived = np.divmod(edges, world.states)
        self.labels, label = np.unique(arrived, return_inverse=True)
        other, action = np.nonzero(~shown & data.tried[state])
        pair, edge = np.append(own, state[other] * world.actions + action), np.append(edge, other)
        count = np.append(count, np.zeros(len(other)))
        related = (shown.sum(axis=1)[edge] > 1) | (count == 0)
        self.candidates = Candidates(pair, edge, label[edge], count, related)
        self.sure = determinism(data).sure.ravel()
        coarse = FINE * COARSE ** np.arange(1, np.log(max(self.n.max(), FINE) / FINE) / np.log(COARSE) + 1)
        self.tries = np.append(np.arange(1.0, FINE + 1), coarse)
        self.bin = np.clip(np.searchsorted(self.tries, self.n, side="right") - 1, 0, None)
        self.nothing = likelihood(np.zeros(len(self.tries)), self.tries)  # of no outcome, [bin, component]
        self.like = likelihood(count, self.n[pair])

    def priors(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the components for related outcomes [prior, action, component], single ones [prior, label, component]."""
        c, world, bins = self.candidates, self.data.world, len(self.tries)
        acted, weight = np.asarray(self.data.tried.any(axis=1)), np.zeros((PRIORS, world.states))
        weight[:, acted] = self.rng.standard_exponential((PRIORS, int(acted.sum())))
        weight = weight.repeat(world.actions, axis=1) * (1 - self.sure)
        weight = np.where(self.n > 0, weight, 0.0)
        times, bin_of, seen = weight[:, c.pair], self.bin[c.pair], c.times > 0

        def total(of: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
            return np.stack([np.bincount(at, row, size) for row in of])

        def rows(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Likelihoods of the chosen candidates, those not seen by bins, and how often they count."""
            own, zero = chosen & seen, chosen & ~seen
            counts = np.concatenate([times[:, own], total(times[:, zero], bin_of[zero], bins)], axis=1)
            return np.concatenate([self.like[own], self.nothing]), counts

        every = learned(*rows(c.related), START, np.broadcast_to(IMAGINARY * START, (PRIORS, START.size)), ROUNDS)
        action = c.pair % world.actions
        related = [learned(*rows(c.related & (action == a)), every, LIKE_ALL * every, OWN_ROUNDS) for a in range(world.actions)]

        single, labels = ~c.related, len(self.labels)
        taken = total(times, c.label * bins + bin_of, labels * bins).reshape(PRIORS, labels, bins)
        free = np.maximum(total(weight, self.bin, bins)[:, None] - taken, 0.0)  # how often a label was not shown
        few = min(0.5, 1 / labels)
        start = np.append(1 - few, np.full(MEANS.size, few / MEANS.size))
        like, counts = (
            np.concatenate([self.like[single], self.nothing]),
            np.concatenate([times[:, single], free.sum(axis=1)], axis=1),
        )
        everywhere = learned(like, counts, start, np.tile(1e-9 * start, (PRIORS, 1)), MORE_ROUNDS)
        join = LIKE_ANYWHERE / np.maximum(1 - everywhere[:, :1], 1e-12) * everywhere
        to = sp.csr_array((np.ones(single.sum()), (c.label[single], np.arange(single.sum()))), shape=(labels, int(single.sum())))
        out = np.empty((PRIORS, labels, START.size))
        for k in range(PRIORS):
            w = np.broadcast_to(everywhere[k], out[k].shape)
            for _ in range(OWN_ROUNDS):
                chance = (w[c.label[single]] * self.like[single]).sum(axis=1)
                own = to @ ((times[k, single] / np.maximum(chance, 1e-300))[:, None] * self.like[single])
                w = w * (own + (free[k] / np.maximum(w @ self.nothing.T, 1e-300)) @ self.nothing) + join[k]
                w = w / w.sum(axis=1, keepdims=True)
            out[k] = w
        return np.stack(related, axis=1), out

    def outcomes(self, related: np.ndarray, single: np.ndarray, draws: int) -> Drawn:
        """The outcomes of some draws with one prior (`priors`)."""
        c, rng = self.candidates, self.rng
        actions, pairs = self.data.world.actions, len(self.n)
        sure, tried = np.zeros((draws, pairs), dtype=bool), self.n > 0  # spare states draw nothing
        sure[:, tried] = rng.random((draws, int(tried.sum()))) < self.sure[tried]
        weight = self.like * np.where(c.related[:, None], related[c.pair % actions], single[c.label])
        exists = rng.random((draws, len(c.pair))) * weight.sum(axis=1) >= weight[:, 0]
        draw, at = np.nonzero((exists | (c.times > 0)) & ~sure[:, c.pair])
        rate = self._rates(weight[:, 1:], at, c.times[at], self.n[c.pair[at]])

        unseen = single[:, None, :] * self.nothing  # [label, bin, component]
        chance = 1 - unseen[:, :, 0] / unseen.sum(axis=2)
        many = rng.poisson(np.where(self.n > 0, chance.sum(axis=0)[self.bin], 0.0) * ~sure)
        new_draw, new = (x.repeat(many[many > 0]) for x in np.nonzero(many))
        label = _chosen(rng, chance.T, self.bin[new])
        free = ~np.isin(new * len(self.labels) + label, c.pair * len(self.labels) + c.label)
        new_draw, new, label = new_draw[free], new[free], label[free]
        bins = len(self.tries)
        flat = unseen[:, :, 1:].reshape(-1, MEANS.size)
        new_rate = self._rates(flat, label * bins + self.bin[new], 0.0, self.n[new])

        fixed_draw, fixed = np.nonzero(sure[:, c.pair] & (c.times > 0))
        source = np.where(c.times > 0, np.arange(len(c.pair)), self.known + c.edge)
        own_draw = np.concatenate([draw, new_draw, fixed_draw])
        pair = np.concatenate([c.pair[at], new, c.pair[fixed]])
        all_labels = np.concatenate([c.label[at], label, c.label[fixed]])
        rates = np.concatenate([rate, new_rate, c.times[fixed]])
        paid = np.concatenate([source[at], self.known + c.edge.max() + 1 + label, source[fixed]])
        whole = np.bincount(own_draw * pairs + pair, rates, draws * pairs)
        return Drawn(own_draw, pair, self.labels[all_labels], rates / whole[own_draw * pairs + pair], paid)

    @cached_property
    def values(self) -> np.ndarray:
        """Answers in `DRAWS` drawn worlds, [draw, gvf, state]."""
        size, out = DRAWS // PRIORS, np.empty((DRAWS, *self.data.values.shape))
        solvers = [Solver(self, group) for group in self.data.groups]
        for k, (related, single) in enumerate(zip(*self.priors(), strict=True)):
            drawn, own = self.outcomes(related, single, size), slice(k * size, (k + 1) * size)
            wobble = self._wobble(size)
            for solver in solvers:
                out[own, solver.group] = solver.values(drawn, wobble)
        return out

    @cached_property
    def at_start(self) -> np.ndarray:
        """Values at the start in the drawn worlds, [draw, gvf]; starts that are not known are drawn too (`start_values`)."""
        world, starts = self.data.world, self.data.evidence.starts
        d = np.broadcast_to(world.start, (DRAWS, world.states))
        if self.data.sampled_start:
            away, spread = np.zeros(d.shape), np.sqrt(starts + world.live / max(1, world.live.sum()))
            away[:, spread > 0] = self.rng.standard_normal((DRAWS, np.count_nonzero(spread))) * spread[spread > 0]
            d = d + (away - away.sum(axis=1, keepdims=True) * world.start) / starts.sum()
        return np.einsum("ds,dis->di", d, self.values)

    @cached_property
    def pays(self) -> np.ndarray:
        """Mean cumulants of the outcomes seen, of edges, of labels, and of pairs, [row, gvf]."""
        return self._means(self.data.means[self.data.seen.row])

    @cached_property
    def by_next(self) -> np.ndarray:
        """Whether a question's cumulants differ less between the actions that lead to a state than between outcomes, [gvf]."""
        m, c = self.known, self.candidates
        own, count, pair, edge = self.pays[:m], c.times[:m], c.pair[:m], c.edge[:m]
        several, between = np.bincount(edge)[edge] > 1, np.bincount(pair)[pair] > 1
        away = (own - self.pays[m + edge]) ** 2, (own - self.pays[-len(self.n) :][pair]) ** 2
        apart, within = (count[of] @ x[of] / max(count[of].sum(), 1) for x, of in zip(away, (several, between), strict=True))
        return np.asarray(apart < within)

    def _means(self, x: np.ndarray) -> np.ndarray:
        """An amount [seen, ...] followed by its means over visits by edge, label and pair."""
        m, c, x = self.known, self.candidates, self.joined @ x
        out = [x]
        for of, size in ((c.edge, c.edge.max() + 1), (c.label, len(self.labels)), (c.pair, len(self.n))):
            total = sp.csr_array((c.times[:m], (of[:m], np.arange(m))), shape=(size, m))
            out.append((total @ x) / np.maximum(total.sum(axis=1), 1).reshape(-1, *(1,) * (x.ndim - 1)))
        return np.concatenate(out)

    def _wobble(self, draws: int) -> tuple[np.ndarray, np.ndarray]:
        """The outcomes seen whose cumulants have noise, and draws of their means less the estimates, [draw, outcome, gvf].

        Questions about the same signal share their noise.
        """
        data, e = self.data, self.data.evidence
        mean, count = data.means[data.seen.row], self.candidates.times[: self.known, None]
        paid = self.joined @ mean
        own = self.joined @ (data.spreads[data.seen.row] + mean**2) - paid**2
        own = np.where(own > EXACT * (1 + paid**2), own, 0.0)
        paying = paid**2 + own > 0
        several = paying & (count > 1)
        pooled = (several * count * own).sum(axis=0) / np.maximum((several * count).sum(axis=0), 1)
        square = np.where(paying, (count * own + POOLED * pooled) / (count + POOLED - 1), 0.0)
        noisy = np.flatnonzero(square.any(axis=1))
        _, signal = np.unique(np.concatenate([e.sums, e.squares]), axis=1, return_inverse=True)
        z = self.rng.standard_normal((draws, len(noisy), int(signal.max()) + 1))[:, :, signal.ravel()]
        return noisy, z * np.sqrt(square / count)[noisy]

    def _rates(self, weight: np.ndarray, row: np.ndarray, count: np.ndarray | float, n: np.ndarray) -> np.ndarray:
        """Chances of outcomes that exist, not normalised: a component by the weights of its row, then one from its posterior."""
        j = _chosen(self.rng, weight, row)
        return self.rng.standard_gamma(FIRST[j] + count) / (STRENGTHS[j] + n)


class Solver:
    """Answers of questions with the same policy and discounts in drawn worlds."""

    def __init__(self, of: Posterior, group: list[int]) -> None:
        data = of.data
        self.of, self.group, self.states = of, group, data.world.states
        self.pi = data.policy(group[0]).ravel()
        self.gamma = np.minimum(of._means(data.discounts(group[0])), 1 - ENDLESS)
        seen = data.seen
        weight = self.pi[seen.pair] * seen.prob * self.gamma[: len(seen.pair)]
        kernel = sp.csr_array((weight, (seen.state, seen.arrived)), shape=(self.states, self.states))
        self.ends = np.ones(self.states, dtype=bool)
        if data.asked.gamma[:, group[0]].max() >= 1:
            exact = self.pi[seen.pair] * seen.prob * data.discounts(group[0])
            self.ends = ending(sp.csr_array((exact, (seen.state, seen.arrived)), shape=(self.states, self.states)))
        self.order = np.arange(self.states)
        if self.states >= DENSE:
            self.order = _factorised(sp.eye_array(self.states) - kernel, "MMD_AT_PLUS_A").perm_c

    def values(self, drawn: Drawn, wobble: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Answers, [draw, gvf, state]."""
        of, states, (noisy, away) = self.of, self.states, wobble
        draws, gvfs, state = len(away), len(self.group), drawn.pair // of.data.world.actions
        weight = self.pi[drawn.pair] * drawn.prob * self.ends[state]
        drawn = Drawn(*(x[weight > 0] for x in drawn))
        state, weight = state[weight > 0], weight[weight > 0]
        at, size, seen = drawn.draw * states + state, draws * states, of.known

        b = np.empty((size, gvfs))
        for rule in (True, False):  # what outcomes pay that the pair has not shown
            of_rule = np.flatnonzero(of.by_next[self.group] == rule)
            paid = drawn.paid if rule else np.where(drawn.paid < seen, drawn.paid, len(of.pays) - len(of.n) + drawn.pair)
            pays = of.pays[:, np.array(self.group)[of_rule]]
            b[:, of_rule] = sp.csr_array((weight, (at, paid)), shape=(size, len(pays))) @ pays
        if noisy.size:
            place = np.full(len(of.pays), -1)
            place[noisy] = np.arange(len(noisy))
            some = np.flatnonzero(place[drawn.paid] >= 0)
            moved = weight[some, None] * away[drawn.draw[some], place[drawn.paid[some]]][:, self.group]
            b += sp.csr_array((np.ones(len(some)), (at[some], np.arange(len(some)))), shape=(size, len(some))) @ moved
        own = b.reshape(draws, states, gvfs)

        weight = weight * self.gamma[drawn.paid]
        if states < DENSE:
            kernel = np.bincount(at * states + drawn.arrived, weight, size * states).reshape(draws, states, states)
            return np.moveaxis(np.linalg.solve(np.eye(states) - kernel, own), 2, 1)
        rows, columns = (drawn.draw * states + self.order[x] for x in (state, drawn.arrived))
        whole = sp.csc_array(sp.eye_array(size) - sp.csc_array((weight, (rows, columns)), shape=(size, size)))
        out = np.empty((draws, gvfs, states))
        ordered = np.empty((states, gvfs))
        for k in range(draws):  # blocks on the diagonal
            ends = whole.indptr[k * states : (k + 1) * states + 1]
            entries = slice(ends[0], ends[-1])
            block = sp.csc_array(
                (whole.data[entries], whole.indices[entries] - k * states, ends - ends[0]), shape=(states, states)
            )
            ordered[self.order] = own[k]
            out[k] = _factorised(block, "NATURAL").solve(ordered)[self.order].T
        return out


def _factorised(system: sp.sparray, order: str) -> scipy.sparse.linalg.SuperLU:
    """Without pivoting: rows of I - gamma P are dominated by their diagonal."""
    return scipy.sparse.linalg.splu(
        sp.csc_array(system), permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


@lru_cache(maxsize=2)
def posterior(data: Empirical) -> Posterior:
    """The posterior of the data, whose draws are made once."""
    return Posterior(data)


def _chosen(rng: np.random.Generator, weight: np.ndarray, row: np.ndarray) -> np.ndarray:
    """A random column for each entry of `row`, in proportion to that row's weights [row, column]."""
    used, row = np.unique(row, return_inverse=True)
    up_to = np.cumsum(weight[used], axis=1)
    up_to = up_to / np.maximum(up_to[:, -1:], 1e-300) + np.arange(len(used))[:, None]
    at = np.searchsorted(up_to.ravel(), row + rng.random(len(row)), side="right")
    return np.clip(at - row * weight.shape[1], 0, weight.shape[1] - 1)
