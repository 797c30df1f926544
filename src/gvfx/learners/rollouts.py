"""Rollouts: the method without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.special

from gvfx.errors import InputError
from gvfx.evidence.betting import lower
from gvfx.inputs import check_fields, is_real

TAIL = 0.025  # on either side of an interval of 95 %


@dataclass(frozen=True)
class Rollouts:
    """Values at the start by whole episodes of the target policies alone, for whatever cannot be learned from.

    Observations may be of any kind, and policies may have a memory (`gvfx.stateful_policy`).  Episodes of different policies
    begin with the same seeds, and policies get steps by how much their returns vary.  Intervals are Student's t over returns,
    exact for success rates (returns of 0 or 1), and by betting where the range of a return is known.

    ranges: the least and the largest possible return of an episode, by the question's name.
    """

    ranges: Mapping[str, tuple[float, float]] | None = None

    supports: ClassVar[frozenset[str]] = frozenset()
    bounds_errors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        for name, given in (self.ranges or {}).items():
            pair = np.shape(given) == (2,) and all(is_real(x) for x in given)
            if not pair or not given[0] < given[1]:
                raise InputError(f"ranges: {given!r:.40} of {name!r} is not a range; give the least and the largest return.")


def sides(returns: np.ndarray, within: tuple[float, float] | None) -> tuple[float, float] | None:
    """The bounds of the mean of returns [n] where they are known to be exact: of success rates, and within a range; else None."""
    n = len(returns)
    if within is not None:
        x = np.clip((returns - within[0]) / (within[1] - within[0]), 0.0, 1.0)
        low, high = lower(x, TAIL), 1 - lower(1 - x, TAIL)
        return within[0] + (within[1] - within[0]) * low, within[0] + (within[1] - within[0]) * high
    if n and np.isin(returns, (0.0, 1.0)).all():
        k = float(returns.sum())
        low = float(scipy.special.betaincinv(k, n - k + 1, TAIL)) if k else 0.0  # Clopper and Pearson
        return low, float(scipy.special.betaincinv(k + 1, n - k, 1 - TAIL)) if k < n else 1.0
    return None
