r"""The best behaviour: minimise sum G / x over all possible visits x, by Newton's method on the dual problem.

With a restart probability $\varepsilon$ per step the possible visits are all $x$ with
$\sum_a x(s,a) - (1-\varepsilon)\sum_{s',a'} x(s',a')P(s|s',a') = \tau\,d_0(s)$, $\sum x = 1$, $x \ge 0$.  With multipliers
$v(s)$ and $\lambda$ put a price $c(s,a) = \lambda + v(s) - (1-\varepsilon)\sum_{s'}P(s'|s,a)v(s')$ on each pair, where
$\sum_s d_0(s)v(s) = 0$.  The dual problem is concave, smooth and as small as the number of states:

$$\max_{\lambda, v}\ \sum_{s,a}\phi(c(s,a)) - \lambda,\qquad
\phi(c) = \min_{x>0}\ \frac{G}{\nu + x} + \frac{g}{x} + xc, \quad (D4)$$

with $\nu = n/m$ the visits already made over the steps to come (0 for the optimum from scratch) and $g$ a small floor that
keeps every $x$ positive; it is lowered in stages.  For $\nu = 0$, $\phi = 2\sqrt{(G+g)c}$ and $x = \sqrt{(G+g)/c}$.

**The certificate.**  By Cauchy and Schwarz, for any prices $c > 0$ and any visits $x$

$$\sum G/x \ \ge\ \Big(\sum\sqrt{Gc}\Big)^2 \Big/ \max_{x'}\langle c, x'\rangle. \quad (D5)$$

The maximum is the highest average reward with reward $c$, exact by backward induction over the horizon
(`flow.highest_average`).  It ranges over all behaviours, even those that depend on the time step, so the bound holds for
every one of them; part of the gap to a stationary behaviour is the value of depending on the time step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF
from gvfx.questions.where import WhereLike
from gvfx.theory.dual import Dual, dual_stages, solve_dual
from gvfx.theory.ending import solve_with_endings
from gvfx.theory.flow import Model, best_plan, occupancy, reached_in_time
from gvfx.theory.importance import importance_of, per_visit
from gvfx.theory.plans import best_mixture
from gvfx.theory.polish import affordable, polished
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP

STAGES = (1e-2, 1e-4, 1e-6)  # floors g in units of the mean of G
FINE = (*STAGES, 1e-8, 1e-10, 1e-12)  # where the optimum itself is wanted
WORTHWHILE = 1e-4  # prices that cannot raise the bound by this share are not planned for
POLISHED = 1e-3  # the largest gap that is left without an attempt to improve the behaviour
FEW = 50  # local searches that cannot afford as many gradients are left out
CONVERGED = 0.02  # the largest gap between constant and bound with which a design is called converged


@dataclass(frozen=True, eq=False)
class Design:
    """A behaviour and its error: the MSE is about `constant` / steps, and no behaviour has less than `bound` / steps."""

    behaviour: np.ndarray  # mu [state, action]
    occupancy: np.ndarray  # x [state, action], expected visits per step
    constant: float
    timed: float  # of the best behaviour found that depends on the time step; `constant` if none was needed or found
    bound: float

    @property
    def gap(self) -> float:
        """How far the constant can be above the best possible one, relative to the bound."""
        return self.constant / self.bound - 1 if 0 < self.bound < np.inf else 0.0

    @property
    def converged(self) -> bool:
        """Whether the gap is at most `CONVERGED`, 2 %."""
        return self.gap <= CONVERGED


@one_thread()
def optimal(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None, where: WhereLike = None) -> Design:
    """The best stationary behaviour for a known world, with a certified bound (`best_design`); `where` as in `gvfx.evaluate`."""
    return best_design(Model.of(world), importance_of(world, questions, levels, where=where))


@one_thread()
def best_design(model: Model, need: np.ndarray) -> Design:
    """The stationary behaviour that minimises sum G / x, and a lower bound over all behaviours; need [state, action] is G.

    The constant and the bound use the exact horizon.  The search replaces it by a restart probability, of which three values
    are tried; the best behaviour and the best bound of all stages are kept.  If they are more than `CONVERGED` apart, the
    bound is tightened (`ending`, `plans`); from a gap of `POLISHED` on the behaviour is improved by a local search (`polish`).

    In states that no behaviour reaches, and everywhere if G is 0, the behaviour is uniform.  A pair with G > 0 that no behaviour
    reaches before the horizon makes constant and bound infinite; the behaviour is then the best one for the other pairs.  Among
    behaviours that are equally good, such as in reached states from which no G > 0 can be visited, any may be returned.
    """
    need = _checked_need(model, need)
    possible = np.where(reached_in_time(model)[:, None], need, 0.0)
    best = _Best(model, possible)
    uniform = np.full(need.shape, 1 / model.actions)
    best.try_behaviour(uniform)
    if possible.any():
        for restart in [model.restart] if model.horizon is None else [model.restart / 100, model.restart / 10, model.restart]:
            stages = list(dual_stages(model, possible, np.zeros(need.shape), restart, FINE, 1e-9))
            for found in reversed(stages):  # the last is usually the best, and makes it unnecessary to plan for the others
                best.try_behaviour(found.behaviour)
                best.try_prices(found)
        if best.design().gap > CONVERGED and model.horizon is not None:
            best.tighten()
        if best.design().gap > POLISHED:
            best.polish(best.behaviour)
        if best.design().gap > CONVERGED:
            best.use_the_time_step()
        if best.design().gap > CONVERGED and affordable(model) >= FEW:
            best.polish(uniform)  # there can be several local minima
    if (possible < need).any():
        return replace(best.design(), constant=np.inf, timed=np.inf, bound=np.inf)
    return best.design()


class _Best:
    """The best behaviour and the best bound of those tried."""

    def __init__(self, model: Model, need: np.ndarray) -> None:
        self.model, self.need = model, need
        self.behaviour = self.visits = np.empty(0)
        self.plans: list[np.ndarray] = []  # visits of the best plans for the prices tried
        self.constant, self.timed, self.bound = np.inf, np.inf, 0.0

    def try_behaviour(self, behaviour: np.ndarray) -> None:
        visits = occupancy(self.model, behaviour)
        constant = float(per_visit(self.need, visits).sum())
        if constant < self.constant or not self.behaviour.size:
            self.behaviour, self.visits, self.constant = behaviour, visits, constant

    def try_prices(self, found: Dual) -> None:
        """The certificate D5, unless the prices are worth too much to a behaviour that is known."""
        price = found.price / found.total
        worth = float(np.sqrt(self.need * price).sum() ** 2)
        if self.model.horizon is None:
            self.bound = max(self.bound, worth)
            return
        reached = max(float((price * visits).sum()) for visits in [self.visits, *self.plans])
        if worth > self.bound * reached * (1 + WORTHWHILE):
            highest, visits = best_plan(self.model, price, reached)
            self.bound = max(self.bound, worth / highest)
            self.plans += [] if visits is None else [visits]

    def tighten(self) -> None:
        found = solve_with_endings(self.model, self.need)
        self.try_behaviour(found.behaviour)
        self.try_prices(found)

    def polish(self, behaviour: np.ndarray) -> None:
        self.try_behaviour(polished(self.model, self.need, behaviour))

    def use_the_time_step(self) -> None:
        visits, bound = best_mixture(self.model, self.need, self.visits, self.constant / (1 + CONVERGED))
        self.timed, self.bound = float(per_visit(self.need, visits).sum()), max(self.bound, bound)
        mean = np.divide(
            visits, visits.sum(axis=1, keepdims=True), out=self.behaviour.copy(), where=visits.any(axis=1, keepdims=True)
        )
        self.try_behaviour(mean)
        if affordable(self.model) >= FEW:
            self.polish(mean)

    def design(self) -> Design:
        return Design(self.behaviour, self.visits, self.constant, min(self.timed, self.constant), self.bound)


@one_thread()
def remaining_design(model: Model, need: np.ndarray, counts: np.ndarray | None = None, steps: float = 1.0) -> np.ndarray:
    """The behaviour for the coming `steps` after `counts` visits of each pair [state, action]: mu [state, action].

    Minimises sum G / (n + m x) over the visits x that the model allows (Eq. D3); `need` is G, from `importance`.
    The search replaces the horizon by a restart probability.  If the uniform behaviour is better with the exact horizon, as
    can happen when important pairs are further away than the horizon, it is returned.  States that cannot be reached have
    a uniform row.  A model of 400 states takes under 0.1 s, one of 40,000 some 20 s.
    """
    need = _checked_need(model, need)
    ratio = np.zeros(need.shape) if counts is None else np.asarray(counts, float) / steps
    if ratio.shape != need.shape or not (ratio >= 0).all():
        raise InputError(f"counts: expected visits of at least 0 for every pair, {list(need.shape)}, and steps above 0.")
    found = solve_dual(model, need, ratio, model.restart, STAGES).behaviour
    uniform = np.full(need.shape, 1 / model.actions)
    remaining = [per_visit(need, ratio + occupancy(model, mu)).sum() for mu in (found, uniform)]
    return uniform if remaining[1] < remaining[0] else found


def _checked_need(model: Model, need: np.ndarray) -> np.ndarray:
    need = np.asarray(need, float)
    if need.shape != model.next.shape[:2] or not (np.isfinite(need).all() and (need >= 0).all()):
        raise InputError(f"need: expected finite numbers of at least 0 for every pair, {list(model.next.shape[:2])}.")
    return np.where(model.going[:, None], need, 0.0)
