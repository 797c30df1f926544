"""Differences between audited values at the start, for comparisons of runs that have no other intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.audits import differences_over_seeds, over_seeds


class Audited(NamedTuple):
    """Audited values [gvf] over seeds; standard errors of differences and their degrees of freedom [gvf, gvf], the diagonal for
    the values themselves."""

    value: np.ndarray
    error: np.ndarray
    freedom: np.ndarray

    def freedom_of(self, members: np.ndarray) -> float:
        """The least degrees of freedom among some questions and their differences."""
        return float(self.freedom[np.ix_(members, members)].min())


def audited_differences(result: Any) -> Audited | None:
    """What the audits of a result say; None without audits."""
    if result.audits is None or result.audit_differences is None:
        return None
    return Audited(over_seeds(result.audits)[:, 0], *differences_over_seeds(result.audit_differences))
