r"""Certainty equivalence in features: the linear systems, their sums over transitions, and their solutions.

Action values are $Q_i(s,a) = \phi(s)^\top w_{i,a}$.  With $\Phi$ the features of the transitions' observations, each in its
action's block, and $\Phi'$ the mean features of what follows, $\sum_{a'}\pi_i(a'|s')\phi(s')$ in block $a'$, the weights solve

$$\big[\Phi^\top\Phi + \Lambda - \Phi^\top\mathrm{diag}(\gamma_i)\,\Phi'\big]\,w_i = \Phi^\top c_i \quad (L1)$$

(LSTD-Q).  All questions with one policy and one discount share the matrix.  The penalty is
$\Lambda = M^{-1}\otimes\lambda R$ with $M = \rho\,11^\top + (1-\rho)I$ over actions: with $\rho > 0$ an action that was seldom
tried is expected to be worth what the others are worth there.  $R$ is the features' own penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.evidence.transitions import Transitions
from gvfx.features.lattice import scattered, squares

CHUNK = 25_000_000  # features that are in memory together
HELD = 30_000_000  # numbers of features that are kept in memory
ORDERED = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.01, "options": {"SymmetricMode": True}}  # of sparse systems
Matrix = Any  # a NumPy array, or a sparse array for lattice features
Features = Callable[[np.ndarray], Matrix]  # features [n, size] of observations [n, o]


@dataclass(frozen=True, eq=False)
class Sums:
    """What the systems of all questions need of the data; sums over transitions."""

    gram: list[Matrix]  # [action] of [size, size]: features times features, of the transitions with that action
    cross: list[list[list[Matrix]]]  # [group][action][next action] of [size, size]: features times what follows
    paid: np.ndarray  # [action, size, gvf]: features times cumulants

    def __sub__(self, other: Sums) -> Sums:
        """The sums over the transitions that are not in `other`."""
        return Sums(
            [a - b for a, b in zip(self.gram, other.gram, strict=True)],
            [
                [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(*both, strict=True)]
                for both in zip(self.cross, other.cross, strict=True)
            ],
            self.paid - other.paid,
        )

    def first(self, count: int) -> Sums:
        """The sums for the first `count` features alone."""
        cut = np.s_[:count, :count]
        return Sums(
            [a[cut] for a in self.gram], [[[a[cut] for a in row] for row in group] for group in self.cross], self.paid[:, :count]
        )


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

    def by_action(self) -> Iterator[tuple[Transitions, Matrix, list[tuple[Matrix, np.ndarray]]]]:
        """The pieces with the features of what followed, and for each action those of what was seen, with their indices."""
        if self.known:
            yield from self._by_action
        else:
            yield from (_apart(*one) for one in self)

    @cached_property
    def _by_action(self) -> list[tuple[Transitions, Matrix, list[tuple[Matrix, np.ndarray]]]]:
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


def _apart(piece: Transitions, here: Matrix, after: Matrix) -> tuple[Transitions, Matrix, list[tuple[Matrix, np.ndarray]]]:
    chosen = [np.flatnonzero(piece.action == a) for a in range(piece.actions)]
    return piece, after, [(here[own], own) for own in chosen]


def chunks(data: Transitions, size: int) -> list[Transitions]:
    """The transitions in pieces, at least one."""
    return [data.part(slice(k, k + size)) for k in range(0, max(1, len(data)), size)]


def sums(rows: Rows) -> Sums:
    """The sums over all transitions, a piece at a time."""
    total: Sums | None = None
    for piece, here, after in rows:
        own = piece_sums(piece, here, after, rows.data.groups)
        total = own if total is None else _added(total, own)
    assert total is not None
    return total


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
        return (
            scattered(self.here, self.action, self.actions, self.among, columns)
            if sp.issparse(self.here)
            else np.stack(self(columns))
        )

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


def _added(one: Sums, other: Sums) -> Sums:
    return Sums(
        [a + b for a, b in zip(one.gram, other.gram, strict=True)],
        [
            [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(*both, strict=True)]
            for both in zip(one.cross, other.cross, strict=True)
        ],
        one.paid + other.paid,
    )


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
