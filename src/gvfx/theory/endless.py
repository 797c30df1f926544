"""Worlds without a horizon: the best plan for given rewards, by policy iteration, and derivatives of visits.

Episodes restart with probability `ENDLESS` per step, so a plan that depends on the time step is no better than a stationary one.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gvfx.theory.flow import ENDLESS, Model, occupancy
from gvfx.theory.systems import Solve, factorised

ROUNDS = 100  # of policy iteration, and of guesses


def best_endless_plan(model: Model, reward: np.ndarray, reached: float) -> tuple[float, np.ndarray]:
    """An upper bound of the average reward <reward, x> of any behaviour, and the visits [state, action] of the best plan.

    As in `flow.highest_average`: guess the average, plan with reward minus guess, take the plan's average as the next guess.
    reached: an average that some behaviour reaches.  The bound is infinite if no guess is confirmed.
    """
    transitions, going = model.transitions(), ~model.terminal
    guess, choice = reached, reward.argmax(axis=1)
    for _ in range(ROUNDS):
        value, choice, excess = _iterated(model, transitions, reward - guess, choice)
        if model.start @ value <= 0:  # sum (reward - guess) <= excess * length of any episode, on average
            break
        chosen = np.eye(model.actions)[choice]
        average = float((reward * occupancy(model, chosen)).sum())
        guess = max(average, guess) * (1 + 1e-10)
    else:
        return np.inf, occupancy(model, np.eye(model.actions)[choice])
    return guess + excess * going.any(), occupancy(model, np.eye(model.actions)[choice])


def _iterated(
    model: Model, transitions: sp.csr_array, reward: np.ndarray, choice: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Policy iteration from a plan choice [state]: values [state], the plan, and by how much an action still exceeds them."""
    going, every = ~model.terminal, np.arange(model.states)
    for _ in range(ROUNDS):
        rows = transitions[every * model.actions + choice]
        solve = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * rows)
        value = solve(np.where(going, reward[every, choice], 0.0))
        q = reward + (1 - ENDLESS) * (transitions @ value).reshape(reward.shape)
        gain = np.where(going, q.max(axis=1) - value, 0.0)
        better = gain > 1e-12 * (1 + abs(value))
        if not better.any():
            break
        choice = np.where(better, q.argmax(axis=1), choice)
    return value, choice, max(0.0, float(gain.max()))


def endless_slopes(model: Model, mu: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, float]:
    """The derivative of <h, d> by mu(s, a), d the expected visits of states in an episode; and the length of an episode."""
    transitions = model.transitions()
    pairs = np.arange(mu.size)
    weights = sp.csr_array((mu.ravel(), (pairs // model.actions, pairs)), shape=(model.states, mu.size))
    onward = sp.csr_array(weights @ transitions)
    forward: Solve = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * sp.csr_array(onward.T))
    backward: Solve = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * onward)
    visits, later = forward(np.where(model.terminal, 0.0, model.start)), backward(h)
    return (1 - ENDLESS) * visits[:, None] * (transitions @ later).reshape(mu.shape), float(visits.sum())
