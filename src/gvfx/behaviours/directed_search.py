r"""Directed search: the shortest way to pairs (row, action) that lack tries, walked between two plans of a behaviour.

A plan knows the transitions seen so far; what lies behind them must be found in between.  The search seeks, in this order and
each with a share of the steps since the last plan:

1. *New rows*.  A try of a pair that was tried j times leads to a row never met with a chance h(j), learned from all tries so far;
   sought are pairs with fewer than 2^k tries, for the k with the smallest (steps to the nearest + 1) / h.  The search ends when
   the next discovery is expected later than `hope` times the steps so far.  If it is expected later than in `slow` steps, every
   third episode follows a target policy instead: a whole episode of one gets further than a mixture.
2. *Untried pairs* that a target policy takes.
3. *Retries*: pairs that a target policy takes with n(s, a)^2 < max(t / pairs met, n(s) / actions), as tracking rules force them.

Ways minimise the expected steps in the counted transitions, by value iteration at looks that become rarer; in between the rows
that are passed are updated (real-time dynamic programming, Barto et al. 1995).  A goal further away than the steps so far counts
as out of reach.  Rows are states, groups of them or cells; at most `EDGES` distinct transitions are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.kernel import piece, supporting
from gvfx.worlds.mdp import TableRows

RETRIES = 0.05  # largest share of the steps for retries
AT_LEAST = 1000  # steps: no way costs more than this and the steps so far
LOOK_EVERY, LOOK_SHARE = 20, 0.02  # steps between two looks: at least, and as a share of the steps so far
ROWS_PER_STEP = 8  # rows met divided by this: the fewest steps between two looks, which bounds their cost
SWEEPS, SETTLED = 60, 0.01  # of value iteration: at most, and the relative change below which it ends
GUIDED = 3  # every third episode follows a target policy where discoveries are slow
TIE = 1e-9  # of two ways whose costs differ by less than this share, the first is taken on every machine
DOUBT = 2.0  # tries with which the chance of a discovery begins at 1 / (2^k + 1)
LEVELS = 40  # factors of two of the number of tries
EDGES_PER_PAIR, EDGES = 8, 4_000_000  # room for distinct transitions: for each pair, and in all

NOTHING, NEW_ROWS, UNTRIED, RETRY = -1, 0, 1, 2  # kinds of what is sought

# --- What a search remembers -----------------------------------------------------------------------------------------


class Rules(NamedTuple):
    """The rules of a search that can be switched off; `python -m benchmarks rules` measures what each earns."""

    new_rows: float  # share of the steps since the last plan for seeking new rows
    untried: float  # likewise for pairs never tried
    retries: float  # likewise for tries of a pair once more
    hope: float = 1.0  # a discovery may be expected this many times the steps so far away; 0: new rows are not sought
    levels: int = LEVELS  # of tries that are distinguished; 1: only pairs never tried lead to new rows
    nearby: bool = True  # retries where n(s, a)^2 < n(s) / actions
    slow: int = 20  # steps to the next discovery from which on target policies help


COUNTERS = {  # by their places, of which 2, 4, 6 and 13 are those of rules of 0.2: checkpoints keep the layout
    "edges": 0,  # in use
    "rows": 1,  # met
    "steps": 3,  # so far
    "next_look": 5,
    "plan": 7,  # the step of the last plan
    "sought": 8,  # kind of what is sought
    "level": 9,  # new rows are sought by pairs with fewer tries
    "expected": 10,  # steps to the next discovery
    "begins": 11,  # 1: the next transition is the first of an episode
    "episodes": 12,  # ended
}
_PLACES = {"names": [*COUNTERS], "formats": [np.int64] * len(COUNTERS), "offsets": [8 * k for k in COUNTERS.values()]}
STANDING = np.dtype((np.record, {**_PLACES, "itemsize": 8 * 14}))


class Search(NamedTuple):
    """The state of a search; with arrays of size 0 if there is none."""

    n: np.ndarray  # int64 [row, action] tries
    head: np.ndarray  # int32 [row * action] a pair's first edge, -1: none
    following: np.ndarray  # int32 [edge] row arrived at, -1: the episode ended
    times: np.ndarray  # int32 [edge] how often it was seen
    link: np.ndarray  # int32 [edge] the pair's next edge, -1: none
    met: np.ndarray  # int32 [row] the rows met, in that order
    place: np.ndarray  # int32 [row] 1 + place among them; 0: never met
    starts: np.ndarray  # int64 [row] episodes begun there
    wanted: np.ndarray  # bool [row, action] whether a target policy takes the action
    way: np.ndarray  # int32 [row] the action to take; -1: no goal is known
    cost: np.ndarray  # [row] expected steps to a goal
    spent: np.ndarray  # int64 [kind] steps of search since the last plan
    tries: np.ndarray  # int64 [level] tries of pairs tried at least 2^(level - 1) and fewer than 2^level times
    finds: np.ndarray  # int64 [level] how many of them led to a new row
    at: np.ndarray  # STANDING [1]
    ends: np.ndarray  # [2] cost after the end of an episode, and of giving up
    rules: Rules


def begin_search(share: float, world: TableRows, pi: np.ndarray) -> Search:
    """A search that knows nothing yet; pi [1 or states, actions, gvf]; share 0: none."""
    rows, actions = world.rows if share > 0 else 0, world.actions
    room = min(rows * actions * EDGES_PER_PAIR, EDGES)
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
        way=np.full(rows, -1, np.int32),
        cost=np.zeros(rows),
        spent=np.zeros(3, np.int64),
        tries=np.zeros(LEVELS, np.int64),
        finds=np.zeros(LEVELS, np.int64),
        at=np.zeros(1, STANDING).view(np.recarray),
        ends=np.zeros(2),
        rules=Rules(float(share), float(share), min(float(share), RETRIES)),
    )
    at = search.at[0]
    at.sought, at.level, at.begins = NOTHING, 1, 1
    mark_wanted(search, world, pi)
    return search


def mark_wanted(search: Search, world: TableRows, pi: np.ndarray) -> None:
    """Note which pairs the target policies take; pi [1 or states, actions, gvf]."""
    if search.met.size:
        taken = np.broadcast_to((pi > 0).any(axis=2), (world.states, world.actions))
        search.wanted[:] = False
        np.logical_or.at(search.wanted, world.feature, taken)


def postpone(search: Search) -> None:
    """Do not search before `recount`: the rows mean nothing yet."""
    search.at[0].next_look = np.iinfo(np.int64).max


def plan_made(search: Search) -> None:
    """A plan was made: what was spent so far no longer counts."""
    search.at[0].plan = search.at[0].steps
    search.spent[:] = 0


def recount(search: Search, model: Empirical) -> None:
    """Begin again from the counts of a model, whose rows may be others than before."""
    if not search.met.size:
        return
    rows = len(search.met)
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
    search.way[:] = -1
    at = search.at[0]
    at.edges, at.rows, at.sought, at.next_look = len(kept), len(reached), NOTHING, 0


# --- The compiled functions of a search: `follow`, `observe` and `episode_end` are called by a behaviour's rule ------


@piece
def follow(search, x, pi, mu, random):
    """Write mu [action] if a way leads on from row x; whether it does."""
    actions = mu.shape[0]
    if guided(search):
        which = search.at[0].episodes // GUIDED % pi.shape[1]
        for a in range(actions):
            mu[a] = pi[a, which]
        return True
    if search.at[0].sought == NOTHING or search.way[x] < 0:
        return False
    for a in range(actions):
        mu[a] = random / actions
    mu[search.way[x]] += 1.0 - random
    return True


@piece
def observe(search, t, tr):
    """Count a transition, and look for the next goal."""
    at = search.at[0]
    x = tr.x
    arrived = tr.next_x if tr.alive > 0.0 else -1
    at.steps = t + 1
    meet(search, x)
    if at.begins == 1:
        search.starts[x] += 1
        at.begins = 0
    sought = at.sought
    if sought != NOTHING and search.way[x] >= 0 and not guided(search):
        search.spent[sought] += 1
    count(search, x, tr.action, arrived)
    if arrived >= 0:
        meet(search, arrived)
    if t + 1 >= at.next_look:
        look(search, t + 1, x if arrived < 0 else arrived)
    elif sought != NOTHING:
        seek(search, x, t + 1)
        if arrived >= 0:
            seek(search, arrived, t + 1)


@piece
def episode_end(search):
    """The next transition is the first of an episode."""
    search.at[0].begins = 1
    search.at[0].episodes += 1


@piece
def guided(search):
    """Whether this episode follows a target policy."""
    at = search.at[0]
    return at.sought == NEW_ROWS and at.expected > search.rules.slow and at.episodes % GUIDED == GUIDED - 1


# --- counting --------------------------------------------------------------------------------------------------------


@piece
def meet(search, x):
    at = search.at[0]
    if search.place[x] == 0:
        search.met[at.rows] = x
        at.rows += 1
        search.place[x] = at.rows


@piece
def tries_in(search, x):
    total = 0
    for a in range(search.n.shape[1]):
        total += search.n[x, a]
    return total


@piece
def count(search, x, a, arrived):
    """Add a transition to `arrived` (-1: an end)."""
    at = search.at[0]
    tries = search.n[x, a]
    level = 0
    while tries > 0:
        level += 1
        tries //= 2
    search.tries[level] += 1
    if arrived >= 0 and search.place[arrived] == 0:
        search.finds[level] += 1
    search.n[x, a] += 1
    pair = x * search.n.shape[1] + a
    e = search.head[pair]
    while e >= 0 and search.following[e] != arrived:
        e = search.link[e]
    if e < 0 and at.edges < search.link.shape[0]:
        e = at.edges
        at.edges += 1
        search.following[e] = arrived
        search.times[e] = 0
        search.link[e] = search.head[pair]
        search.head[pair] = e
    if e >= 0:
        search.times[e] += 1


# --- ways to goals, the pairs that are sought ------------------------------------------------------------------------


@piece
def lacking(search, x, t):
    """The action of row x that was tried least among those sought, or -1."""
    at, actions = search.at[0], search.n.shape[1]
    tries = tries_in(search, x)
    fewest = -1
    for a in range(actions):
        n = search.n[x, a]
        if at.sought == NEW_ROWS:
            lacks = n < at.level
        elif at.sought == UNTRIED:
            lacks = search.wanted[x, a] and n == 0
        else:
            square = n * n * actions
            lacks = search.wanted[x, a] and (square * at.rows < t or (search.rules.nearby and square < tries))
        if lacks and (fewest < 0 or n < search.n[x, fewest]):
            fewest = a
    return fewest


@piece
def backup(search, x):
    """Expected steps to a goal from row x by its best action, from the costs of its successors; the relative change."""
    best = search.ends[1]
    action = -1
    for a in range(search.n.shape[1]):
        total = 0.0
        left = 0.0
        e = search.head[x * search.n.shape[1] + a]
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


@piece
def seek(search, x, t):
    """The way on from row x now: an action that is sought, or what the costs of its successors say."""
    search.way[x] = lacking(search, x, t)
    if search.way[x] >= 0:
        search.cost[x] = 0.0
    else:
        backup(search, x)


@supporting
def ways(search, t):
    """Mark the goals, and find the expected steps to the nearest from every row; whether there are goals."""
    rows = search.at[0].rows
    search.ends[1] = t + AT_LEAST
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


# --- what to seek ----------------------------------------------------------------------------------------------------


@supporting
def look(search, t, x):
    """Decide what to seek from row x."""
    at, shares = search.at[0], (search.rules.new_rows, search.rules.untried, search.rules.retries)  # [kind]
    since = t - at.plan
    at.next_look = t + max(LOOK_EVERY, int(LOOK_SHARE * t), at.rows // ROWS_PER_STEP)
    if shares[NEW_ROWS] * since > search.spent[NEW_ROWS]:
        at.sought = NEW_ROWS
        if seek_discovery(search, t, x):
            return
    for sought in range(UNTRIED, RETRY + 1):
        if shares[sought] * since > search.spent[sought]:
            at.sought = sought
            if ways(search, t) and search.way[x] >= 0:
                return
    at.sought = NOTHING


@piece
def seek_discovery(search, t, x):
    """Seek the pairs by which a new row is expected soonest from row x; whether it is expected soon enough."""
    at = search.at[0]
    soonest = search.rules.hope * t
    best = -1
    chance = 1.0
    for k in range(search.rules.levels):
        at.level = 2**k
        chance = min(chance, (search.finds[k] + DOUBT / (2.0**k + 1.0)) / (search.tries[k] + DOUBT))
        if soonest * chance <= 1.0:
            break
        if ways(search, t) and search.way[x] >= 0 and search.cost[x] + 1.0 < soonest * chance * (1.0 - TIE):
            soonest = (search.cost[x] + 1.0) / chance
            best = k
    if best < 0:
        return False
    at.expected = int(soonest)
    if at.level != 2**best:
        at.level = 2**best
        ways(search, t)
    return True
