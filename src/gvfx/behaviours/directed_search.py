r"""Directed search: the shortest way to pairs that lack tries, walked between two plans of a behaviour.

A plan is made when the data have doubled, on the transitions seen so far; what lies behind the states reached so far must be
found in between.  The search keeps its own counts of transitions between table rows and seeks pairs (row, action) in this
order; each kind may use a share of the steps since the last plan:

1. *New rows*, while some are missing.  A try of a pair that was tried j times leads to a row never met with a chance h that is
   learned from all tries so far, one number for each j up to a factor of two, and that never grows with j.  Of the levels "fewer
   than 2^k tries" the one is sought for which (steps to the nearest such pair + 1) / h is smallest: the soonest discovery.
   Where it is known that a state is missing, h is at least what a pair tried n times deserves if one pair leads there with a
   chance that could be anything: its share of 1 / (n + 1) in the sum over all pairs, times 1 / (n + 2).
   Rows count as missing while the next discovery is expected within `HOPE` times the steps so far, or `HOPE_KNOWN` times in a
   world whose states are known and of which some evaluation state was never acted in.  A search that finds nothing fades: its
   steps grow with the square root of all steps.
2. *Untried pairs* that a target policy takes.
3. *Retries*: pairs that a target policy takes with n(s, a)^2 < max(t / pairs met, n(s) / actions), the forced exploration of
   tracking rules; the second term retries where the behaviour stands anyway.

While new rows are sought and the next one is expected later than in `SLOW` steps, every third episode follows one of the target
policies instead, in turn, with some random actions: they often lead where the answers come from, and a whole episode of one gets
further than a mixture.

The way to them minimises the expected steps in the counted transitions, by value iteration at looks that become rarer, from
above: what is not known to lead to a goal costs `PATIENCE` of the steps so far, and goals that are further away are given up.
Between two looks the rows passed are updated as they are passed (real-time dynamic programming, Barto et al. 1995), so that the
next goal is sought at once when one is reached.

Shapes: rows are table rows (states, groups of them, or cells of continuous observations); edges are the distinct transitions
seen, in linked lists, one for each pair; at most `EDGES` are kept, which bounds the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.kernel import piece, supporting
from gvfx.worlds.mdp import MDP

RETRIES = 0.05  # share of the steps for retries
PATIENCE, AT_LEAST = 0.1, 1000  # the most expensive way: this share of the steps so far, and this many steps
LOOK_EVERY, LOOK_SHARE = 20, 0.02  # steps between two looks: at least, and as a share of the steps so far
ROWS_PER_STEP = 8  # rows met divided by this: the fewest steps between two looks, which bounds their cost
SWEEPS, SETTLED = 60, 0.01  # of value iteration: at most, and the relative change below which it ends
LEVELS = 40  # factors of two of the number of tries
SLOW = 20  # steps to the next discovery
GUIDED, STRAYING = 3, 0.1  # every third episode follows a target policy, with this share of random actions
HOPE, HOPE_KNOWN = 1.0, 10.0
TIE = 1e-9  # of two ways whose costs differ by less than this share, the first is taken on every machine
DOUBT = 2.0  # tries with which the chance of a discovery begins at 1 / (2^k + 1)
EDGES_PER_PAIR, EDGES = 8, 4_000_000  # room for distinct transitions: for each pair, and in all

NOTHING, NEW_ROWS, UNTRIED, RETRY = -1, 0, 1, 2  # what is sought
USED, MET, ACTED, NOW, NEXT_LOOK, LAST_LOOK, PLANNED, SOUGHT, LEVEL, BEGINS, KNOWN, EPISODES, EXPECTED = range(13)  # places in `Search.at`


class Search(NamedTuple):
    """The state of a search."""

    n: np.ndarray  # int64 [row, action] tries
    head: np.ndarray  # int32 [row * action] a pair's first edge, -1: none
    following: np.ndarray  # int32 [edge] row arrived at, -1: the episode ended
    times: np.ndarray  # int32 [edge] how often it was seen
    link: np.ndarray  # int32 [edge] the pair's next edge, -1: none
    met: np.ndarray  # int32 [row] the rows met, in that order
    place: np.ndarray  # int32 [row] 1 + place among them; 0: never met
    starts: np.ndarray  # int64 [row] episodes begun there
    wanted: np.ndarray  # bool [row, action] whether a target policy takes the action
    evaluated: np.ndarray  # bool [row] whether it has an evaluation state
    way: np.ndarray  # int32 [row] the action to take; -1: no goal is known
    cost: np.ndarray  # [row] expected steps to a goal
    spent: np.ndarray  # int64 [kind] steps of search since the last plan
    tries: np.ndarray  # int64 [level] tries of pairs tried at least 2^(level - 1) and fewer than 2^level times
    finds: np.ndarray  # int64 [level] how many of them led to a new row
    at: np.ndarray  # int64 [13], see above; ACTED: evaluated rows acted in; KNOWN: how many there are if it is known, else -1
    ends: np.ndarray  # [2] cost after the end of an episode, and of giving up
    share: float  # of the steps since the last plan


def begin_search(share: float, world: MDP, pi: np.ndarray) -> Search:
    """A search that knows nothing yet; pi [1 or states, actions, gvf]; share 0: none, with arrays of size 0."""
    rows, actions = (world.rows, world.actions) if share > 0 else (0, world.actions)
    room = min(rows * actions * EDGES_PER_PAIR, EDGES)
    evaluated = np.zeros(rows, bool)
    if rows:
        evaluated[world.feature[world.live]] = True
    known = -1 if world.placeholder else int(evaluated.sum())
    search = Search(
        n=np.zeros((rows, actions), np.int64),
        head=np.full(rows * actions, -1, np.int32),
        following=np.zeros(room, np.int32),
        times=np.zeros(room, np.int32),
        link=np.zeros(room, np.int32),
        met=np.zeros(rows, np.int32),
        place=np.zeros(rows, np.int32),
        starts=np.zeros(rows, np.int64),
        wanted=np.zeros((rows, actions), bool),
        evaluated=evaluated,
        way=np.full(rows, -1, np.int32),
        cost=np.zeros(rows),
        spent=np.zeros(3, np.int64),
        tries=np.zeros(LEVELS, np.int64),
        finds=np.zeros(LEVELS, np.int64),
        at=np.array([0, 0, 0, 0, 0, 0, 0, NOTHING, 1, 1, known, 0, 0], np.int64),
        ends=np.zeros(2),
        share=float(share),
    )
    want(search, world, pi)
    return search


def want(search: Search, world: MDP, pi: np.ndarray) -> None:
    """Note which pairs the target policies take; pi [1 or states, actions, gvf]."""
    if search.share > 0:
        taken = np.broadcast_to((pi > 0).any(axis=2), (world.states, world.actions))
        search.wanted[:] = False
        np.logical_or.at(search.wanted, world.feature, taken)


def wait(search: Search) -> None:
    """Do not search before `recount`: the rows mean nothing yet."""
    search.at[NEXT_LOOK] = np.iinfo(np.int64).max


def planned(search: Search) -> None:
    """A plan was made: what was spent so far no longer counts."""
    search.at[PLANNED] = search.at[NOW]
    search.spent[:] = 0


def recount(search: Search, model: Empirical) -> None:
    """Begin again from the counts of a model, whose rows may be others than before."""
    if not search.share > 0:
        return
    rows, actions = search.n.shape
    seen, world = model.seen, model.world
    arrived = world.next.ravel()[seen.outcome]
    count = model.evidence.counts.ravel()[seen.outcome]
    kept = np.arange(len(count))[: len(search.link)]
    search.n[:] = model.visits[:rows]
    search.head[:] = -1
    search.following[kept] = np.where(world.terminal[arrived], -1, arrived)[kept]
    search.times[kept] = np.minimum(count[kept], np.iinfo(np.int32).max)
    pair = seen.pair[kept]
    first = np.append(True, pair[1:] != pair[:-1]) if pair.size else np.zeros(0, bool)
    search.link[kept] = np.where(np.append(pair[1:] == pair[:-1], False), kept + 1, -1) if pair.size else -1
    search.head[pair[first]] = kept[first]
    search.starts[:] = model.evidence.starts[:rows]
    reached = np.flatnonzero((model.evidence.starts > 0) | np.isin(np.arange(world.states), arrived) | model.tried.any(axis=1))
    reached = reached[~world.terminal[reached]]
    search.place[:] = 0
    search.met[: len(reached)] = reached
    search.place[reached] = 1 + np.arange(len(reached))
    search.at[[USED, MET, ACTED]] = len(kept), len(reached), int((model.tried[:rows].any(axis=1) & search.evaluated).sum())
    search.at[[SOUGHT, NEXT_LOOK]] = NOTHING, 0
    search.way[:] = -1


class SearchRule(NamedTuple):
    """Compiled functions of a search.

    follow(search, x, pi, mu, random)  writes mu [action] if a way leads on from row x; whether it did
    observe(search, t, transition)  counts a transition, and looks for the next goal
    episode_end(search)             the next transition is the first of an episode
    """

    follow: Callable[..., bool]
    observe: Callable[..., None]
    episode_end: Callable[..., None]


@cache
def search_rule(actions: int) -> SearchRule:
    """The functions for a number of actions."""

    @piece
    def meet(search, x):
        if search.place[x] == 0:
            search.met[search.at[MET]] = x
            search.at[MET] += 1
            search.place[x] = search.at[MET]

    @piece
    def tries_of(search, x):
        total = 0
        for a in range(actions):
            total += search.n[x, a]
        return total

    @piece
    def count(search, x, a, arrived):
        """Add a transition to `arrived` (-1: an end)."""
        tries = search.n[x, a]
        level = 0
        while tries > 0:
            level += 1
            tries //= 2
        search.tries[level] += 1
        if arrived >= 0 and search.place[arrived] == 0:
            search.finds[level] += 1
        if search.evaluated[x] and tries_of(search, x) == 0:
            search.at[ACTED] += 1
        search.n[x, a] += 1
        pair = x * actions + a
        e = search.head[pair]
        while e >= 0 and search.following[e] != arrived:
            e = search.link[e]
        if e < 0 and search.at[USED] < search.link.shape[0]:
            e = search.at[USED]
            search.at[USED] += 1
            search.following[e] = arrived
            search.times[e] = 0
            search.link[e] = search.head[pair]
            search.head[pair] = e
        if e >= 0:
            search.times[e] += 1

    @piece
    def lacking(search, x, t):
        """The action of row x that was tried least among those sought, or -1."""
        sought = search.at[SOUGHT]
        tries = tries_of(search, x)
        fewest = -1
        for a in range(actions):
            n = search.n[x, a]
            if sought == NEW_ROWS:
                lacks = n < search.at[LEVEL]
            elif sought == UNTRIED:
                lacks = search.wanted[x, a] and n == 0
            else:
                square = n * n * actions
                lacks = search.wanted[x, a] and (square * search.at[MET] < t or square < tries)
            if lacks and (fewest < 0 or n < search.n[x, fewest]):
                fewest = a
        return fewest

    @piece
    def backup(search, x):
        """Expected steps to a goal from row x by its best action, from the costs of its successors; the relative change."""
        best = search.ends[1]
        action = -1
        for a in range(actions):
            total = 0.0
            left = 0.0
            e = search.head[x * actions + a]
            while e >= 0:
                to = search.following[e]
                if to != x:
                    total += search.times[e] * (search.ends[0] if to < 0 else search.cost[to])
                    left += search.times[e]
                e = search.link[e]
            if left > 0.0 and search.n[x, a] + total < best * left * (1.0 - TIE):
                best = (search.n[x, a] + total) / left
                action = a
        change = abs(best - search.cost[x]) / best
        search.cost[x] = best
        search.way[x] = action
        return change

    @supporting
    def ways(search, t):
        """Mark the goals, and find the expected steps to the nearest from every row; whether there are goals."""
        rows = search.at[MET]
        search.ends[1] = PATIENCE * t + AT_LEAST
        search.ends[0] = search.ends[1]
        goals = 0
        for j in range(rows):
            x = search.met[j]
            search.way[x] = lacking(search, x, t)
            search.cost[x] = search.ends[1]
            if search.way[x] >= 0:
                search.cost[x] = 0.0
                goals += 1
        if goals == 0:
            return False
        for k in range(SWEEPS):
            change = 0.0
            for j in range(rows):
                x = search.met[rows - 1 - j if k % 2 == 0 else j]  # the newest rows are the nearest to what is unknown
                if search.cost[x] > 0.0:
                    change = max(change, backup(search, x))
            total = 0.0
            episodes = 0
            for j in range(rows):
                x = search.met[j]
                total += search.starts[x] * search.cost[x]
                episodes += search.starts[x]
            if episodes > 0:
                search.ends[0] = total / episodes
            if change < SETTLED:
                break
        return True

    @piece
    def doors(search):
        """The sum of 1 / (n + 1) over all pairs of rows met."""
        total = 0.0
        for j in range(search.at[MET]):
            for a in range(actions):
                total += 1.0 / (search.n[search.met[j], a] + 1.0)
        return total

    @supporting
    def look(search, t, x):
        """Decide what to seek from row x."""
        since = t - search.at[PLANNED]
        known = search.at[KNOWN]
        search.at[LAST_LOOK] = t
        search.at[NEXT_LOOK] = t + max(LOOK_EVERY, int(LOOK_SHARE * t), search.at[MET] // ROWS_PER_STEP)
        if (known < 0 or search.at[ACTED] < known) and search.share * since > search.spent[NEW_ROWS]:
            search.at[SOUGHT] = NEW_ROWS
            soonest = t * (HOPE if known < 0 else HOPE_KNOWN)
            best = -1
            usual = 1.0
            others = doors(search)
            for k in range(LEVELS):
                search.at[LEVEL] = 2**k
                usual = min(usual, (search.finds[k] + DOUBT / (2.0**k + 1.0)) / (search.tries[k] + DOUBT))
                chance = usual
                if known >= 0:
                    n = 0.75 * 2.0**k if k > 0 else 0.0
                    chance = max(usual, 1.0 / ((n + 1.0) * (n + 2.0) * others))
                if 1.0 >= soonest * chance:
                    break
                if ways(search, t) and search.way[x] >= 0 and search.cost[x] + 1.0 < soonest * chance * (1.0 - TIE):
                    soonest = (search.cost[x] + 1.0) / chance
                    best = k
            if best >= 0:
                search.at[EXPECTED] = int(soonest)
                if search.at[LEVEL] != 2**best:
                    search.at[LEVEL] = 2**best
                    ways(search, t)
                return
        for sought in range(UNTRIED, RETRY + 1):
            share = search.share if sought == UNTRIED else min(search.share, RETRIES)
            if share * since > search.spent[sought]:
                search.at[SOUGHT] = sought
                if ways(search, t) and search.way[x] >= 0:
                    return
        search.at[SOUGHT] = NOTHING

    @piece
    def seek(search, x, t):
        """The way on from row x now: an action that is sought, or what the costs of its successors say."""
        search.way[x] = lacking(search, x, t)
        if search.way[x] >= 0:
            search.cost[x] = 0.0
        else:
            backup(search, x)

    @piece
    def guided(search):
        """Whether this episode follows a target policy."""
        slow = search.at[SOUGHT] == NEW_ROWS and search.at[EXPECTED] > SLOW
        return slow and search.at[EPISODES] % GUIDED == GUIDED - 1

    @piece
    def follow(search, x, pi, mu, random):
        if guided(search):
            which = search.at[EPISODES] // GUIDED % pi.shape[1]
            for a in range(actions):
                mu[a] = (1.0 - STRAYING) * pi[a, which] + STRAYING / actions
            return True
        if search.at[SOUGHT] == NOTHING or search.way[x] < 0:
            return False
        for a in range(actions):
            mu[a] = random / actions
        mu[search.way[x]] += 1.0 - random
        return True

    @piece
    def observe(search, t, tr):
        x = tr.x
        arrived = tr.next_x if tr.alive > 0.0 else -1
        search.at[NOW] = t + 1
        meet(search, x)
        if search.at[BEGINS] == 1:
            search.starts[x] += 1
            search.at[BEGINS] = 0
        sought = search.at[SOUGHT]
        followed = sought != NOTHING and search.way[x] >= 0 and not guided(search)
        if followed:
            search.spent[sought] += 1
        reached = followed and search.cost[x] == 0.0
        count(search, x, tr.action, arrived)
        if arrived >= 0:
            meet(search, arrived)
        if t + 1 >= search.at[NEXT_LOOK]:
            look(search, t + 1, x if arrived < 0 else arrived)
        elif sought != NOTHING:
            seek(search, x, t + 1)
            if reached and search.cost[x] > 0.0:  # a goal was reached: look for others soon
                soon = max(t + 2, search.at[LAST_LOOK] + search.at[MET] // ROWS_PER_STEP)
                search.at[NEXT_LOOK] = min(search.at[NEXT_LOOK], soon)
            if arrived >= 0:
                seek(search, arrived, t + 1)

    @piece
    def episode_end(search):
        search.at[BEGINS] = 1
        search.at[EPISODES] += 1

    return SearchRule(follow, observe, episode_end)
