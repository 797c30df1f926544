"""Evidence from an environment whose outcomes are not known beforehand: each gets a number when it is first seen.

An outcome is a state, an action and the next state; termination leads to an extra state, numbered after all others.  The
outcomes of a pair are a linked list, so memory grows with the outcomes seen and not with all possible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.counts import Empirical, Evidence, counting
from gvfx.kernel import piece
from gvfx.questions.gvf import Stacked
from gvfx.worlds.mdp import MDP

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
    none = np.zeros((capacity, gvfs))
    by_rate = np.zeros((len(rates), capacity, gvfs))
    evidence = Evidence(
        counts=np.zeros((capacity, 1), np.int64),
        row=np.arange(capacity, dtype=np.int32)[:, None],
        sums=none,
        squares=none.copy(),
        rates=np.array(rates, dtype=float),
        recent=by_rate,
        missed=by_rate.copy(),
        starts=np.zeros(states + 1 if capacity else 0, np.int64),
        found=np.zeros(states + 1 if capacity else 0, np.int64),
    )
    pair, following, link = np.zeros((3, capacity), np.int64)
    return Outcomes(evidence, pair, following, link, np.full(pairs, -1), none.copy(), np.zeros(1, np.int64))


def grown(outcomes: Outcomes) -> Outcomes:
    """The same outcomes with twice the capacity."""

    def twice(array: np.ndarray, axis: int = 0) -> np.ndarray:
        return np.concatenate([array, np.zeros_like(array)], axis)

    e = outcomes.evidence
    evidence = e._replace(
        counts=twice(e.counts),
        row=np.arange(2 * len(e.row), dtype=np.int32)[:, None],
        sums=twice(e.sums),
        squares=twice(e.squares),
        recent=twice(e.recent, 1),
        missed=twice(e.missed, 1),
    )
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


def empirical(outcomes: Outcomes, skeleton: MDP, asked: Stacked, varying: bool) -> Empirical:
    """The model estimated from the outcomes; its last state is terminal, and states where something was tried are evaluated.

    skeleton: an MDP with the environment's sizes and time limit, without the terminal state.
    asked:    the questions as `widened` returns them.
    varying:  whether a discount changes between transitions.
    """
    states, actions, used = skeleton.states + 1, skeleton.actions, int(outcomes.used[0])
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
    world = MDP(
        following.reshape(shape),
        prob.reshape(shape),
        e.starts / e.starts.sum(),
        terminal,
        skeleton.horizon,
        live=total.reshape(states, actions).sum(axis=1) > 0,
    )
    if varying:
        gamma = np.zeros((states * actions, width, len(asked.names)))
        gamma[pair, slot] = outcomes.discounts[order] / e.counts[order]
        asked = asked._replace(gamma=gamma.reshape(-1, gamma.shape[2]), gamma_stride=1)
    evidence = Evidence(
        counts=counts,
        row=placed(np.arange(used), -1, np.int32),
        sums=e.sums[order],
        squares=e.squares[order],
        rates=e.rates,
        recent=e.recent[:, order],
        missed=e.missed[:, order],
        starts=e.starts.copy(),
        found=e.found.copy(),
    )
    return Empirical(world, asked, evidence, sampled_start=True)
