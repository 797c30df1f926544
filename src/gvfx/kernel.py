"""The interface between behaviours, learners and compiled loops: compiled functions, and the transition passed to them.

`rule(sizes)` of a behaviour or learner returns its compiled functions, one set for equal sizes; `begin(...)` its state, a named
tuple of arrays that they change in place.  Sizes are closure constants, so that a composed loop runs like one written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gvfx.compilation.loops import inlined, stored

# The kinds of learning that behaviours and learners can support, and how sentences name them.
KINDS = {"tables": "tables", "linear": "linear features", "networks": "networks", "box_actions": "Box actions"}


def runs_on(name: str, supports: frozenset[str]) -> str:
    """The part of a sentence that says where a behaviour or learner runs."""
    kinds = " and ".join(prose for kind, prose in KINDS.items() if kind in supports)
    return f"{name} runs on {kinds} only" if kinds else f"{name} combines parts that run on different kinds of learning"


# Fast-math flags: sums may be reordered, so that they vectorise, but NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}

# `piece` compiles the functions that a loop calls, `supporting` those called seldom, `whole` the loop, which is kept on disk.
# Without numba's runtime (`_nrt`) they cannot allocate, which saves reference counting.
piece = inlined(fastmath=FAST, forceinline=True, _nrt=False)
supporting = inlined(fastmath=FAST, _nrt=False)
whole = stored(fastmath=FAST, nogil=True, _nrt=False)


class Sizes(NamedTuple):
    """The sizes that compiled functions unroll loops over."""

    gvfs: int
    actions: int


class Transition(NamedTuple):
    """One transition as compiled functions see it; cumulants, discounts and policies are passed as separate arrays.

    `row` indexes the policy table, `x` the learner's tables, `g` the discount table.  `alive` is 0 on termination:
    discounts[gvf] = alive * gamma[g, gvf].  `prob` is the behaviour's probability of the action.  next_action and next_prob are
    set only for learners that need them.
    """

    row: int
    x: int
    action: int
    prob: float
    next_row: int
    next_x: int
    next_action: int
    next_prob: float
    g: int
    alive: float


@dataclass(frozen=True, eq=False)
class BehaviourRule:
    """Compiled functions of a behaviour.

    probabilities(state, t, s, x, pi, m, mu)     writes mu[action] for state s from its pi, m [action, gvf]
    observe(state, t, transition, c, gamma, pi)  is called with every transition, after the learner's update
    episode_end(state, t, rng)                   is called after termination and truncation
    """

    probabilities: Callable[..., None]
    observe: Callable[..., None]
    episode_end: Callable[..., None]


@dataclass(frozen=True, eq=False)
class LearnerRule:
    """Compiled functions of a learner: update(state, t, transition, c, gamma, pi) and episode_end(state, t, rng, pi, gamma)."""

    update: Callable[..., None]
    episode_end: Callable[..., None]


@piece
def observe_nothing(state: Any, t: Any, transition: Any, c: Any, gamma: Any, pi: Any) -> None:
    """`observe` of a behaviour that does not learn from transitions."""


@piece
def end_nothing(state: Any, t: Any, rng: Any) -> None:
    """`episode_end` of a behaviour that ignores episodes."""


@piece
def learn_nothing_at_end(state: Any, t: Any, rng: Any, pi: Any, gamma: Any) -> None:
    """A learner to which episodes do not matter."""


@piece
def normalise(mu: Any, actions: int) -> None:
    """Scale mu[actions] to sum to one in place; uniform if all are zero (Eq. 3 is 0/0 there) or the sum is not finite."""
    total = 0.0
    for a in range(actions):
        total += mu[a]
    if 0.0 < total < 1e300:
        scale = 1.0 / total
        for a in range(actions):
            mu[a] *= scale
    else:
        for a in range(actions):
            mu[a] = 1.0 / actions
