"""The best behaviour that may depend on the time step, as a mixture of plans, and the bound that its prices prove.

The visits of all such behaviours are the mixtures of the visits y_k of deterministic plans.  Minimise sum G / x over mixtures
of the plans known so far, ask for the best plan with the prices c = G / x^2, and add it.  Its average reward gives the
certificate D5, which meets sum G / x when no better plan exists.
"""

from __future__ import annotations

import numpy as np

from gvfx.theory.endless import best_endless_plan
from gvfx.theory.flow import Model, best_plan

WORK = 1e8  # multiplications in all plans together, some tenths of a second
FEWEST, PLANS = 20, 100  # fewer do not help, so only the prices of the first mixture are tried; more are not made
TOLERANCE = 1e-3  # relative distance between mixture and bound at which the search ends
WEIGHT_STEPS = 1000


def best_mixture(model: Model, need: np.ndarray, visits: np.ndarray, enough: float) -> tuple[np.ndarray, float]:
    """Visits [state, action] of the best mixture found, and a lower bound of sum G / x; it ends when the bound is `enough`.

    need [state, action] is G; visits [state, action] are those of the behaviour to begin with, positive where G is.
    """
    needed = need > 0
    g, bound = need[needed], 0.0
    plans, weights = visits[None], np.ones(1)
    if not (visits[needed] > 0).all():
        return visits, bound
    price = np.zeros(need.shape)
    once = 10 * model.states**3 if model.horizon is None else 3 * model.horizon * model.prob.size
    affordable = int(WORK / once)
    for _ in range(min(affordable, PLANS) if affordable >= FEWEST else 1):
        weights = _reweighted(plans[:, needed], weights, g)
        kept = weights > 1e-9
        kept[0] = True  # the behaviour to begin with, perhaps the only one that visits some pair with a small G
        plans, weights = plans[kept], weights[kept] / weights[kept].sum()
        x = np.tensordot(weights, plans, 1)
        price[needed] = g / x[needed] ** 2
        total = float((g / x[needed]).sum())
        highest, found = (best_endless_plan if model.horizon is None else best_plan)(model, price, total)
        bound = max(bound, total**2 / highest)  # Eq. D5
        if found is None or bound >= enough or total <= (1 + TOLERANCE) * bound:
            break
        plans, weights = np.append(plans, found[None], axis=0), np.append(0.95 * weights, 0.05)
    return x, bound


def _reweighted(plans: np.ndarray, weights: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weights that minimise sum G / x over mixtures x of plans [plan, pair], by multiplicative steps."""
    for _ in range(WEIGHT_STEPS):
        x = weights @ plans
        reward = plans @ (g / x**2) / (g / x).sum()
        if reward.max() <= 1 + TOLERANCE / 10:
            break
        weights = weights * np.sqrt(reward)
        weights = weights / weights.sum()
    return weights
