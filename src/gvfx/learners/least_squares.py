r"""Certainty equivalence in features: the linear systems, their sums over transitions, and their solutions.

Action values are $Q_i(s,a) = \phi(s)^\top w_{i,a}$.  With $\Phi$ the features of the transitions' observations, each in its
action's block, and $\Phi'$ the mean features of what follows, $\sum_{a'}\pi_i(a'|s')\phi(s')$ in block $a'$, the weights solve

$$\big[\Phi^\top\Phi + \Lambda - \Phi^\top\mathrm{diag}(\gamma_i)\,\Phi'\big]\,w_i = \Phi^\top c_i \quad (L1)$$

(LSTD-Q).  All questions with one policy and one discount share the matrix.  The penalty is
$\Lambda = M^{-1}\otimes\lambda R$ with $M = \rho\,11^\top + (1-\rho)I$ over actions: with $\rho > 0$ an action that was seldom
tried is expected to be worth what the others are worth there.  $R$ is the features' own penalty.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.transitions import Transitions
from gvfx.features.bases import scattered, squares
from gvfx.theory.exact import DEFINITE, Solve

# --- Anderson's acceleration of fixed-point iterations $x \leftarrow F(x)$, several at once -------------------------
# The next point is the combination of the last few whose residuals $F(x) - x$ cancel best, in a norm of the caller's.  Where a
# residual has grown beyond twice the smallest so far the plain step $F(x)$ is taken.

MEMORY = 8  # differences that are combined
GROWN = 2.0  # of the smallest residual so far: beyond it the plain step is taken
RIDGE = 1e-10  # relative, of the small least-squares problems


class Anderson:
    """The iteration of points x [k, column], every column on its own; metric(r) [k, column] is the norm's matrix times r."""

    def __init__(self, metric: Callable[[np.ndarray], np.ndarray]) -> None:
        self.metric = metric
        self.history: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # x, F(x) - x and its product with the metric
        self.smallest: np.ndarray | None = None  # [column] squared norms

    def next(self, x: np.ndarray, fx: np.ndarray) -> np.ndarray:
        """The point after x, given F(x)."""
        residual = fx - x
        weighted = self.metric(residual)
        size = (residual * weighted).sum(axis=0)
        self.smallest = size if self.smallest is None else np.minimum(self.smallest, size)
        self.history = [*self.history[-MEMORY:], (x, residual, weighted)]
        if len(self.history) == 1:
            return fx
        moved, changed, weights = (np.diff(each, axis=0) for each in zip(*self.history, strict=True))  # [step, k, column]
        gram = np.einsum("skc,tkc->cst", changed, weights)
        gram += RIDGE * (np.trace(gram, axis1=1, axis2=2) + np.finfo(float).tiny)[:, None, None] * np.eye(len(moved))
        shares = np.linalg.solve(gram, np.einsum("skc,kc->cs", weights, residual)[:, :, None])[:, :, 0]
        shares[size > GROWN**2 * self.smallest] = 0.0
        return fx - np.einsum("skc,cs->kc", moved + changed, shares)

    def keep(self, columns: np.ndarray) -> None:
        """Go on with some of the columns only, by a mask."""
        self.history = [tuple(array[:, columns] for array in one) for one in self.history]  # type: ignore[misc]
        self.smallest = None if self.smallest is None else self.smallest[columns]


CHUNK = 25_000_000  # features that are in memory together
HELD = 30_000_000  # numbers of features that are kept in memory
ORDERED = DEFINITE | {"diag_pivot_thresh": 0.01}  # of sparse systems
Matrix = Any  # a NumPy array, or a sparse array for lattice features
Features = Callable[[np.ndarray], Matrix]  # features [n, size] of observations [n, o]
ByAction = tuple[Transitions, Matrix, list[tuple[Matrix, np.ndarray]]]  # as `Rows.by_action` gives it


@dataclass(frozen=True, eq=False)
class Sums:
    """What the systems of all questions need of the data; sums over transitions."""

    gram: list[Matrix]  # [action] of [size, size]: features times features, of the transitions with that action
    cross: list[list[list[Matrix]]]  # [group][action][next action] of [size, size]: features times what follows
    paid: np.ndarray  # [action, size, gvf]: features times cumulants

    def __add__(self, other: Sums) -> Sums:
        """The sums over the transitions of both."""
        return Sums(*(_mapped(operator.add, a, b) for a, b in zip(self._parts, other._parts, strict=True)))

    def __sub__(self, other: Sums) -> Sums:
        """The sums over the transitions that are not in `other`."""
        return Sums(*(_mapped(operator.sub, a, b) for a, b in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Any, Any, Any]:
        return self.gram, self.cross, self.paid

    def first(self, count: int) -> Sums:
        """The sums for the first `count` features alone."""
        cut = operator.itemgetter(np.s_[:count, :count])
        return Sums(_mapped(cut, self.gram), _mapped(cut, self.cross), self.paid[:, :count])


def _mapped(function: Callable[..., Matrix], *parts: Any) -> Any:
    """A function of matrices, or of all matrices in lists (of lists) of them."""
    if not isinstance(parts[0], list):
        return function(*parts)
    return [_mapped(function, *each) for each in zip(*parts, strict=True)]


@dataclass(frozen=True, eq=False)
class Rows:
    """Transitions in pieces, with their features; those are kept in memory if there are few, and else computed when needed."""

    data: Transitions
    features: Features
    pieces: list[Transitions]
    known: list[tuple[Matrix, Matrix]]  # features of what was seen and of what followed, [n, size] each; empty if not kept

    @classmethod
    def of(cls, data: Transitions, features: Features, size: int) -> Rows:
        """The rows of transitions; `size` is the number of features that are not 0."""
        pieces = chunks(data, max(1, CHUNK // size))
        kept = len(data) * size <= HELD
        return cls(data, features, pieces, [(features(p.observation), features(p.following)) for p in pieces if kept])

    def __iter__(self) -> Iterator[tuple[Transitions, Matrix, Matrix]]:
        """The pieces with their features."""
        for k, piece in enumerate(self.pieces):
            here, after = self.known[k] if self.known else (self.features(piece.observation), self.features(piece.following))
            yield piece, here, after

    def by_action(self) -> Iterable[ByAction]:
        """The pieces with the features of what followed, and for each action those of what was seen, with their indices."""
        return self._by_action if self.known else (_apart(*one) for one in self)

    @cached_property
    def _by_action(self) -> list[ByAction]:
        return [_apart(*one) for one in self]

    def part(self, chosen: np.ndarray, features: Features, count: int) -> Rows:
        """The rows of some transitions, by a mask [n], with the first `count` features alone, which `features` computes."""
        pieces, known, at = [], [], 0
        for k, piece in enumerate(self.pieces):
            own = np.flatnonzero(chosen[at : at + len(piece)])
            at += len(piece)
            pieces.append(piece.part(own))
            if self.known:
                known.append((self.known[k][0][own, :count], self.known[k][1][own, :count]))
        return Rows(self.data.part(chosen), features, pieces, known)


def _apart(piece: Transitions, here: Matrix, after: Matrix) -> ByAction:
    chosen = [np.flatnonzero(piece.action == a) for a in range(piece.actions)]
    return piece, after, [(here[own], own) for own in chosen]


def chunks(data: Transitions, size: int) -> list[Transitions]:
    """The transitions in pieces, at least one."""
    return [data.part(slice(k, k + size)) for k in range(0, max(1, len(data)), size)]


def sums(rows: Rows) -> Sums:
    """The sums over all transitions, a piece at a time."""
    return reduce(operator.add, (piece_sums(*one, rows.data.groups) for one in rows))


def piece_sums(data: Transitions, here: Matrix, after: Matrix, groups: list[list[int]]) -> Sums:
    """The sums over transitions whose features are `here` and, of what follows, `after`, each [n, size]."""
    back = Back(here, data.action, data.actions)
    cross: list[list[list[Matrix]]] = []
    known: list[tuple[np.ndarray, list[Matrix]]] = []  # discounts, and the products that they gave
    for members in groups:
        discount, policy = data.discount[:, members[0]], data.member[members[0]]
        once = next((product for other, product in known if np.array_equal(other, discount)), None)
        if once is None:
            once = back(_weighted(after, discount))
            known.append((discount, once))
        if len(data.pi) != 1:
            of_next = [back(_weighted(after, discount * data.pi[:, b, policy])) for b in range(1, data.actions)]
            first = [whole - sum(others) for whole, *others in zip(once, *of_next, strict=True)]  # probabilities sum to 1
            cross.append([list(row) for row in zip(first, *of_next, strict=True)])
        else:
            cross.append([[float(p) * own for p in data.pi[0, :, policy]] for own in once])
    return Sums(back.gram(), cross, back.sums(data.cumulant))


class Back:
    """Sums of features times other columns, over the transitions with each action."""

    def __init__(self, here: Matrix, action: np.ndarray, actions: int, among: np.ndarray | None = None) -> None:
        """Of features here [n, size] of transitions with action [n]; among: bool [n], those that count (default: all)."""
        self.here, self.action, self.actions = here, action, actions
        self.among = np.ones(len(action), bool) if among is None else among
        if not sp.issparse(here):
            self.rows = [np.flatnonzero((action == a) & self.among) for a in range(actions)]

    def gram(self) -> list[Matrix]:
        """[action] of features times features, [size, size] each."""
        return squares(self.here, self.action, self.actions, self.among) if sp.issparse(self.here) else self(self.here)

    def sums(self, columns: np.ndarray) -> np.ndarray:
        """Features times columns [n, k] of numbers, [action, size, k]."""
        if sp.issparse(self.here):
            return scattered(self.here, self.action, self.actions, self.among, columns)
        return np.stack(self(columns))

    def __call__(self, columns: Matrix) -> list[Matrix]:
        """[action] of features times columns [n, k], sparse if the features are, [size, k] each."""
        if not sp.issparse(self.here):
            return [self.here[rows].T @ columns[rows] for rows in self.rows]
        product, size = self._transposed @ columns, self.here.shape[1]
        return [product[a * size : (a + 1) * size] for a in range(self.actions)]

    @cached_property
    def _transposed(self) -> sp.csr_array:
        """Sparse features, each row's in the block of its action, as [actions * size, n]."""
        here, each = self.here, np.diff(self.here.indptr)
        blocks = np.repeat(self.action.astype(here.indices.dtype) * here.shape[1], each) + here.indices
        shape = (here.shape[0], self.actions * here.shape[1])
        return sp.csr_array(sp.csr_array((here.data * np.repeat(self.among, each), blocks, here.indptr), shape=shape).T)


def _weighted(rows: Matrix, weights: np.ndarray) -> Matrix:
    if not sp.issparse(rows):
        return rows * weights[:, None]
    return sp.csr_array((rows.data * np.repeat(weights, np.diff(rows.indptr)), rows.indices, rows.indptr), shape=rows.shape)


def penalty(roughness: Matrix, strength: float, sharing: float, actions: int) -> Matrix:
    """Lambda [actions * size, actions * size] for a penalty R [size, size] of one action."""
    shared = sharing * np.ones((actions, actions)) + (1 - sharing) * np.eye(actions)
    between = strength * np.linalg.inv(shared)
    return sp.csr_array(sp.kron(between, roughness)) if sp.issparse(roughness) else np.kron(between, roughness)


def diagonal(blocks: list[Matrix]) -> Matrix:
    """The block-diagonal matrix."""
    return sp.csr_array(sp.block_diag(blocks)) if sp.issparse(blocks[0]) else scipy.linalg.block_diag(*blocks)


def solved(total: Sums, groups: list[list[int]], prior: Matrix) -> np.ndarray:
    """The weights [action, size, gvf] that solve (L1) for every question, NaN where a system is singular; `prior` is Lambda."""
    actions, size, gvfs = total.paid.shape
    out = np.empty((actions * size, gvfs))
    fixed = diagonal(total.gram) + prior
    for members, blocks in zip(groups, total.cross, strict=True):
        right = total.paid.reshape(-1, gvfs)[:, members]
        try:
            if sp.issparse(fixed):
                system = sp.csc_array(fixed - sp.block_array(blocks))
                out[:, members] = scipy.sparse.linalg.splu(system, **ORDERED).solve(right)
            else:
                out[:, members] = np.linalg.solve(fixed - np.block(blocks), right)
        except (RuntimeError, np.linalg.LinAlgError):
            out[:, members] = np.nan
    return out.reshape(actions, size, gvfs)


# --- Answers within what the cumulants allow ------------------------------------------------------------------------
# Off-policy data can make the linear system's solution large where no target policy could earn as much.  Where it leaves the
# possible range by more than a twentieth of its width after more than one transition in a thousand, the question is fitted with
# targets c + gamma V(s') that are limited to the range (fitted Q evaluation):
#
#     w = (Phi' Phi + Lambda)^-1 Phi' (c + gamma limited(Phi'_pi w))
#
# It is solved by iteration, which cannot diverge because its targets are limited; Anderson's acceleration shortens it.

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
        return scipy.sparse.linalg.splu(sp.csc_array(matrix), **DEFINITE).solve
    factor = scipy.linalg.cho_factor(matrix, check_finite=False)
    return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
