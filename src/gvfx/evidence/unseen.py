r"""What was never seen: how likely an answer meets a state that the data do not contain.

Counts say nothing about states that were never reached, and a pair tried a few times without its rare outcome looks like a
dead end.  What can be learned is how often pairs of this world still led to new states after j tries.  Pairs tried more often
teach it (rarefaction): keep a random j of a pair's n tries, and of all other transitions the same share j/n; the chance that
the pair's next try then leads to a state that was not kept is

$$D(j) = \sum_o \frac{\binom{n-c_o}{j}}{\binom{n}{j}}\,\frac{c_o}{n-j}\,\Big(1-\frac jn\Big)^{A_o-c_o},$$

over the pair's outcomes o, seen c times, whose state was reached A times in all.  The **discovery curve** h(j) is the mean
over the pairs with n > j, joined by one imaginary pair with 1/(j+1), and made non-increasing.  A pair tried n times has the
**missing mass** m = h(n), and 1 if it was never tried; 0 if every state that the world is known to have was reached, because
then no other can be found.  Where less is known it is larger:

- in the state found last, at least 0.3 * 0.7^n;
- if some evaluation states were never reached, something must lead to them: at least 1/(n+2) everywhere (rule of succession);
- in a state that has only ever led to itself, an end or a trap: at least 1/(n+2), with n its tries in all;
- for an action that never left its state although others did, now and then: the chance that it does (`Unseen.holding`).

The **chance of the unseen** of question i is $u_i(s) = E[\gamma^\tau]$, with $\tau$ the first step to an unseen state under
its policy: one sparse solve of $u = \sum_a \pi (\gamma m + (1-m)\gamma\hat P u)$.  It weighs an unseen event as the answer
would: late events count less.  Its **stake** is u times the largest answer of the question so far.

An answer is known where u is at most `KNOWN_BELOW`, or `OPEN_BELOW` while the frontier is open (the state found last was found
in the second half of the data, or one of its actions tried fewer than `SETTLED` times), and the stake at most the share
`AT_STAKE` of the answer and its interval.  The stopping rule needs a root mean square of u of at most `STOP_BELOW` over the
evaluation states, for every question, and mean square stakes below its target.  A question that has never seen a cumulant
other than 0 is not known anywhere.  No rule of this kind can find a rare door (a chance of 1 in 1,000) to a room that is worth
a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.special import gammaln

from gvfx.evidence.counts import Empirical
from gvfx.questions.where import EVERYWHERE, Evaluation, as_evaluation
from gvfx.theory.exact import ending
from gvfx.theory.importance import ENDLESS

KNOWN_BELOW = 0.02  # largest chance of the unseen with which an answer gets a finite interval
OPEN_BELOW = 0.005  # the same while the state found last has hardly been tried
SETTLED = 3  # tries of each of its actions after which it has
STOP_BELOW = 0.03  # largest root mean square of it with which a run may stop or a pilot is enough
NEWEST, FADING = 0.3, 0.7  # missing mass of the state found last: NEWEST * FADING ** tries
NORMAL = 1.96  # standard errors in half of a 95 % interval
AT_STAKE = 0.3  # largest share of an answer and its interval that the unseen may be worth
RARELY = 0.25  # share of tries that leave a state which holds
LIKE_OTHERS = 9.0  # odds that an action leaves its state as often as the others do, against never
FINE, COARSE = 16, 1.25  # the curve is computed at every j up to FINE, then at multiples of COARSE


@dataclass(frozen=True, eq=False)
class Unseen:
    """What the data say about states that they do not contain."""

    data: Empirical

    @cached_property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of tries j, increasing from 0, and the discovery curve h at them."""
        world, e = self.data.world, self.data.evidence
        outcome = np.flatnonzero(e.counts)
        c = e.counts.ravel()[outcome].astype(float)
        pair, arrived = outcome // world.successors, world.next.ravel()[outcome]
        total = np.bincount(pair, c, world.states * world.actions)
        others = (np.bincount(arrived, c, world.states) + e.starts)[arrived] - c
        return discovery(pair, c, total, others)

    @cached_property
    def mass(self) -> np.ndarray:
        """Missing mass m: the chance that an action's next try leads to a state never seen, [state, action]."""
        n = self.data.visits
        mass = np.zeros(n.shape)
        if not self.complete:
            tries, h = self.curve
            mass = h[np.searchsorted(tries, n, side="right") - 1]
        if self.unreached:
            mass = np.maximum(mass, 1 / (n + 2))
        mass = np.maximum(mass, self.holding)
        at = np.flatnonzero(self.trapping)
        mass[at] = np.maximum(mass[at], 1 / (n[at].sum(axis=1, keepdims=True) + 2))
        newest = self.newest
        if newest is not None:
            mass[newest] = np.maximum(mass[newest], NEWEST * FADING ** n[newest].astype(float))
        return np.where(self.data.world.terminal[:, None], 0.0, np.where(n > 0, mass, 1.0))

    @cached_property
    def holding(self) -> np.ndarray:
        """The chance that an action that never left its state does so next, if it may be like the other actions, [state, action].

        With q the share of the other actions' tries that left the state, n tries that stayed have a chance of (1 - q)^n if the
        action is like them, and of 1 if it never leaves; the first is `LIKE_OTHERS` times as likely before any try.  Only where
        the others seldom leave (q below `RARELY`): elsewhere an action that stays ran into a wall.
        """
        n = self.data.visits.astype(float)
        left = self.data.seen.left(n)
        q = left.sum(axis=1, keepdims=True) / np.maximum(n.sum(axis=1, keepdims=True) - n, 1)
        odds = LIKE_OTHERS * (1 - np.minimum(q, 1)) ** n
        return np.where((left == 0) & (n > 0) & (q < RARELY), q * odds / (odds + 1), 0.0)

    @cached_property
    def unreached(self) -> int:
        """How many evaluation states were never reached."""
        return int((self.data.world.live & (self.data.evidence.found == 0)).sum())

    @cached_property
    def trapping(self) -> np.ndarray:
        """Whether a state was left by no action that was tried in it, [state] bool."""
        seen, stayed = self.data.seen, np.asarray(self.data.tried.any(axis=1))
        stayed[seen.state[seen.arrived != seen.state]] = False
        return stayed

    @cached_property
    def open(self) -> bool:
        """Whether the state found last was found late, or some action of it has hardly been tried."""
        return self.newest is not None and (self.finding or bool(self.data.visits[self.newest].min() < SETTLED))

    @cached_property
    def finding(self) -> bool:
        """Whether the last state was found in the second half of the data."""
        return bool(2 * self.data.evidence.found.max() > 1 + self.data.visits.sum())

    @cached_property
    def complete(self) -> bool:
        """Whether every state that the world is known to have was reached, so that no other can lie behind any of them."""
        return self.data.closed and bool(((self.data.evidence.found > 0) | self.data.world.terminal).all())

    @cached_property
    def newest(self) -> int | None:
        """The state found last of those in which no episode ended, unless it is the only one or the last of all."""
        found = np.where(self.entered, self.data.evidence.found, 0)
        if self.complete or np.count_nonzero(found) < 2:
            return None
        return int(found.argmax())

    @cached_property
    def entered(self) -> np.ndarray:
        """Whether an episode began or went on in a state, [state] bool; not where all of them ended."""
        world = self.data.world
        arrived = np.bincount(self.data.seen.arrived, minlength=world.states)
        return (arrived + self.data.evidence.starts > 0) & ~world.terminal

    @cached_property
    def chance(self) -> np.ndarray:
        """The chance of the unseen u, [gvf, state]."""
        data, world = self.data, self.data.world
        out = np.zeros((len(data.asked.names), world.states))
        pi = np.broadcast_to(data.asked.pi, (*self.mass.shape, len(out)))
        for group in data.groups:
            own = pi[:, :, group[0]]
            out[group] = _first_passage(data, group[0], own, self.mass)
        return out

    @cached_property
    def silent(self) -> np.ndarray:
        """Whether a question has never seen a cumulant other than 0, [gvf] bool."""
        return np.logical_not((self.data.evidence.squares > 0).any(axis=0))

    @cached_property
    def stake(self) -> np.ndarray:
        """How much the unseen changes an answer if it is worth as much as the best state so far, [gvf, state]."""
        return self.chance * np.abs(self.data.values).max(axis=1, keepdims=True)

    @cached_property
    def worth(self) -> np.ndarray:
        """How far unseen states may move a question's answer if they were reached, down and up, [gvf, 2].

        They are worth no more than the best state so far, its answer or the largest cumulant, and no less than the worst.
        """
        data = self.data
        seen = np.concatenate([data.values.T, data.means[data.seen.row]])
        return np.stack([np.maximum(-seen.min(axis=0), 0.0), np.maximum(seen.max(axis=0), 0.0)], axis=-1)

    def added(self, sides: np.ndarray, unknown: np.ndarray, over: np.ndarray | None = None) -> np.ndarray:
        """What is added to standard errors towards lower and higher values for states never seen, both [gvf, state, 2].

        Infinite where `unknown` [gvf, state], where unseen states are likely, and for silent questions; above 0 where much is at
        stake: the chance of the unseen times its `worth`.
        over: weights [state, mean] of answers that are means over states, which are then the states.
        """
        chance, stake, values = self.chance, self.stake, self.data.values
        if over is not None:
            chance, stake, values = chance @ over, stake @ over, values @ over
        likely = chance > (OPEN_BELOW if self.open else KNOWN_BELOW)
        large = stake > AT_STAKE * (np.abs(values) + NORMAL * np.sqrt((sides**2).mean(axis=-1)))
        bound = np.where(large, chance, 0.0)[..., None] * self.worth[:, None] / NORMAL
        return np.where((likely | unknown | self.silent[:, None])[..., None], np.inf, bound)

    def over_visited(self) -> np.ndarray:
        """The root mean square as in `over` for a forecast, [gvf]: over the states acted in, with policies of tried actions only.

        A forecast assumes that untried actions do what the state's other actions did (`gvfx.evidence.smoothing`), so they are no
        reason to refuse it; states never seen are.
        """
        data = self.data
        acted = np.asarray(data.tried.any(axis=1))
        where = acted * data.evaluation.weights
        d = Evaluation(where / max(where.sum(), 1e-300), data.evaluation.of_mean)
        out = np.ones(len(self.silent))
        for group in data.groups:
            own = np.where(acted[:, None], data.policy(group[0]), 1 / data.world.actions)
            u = _first_passage(data, group[0], own, self.mass)
            equally = data.asked.where == EVERYWHERE
            out[group] = np.sqrt((u**2)[d.states].mean() if equally else d.squares(u)) if where.any() else 1.0
        return np.where(self.silent, 1.0, out)

    def over(self, where: np.ndarray | Evaluation) -> np.ndarray:
        """Root mean square of the chance of the unseen over evaluation states `where` [state], [gvf]; 1 for silent questions.

        For an error at the start: the mean chance over starts.
        """
        return np.where(self.silent, 1.0, np.sqrt(as_evaluation(where).squares(self.chance)))


def discovery(pair: np.ndarray, c: np.ndarray, total: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tries j and the discovery curve h(j).

    pair, c: each outcome's pair and how often it was seen, [outcome];  total [pair]: tries n of every pair
    others:  how often the outcome's state was reached by other pairs or as a start, [outcome]
    """
    tries = _grid(int(total.max(initial=0.0)))
    h = np.empty(len(tries))
    n = total[pair]
    log_n, log_rest = gammaln(n + 1), gammaln(n - c + 1)
    counts = np.sort(total)
    for k, j in enumerate(tries):
        at = n > j
        left, seen = n[at] - j, c[at]
        missed = left >= seen  # the outcome is among the tries left out only if they are enough
        some = np.where(missed, left - seen, 0.0)
        log_missed = log_rest[at] - gammaln(some + 1) - log_n[at] + gammaln(left + 1)
        chance = np.exp(np.where(missed, log_missed + others[at] * np.log(left / n[at]), -np.inf))
        teachers = len(counts) - np.searchsorted(counts, j, side="right")
        h[k] = ((chance * seen / left).sum() + 1 / (j + 1)) / (teachers + 1)
    return tries, np.minimum.accumulate(h)


def _grid(most: int) -> np.ndarray:
    """Numbers of tries from 0 to `most`: all small ones, then ever fewer."""
    coarse = np.unique((FINE * COARSE ** np.arange(0, 80)).astype(np.int64))
    return np.concatenate([np.arange(FINE), coarse[coarse <= max(most, FINE)]])


def _first_passage(data: Empirical, i: int, pi: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """u of GVF i [state], from its policy and the missing mass, both [state, action]."""
    world, seen = data.world, data.seen
    chosen = pi.ravel()[seen.pair] * seen.prob * data.discounts(i)
    known = chosen * (1 - mass.ravel()[seen.pair])
    kernel = sp.csr_array(sp.coo_array((known, (seen.state, seen.arrived)), shape=(world.states, world.states)))
    asked = data.asked
    discount = np.bincount(seen.pair, seen.prob * asked.gamma[seen.outcome * asked.gamma_stride, i], mass.size)
    discount = np.where(data.tried, discount.reshape(mass.shape), asked.gamma[:, i].max())
    now = (pi * discount * mass).sum(axis=1)
    ends = ending(kernel)
    kernel = sp.csr_array(sp.diags_array(ends.astype(float)) @ kernel)
    u = scipy.sparse.linalg.splu(sp.csc_array(sp.eye_array(world.states) - kernel)).solve(np.where(ends, now, 0.0))
    return np.clip(np.where(ends, u, 1.0), 0.0, 1.0)


# --- Outcomes that a pair has not shown yet: how far they could move the value at the start -------------------------
# Standard errors are those of small changes of the estimated model.  Early in a run the changes are not small: where the next
# step towards a reward was tried once, without success, everything behind it seems out of reach, its noise counts nothing, and a
# value near 0 looks sure.  A decision therefore also asks what the value could be.
#
# Let h(n) be the mean chance that a pair tried n times shows an outcome that it has not shown before (the discovery curve of
# `unseen`, of outcomes instead of states).  With the chances p of a pair's outcomes, $h(n) = E \sum p (1-p)^n$, so the fall of
# the curve, $h(n) - h(n+1) = E \sum p^2 (1-p)^n$, is about the variance of a single pair's chance around it: a pair lacks
# nothing, or a whole outcome.  In the **favourable model** every pair, with the chance $m = h + \sqrt{h(n) - h(n+1)}$, does the
# best that any action of its state has ever done; in the unfavourable one the worst:
#
# $$V^\pm(s) = \sum_a \pi(a|s)\,[(1-m)\,E(c + \gamma V^\pm(s')) + m \max_o / \min_o (c_o + \gamma V^\pm(s'_o))].$$
#
# Both are solved by policy iteration.  The stake is the larger distance of the two from the answer.

ROUNDS = 20  # of policy iteration; each extends the good (or bad) news by one state at least


def chances(data: Empirical) -> np.ndarray:
    """m: how likely a pair's next outcome may be one that it has not shown before, [state, action]; 0 in terminal states."""
    seen, total = data.seen, data.visits.ravel().astype(float)
    tries, h = discovery(seen.pair, seen.prob * total[seen.pair], total, np.zeros(len(seen.pair)))
    square = np.maximum(h / (tries + 1), np.append(-np.diff(h) / np.diff(tries), 0.0))
    mass = np.minimum(h + np.sqrt(square), 1.0)[np.searchsorted(tries, data.visits, side="right") - 1]
    return np.where(data.world.terminal[:, None], 0.0, mass)


def stakes(data: Empirical, at: np.ndarray) -> np.ndarray:
    """How much outcomes never shown could change the mean answer over states with the weights `at` [state], [gvf]."""
    mass = chances(data)
    out = np.empty(len(data.values))
    for i, answer in enumerate(data.values):
        out[i] = max(abs(float((extreme(data, mass, i, sign) - answer) @ at)) for sign in (1.0, -1.0))
    return out


def extreme(data: Empirical, mass: np.ndarray, i: int, sign: float) -> np.ndarray:
    """GVF i in the favourable model (sign 1) or the unfavourable one (-1), [state]; mass: m [state, action]."""
    world, seen, pi = data.world, data.seen, data.policy(i)
    state, arrived = seen.state, seen.arrived
    paid, gamma = data.means[seen.row, i], np.minimum(data.discounts(i), 1 - ENDLESS)
    usual = ((1 - mass) * pi).ravel()[seen.pair] * seen.prob
    rest = np.where(data.tried, pi * mass, 0.0).sum(axis=1)
    shape, value, chosen = (world.states, world.states), data.values[i], np.zeros(0, np.intp)
    for _ in range(ROUNDS):
        target = sign * (paid + gamma * value[arrived])
        best = np.full(world.states, -np.inf)
        np.maximum.at(best, state, target)
        last, chosen = chosen, np.flatnonzero(target == best[state])
        chosen = chosen[np.unique(state[chosen], return_index=True)[1]]  # one outcome per state
        if np.array_equal(last, chosen):
            break
        weight = usual.copy()
        weight[chosen] += rest[state[chosen]]
        kernel = sp.csc_array(sp.coo_array((weight * gamma, (state, arrived)), shape=shape))
        own = np.bincount(state, weight * paid, world.states)
        value = scipy.sparse.linalg.splu(sp.csc_array(sp.eye_array(world.states) - kernel)).solve(own)
    return value


# --- in words ----------------------------------------------------------------------------------------------------------


NAMED = 3  # untried pairs that are named


def frontier(data: Empirical) -> str:
    """How many states were reached, when the last of them was found, and whether more may lie behind it."""
    found, steps = data.evidence.found, int(data.visits.sum())
    reached = found > 0
    ago = steps + 1 - int(found.max(initial=1))
    when = f"the last one {ago:,} step{'s' * (ago != 1)} ago" if ago else "the last one in the last step"
    unseen = Unseen(data)
    text = f"{'all ' * unseen.complete}{int((reached & ~data.world.terminal).sum())} states reached, {when}"
    if unseen.unreached:
        text += f"; {unseen.unreached} evaluation states were never reached"
    if unseen.open:
        text += "; the answers may rest on what lies behind"
    return text


def untried(data: Empirical, label: Callable[[int], Any] = int) -> str:
    """The end of a sentence: the pairs of states reached that a target policy takes and that were never tried.

    States in which every episode ended are left out.  label: what a state is called.
    """
    reached = (data.evidence.found > 0) & Unseen(data).entered
    taken = np.broadcast_to((data.asked.pi > 0).any(axis=2), data.tried.shape)
    pairs = np.argwhere(reached[:, None] & taken & ~data.tried)
    if not len(pairs):
        return ""
    named = ", ".join(f"{label(s)!s:.60}: {a}" for s, a in pairs[:NAMED].tolist())
    more = ", ..." if len(pairs) > NAMED else ""
    which = "action that a target policy takes was" if len(pairs) == 1 else "actions that a target policy takes were"
    return f"; {len(pairs)} {which} never tried (state: action {named}{more})"


def endless(data: Empirical) -> bool:
    """Whether a run kept finding new states until its end, one in every second step at least, so that tables cannot answer."""
    steps = int(data.visits.sum())
    return bool(steps >= 500 and np.count_nonzero(data.tried.any(axis=1)) > steps / 2)


def unending(data: Empirical) -> list[str]:
    """The questions with a discount of 1 on every transition of the data, so that their sums end nowhere."""
    return [name for i, name in enumerate(data.asked.names) if (data.discounts(i) >= 1).all()]
