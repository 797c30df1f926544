"""What a directed search remembers: its own counts of transitions between table rows, and what it seeks.

Rows are table rows (states, groups of them, or cells of continuous observations); edges are the distinct transitions seen, in
linked lists, one for each pair; at most `EDGES` are kept, which bounds the memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.worlds.mdp import MDP

LEVELS = 40  # factors of two of the number of tries
EDGES_PER_PAIR, EDGES = 8, 4_000_000  # room for distinct transitions: for each pair, and in all

NOTHING, NEW_ROWS, UNTRIED, RETRY = -1, 0, 1, 2  # what is sought
USED, MET, ACTED, NOW, FOUND, NEXT_LOOK, LAST_LOOK, PLANNED = range(8)  # places in `Search.at`
SOUGHT, LEVEL, EXPECTED, BEGINS, EPISODES, KNOWN = range(8, 14)


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
    at: np.ndarray  # int64 [14], see above; ACTED: evaluated rows acted in; KNOWN: how many there are if it is known, else -1
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
        at=np.zeros(14, np.int64),
        ends=np.zeros(2),
        share=float(share),
    )
    search.at[[SOUGHT, LEVEL, BEGINS, KNOWN]] = NOTHING, 1, 1, known
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
