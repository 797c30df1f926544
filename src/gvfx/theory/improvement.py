"""Policies by a GVF's own action values (`gvfx.questions.own`), computed by policy iteration.

Greedy: evaluate the policy and take the best actions, until none is better.  A choice changes only for a better one, so the
iteration ends, and with a discount of 1 it stays with policies whose sums are finite.  Softmax: the same with
pi = softmax(Q / temperature) until pi no longer changes, with shorter steps in Q if full ones do not converge.  A fixed
point exists, but there may be several; the one reached from the uniform policy is used everywhere, also for the truth.
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
    """pi [state, action, gvf] with every OwnPolicy replaced by its fixed point, and the GVFs that did not converge.

    action_values: a function that returns Q [state, action] of GVF i under a policy [state, action].
    tried:         [state, action] bool, the actions with known values.
    within:        largest change of a probability in the last round.
    """
    pi, failed = asked.pi.copy(), []
    for i, own in asked.own:
        pi[:, :, i], left = _iterated(own, partial(action_values, i), tried, within)
        failed += [i] if left > within else []
    return pi, failed


def _iterated(
    own: OwnPolicy, action_values: Callable[[np.ndarray], np.ndarray], tried: np.ndarray, within: float
) -> tuple[np.ndarray, float]:
    """The policy after the last round, and by how much one more round would change a probability."""
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
    """pi [state, action, gvf] with every OwnPolicy replaced by that of the present action values q [state, action, gvf]."""
    pi = asked.pi.copy()
    for i, own in asked.own:
        pi[:, :, i] = own.probabilities(own.choices(q[:, :, i], tried), tried)
    return pi
