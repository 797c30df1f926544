"""Policies by a GVF's own action values: the policy that its own values call for, by policy iteration.

Greedy choices: evaluate, take the best actions, until none is better.  A choice is left only for a better one, so that
the iteration ends, and with a discount of 1 stays with policies whose sums end.  Softmax: the same with pi = softmax(Q /
temperature) until pi no longer changes, by shorter steps in Q where whole ones do not come closer.  Such a fixed point
exists, but there may be several; it is the one reached from equal shares, here as for the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gvfx.questions.gvf import Stacked
from gvfx.questions.own import OwnPolicy

ROUNDS = 1000


def converged_policies(
    asked: Stacked, action_values: Callable[[int, np.ndarray], np.ndarray], tried: np.ndarray, within: float
) -> tuple[np.ndarray, list[int]]:
    """pi [state, action, gvf] with the own policies settled, and the GVFs of which it did not.

    action_values: Q [state, action] of GVF i under a policy [state, action]; tried [state, action] bool.
    within:        how far a round may still move a probability.
    """
    pi, failed = asked.pi.copy(), []
    for i, own in asked.own:
        pi[:, :, i], left = _iterated(own, partial(action_values, i), tried, within)
        failed += [i] if left > within else []
    return pi, failed


def _iterated(
    own: OwnPolicy, action_values: Callable[[np.ndarray], np.ndarray], tried: np.ndarray, within: float
) -> tuple[np.ndarray, float]:
    """The settled policy, and how far its last round would have moved it."""
    followed = np.zeros(tried.shape)
    chosen = own.choices(followed, tried)
    step, left = 1.0, np.inf
    for _ in range(ROUNDS):
        q = action_values(own.probabilities(chosen, tried))
        wanted = own.choices(q, tried, chosen)
        before, left = left, float(np.abs(wanted - chosen).max())
        if left <= within:
            break
        if own.temperature == 0:
            chosen = wanted
            continue
        step = step / 2 if left > before and step > 1 / 64 else step
        followed = followed + step * (q - followed)
        chosen = own.choices(followed, tried)
    return own.probabilities(chosen, tried), left


def improved(asked: Stacked, q: np.ndarray, tried: np.ndarray) -> np.ndarray:
    """pi [state, action, gvf] with the own policies those of present action values q [state, action, gvf]."""
    pi = asked.pi.copy()
    for i, own in asked.own:
        pi[:, :, i] = own.probabilities(own.choices(q[:, :, i], tried), tried)
    return pi
