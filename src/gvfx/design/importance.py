"""How much each state-action pair matters to the answers, and how sure the answers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx import exact
from gvfx.design.flow import Model
from gvfx.exact import weighted_transitions
from gvfx.gvf import GVF, stack
from gvfx.worlds.mdp import MDP

SIGNS = 64  # random sign vectors that stand for the dense inverse in large worlds


def importance(
    model: Model,
    pi: np.ndarray,
    gamma: np.ndarray,
    noise: np.ndarray,
    weights: np.ndarray,
    where: np.ndarray,
    signs: int = SIGNS,
) -> np.ndarray:
    """G(s, a) = sum_i w_i sum_s0 d(s0) F_i(s0, s)^2 pi_i(a|s)^2 sigma_i^2(s, a), [state, action]   (Eq. D2).

    The error of certainty equivalence is then sum G / n.  Weights are scaled to sum to 1, as in `Result.error`.

    pi [1 or states, actions, gvf], gamma [1 or states * actions * successors, gvf]: as in `gvf.Stacked`
    noise [state, action, gvf]: sigma^2, as `exact.transition_noise` gives it
    where [states]: the distribution d of evaluation states
    signs: from `exact.DENSE_BELOW` states on, sum_s0 d F^2 is the mean of (F^T (sqrt(d) z))^2 over so many sign vectors z
    """
    total = np.zeros(noise.shape[:2])
    for i, reach in _reaches(model, pi, gamma, where, signs):
        total += weights[i] / weights.sum() * reach[:, None] * pi[:, :, i] ** 2 * noise[:, :, i]
    return total


def importances(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Each question's own G(s, a) [state, action], in groups of equal policy and discount; see `importance`."""
    asked, model = stack(questions, world), Model.of(world)
    noise = exact.transition_noise(world, questions, levels)
    found = {}
    for i, reach in _reaches(model, asked.pi, asked.gamma, evaluation(world), SIGNS):
        found[i] = reach
    for i in range(noise.shape[2]):
        yield found[i][:, None] * asked.pi[:, :, i] ** 2 * noise[:, :, i]


def importance_of(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None, signs: int = SIGNS) -> np.ndarray:
    """G(s, a) [state, action] of a known world; `levels` freezes drifting cumulants (default: their start)."""
    asked = stack(questions, world)
    noise = exact.transition_noise(world, questions, levels)
    return importance(Model.of(world), asked.pi, asked.gamma, noise, asked.weights, evaluation(world), signs)


def variances(
    model: Model, pi: np.ndarray, gamma: np.ndarray, noise: np.ndarray, counts: np.ndarray, signs: int = SIGNS
) -> np.ndarray:
    """Var(V_i(s0)) = sum_s F_i(s0, s)^2 sum_a pi_i^2 sigma_i^2 / n, [gvf, state]   (Eq. D1); infinite without data.

    counts [state, action]: visits n.  The other arguments are those of `importance`.
    """
    out = np.empty((noise.shape[2], model.states))
    for members in _groups(pi, gamma):
        first = members[0]
        system = _system(model, pi[:, :, first], gamma[:, first])
        spread = np.stack([per_visit(pi[:, :, i] ** 2 * noise[:, :, i], counts).sum(axis=1) for i in members])
        unknown = ~np.isfinite(spread)
        known = np.where(unknown, 0.0, spread)
        if model.states < exact.DENSE_BELOW:
            squared = scipy.linalg.inv(system.toarray()) ** 2
            out[members] = known @ squared.T
            lost = unknown @ squared.T > 0
        else:
            solve = scipy.sparse.linalg.splu(sp.csc_array(system)).solve
            root, total = np.sqrt(known).T, np.zeros(known.T.shape)
            for z in _signs(model.states, signs):
                total += solve(root * z[:, None]) ** 2
            out[members] = total.T / signs
            lost = solve(unknown.T.astype(float)).T > 1e-12
        out[members] = np.where(lost, np.inf, out[members])
    return out


def evaluation(world: MDP) -> np.ndarray:
    """The distribution d of the library's mean squared error: every live state alike, [states]."""
    return world.live / world.live.sum()


def per_visit(need: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """need / visits with 0 / 0 = 0 and need / 0 infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(need > 0, need / visits, 0.0)


def _groups(pi: np.ndarray, gamma: np.ndarray) -> list[list[int]]:
    """GVFs that share a policy and a discount, and with them a factorisation."""
    members: dict[bytes, list[int]] = {}
    for i in range(pi.shape[2]):
        members.setdefault(pi[:, :, i].tobytes() + gamma[:, i].tobytes(), []).append(i)
    return list(members.values())


def _system(model: Model, pi: np.ndarray, gamma: np.ndarray) -> sp.csr_array:
    """I - gamma P_pi, whose inverse is F."""
    going = model.going
    discount = (
        np.broadcast_to(gamma, model.next.size).reshape(model.next.shape) if gamma.size == 1 else gamma.reshape(model.next.shape)
    )
    discount = np.where(model.terminal[model.next] | ~going[:, None, None], 0.0, discount)
    return sp.eye_array(model.states, format="csr") - weighted_transitions(
        model, np.broadcast_to(pi, model.next.shape[:2]), discount
    )


def _reaches(model: Model, pi: np.ndarray, gamma: np.ndarray, where: np.ndarray, signs: int) -> Iterator[tuple[int, np.ndarray]]:
    """(GVF, sum_s0 d(s0) F(s0, s)^2 [states]) for every GVF."""
    for members in _groups(pi, gamma):
        system = _system(model, pi[:, :, members[0]], gamma[:, members[0]])
        if model.states < exact.DENSE_BELOW:
            reach = where @ scipy.linalg.inv(system.toarray()) ** 2
        else:
            solve = _transposed(system)
            reach = sum(solve(np.sqrt(where) * z) ** 2 for z in _signs(model.states, signs)) / signs
        for i in members:
            yield i, reach


def _transposed(system: sp.csr_array) -> Callable[[np.ndarray], np.ndarray]:
    factor = scipy.sparse.linalg.splu(sp.csc_array(system))
    return lambda b: factor.solve(b, trans="T")


def _signs(size: int, count: int) -> Iterator[np.ndarray]:
    """Random sign vectors, always the same."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 2, size) * 2.0 - 1
