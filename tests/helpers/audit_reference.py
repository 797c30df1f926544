"""Scores of whole episodes by loops, as `helpers.reference` for the rest."""

from __future__ import annotations


def audit_score(values, taken, cumulants, discounts):
    """The score of an episode (Eq. E1); values [step + 1], the others [step]."""
    weight, out = 1.0, values[0]
    for t in range(len(taken)):
        out += weight * (cumulants[t] + discounts[t] * values[t + 1] - taken[t])
        weight *= discounts[t]
    return out
