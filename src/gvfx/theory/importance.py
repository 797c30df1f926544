"""The importance of state-action pairs for the error of the answers, and the variance of each answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.compilation.loops import stored
from gvfx.questions.gvf import GVF
from gvfx.questions.where import Evaluation, WhereLike, as_evaluation, as_where
from gvfx.theory import exact
from gvfx.theory.exact import behaviour_rows, factorised, groups, resolvent, weighted_transitions
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP, pair_matrix, reached_from

# --- Visits: a finite model, known or estimated, the visits of a behaviour in it, and the highest average reward ----

PLAN_SIZE = 2e7  # actions of a plan that is kept: 40 MB
ENDLESS = 1e-6  # restart probability per step that stands for "no horizon"


class Model(NamedTuple):
    """Finite dynamics, known or estimated: an `MDP` without its checks; rows of prob may sum to less than 1."""

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
        return pair_matrix(self.prob * alive[self.next] * alive[:, None, None], self.next)


@one_thread()
def occupancy(model: Model, behaviour: np.ndarray) -> np.ndarray:
    """Expected visits per step x(s, a) of a stationary behaviour [states, actions], truncated at the horizon; they sum to 1."""
    mu = behaviour_rows(behaviour, model)
    alive = ~model.terminal
    moved = sp.csr_array(weighted_transitions(model, mu, (alive[model.next] & alive[:, None, None]).astype(float)).T)
    if model.horizon is None:
        visits = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * moved)(model.start)
    else:
        start = np.ascontiguousarray(model.start, dtype=float)
        visits = _summed(moved.indptr, moved.indices, moved.data, start, model.horizon)
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


def best_plan(model: Model, reward: np.ndarray, reached: float | None = None) -> tuple[float, np.ndarray | None]:
    """The highest average reward <reward, x> of any behaviour, even one that depends on the time step; and its visits x.

    Guess it, plan by backward induction with reward minus guess, and take the plan's own average as the next guess (Dinkelbach).
    An upper bound, tight to 1e-9 per step of an episode; it needs a horizon.  The visits [state, action] sum to 1; None where the
    plan is larger than `PLAN_SIZE`.  reached: an average that some behaviour reaches, the first guess.
    """
    assert model.horizon is not None
    is_kept = model.horizon * model.states <= PLAN_SIZE
    choices = np.empty((model.horizon if is_kept else 0, model.states), np.int16)
    transitions, going = model.transitions(), ~model.terminal
    arrays = transitions.indptr, transitions.indices, transitions.data
    guess = float(reward[model.going].min()) if reached is None else reached
    while True:
        value, length = _planned(*arrays, reward - guess, going, model.horizon, choices)
        surplus = float(model.start @ value / (model.start @ length))
        if surplus <= 1e-9 * abs(guess):
            break
        guess += surplus
    highest = guess + max(0.0, float(model.start @ value))  # no plan's total exceeds start @ value, in at least one step
    if not is_kept:
        return highest, None
    visits = _followed(*arrays, model.actions, np.where(going, model.start, 0.0), choices)
    return highest, visits / visits.sum()


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
    return reached_from(model, horizon - 1) & ~model.terminal


def flow_matrix(model: Model, going: np.ndarray, restart: float) -> sp.csr_array:
    """The matrix [pairs, states] that maps v to v(s) - (1 - restart) sum_s' P(s' | s, a) v(s'), over the states `going`."""
    actions = model.actions
    transitions = model.transitions()[(going[:, None] * actions + np.arange(actions)).ravel()][:, going]
    pairs = np.arange(len(going) * actions)
    own = sp.csr_array((np.ones(pairs.size), (pairs, pairs // actions)), shape=(pairs.size, len(going)))
    return sp.csr_array(own - (1 - restart) * transitions)


SIGNS = 64  # random sign vectors that replace the dense inverse in large worlds


@one_thread()
def importances(
    model: Model, pi: np.ndarray, gamma: np.ndarray, noise: np.ndarray, where: np.ndarray | Evaluation, signs: int = SIGNS
) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs of a GVF's index and its importance, sum_s0 d(s0) F(s0, s)^2 pi(a|s)^2 sigma^2(s, a), [state, action].

    pi, gamma: as in `Stacked`;  noise: sigma^2 [state, action, gvf].
    where: the evaluation distribution d [states]; for the error of a mean over them, sum_s0 d F^2 is (sum_s0 d F)^2.
    signs: from `exact.DENSE_BELOW` states on, sum_s0 d F^2 is estimated by the mean of (F^T (sqrt(d) z))^2 over so many random
           sign vectors z.
    """
    d = as_evaluation(where)
    for members in groups(pi, gamma):
        system = resolvent(model, pi[:, :, members[0]], gamma[:, members[0]])
        if d.of_mean:
            reach = factorised(sp.csr_array(system.T))(d.weights) ** 2
        elif model.states < exact.DENSE_BELOW:
            reach = d.weights @ scipy.linalg.inv(system.toarray(), check_finite=False) ** 2
        else:
            factor = scipy.sparse.linalg.splu(sp.csc_array(system))
            reach = np.zeros(model.states)
            for z in _signs(model.states, signs):
                reach += factor.solve(np.sqrt(d.weights) * z, trans="T") ** 2 / signs
        for i in members:
            yield i, reach[:, None] * pi[:, :, i] ** 2 * noise[:, :, i]


@one_thread()
def importance(
    model: Model,
    pi: np.ndarray,
    gamma: np.ndarray,
    noise: np.ndarray,
    weights: np.ndarray,
    where: np.ndarray | Evaluation,
    signs: int = SIGNS,
) -> np.ndarray:
    """G(s, a), the weighted mean of the GVFs' `importances`, [state, action]: the mean squared error is sum G / n."""
    total = np.zeros(noise.shape[:2])
    for i, own in importances(model, pi, gamma, noise, where, signs):
        total += weights[i] / weights.sum() * own  # Eq. D2
    return total


@one_thread()
def importance_of(
    world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None, signs: int = SIGNS, where: WhereLike = None
) -> np.ndarray:
    """G(s, a) [state, action] of a known world; `levels` [gvf] of drifting cumulants, `where` as in `gvfx.evaluate`."""
    asked = exact.asked_of(world, questions)
    noise = exact.transition_noise(world, questions, levels)
    return importance(Model.of(world), asked.pi, asked.gamma, noise, asked.weights, as_where(where, world).on(world), signs)


@one_thread()
def variances(
    model: Model, pi: np.ndarray, gamma: np.ndarray, noise: np.ndarray, counts: np.ndarray, signs: int = SIGNS
) -> np.ndarray:
    """Variance of every answer, sum_s F(s0, s)^2 sum_a pi^2 sigma^2 / n, [gvf, state]; infinite where data are missing.

    counts [state, action]: visits n.
    """
    return variances_and_doubts(model, pi, gamma, noise, None, counts, signs)[0]


@one_thread()
def variances_and_doubts(
    model: Model,
    pi: np.ndarray,
    gamma: np.ndarray,
    noise: np.ndarray,
    doubt: np.ndarray | None,
    counts: np.ndarray,
    signs: int = SIGNS,
) -> tuple[np.ndarray, np.ndarray]:
    """`variances`, and their own variances if the noise of a pair is an estimate with variance `doubt` [state, action, gvf].

    The second is 0 without doubt, and from `exact.DENSE_BELOW` states on.
    """
    out, rough = np.empty((noise.shape[2], model.states)), np.zeros((noise.shape[2], model.states))
    for members in groups(pi, gamma):
        system = resolvent(model, pi[:, :, members[0]], gamma[:, members[0]])
        spread = np.stack([per_visit(pi[:, :, i] ** 2 * noise[:, :, i], counts).sum(axis=1) for i in members])
        missing = np.isinf(spread)
        known = np.where(missing, 0.0, spread)
        if model.states < exact.DENSE_BELOW:
            inverse = scipy.linalg.inv(system.toarray(), check_finite=False)
            squared = inverse**2
            found, lost = known @ squared.T, missing @ squared.T > 0  # Eq. D1
            if doubt is not None:
                own = [per_visit(pi[:, :, i] ** 4 * doubt[:, :, i], counts.astype(float) ** 2).sum(axis=1) for i in members]
                rough[members] = np.where(np.isinf(own), 0.0, own) @ (inverse**4).T
        else:
            solve = scipy.sparse.linalg.splu(sp.csc_array(system)).solve
            draws = (solve(np.sqrt(known).T * z[:, None]) ** 2 for z in _signs(model.states, signs))
            found, lost = sum(draws, np.zeros(known.T.shape)).T / signs, solve(missing.T.astype(float)).T > 1e-12
        out[members] = np.where(lost, np.inf, found)
    return out, rough


def evaluation(world: MDP, where: WhereLike = None) -> np.ndarray:
    """The evaluation distribution d of the error, [states]: by default uniform over live states."""
    return as_where(where, world).on(world).weights


def per_visit(need: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """need / visits with 0 / 0 = 0 and need / 0 infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(need > 0, need / visits, 0.0)


def _signs(size: int, count: int) -> Iterator[np.ndarray]:
    """`count` random vectors of signs [size], the same at every call."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 2, size) * 2.0 - 1
