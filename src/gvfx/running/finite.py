"""Tables that are no longer finite: found at the stops of a run, with the GVF, the value and the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from gvfx.errors import Diverged
from gvfx.running.checkpoint import tables

WORDS = {"q": "table of Q", "m": "table of M"}


class FiniteTables:
    """The tables of one seed that must stay finite: a learner's q and m [row, action, gvf], and those of the behaviour.

    A behaviour's array that holds infinities before the first step is left out: there they are part of the method.
    """

    def __init__(self, names: tuple[str, ...], seed: int, acting: Any) -> None:
        self.names, self.seed = names, seed
        self.acting = frozenset(name for name, array in _numbers(acting) if np.isfinite(array).all())

    def check(self, step: int, acting: Any, learning: Any = None) -> None:
        """Raise Diverged for the first number that is not finite after `step` steps; learning: the learner's state."""
        for name, what in WORDS.items() if learning is not None else ():
            bad = np.argwhere(~np.isfinite(getattr(learning, name)))
            if bad.size:
                value = getattr(learning, name)[tuple(bad[0])]
                raise Diverged(what, float(value), step, self.seed, self.names[bad[0][-1]], when="before")
        for name, array in _numbers(acting):
            wrong = ~np.isfinite(array)
            if name in self.acting and wrong.any():
                what = f"behaviour's {name.rpartition('.')[2]}"
                raise Diverged(what, float(array[wrong][0]), step, self.seed, when="before")


def _numbers(tree: Any) -> list[tuple[str, np.ndarray]]:
    """The arrays of floating-point numbers in nested tuples, by path."""
    return [(name, array) for name, array in tables(tree) if np.issubdtype(array.dtype, np.floating)]
