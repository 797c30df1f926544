"""Visits: a finite model, known or estimated, the visits of a behaviour in it, and the highest average reward."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from gvfx.compilation.loops import stored
from gvfx.errors import InputError
from gvfx.questions.policies import checked_rows
from gvfx.theory.systems import factorised, weighted_transitions
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP, reachable, reached_from

PLAN_SIZE = 2e7  # actions of a plan that is kept: 40 MB
ENDLESS = 1e-6  # restart probability per step that stands for "no horizon"


class Model(NamedTuple):
    """Finite dynamics, known or estimated, as arrays (`MDP` without its checks, which an estimate may not pass).

    next, prob: [states, actions, successors]; rows of prob may sum to less than 1 where data are missing.
    start:      [states] distribution of first states;  terminal: [states] bool.
    horizon:    steps after which an episode is truncated; None: never.
    """

    next: np.ndarray
    prob: np.ndarray
    start: np.ndarray
    terminal: np.ndarray
    horizon: int | None = None

    @classmethod
    def of(cls, world: MDP) -> Model:
        return cls(world.next, world.prob, world.start, world.terminal, world.horizon)

    @property
    def states(self) -> int:
        return self.next.shape[0]

    @property
    def actions(self) -> int:
        return self.next.shape[1]

    @property
    def going(self) -> np.ndarray:
        """The states in which actions are taken: reachable and not terminal, [states] bool."""
        return reached_from(self) & ~self.terminal

    @property
    def restart(self) -> float:
        """Restart probability per step with which the mean episode length is about the horizon."""
        return ENDLESS if self.horizon is None else 1 / (self.horizon + 1)

    def transitions(self) -> sp.csr_array:
        """Transition probabilities [states * actions, states] without those into terminal states."""
        alive = ~self.terminal
        prob = (self.prob * alive[self.next] * alive[:, None, None]).ravel()
        pair = np.repeat(np.arange(self.states * self.actions), self.next.shape[2])
        kept = prob > 0
        entries = (prob[kept], (pair[kept], self.next.ravel()[kept]))
        return sp.csr_array(sp.coo_array(entries, shape=(self.states * self.actions, self.states)))


def behaviour_rows(behaviour: Any, model: Model | MDP) -> np.ndarray:
    """A behaviour's probabilities as [states, actions], from one row or one per state."""
    mu = np.atleast_2d(checked_rows(behaviour, "behaviour", model.next.shape[1]))
    if len(mu) not in (1, len(model.next)):
        raise InputError(f"behaviour: has {len(mu)} rows for {len(model.next)} states; give one row, or one per state.")
    return np.broadcast_to(mu, model.next.shape[:2])


@one_thread()
def occupancy(model: Model, behaviour: np.ndarray) -> np.ndarray:
    """Expected visits per step x(s, a) of a stationary behaviour [states, actions]; they sum to 1.

    Episodes start from `start` and are truncated at the horizon: x(s, .) is proportional to sum_{t < horizon} P(s_t = s).
    """
    mu = behaviour_rows(behaviour, model)
    alive = ~model.terminal
    onward = sp.csr_array(weighted_transitions(model, mu, (alive[model.next] & alive[:, None, None]).astype(float)).T)
    if model.horizon is None:
        visits = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * onward)(model.start)
    else:
        start = np.ascontiguousarray(model.start, dtype=float)
        visits = _summed(onward.indptr, onward.indices, onward.data, start, model.horizon)
    return visits[:, None] * mu / visits.sum()


@stored(nogil=True)
def _summed(indptr, indices, data, start, horizon):
    """sum_{t < horizon} A^t start for a matrix A in CSR form; compiled, because many small products are slow from Python."""
    visits, now, after = np.zeros_like(start), start.copy(), np.empty_like(start)
    for _ in range(horizon):
        for s in range(len(start)):
            visits[s] += now[s]
            total = 0.0
            for k in range(indptr[s], indptr[s + 1]):
                total += data[k] * now[indices[k]]
            after[s] = total
        now, after = after, now
    return visits


def highest_average(model: Model, reward: np.ndarray, reached: float | None = None) -> float:
    """The highest average reward <reward, x> of any behaviour, even one that depends on the time step; needs a horizon.

    It is a ratio of two sums over an episode, reward and length.  Guess it, plan by backward induction with reward minus
    guess, and take the plan's own ratio as the next guess (Dinkelbach).  The result is an upper bound, tight to 1e-9 per step
    of an episode.  reached: an average that some behaviour reaches, a first guess that saves inductions.
    """
    return _highest(model, reward, reached, np.empty((0, model.states), np.int16))


def best_plan(model: Model, reward: np.ndarray, reached: float) -> tuple[float, np.ndarray | None]:
    """`highest_average`, and the visits per step [state, action] of the plan that reaches it, which sum to 1.

    If the horizon times the number of states exceeds `PLAN_SIZE`, the plan is not kept, and its visits are None.
    """
    assert model.horizon is not None
    if model.horizon * model.states > PLAN_SIZE:
        return highest_average(model, reward, reached), None
    choices = np.empty((model.horizon, model.states), np.int16)
    highest = _highest(model, reward, reached, choices)
    transitions = model.transitions()
    start = np.where(model.terminal, 0.0, model.start)
    visits = _followed(transitions.indptr, transitions.indices, transitions.data, model.actions, start, choices)
    return highest, visits / visits.sum()


def _highest(model: Model, reward: np.ndarray, reached: float | None, choices: np.ndarray) -> float:
    """`highest_average`; writes the best action at every time step into choices [horizon, state], if it has rows."""
    assert model.horizon is not None
    transitions, going = model.transitions(), ~model.terminal
    arrays = transitions.indptr, transitions.indices, transitions.data
    guess = float(reward[model.going].min()) if reached is None else reached
    while True:
        value, length = _planned(*arrays, reward - guess, going, model.horizon, choices)
        surplus = float(model.start @ value / (model.start @ length))
        if surplus <= 1e-9 * abs(guess):
            # no plan's total exceeds start @ value, and an episode has at least one step
            return guess + max(0.0, float(model.start @ value))
        guess += surplus


@stored(nogil=True)
def _planned(indptr, indices, data, reward, going, horizon, choices):
    """Total reward and length of an episode from each state under the best plan, by backward induction; P in CSR form."""
    states, actions = reward.shape
    value, length = np.zeros(states), np.zeros(states)
    value_before, length_before = np.zeros(states), np.zeros(states)
    for left in range(horizon):
        for s in range(states):
            if not going[s]:
                continue
            highest, best = -np.inf, 0
            for a in range(actions):
                total = 0.0
                for k in range(indptr[s * actions + a], indptr[s * actions + a + 1]):
                    total += data[k] * value[indices[k]]
                total += reward[s, a]
                if total > highest:
                    highest, best = total, a
            steps = 0.0
            for k in range(indptr[s * actions + best], indptr[s * actions + best + 1]):
                steps += data[k] * length[indices[k]]
            value_before[s], length_before[s] = highest, 1 + steps
            if len(choices) > 0:
                choices[horizon - 1 - left, s] = best
        value, value_before = value_before, value
        length, length_before = length_before, length
    return value, length


@stored(nogil=True)
def _followed(indptr, indices, data, actions, start, choices):
    """Visits of every pair in an episode [state, action] that takes the actions choices [time, state]; P in CSR form."""
    visits, now, after = np.zeros((len(start), actions)), start.copy(), np.zeros_like(start)
    for t in range(len(choices)):
        after[:] = 0.0
        for s in range(len(start)):
            if now[s] > 0:
                a = choices[t, s]
                visits[s, a] += now[s]
                for k in range(indptr[s * actions + a], indptr[s * actions + a + 1]):
                    after[indices[k]] += data[k] * now[s]
        now, after = after, now
    return visits


def reached_in_time(model: Model) -> np.ndarray:
    """The states in which some behaviour acts before the horizon, [states] bool."""
    if (horizon := model.horizon) is None:
        return model.going
    rounds = itertools.count(1)
    acting = ~model.terminal[:, None, None]

    def successors(states: np.ndarray) -> np.ndarray:
        if next(rounds) >= horizon:
            return np.empty(0, int)
        return model.next[states][(model.prob[states] > 0) & acting[states]]

    return reachable(model.start > 0, successors) & ~model.terminal


def flow_matrix(model: Model, going: np.ndarray, restart: float) -> sp.csr_array:
    """The matrix [pairs, states] that maps v to v(s) - (1 - restart) sum_s' P(s' | s, a) v(s'), over the states `going`."""
    actions = model.actions
    transitions = model.transitions()[(going[:, None] * actions + np.arange(actions)).ravel()][:, going]
    pairs = np.arange(len(going) * actions)
    own = sp.csr_array((np.ones(pairs.size), (pairs, pairs // actions)), shape=(pairs.size, len(going)))
    return sp.csr_array(own - (1 - restart) * transitions)
