r"""Certainty equivalence in features: the linear systems, their sums over transitions, and their solutions.

Action values are $Q_i(s,a) = \phi(s)^\top w_{i,a}$.  With $\Phi$ the features of the transitions' observations, each in its
action's block, and $\Phi'$ the mean features of what follows, $\sum_{a'}\pi_i(a'|s')\phi(s')$ in block $a'$, the weights solve

$$\big[\Phi^\top\Phi + \Lambda - \Phi^\top\mathrm{diag}(\gamma_i)\,\Phi'\big]\,w_i = \Phi^\top c_i \quad (L1)$$

(LSTD-Q).  All questions with one policy and one discount share the matrix.  The penalty is
$\Lambda = M^{-1}\otimes\lambda R$ with $M = \rho\,11^\top + (1-\rho)I$ over actions: with $\rho > 0$ an action that was seldom
tried is expected to be worth what the others are worth there.  $R$ is the features' own penalty.

The sums are kept for each of a few blocks of episodes.  Fits to some of the episodes (half-samples, folds) add up those of their
blocks, so that a dozen of them need one pass over the data and a solution each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.transitions import Transitions
from gvfx.features.bases import Basis, Matrix
from gvfx.theory.exact import DEFINITE, Solve

# --- Anderson's acceleration of fixed-point iterations $x \leftarrow F(x)$, several at once -------------------------
# The next point is the combination of the last few whose residuals $F(x) - x$ cancel best.  Where a residual has grown
# beyond twice the smallest so far the plain step $F(x)$ is taken.

MEMORY = 8  # differences that are combined
GROWN = 2.0  # of the smallest residual so far: beyond it the plain step is taken
RIDGE = 1e-10  # relative, of the small least-squares problems


class Anderson:
    """The iteration of points x [k, column], every column on its own."""

    def __init__(self) -> None:
        self.history: list[tuple[np.ndarray, np.ndarray]] = []  # x and F(x) - x
        self.smallest: np.ndarray | None = None  # [column] squared norms

    def next(self, x: np.ndarray, fx: np.ndarray) -> np.ndarray:
        """The point after x, given F(x)."""
        residual = fx - x
        size = (residual**2).sum(axis=0)
        self.smallest = size if self.smallest is None else np.minimum(self.smallest, size)
        self.history = [*self.history[-MEMORY:], (x, residual)]
        if len(self.history) == 1:
            return fx
        moved, changed = (np.diff(each, axis=0) for each in zip(*self.history, strict=True))  # [step, k, column]
        gram = np.einsum("skc,tkc->cst", changed, changed)
        gram += RIDGE * (np.trace(gram, axis1=1, axis2=2) + np.finfo(float).tiny)[:, None, None] * np.eye(len(moved))
        shares = np.linalg.solve(gram, np.einsum("skc,kc->cs", changed, residual)[:, :, None])[:, :, 0]
        shares[size > GROWN**2 * self.smallest] = 0.0
        return fx - np.einsum("skc,cs->kc", moved + changed, shares)

    def keep(self, columns: np.ndarray) -> None:
        """Go on with some of the columns only, by a mask."""
        self.history = [(x[:, columns], residual[:, columns]) for x, residual in self.history]
        self.smallest = None if self.smallest is None else self.smallest[columns]


# --- Transitions with their features, a block of episodes at a time -------------------------------------------------

BLOCKS = 8  # of episodes
FEWEST = 16  # episodes, or stretches of transitions in their place, that are dealt to the blocks
CHUNK = 25_000_000  # features that are in memory together
HELD = 60_000_000  # numbers of features that are kept in memory
PRECISION = np.float32  # of features that are not sparse; their sums over a piece are added in double precision
ORDERED = DEFINITE | {"diag_pivot_thresh": 0.01}  # of sparse systems


def blocks(episode: np.ndarray, seed: int) -> np.ndarray:
    """The block of every transition, int [n]: whole episodes, dealt at random; stretches where there are few episodes."""
    _, own = np.unique(episode, return_inverse=True)
    if not len(own) or own.max() + 1 < FEWEST:
        own = np.arange(len(episode)) * FEWEST // max(1, len(episode))
    rng = np.random.default_rng([seed, 0x68616C66])
    return (rng.permutation(int(own.max(initial=0)) + 1) % BLOCKS)[own]


@dataclass(frozen=True, eq=False)
class Piece:
    """Transitions of one block; the features of every observation are computed once, also where two transitions share it."""

    data: Transitions
    index: np.ndarray  # int [n] their places in all of the data
    block: int
    seen: np.ndarray  # [k, o] observations in their order, with those that follow
    here: np.ndarray  # int [n] which of them were seen; the next one of each followed

    @classmethod
    def of(cls, data: Transitions, index: np.ndarray, block: int) -> Piece:
        """The transitions of `data` at these places."""
        own = data.part(index)
        goes_on = np.zeros(len(own), bool)
        goes_on[:-1] = (own.episode[1:] == own.episode[:-1]) & (own.following[:-1] == own.observation[1:]).all(axis=1)
        here = np.arange(len(own)) + np.concatenate([[0], np.cumsum(~goes_on)[:-1]])[: len(own)].astype(int)
        seen = np.empty((len(own) + int((~goes_on).sum()), data.observation.shape[1]), data.observation.dtype)
        seen[here], seen[here + 1] = own.observation, own.following
        return cls(own, index, block, seen, here)

    @cached_property
    def by_action(self) -> list[np.ndarray]:
        """[action] of the transitions with it."""
        return [np.flatnonzero(self.data.action == a) for a in range(self.data.actions)]

    def gram(self, points: Matrix) -> Matrix:
        """Features times features in the blocks of the actions, [action * size, action * size]."""
        here = [points[self.here[rows]].T for rows in self.by_action]
        each = [_product(h, h.T) for h in here]
        return sp.csr_array(sp.block_diag(each)) if sp.issparse(each[0]) else scipy.linalg.block_diag(*each)

    def back(self, points: Matrix, columns: np.ndarray) -> np.ndarray:
        """Features times columns [n, k] of numbers, in the blocks of the actions, [action, size, k]."""
        actions, count = self.data.actions, columns.shape[1]
        spread = np.zeros((len(self.seen), actions, count), points.dtype)
        spread[self.here, self.data.action] = columns
        out = _product(points.T, spread.reshape(len(spread), actions * count))
        return np.asarray(out).reshape(points.shape[1], actions, count).swapaxes(0, 1)

    def each(self, points: Matrix, weights: np.ndarray) -> np.ndarray:
        """Q [k, action, column] at all observations, from weights [action, size, column]."""
        actions, size, columns = weights.shape
        flat = weights.swapaxes(0, 1).reshape(size, actions * columns).astype(points.dtype)
        return np.asarray(_product(_narrow(points, size), flat)).reshape(len(self.seen), actions, columns)

    def following(self, each: np.ndarray, member: np.ndarray) -> np.ndarray:
        """V(s') [n, column] without limits; each: as `each` gives it; member [column]: their policies."""
        after, pi = each[self.here + 1], self.data.pi
        return np.einsum("nac,nac->nc", after, np.broadcast_to(pi[:, :, member], after.shape))

    def taken(self, each: np.ndarray) -> np.ndarray:
        """Q(s, a) [n, column] without limits."""
        return each[self.here, self.data.action]


@dataclass(frozen=True, eq=False)
class Rows:
    """All transitions in pieces, with their features; those are kept in memory if they are few, and else computed when needed."""

    data: Transitions
    basis: Basis
    pieces: list[Piece]
    known: list[Matrix]  # features of every piece's observations; empty if not kept
    count: int  # of the blocks
    found: dict[Any, Any] = field(default_factory=dict)  # what was computed of them, for all penalties

    @classmethod
    def of(cls, data: Transitions, basis: Basis, block: np.ndarray | None = None, count: int = 1) -> Rows:
        """block: int [n], one of `count` (default: all transitions are in one)."""
        block, most, pieces = np.zeros(len(data), int) if block is None else block, max(1, CHUNK // basis.filled), []
        for b in range(count):
            own = np.flatnonzero(block == b)
            own = own[np.argsort(data.episode[own], kind="stable")]
            pieces += [Piece.of(data, own[k : k + most], b) for k in range(0, max(1, len(own)), most)]
        kept = sum(len(piece.seen) for piece in pieces) * basis.filled <= HELD
        return cls(data, basis, pieces, [_points(basis, piece) for piece in pieces] if kept else [], count)

    def seen_with(self, basis: Basis) -> Rows:
        """The same transitions with other features, not more of which are 0."""
        return Rows(self.data, basis, self.pieces, [_points(basis, p) for p in self.pieces] if self.known else [], self.count)

    @property
    def block(self) -> np.ndarray:
        """The block of every transition, int [n]."""
        out = np.empty(len(self.data), int)
        for piece in self.pieces:
            out[piece.index] = piece.block
        return out

    def __iter__(self) -> Iterator[tuple[Piece, Matrix]]:
        """The pieces with their features."""
        for k, piece in enumerate(self.pieces):
            yield piece, self.known[k] if self.known else _points(self.basis, piece)

    def sums(self, size: int | None = None) -> list[Sums]:
        """Those of every block, for the first `size` features of every action alone (default: all)."""
        if size not in self.found:
            if size is None:
                out: dict[int, Sums] = {}
                for piece, points in self:
                    own = piece_sums(piece, points, self.data)
                    out[piece.block] = out[piece.block].plus(own) if piece.block in out else own
                self.found[size] = [out[b] for b in range(self.count)]
            else:
                self.found[size] = [own.among(first_of(size, self.basis, self.data.actions)) for own in self.sums()]
        return self.found[size]

    def total(self, part: np.ndarray, size: int | None = None) -> Sums:
        """The sums over the blocks of a part, bool [block]."""
        key = (part.tobytes(), size)
        if key not in self.found:
            self.found[key] = reduce(Sums.plus, (own for own, chosen in zip(self.sums(size), part, strict=True) if chosen))
        return self.found[key]


class Sums(NamedTuple):
    """What the systems of all questions need of the data: sums over transitions, with rows by action and feature."""

    gram: Matrix  # [action * size, action * size]: features times features, in the blocks of the actions
    cross: list[Matrix]  # [group] of [action * size, action * size]: features times what follows
    paid: np.ndarray  # [action * size, gvf]: features times cumulants

    def plus(self, other: Sums) -> Sums:
        """The sums over the transitions of both."""
        cross = [a + b for a, b in zip(self.cross, other.cross, strict=True)]
        return Sums(self.gram + other.gram, cross, self.paid + other.paid)

    def among(self, chosen: np.ndarray) -> Sums:
        """The sums for some of the features, by their places."""
        both = np.ix_(chosen, chosen)
        return Sums(self.gram[both], [own[both] for own in self.cross], self.paid[chosen])


def first_of(size: int, basis: Basis, actions: int) -> np.ndarray:
    """The places of the first `size` of the features of every action among those of all."""
    return np.flatnonzero(np.arange(basis.size * actions) % basis.size < size)


def piece_sums(piece: Piece, points: Matrix, data: Transitions) -> Sums:
    """The sums over the transitions of a piece of `data`, whose observations have the features `points`.

    Questions with one policy whose discounts differ by a factor alone share their products.
    """
    own = piece.data
    here = [points[piece.here[rows]].T for rows in piece.by_action]
    after = [points[piece.here[rows] + 1] for rows in piece.by_action]
    once: dict[bytes, list[Matrix]] = {}  # by the relative discounts
    known: dict[tuple[bytes, int], Matrix] = {}  # and by the policy
    cross: list[Matrix] = []

    def products(weights: np.ndarray) -> list[Matrix]:
        """[action] of features times what follows, weighted [n]."""
        return [_product(h, _weighted(a, weights[rows])) for h, a, rows in zip(here, after, piece.by_action, strict=True)]

    for members in data.groups:
        discount, policy = own.discount[:, members[0]], int(own.member[members[0]])
        unit = float(discount.max(initial=0.0)) or 1.0
        relative = discount / unit
        shared, key = relative.tobytes(), (relative.tobytes(), policy)
        if shared not in once:
            once[shared] = products(relative)
        if key not in known and len(own.pi) == 1:
            known[key] = _joined([[float(p) * whole for p in own.pi[0, :, policy]] for whole in once[shared]])
        elif key not in known:
            of_next = [products(relative * own.pi[:, b, policy]) for b in range(1, own.actions)]
            first = [whole - sum(others) for whole, *others in zip(once[shared], *of_next, strict=True)]  # they sum to 1
            known[key] = _joined([list(row) for row in zip(first, *of_next, strict=True)])
        cross.append(unit * known[key])
    return Sums(piece.gram(points), cross, piece.back(points, own.cumulant).reshape(-1, own.gvfs))


def _joined(parts: list[list[Matrix]]) -> Matrix:
    return sp.csr_array(sp.block_array(parts)) if sp.issparse(parts[0][0]) else np.block(parts)


def _points(basis: Basis, piece: Piece) -> Matrix:
    points = basis(piece.seen)
    return points if sp.issparse(points) else points.astype(PRECISION)


def _product(a: Matrix, b: Matrix) -> Matrix:
    """The product, in double precision."""
    out = a @ b
    return out if out.dtype == np.float64 else out.astype(np.float64)


def _narrow(rows: Matrix, size: int) -> Matrix:
    return rows if rows.shape[1] == size else rows[:, :size]


def _weighted(rows: Matrix, weights: np.ndarray) -> Matrix:
    if not sp.issparse(rows):
        return rows * weights[:, None].astype(rows.dtype)
    return sp.csr_array((rows.data * np.repeat(weights, np.diff(rows.indptr)), rows.indices, rows.indptr), shape=rows.shape)


def solved(total: Sums, groups: list[list[int]], fixed: Matrix) -> np.ndarray:
    """The weights [action * size, gvf] that solve (L1) for every question, NaN where a system is singular.

    fixed: the matrix of the regression on features, Phi' Phi + Lambda.
    """
    out = np.empty(total.paid.shape)
    for members, cross in zip(groups, total.cross, strict=True):
        try:
            if sp.issparse(fixed):
                factors = scipy.sparse.linalg.splu(sp.csc_array(fixed - cross), **ORDERED)
                out[:, members] = factors.solve(total.paid[:, members])
            else:
                out[:, members] = np.linalg.solve(fixed - cross, total.paid[:, members])
        except (RuntimeError, np.linalg.LinAlgError):
            out[:, members] = np.nan
    return out


# --- Answers within what the cumulants allow ------------------------------------------------------------------------
# Off-policy data can make the linear system's solution large where no target policy could earn as much.  Where it leaves the
# possible range by more than a twentieth of its width after more than one transition in a hundred, the question is fitted with
# targets c + gamma V(s') that are limited to the range (fitted Q evaluation):
#
#     w = (Phi' Phi + Lambda)^-1 Phi' (c + gamma limited(Phi'_pi w))
#
# It is solved by iteration, which cannot diverge because its targets are limited; Anderson's acceleration shortens it.

BEYOND = 0.05  # of the range's width, by which an answer may leave it before it is fitted with limits
SELDOM = 0.01  # of the transitions, after which this may happen
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


def fits(rows: Rows, parts: np.ndarray, within: Range, size: int | None = None, rounds: int = ROUNDS) -> list[np.ndarray]:
    """The weights [action, size, gvf] of all questions, fitted to parts of the data, bool [part, block].

    size: the first features that are used (default: all); rounds: the most of an iteration.
    """
    actions, fixed, weights = rows.data.actions, [], []
    prior = rows.basis.prior(actions)
    if size is not None:
        prior = prior[np.ix_(*[first_of(size, rows.basis, actions)] * 2)]
    for part in parts:
        total = rows.total(part, size)
        fixed.append(total.gram + prior)
        weights.append(solved(total, rows.data.groups, fixed[-1]).reshape(actions, -1, rows.data.gvfs))
    off = beyond(rows, parts, np.stack(weights, axis=-1), within)
    weights = [np.nan_to_num(own) for own in weights]
    limited(rows, parts, fixed, weights, off, within, rounds)
    return weights


def beyond(rows: Rows, parts: np.ndarray, weights: np.ndarray, within: Range) -> np.ndarray:
    """The questions whose values after too many transitions that go on leave the range, bool [part, gvf].

    weights [action, size, gvf, part].
    """
    singular, weights = np.isnan(weights).any(axis=(0, 1)).T, np.nan_to_num(weights)
    slack = BEYOND * np.where(np.isfinite(within.width), within.width, 0.0)
    out, many = np.zeros(singular.shape), np.zeros((len(parts), 1))
    for piece, points in rows:
        for k in np.flatnonzero(parts[:, piece.block]):
            v = piece.following(piece.each(points, weights[..., k]), piece.data.member)
            out[k] += (((v < within.low - slack) | (v > within.high + slack)) & (piece.data.discount > 0)).sum(axis=0)
            many[k] += len(v)
    return np.asarray(singular | (out > SELDOM * many))


def limited(
    rows: Rows,
    parts: np.ndarray,
    fixed: list[Matrix],
    weights: list[np.ndarray],
    off: np.ndarray,
    within: Range,
    rounds: int,
) -> None:
    """Fit the questions `off`, bool [part, gvf], with limited targets; all have one pass over the data in a round.

    fixed: the parts' matrices of the regression on features; weights: the parts' solutions without limits, which are replaced.
    """
    part, gvf = np.nonzero(off)  # of every column of what follows
    solve = {k: definite(fixed[k]) for k in np.unique(part)}
    before: list[np.ndarray] = []  # the targets of the last round, by piece

    accelerated = Anderson()
    for done in range(rounds):
        if not len(part):
            return
        w = np.stack([weights[k][:, :, i] for k, i in zip(part, gvf, strict=True)], axis=2)
        right, now, moved, reach = np.zeros_like(w), [], np.zeros(len(part)), np.zeros(len(part))
        for j, (piece, points) in enumerate(rows):
            own = np.flatnonzero(parts[part, piece.block])
            v = piece.following(piece.each(points, w[:, :, own]), piece.data.member[gvf[own]])
            now.append(np.zeros((len(piece.data), len(part))))
            now[-1][:, own] = piece.data.discount[:, gvf[own]] * np.clip(v, within.low[gvf[own]], within.high[gvf[own]])
            right[:, :, own] += piece.back(_narrow(points, w.shape[1]), piece.data.cumulant[:, gvf[own]] + now[-1][:, own])
            moved = np.maximum(moved, np.abs(now[-1] - before[j]).max(axis=0, initial=0.0)) if before else moved
            reach = np.maximum(reach, np.abs(now[-1]).max(axis=0, initial=0.0))
        x = w.reshape(-1, len(part))
        plain = right.reshape(x.shape)
        for k in np.unique(part):
            plain[:, part == k] = solve[k](plain[:, part == k])
        width = within.width[gvf]
        going = moved > SETTLED * np.where(np.isfinite(width), width, reach) if before else np.ones(len(part), bool)
        after = plain if done == rounds - 1 else np.where(going, accelerated.next(x, plain), plain)
        for k, i, own in zip(part, gvf, after.reshape(w.shape).transpose(2, 0, 1), strict=True):
            weights[k][:, :, i] = own  # where a question has settled, the regression on its targets
        part, gvf, before = part[going], gvf[going], [each[:, going] for each in now]
        accelerated.keep(going)


def definite(matrix: Matrix) -> Solve:
    """Solves matrix @ x = b for a symmetric positive definite matrix."""
    if sp.issparse(matrix):
        return scipy.sparse.linalg.splu(sp.csc_array(matrix), **DEFINITE).solve
    factor = scipy.linalg.cho_factor(matrix, check_finite=False)
    return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
