"""Scores of audits by loops, as `helpers.reference` for the rest."""

from __future__ import annotations

import numpy as np


def audit_last(cumulants, gamma, stop, terminated):
    """The cumulant at which a rollout with number v stops by each question's own discount, [gvf]; with discount 1 the return."""
    out = []
    for i, g in enumerate(gamma):
        survival, found = 1.0, 0.0 if terminated else np.nan
        for t in range(len(cumulants)):
            survival *= g
            if survival <= stop:
                found = cumulants[t, i]
                break
        if g == 1:
            found = sum(cumulants[:, i]) if terminated else np.nan
        out.append(found)
    return np.array(out)


def audit_score(values, taken, cumulants, discounts, going_on, implied):
    """The score of an audit's rollout (Eq. A1), the sum of its squared terms, and the sums that earlier data imply for their
    squares and fourth powers, [4, gvf]; values [step + 1, gvf], going_on [step], implied two times [step, gvf], the others
    [step, gvf]."""
    out = np.zeros((4, values.shape[1]))
    for i in range(values.shape[1]):
        weight, out[0, i] = 1.0, values[0, i]
        for t in range(len(taken)):
            term = weight * (cumulants[t, i] + discounts[t, i] * values[t + 1, i] - taken[t, i])
            out[:, i] += term, term**2, weight**2 * implied[0][t, i], weight**4 * implied[1][t, i]
            weight *= discounts[t, i] / going_on[t]
    return out
