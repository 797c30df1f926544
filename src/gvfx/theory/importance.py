"""The importance of state-action pairs for the error of the answers, and the variance of each answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.questions.gvf import GVF
from gvfx.questions.where import Evaluation, WhereLike, as_evaluation, as_where
from gvfx.theory import exact, systems
from gvfx.theory.flow import Model
from gvfx.theory.systems import factorised, groups, weighted_transitions
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP

SIGNS = 64  # random sign vectors that replace the dense inverse in large worlds


@one_thread()
def importances(
    model: Model, pi: np.ndarray, gamma: np.ndarray, noise: np.ndarray, where: np.ndarray | Evaluation, signs: int = SIGNS
) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs of a GVF's index and its importance, sum_s0 d(s0) F(s0, s)^2 pi(a|s)^2 sigma^2(s, a), [state, action].

    pi [1 or states, actions, gvf], gamma [1 or states * actions * successors, gvf]: as in `gvf.Stacked`
    noise [state, action, gvf]: sigma^2, as `exact.transition_noise` gives it
    where [states]: the distribution d of evaluation states; for the error of a mean over them, sum_s0 d F^2 is (sum_s0 d F)^2
    signs: from `systems.DENSE_BELOW` states on, sum_s0 d F^2 is estimated by the mean of (F^T (sqrt(d) z))^2 over this
           number of random sign vectors z
    """
    d = as_evaluation(where)
    for members in groups(pi, gamma):
        system = resolvent(model, pi[:, :, members[0]], gamma[:, members[0]])
        if d.of_mean:
            reach = factorised(sp.csr_array(system.T))(d.weights) ** 2
        elif model.states < systems.DENSE_BELOW:
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
    """G(s, a) [state, action] of a known world; `levels` [gvf] are those of drifting cumulants (default: their start).

    where: where errors count, as in `gvfx.evaluate`; by default all live states equally.
    """
    asked = exact.asked_of(world, questions)
    noise = exact.transition_noise(world, questions, levels)
    return importance(Model.of(world), asked.pi, asked.gamma, noise, asked.weights, as_where(where, world).on(world), signs)


@one_thread()
def variances(
    model: Model, pi: np.ndarray, gamma: np.ndarray, noise: np.ndarray, counts: np.ndarray, signs: int = SIGNS
) -> np.ndarray:
    """Variance of every answer, sum_s F(s0, s)^2 sum_a pi^2 sigma^2 / n, [gvf, state]; infinite where data are missing.

    counts [state, action]: visits n.  The other arguments are those of `importances`.
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
    """`variances`, and the variance of each of them if the noise of a pair is an estimate with variance `doubt`, [gvf, state].

    doubt [state, action, gvf]; the second is 0 without it, and from `systems.DENSE_BELOW` states on.
    """
    out, rough = np.empty((noise.shape[2], model.states)), np.zeros((noise.shape[2], model.states))
    for members in groups(pi, gamma):
        system = resolvent(model, pi[:, :, members[0]], gamma[:, members[0]])
        spread = np.stack([per_visit(pi[:, :, i] ** 2 * noise[:, :, i], counts).sum(axis=1) for i in members])
        missing = np.isinf(spread)
        known = np.where(missing, 0.0, spread)
        if model.states < systems.DENSE_BELOW:
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


def discounts(model: Model, gamma: np.ndarray) -> np.ndarray:
    """A GVF's discount of every outcome [state, action, successor]; 0 on termination and in states that are not reached."""
    gamma = gamma.reshape(model.next.shape) if gamma.size > 1 else gamma
    return np.where(model.terminal[model.next] | ~model.going[:, None, None], 0.0, gamma)


def resolvent(model: Model, pi: np.ndarray, gamma: np.ndarray) -> sp.csr_array:
    """I - gamma P_pi, whose inverse is F."""
    kernel = weighted_transitions(model, np.broadcast_to(pi, model.next.shape[:2]), discounts(model, gamma))
    return sp.csr_array(sp.eye_array(model.states) - kernel)


def _signs(size: int, count: int) -> Iterator[np.ndarray]:
    """`count` random vectors of signs [size], the same at every call."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 2, size) * 2.0 - 1
