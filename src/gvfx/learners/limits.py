"""Answers within what the cumulants allow.

Off-policy data can make the linear system's solution large where no target policy could earn as much.  Where it leaves the
possible range by more than a twentieth of its width after more than one transition in a thousand, the question is fitted with
targets c + gamma V(s') that are limited to the range (fitted Q evaluation):

    w = (Phi' Phi + Lambda)^-1 Phi' (c + gamma limited(Phi'_pi w))

It is solved by iteration, which cannot diverge because its targets are limited; Anderson's acceleration shortens it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.transitions import Transitions
from gvfx.learners.least_squares import Matrix, Rows
from gvfx.theory.acceleration import Anderson
from gvfx.theory.systems import Solve

BEYOND = 0.05  # of the range's width, by which an answer may leave it before it is fitted with limits
SELDOM = 0.001  # of the transitions, after which this may happen
ROUNDS = 200  # of the iteration
SETTLED = 1e-4  # of the range's width (of the targets' if it has none): the largest change of a target at which it ends


class Range(NamedTuple):
    """The smallest and the largest answer that the cumulants and discounts seen allow, each [gvf]; possibly infinite."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, data: Transitions) -> Range:
        """The range that transitions allow."""
        return cls.allowed(data.cumulant.min(axis=0), data.cumulant.max(axis=0), data.discount.max(axis=0))

    @classmethod
    def allowed(cls, least: np.ndarray, most: np.ndarray, largest: np.ndarray) -> Range:
        """From the extremes of the cumulants and the largest discount, each [gvf].

        A return is a discounted sum of at least one cumulant, of at most 1 / (1 - gamma) of them in all.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            whole = 1 / (1 - largest)
            low = np.where(least < 0, least * whole, least)
            high = np.where(most > 0, most * whole, most)
        return cls(low, high)

    @property
    def width(self) -> np.ndarray:
        return self.high - self.low

    def clipped(self, values: np.ndarray) -> np.ndarray:
        """Values [..., gvf] within the range."""
        return np.clip(values, self.low, self.high)


def beyond(rows: Rows, weights: np.ndarray, within: Range) -> np.ndarray:
    """The questions whose values after too many transitions that go on leave the range, bool [gvf]."""
    out, singular = np.zeros(weights.shape[2]), np.isnan(weights).any(axis=(0, 1))
    weights = np.nan_to_num(weights)
    slack = BEYOND * np.where(np.isfinite(within.width), within.width, 0.0)
    for piece, _, after in rows:
        v = following(after, piece.pi, piece.member, weights)
        out += (((v < within.low - slack) | (v > within.high + slack)) & (piece.discount > 0)).sum(axis=0)
    return singular | (out > SELDOM * len(rows.data))


def following(after: Matrix, pi: np.ndarray, member: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """V(s') [n, gvf] without limits, from the features of what follows; pi [1 or n, action, policy], member [gvf]."""
    actions, size, gvfs = weights.shape
    each = (after @ weights.swapaxes(0, 1).reshape(size, -1)).reshape(-1, actions, gvfs)
    return np.einsum("nai,nai->ni", each, np.broadcast_to(pi[:, :, member], each.shape))


def limited(rows: Rows, matrix: Matrix, weights: np.ndarray, within: Range, off: np.ndarray, rounds: int = ROUNDS) -> np.ndarray:
    """Weights [action, size, gvf] with those of the questions `off` [gvf] fitted with limited targets.

    matrix: that of the regression on features; weights: the solutions without limits, NaN where there is none.
    """
    left, before = np.flatnonzero(off), np.empty(0)  # the questions that have not settled
    solve, accelerated, weights = definite(matrix), Anderson(lambda x: matrix @ x), np.nan_to_num(weights)
    for k in range(rounds):
        right, now = np.zeros((*weights.shape[:2], len(left))), []
        for piece, after, blocks in rows.by_action():
            v = following(after, piece.pi, piece.member[left], weights[:, :, left])
            now.append(piece.discount[:, left] * np.clip(v, within.low[left], within.high[left]))
            y = piece.cumulant[:, left] + now[-1]
            for own, (here, chosen) in zip(right, blocks, strict=True):
                own += here.T @ y[chosen]
        whole, x = np.concatenate(now), weights[:, :, left].reshape(-1, len(left))
        plain = solve(right.reshape(x.shape))
        weights[:, :, left] = plain.reshape(right.shape)  # where a question has settled, the regression on its targets
        if len(before):
            wide = np.where(np.isfinite(within.width[left]), within.width[left], np.ptp(whole, axis=0))
            going = np.asarray((np.abs(whole - before) > SETTLED * wide).any(axis=0))
            left, whole, x, plain = left[going], whole[:, going], x[:, going], plain[:, going]
            accelerated.keep(going)
        if not len(left) or k == rounds - 1:
            break
        before, weights[:, :, left] = whole, accelerated.next(x, plain).reshape(*weights.shape[:2], len(left))
    return weights


def definite(matrix: Matrix) -> Solve:
    """Solves matrix @ x = b for a symmetric positive definite matrix."""
    if sp.issparse(matrix):
        options = {"SymmetricMode": True}
        return scipy.sparse.linalg.splu(
            sp.csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
        ).solve
    factor = scipy.linalg.cho_factor(matrix, check_finite=False)
    return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
