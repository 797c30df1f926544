r"""Anderson's acceleration of fixed-point iterations $x \leftarrow F(x)$, several at once.

The next point is the combination of the last few whose residuals $F(x) - x$ cancel best, in a norm of the caller's.  Where a
residual has grown beyond twice the smallest so far the plain step $F(x)$ is taken.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
