"""Linear systems over states: transitions weighted by a policy and a discount, and what solves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

from gvfx.worlds.mdp import reachable

DENSE_BELOW = 1500  # states; larger systems are factorised as sparse matrices
Solve = Callable[[np.ndarray], np.ndarray]


def groups(pi: np.ndarray, gamma: np.ndarray) -> list[list[int]]:
    """Lists of GVFs with the same policy and discount, which share one linear system; pi [.., .., gvf], gamma [.., gvf]."""
    members: dict[bytes, list[int]] = {}
    for i in range(pi.shape[2]):
        members.setdefault(pi[:, :, i].tobytes() + gamma[:, i].tobytes(), []).append(i)
    return list(members.values())


def weighted_transitions(world: Any, weight: np.ndarray, discount: np.ndarray) -> sp.csr_array:
    """sum_a weight(s, a) discount(s, a, s') P(s' | s, a) as a sparse matrix [state, state]; world: an MDP or a `flow.Model`."""
    entries = (weight[:, :, None] * discount * world.prob).reshape(world.states, -1)
    rows = np.repeat(np.arange(world.states), entries.shape[1])
    return sp.csr_array(sp.coo_array((entries.ravel(), (rows, world.next.ravel())), shape=(world.states, world.states)))


def factorised(system: sp.sparray) -> Solve:
    """A function that solves system @ x = b for any number of right-hand sides b [state, ...]."""
    if system.shape[0] < DENSE_BELOW:
        factor = scipy.linalg.lu_factor(system.toarray(), check_finite=False)
        return lambda b: scipy.linalg.lu_solve(factor, b, check_finite=False)
    return scipy.sparse.linalg.splu(sp.csc_array(system)).solve


def ending(kernel: sp.sparray) -> np.ndarray:
    """The states from which the sum of future cumulants ends, [state] bool, for a non-negative kernel with row sums of at most 1.

    They are the states that can reach a row with a sum below 1.  If all of them do, I - kernel is invertible.
    """
    below_one = np.asarray(kernel.sum(axis=1)).ravel() < 1 - 1e-12
    into = sp.csr_array(kernel.T, copy=True)
    into.eliminate_zeros()
    return reachable(below_one, lambda states: into[states].indices)


def spectral_radius(matrix: sp.csr_array) -> float:
    """Spectral radius of a non-negative matrix: the largest over its strongly connected components."""
    if not np.isfinite(matrix.data).all():
        return float("inf")
    matrix = sp.csr_array(matrix)
    matrix.eliminate_zeros()
    count, component = scipy.sparse.csgraph.connected_components(matrix, connection="strong")
    radius = float(matrix.diagonal().max())
    sizes = np.bincount(component, minlength=count)
    for k in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(component == k)
        radius = max(radius, _irreducible_radius(matrix[members][:, members]))
    return radius


def _irreducible_radius(matrix: sp.csr_array) -> float:
    if matrix.shape[0] < 500:
        return float(np.abs(np.linalg.eigvals(matrix.toarray())).max())
    start = np.ones(matrix.shape[0])
    return float(np.abs(scipy.sparse.linalg.eigs(matrix, k=1, which="LM", v0=start, return_eigenvectors=False)).max())
