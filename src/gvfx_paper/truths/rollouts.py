"""Plain Monte Carlo in a known finite world, without sampling: what rollouts from every state cost, and how wrong their mean is.

The estimator: from every state in which errors count, each distinct policy is rolled out n times; a rollout ends with the episode
or after `length` steps; a value is the mean of its n discounted returns.  Questions with the same policy share rollouts.  Its
expected squared error is the square of the bias that cutting leaves, plus the variance of one return over n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF
from gvfx.theory.exact import values, weighted_transitions
from gvfx.worlds.mdp import MDP

LENGTHS = (5, 10, 20, 50, 100, 200, 300, 500)


class Rollouts(NamedTuple):
    """Rollouts of one length from every state in which errors count, means over questions and states."""

    length: int
    steps: float  # of one rollout of every policy from every state
    bias: float  # squared
    variance: float  # of one return


def rollouts(world: MDP, questions: Sequence[GVF], lengths: Sequence[int] = LENGTHS) -> list[Rollouts]:
    """The cost, bias and variance of rollouts of each length; discounts must be numbers."""
    if any(not isinstance(q.discount, float | int) for q in questions):
        raise InputError("discount: rollouts are computed for constant discounts; give numbers.")
    live, truth, wanted = world.live, values(world, questions), sorted(lengths)
    steps = dict.fromkeys(wanted, 0.0)
    bias, variance = np.zeros((2, len(wanted), len(questions)))
    seen: set[bytes] = set()
    for i, question in enumerate(questions):
        table = np.broadcast_to(question.policy.table(world.states, world.actions), (world.states, world.actions))
        fresh = table.tobytes() not in seen
        seen.add(table.tobytes())
        for k, (taken, mean, square) in enumerate(_moments(world, question, table, wanted)):
            bias[k, i] = ((mean - truth[i])[live] ** 2).mean()
            variance[k, i] = (square - mean**2)[live].mean()
            steps[wanted[k]] += float(taken[live].sum()) * fresh
    return [Rollouts(n, steps[n], float(b), float(v)) for n, b, v in zip(wanted, bias.mean(axis=1), variance.mean(axis=1))]


def _moments(
    world: MDP, question: GVF, policy: np.ndarray, lengths: Sequence[int]
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of rollouts of each length from each state: mean steps, mean return and mean squared return, each [state]."""
    gamma = float(question.discount)  # type: ignore[arg-type]
    tables = question.cumulant.tables(world)
    paid, sd = (np.broadcast_to(part, world.next.shape) for part in (tables.mean, tables.sd))
    going = np.where(world.terminal[world.next] | world.terminal[:, None, None], 0.0, 1.0)
    kernel, weighted = (weighted_transitions(world, policy, going * part) for part in (np.ones(paid.shape), paid))
    first, second = ((policy * (world.prob * part).sum(axis=2)).sum(axis=1) for part in (paid, paid**2 + sd**2))
    acting = ~world.terminal
    first, second = first * acting, second * acting
    taken, mean, square = np.zeros((3, world.states))
    found = []
    for n in range(1, max(lengths) + 1):
        square = second + 2 * gamma * (weighted @ mean) + gamma**2 * (kernel @ square)
        mean = first + gamma * (kernel @ mean)
        taken = acting + kernel @ taken
        if n in lengths:
            found.append((taken, mean, square))
    return found


def rollout_error(known: Sequence[Rollouts], steps: float) -> float:
    """The mean squared error of rollouts with `steps` steps in all, of the best length; infinite if the steps are too few.

    Every state gets the same number of rollouts, at least one.  The length is chosen in hindsight, in favour of the rollouts.
    """
    return min((r.bias + r.variance * r.steps / steps for r in known if r.steps <= steps), default=np.inf)
