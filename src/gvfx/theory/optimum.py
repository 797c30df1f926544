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
(`best_plan`).  It ranges over all behaviours, even those that depend on the time step, so the bound holds for
every one of them; part of the gap to a stationary behaviour is the value of depending on the time step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.compilation.loops import stored
from gvfx.errors import InputError
from gvfx.questions.gvf import GVF
from gvfx.questions.where import WhereLike
from gvfx.theory.exact import DEFINITE, DENSE_BELOW, Solve, factorised
from gvfx.theory.importance import ENDLESS, Model, best_plan, flow_matrix, importance_of, occupancy, per_visit, reached_in_time
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP

# --- Newton's method for the dual problem of the best behaviour (D4) ------------------------

NEWTON_STEPS = 60  # per stage


class Dual(NamedTuple):
    """A maximum of the dual problem."""

    behaviour: np.ndarray  # [state, action]
    price: np.ndarray  # c [state, action]; 0 in states without actions
    total: float  # lambda: <c, x> of every possible x


class _Problem(NamedTuple):
    """A dual problem in the prices c = flow @ v + levels, where start @ v = 0 and each level is a part of some prices."""

    flow: sp.csr_array  # [price, state]
    start: np.ndarray  # [state]
    parts: tuple[slice, ...]  # of the prices that each level is added to
    cost: np.ndarray  # [level]


def dual_stages(
    model: Model, need: np.ndarray, ratio: np.ndarray, restart: float, stages: Sequence[float], tolerance: float = 1e-4
) -> Iterator[Dual]:
    """Maximise D4 for one floor g after the other, each from where the last ended; need and ratio (G and nu) are [state, action].

    tolerance: the predicted gain of a Newton step, relative to the objective, below which a stage ends.
    """
    going = np.flatnonzero(model.going)
    problem = _Problem(flow_matrix(model, going, restart), model.start[going], (slice(None),), np.ones(1))
    g, nu = need[going].ravel(), ratio[going].ravel()
    g = g / np.sqrt(g).sum() ** 2 if g.any() else np.full(g.shape, g.size**-2.0)  # scales the optimum to order 1
    level, price = np.ones(1), np.ones(g.size)
    for stage in stages:
        phi = partial(_pairs, g=g, floor=stage * g.mean(), nu=nu)
        level, price = _maximum(problem, phi, level, price, tolerance)
        yield Dual(behaviour_on(going, phi(price)[0], need.shape), spread_over(going, price, need.shape), float(level[0]))


def _maximum(
    problem: _Problem,
    phi: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]],
    level: np.ndarray,
    price: np.ndarray,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The levels and prices that maximise sum phi(c) - <cost, level>: Newton's method with a line search, from some of them.

    phi(c) gives the minimisers x, minus phi'' and phi.
    """
    flow, start, parts, cost = problem
    back = sp.csr_array(flow.T)
    for _ in range(NEWTON_STEPS):
        x, curvature, value = phi(price)
        slope, surplus = back @ x, np.array([x[part].sum() for part in parts]) - cost
        own = np.zeros((len(x), len(parts)))
        for k, part in enumerate(parts):
            own[part, k] = curvature[part]
        border = back @ own
        solved = definite(flow, back, curvature)(np.column_stack([slope, border, start]))
        system = np.vstack([np.column_stack([-border.T @ solved[:, 1:-1], -border.T @ solved[:, -1]]), start @ solved[:, 1:]])
        system[: len(parts), : len(parts)] += np.diag([curvature[part].sum() for part in parts])
        moved = np.linalg.solve(system, np.append(surplus - border.T @ solved[:, 0], start @ solved[:, 0]))
        d_level, d_v = moved[:-1], solved @ np.append(1.0, -moved)
        d_price = flow @ d_v
        for part, change in zip(parts, d_level, strict=True):
            d_price[part] += change
        gain = float(d_v @ slope + d_level @ surplus)  # as predicted
        objective = value.sum() - cost @ level
        step = min(1.0, 0.99 / max(1e-300, float((-d_price / price).max())))
        while step > 1e-12:
            then = phi(price + step * d_price)[2].sum() - cost @ (level + step * d_level)
            if then >= objective + 0.1 * step * gain - 1e-12 * abs(objective):
                break
            step /= 2
        if not (step > 1e-12 and gain > 0):  # no gain left but rounding
            break
        level, price = level + step * d_level, price + step * d_price
        if step == 1.0 and gain <= tolerance * abs(objective):
            break
    return level, price


def behaviour_on(going: np.ndarray, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The behaviour [state, action] with visits x over the pairs of the states `going`; uniform elsewhere."""
    mu = np.full(shape, 1 / shape[1])
    x = x.reshape(len(going), shape[1])
    mu[going] = x / x.sum(axis=1, keepdims=True)
    return mu


def spread_over(going: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values of the pairs of the states `going` as [state, action]; 0 elsewhere."""
    out = np.zeros(shape)
    out[going] = values.reshape(len(going), shape[1])
    return out


def _pairs(price: np.ndarray, g: np.ndarray, floor: float, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every pair the minimiser x of G / (nu + x) + floor / x + c x, minus phi''(c), and phi(c)."""
    if nu.any():
        x = np.maximum(np.sqrt(floor / price), np.sqrt(g / price) - nu)
        for _ in range(10):  # starting left of the root of a convex decreasing function, Newton's method is monotone
            first, second = g / (nu + x), floor / x
            fall = first / (nu + x) + second / x - price
            x = x + fall / (2 * (first / (nu + x) ** 2 + second / x**2))
            if (fall <= 1e-10 * price).all():
                break
    else:
        x = np.sqrt((g + floor) / price)
    first, second = g / (nu + x), floor / x
    return x, 0.5 / (first / (nu + x) ** 2 + second / x**2), first + second + price * x


SHIFT = 1e-11  # relative, added to the diagonal; without termination and restarts the Hessian is singular


def definite(flow: sp.csr_array, back: sp.csr_array, curvature: np.ndarray) -> Solve:
    """Solves (flow^T diag(curvature) flow) x = b, symmetric and positive definite."""
    if flow.shape[1] < DENSE_BELOW:
        matrix = np.zeros((flow.shape[1], flow.shape[1]))
        _add_squares(flow.indptr, flow.indices, flow.data, curvature, matrix)
        matrix[np.diag_indices(len(matrix))] *= 1 + SHIFT
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
    hessian = sp.csr_array(back @ (sp.diags_array(curvature) @ flow))
    hessian = hessian + sp.diags_array(SHIFT * hessian.diagonal())
    return scipy.sparse.linalg.splu(sp.csc_array(hessian), **DEFINITE).solve


@stored(nogil=True)
def _add_squares(indptr, indices, data, weights, out):
    """out += sum_p weights[p] row_p row_p^T over the sparse rows of a matrix."""
    for p in range(len(weights)):
        for j in range(indptr[p], indptr[p + 1]):
            for k in range(indptr[p], indptr[p + 1]):
                out[indices[j], indices[k]] += weights[p] * data[j] * data[k]


# --- A tighter bound: the dual problem in which a behaviour may choose the state in which an episode is truncated ---
# A behaviour with a horizon of $H$ steps makes visits with
# $\sum_a x(s,a) - \sum_{s',a'} x(s',a')P(s|s',a') = \tau d_0(s) - e(s)$, where $e(s) \ge 0$ are truncations per step, at most
# $1/H$ in all.  This set contains the visits of every behaviour.  With a multiplier $\kappa$ for the truncations,
#
# $$\max_{\lambda, \kappa, v}\ \sum_{s,a}\phi(c(s,a)) - \lambda - \kappa/H, \qquad c = \lambda + v - Pv,\quad v + \kappa \ge
# 0,\quad \sum_s d_0(s)v(s) = 0. \quad (D6)$$
#
# These prices cannot be exploited by ending an episode where $v$ is low, so their certificate (D5) is often better than that of
# a restart probability.  The behaviour is usually worse: it counts on choosing where to end.

FLOORS = (1e-2, 1e-4, 1e-6)  # in units of the mean of G, and of the mean number of truncations


def solve_with_endings(model: Model, need: np.ndarray) -> Dual:
    """Maximise D6 by Newton's method; need [state, action] is G.  Prices are scaled by lambda + kappa / H."""
    assert model.horizon is not None
    going = np.flatnonzero(model.going)
    states, pairs = len(going), len(going) * model.actions
    flow = sp.csr_array(sp.vstack([flow_matrix(model, going, 0.0), sp.eye_array(states)]))  # pairs, then endings
    cost = np.array([1.0, 1 / model.horizon])  # of lambda and kappa
    problem = _Problem(flow, model.start[going], (slice(0, pairs), slice(pairs, None)), cost)
    g = need[going].ravel() / np.sqrt(need[going]).sum() ** 2
    level, price = np.ones(2), np.ones(pairs + states)
    for stage in FLOORS:
        weight = np.append(g + stage * g.mean(), np.full(states, stage / (model.horizon * states**2)))
        phi = partial(_pairs, g=weight, floor=0.0, nu=np.zeros(1))
        level, price = _maximum(problem, phi, level, price, 1e-9)
    x = phi(price)[0][:pairs]
    return Dual(behaviour_on(going, x, need.shape), spread_over(going, price[:pairs], need.shape), float(cost @ level))


# --- Worlds without a horizon: the best plan for given rewards, by policy iteration, and derivatives of visits ------
# Episodes restart with probability `ENDLESS` per step, so that a stationary plan is the best.

ROUNDS = 100  # of policy iteration, and of guesses


def best_endless_plan(model: Model, reward: np.ndarray, reached: float) -> tuple[float, np.ndarray]:
    """An upper bound of the average reward <reward, x> of any behaviour, and the visits [state, action] of the best plan.

    Guesses as in `best_plan`; infinite if none is confirmed.
    """
    transitions, going = model.transitions(), ~model.terminal
    guess, choice = reached, reward.argmax(axis=1)
    for _ in range(ROUNDS):
        value, choice, excess = _iterated(model, transitions, reward - guess, choice)
        if model.start @ value <= 0:  # sum (reward - guess) <= excess * length of any episode, on average
            break
        chosen = np.eye(model.actions)[choice]
        average = float((reward * occupancy(model, chosen)).sum())
        guess = max(average, guess) * (1 + 1e-10)
    else:
        return np.inf, occupancy(model, np.eye(model.actions)[choice])
    return guess + excess * going.any(), occupancy(model, np.eye(model.actions)[choice])


def _iterated(
    model: Model, transitions: sp.csr_array, reward: np.ndarray, choice: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Policy iteration from a plan choice [state]: values [state], the plan, and by how much an action still exceeds them."""
    going, every = ~model.terminal, np.arange(model.states)
    for _ in range(ROUNDS):
        rows = transitions[every * model.actions + choice]
        solve = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * rows)
        value = solve(np.where(going, reward[every, choice], 0.0))
        q = reward + (1 - ENDLESS) * (transitions @ value).reshape(reward.shape)
        gain = np.where(going, q.max(axis=1) - value, 0.0)
        better = gain > 1e-12 * (1 + abs(value))
        if not better.any():
            break
        choice = np.where(better, q.argmax(axis=1), choice)
    return value, choice, max(0.0, float(gain.max()))


def endless_slopes(model: Model, mu: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, float]:
    """The derivative of <h, d> by mu(s, a), d the expected visits of states in an episode; and the length of an episode."""
    transitions = model.transitions()
    pairs = np.arange(mu.size)
    weights = sp.csr_array((mu.ravel(), (pairs // model.actions, pairs)), shape=(model.states, mu.size))
    moved = sp.csr_array(weights @ transitions)
    forward: Solve = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * sp.csr_array(moved.T))
    backward: Solve = factorised(sp.eye_array(model.states) - (1 - ENDLESS) * moved)
    visits, later = forward(np.where(model.terminal, 0.0, model.start)), backward(h)
    return (1 - ENDLESS) * visits[:, None] * (transitions @ later).reshape(mu.shape), float(visits.sum())


# --- The best behaviour that may depend on the time step, as a mixture of plans, and the bound that its prices prove
# The visits of all such behaviours are the mixtures of the visits y_k of deterministic plans.  Minimise sum G / x over mixtures
# of the plans known so far, ask for the best plan with the prices c = G / x^2, and add it.  Its average reward gives the
# certificate D5, which meets sum G / x when no better plan exists.

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


# --- The best stationary behaviour near a given one, with the exact horizon, if there is one: L-BFGS on the logits --

MEMORY = 2e7  # numbers kept by a gradient; larger problems are not polished
SMALLEST = 1e-12  # probabilities below it are raised to it: the logits of a probability of 0 do not exist


def polished(model: Model, need: np.ndarray, behaviour: np.ndarray) -> np.ndarray:
    """A behaviour [state, action] whose sum G / x is at most that of the given one, and at best a local minimum; need is G."""
    transitions, going = model.transitions(), model.going
    arrays = transitions.indptr, transitions.indices, transitions.data
    if (model.horizon or 1) * model.states > MEMORY or not np.isfinite(total_error(model, need, behaviour)):
        return behaviour
    start = np.ascontiguousarray(model.start, dtype=float)

    def behaviour_of(logits: np.ndarray) -> np.ndarray:
        mu = behaviour.copy()
        rows = np.exp(logits.reshape(-1, model.actions) - logits.reshape(-1, model.actions).max(axis=1, keepdims=True))
        mu[going] = rows / rows.sum(axis=1, keepdims=True)
        return mu

    def slope(logits: np.ndarray) -> tuple[float, np.ndarray]:
        mu = behaviour_of(logits)
        x = occupancy(model, mu)
        error = per_visit(need, x)
        total = float(error.sum())
        if not np.isfinite(total):
            return 1e3, np.zeros(logits.size)
        visits = x.sum(axis=1)
        h = total - np.divide(error.sum(axis=1), visits, out=np.zeros(model.states), where=visits > 0)
        if model.horizon is None:
            later, length = endless_slopes(model, mu, h)
        else:
            later, length = _slopes(*arrays, mu, start, h, model.horizon)
        by_mu = later / length - np.divide(error, mu, out=np.zeros(mu.shape), where=mu > 0)
        by_logit = mu * (by_mu - (mu * by_mu).sum(axis=1, keepdims=True))
        return np.log(total), by_logit[going].ravel() / total

    first = np.log(np.maximum(behaviour[going], SMALLEST)).ravel()
    limit = {"maxfun": max(20, affordable(model)), "maxiter": 2000, "ftol": 1e-7, "gtol": 1e-8}
    found = behaviour_of(scipy.optimize.minimize(slope, first, jac=True, method="L-BFGS-B", options=limit).x)
    return found if total_error(model, need, found) < total_error(model, need, behaviour) else behaviour


def affordable(model: Model) -> int:
    """How many gradients `WORK` pays for, at most 2,000."""
    once = model.states**3 if model.horizon is None else 3 * model.horizon * (model.transitions().nnz + model.states)
    return min(2000, int(WORK / once))


def total_error(model: Model, need: np.ndarray, behaviour: np.ndarray) -> float:
    """Sum G / x of a behaviour [state, action], with the exact horizon; need is G."""
    return float(per_visit(need, occupancy(model, behaviour)).sum())


@stored(nogil=True)
def _slopes(indptr, indices, data, mu, start, h, horizon):
    """The derivative of sum_t <h, d_t> by mu(s, a), d_t(s) = P(s_t = s), t < horizon; and the mean length of an episode."""
    states, actions = mu.shape
    later = np.zeros((horizon, states))  # sum of h over the last r + 1 steps, from each state
    later[0] = h
    for r in range(1, horizon - 1):
        for s in range(states):
            total = h[s]
            for a in range(actions):
                for k in range(indptr[s * actions + a], indptr[s * actions + a + 1]):
                    total += mu[s, a] * data[k] * later[r - 1, indices[k]]
            later[r, s] = total
    out, length = np.zeros(mu.shape), 0.0
    now, after = start.copy(), np.zeros(states)
    for t in range(horizon):
        after[:] = 0.0
        for s in range(states):
            length += now[s]
            for a in range(actions):
                total = 0.0
                for k in range(indptr[s * actions + a], indptr[s * actions + a + 1]):
                    after[indices[k]] += now[s] * mu[s, a] * data[k]
                    total += data[k] * later[horizon - 2 - t, indices[k]]
                if t < horizon - 1:
                    out[s, a] += now[s] * total
        now, after = after, now
    return out, length


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

    The search replaces the horizon by a restart probability, of which three values are tried; constant and bound use the exact
    one.  If they are more than `CONVERGED` apart, the bound is tightened (`tighten`, `use_the_time_step`); from a gap of
    `POLISHED` on the behaviour is improved by `polished`.

    In states that no behaviour reaches, and everywhere if G is 0, the behaviour is uniform.  A pair with G > 0 that no behaviour
    reaches before the horizon makes constant and bound infinite; the behaviour is then the best one for the other pairs.
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
        total, acted = visits.sum(axis=1, keepdims=True), visits.any(axis=1, keepdims=True)
        mean = np.divide(visits, total, out=self.behaviour.copy(), where=acted)
        self.try_behaviour(mean)
        if affordable(self.model) >= FEW:
            self.polish(mean)

    def design(self) -> Design:
        return Design(self.behaviour, self.visits, self.constant, min(self.timed, self.constant), self.bound)


@one_thread()
def remaining_design(model: Model, need: np.ndarray, counts: np.ndarray | None = None, steps: float = 1.0) -> np.ndarray:
    """The behaviour for the coming `steps` after `counts` visits of each pair [state, action]: mu [state, action].

    Minimises sum G / (n + m x) over the visits x that the model allows (Eq. D3); `need` is G, from `importance`.  Uniform where
    the search's restart probability, in the place of the horizon, leads to something worse.  400 states take under 0.1 s, 40,000
    some 20 s.
    """
    need = _checked_need(model, need)
    ratio = np.zeros(need.shape) if counts is None else np.asarray(counts, float) / steps
    if ratio.shape != need.shape or not (ratio >= 0).all():
        raise InputError(f"counts: expected visits of at least 0 for every pair, {list(need.shape)}, and steps above 0.")
    found = [*dual_stages(model, need, ratio, model.restart, STAGES)][-1].behaviour
    uniform = np.full(need.shape, 1 / model.actions)
    remaining = [per_visit(need, ratio + occupancy(model, mu)).sum() for mu in (found, uniform)]
    return uniform if remaining[1] < remaining[0] else found


def _checked_need(model: Model, need: np.ndarray) -> np.ndarray:
    need = np.asarray(need, float)
    if need.shape != model.next.shape[:2] or not (np.isfinite(need).all() and (need >= 0).all()):
        raise InputError(f"need: expected finite numbers of at least 0 for every pair, {list(model.next.shape[:2])}.")
    return np.where(model.going[:, None], need, 0.0)
