r"""Error theory: how large the error of a behaviour will be, and which behaviour has the smallest.

**The error.**  Certainty equivalence solves the model estimated from counts; it is asymptotically efficient.
With $n(s,a)$ visits, $F_i=(I-\gamma P_{\pi_i})^{-1}$ and the noise of one transition
$\sigma_i^2(s,a)=\mathrm{Var}(c_i+\gamma V_i(s')\mid s,a)$ (`exact.transition_noise`), the delta method gives

$$\mathrm{Var}\,\hat V_i(s_0) \approx \sum_{s,a} F_i(s_0,s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a) / n(s,a). \quad (D1)$$

**The importance** of a pair sums its contributions to the weighted mean squared error over the evaluation states $d$:

$$G(s,a) = \sum_i w_i \sum_{s_0} d(s_0) F_i(s_0,s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a),
\qquad \mathrm{MSE}\approx\sum_{s,a} G/n. \quad (D2)$$

**The design.**  A behaviour with expected visits per step $x$ has $\mathrm{MSE}\cdot T\to\sum G/x$, its *constant*.  With $n$
visits made and $m$ steps to come, the best behaviour minimises

$$\sum_{s,a} \frac{G(s,a)}{n(s,a) + m\,x(s,a)} \quad (D3)$$

over all $x$ that are possible in the world, a convex problem (`optimum` has the dual that solves it and the certificate).

Shapes: state-action tables [state, action], values [gvf, state].  `docs/limit.md` has the numbers for the paper's settings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF, calibrated_weights, stack
from gvfx.questions.where import Evaluation, WhereLike, as_evaluation, as_where
from gvfx.schedules import growing
from gvfx.theory import exact
from gvfx.theory.equations import explorer_probabilities
from gvfx.theory.exact import behaviour_rows, discounts, factorised, groups, resolvent
from gvfx.theory.importance import (
    Model,
    evaluation,
    flow_matrix,
    importance,
    importance_of,
    importances,
    occupancy,
    per_visit,
    variances,
)
from gvfx.theory.optimum import Design, best_design, optimal, remaining_design
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP

# --- Designs from the literature on the same arrays, for comparison -------------------------------------------------
# **Characteristic time** (MR-NaS, Russo & Pacchiano 2025): for deterministic policies, minimise over visits $\omega$ the largest
# $\gamma^2\max_{s'}\rho_i(s,s')^2/\omega(s,\pi_i(s))$ with the value deviation $\rho_i(s,s') = V_i(s') - \mathbb
# E_{P(s,\pi_i(s))}V_i$.  *Our reading* for stochastic policies weighs a pair's deviation by $\pi_i(a|s)^2$, as in Eq. D1,
#
# $$\min_\omega\max_{i,s,a}\ \gamma^2\pi_i(a|s)^2\max_{s'}\big(V_i(s') - \mathbb E_{P(s,a)}V_i\big)^2 / \omega(s,a),$$
#
# a linear program.  $s'$ ranges over the states that can be reached, and termination counts as value 0.
#
# **Second moment** (Liu, Chen & Zhang, "Efficient Multi-Policy Evaluation for Reinforcement Learning"):
# $\mu(a|s)\propto\sqrt{\sum_i \pi_i(a|s)^2 u_i(s,a)}$ with $u_i = \mathbb E_{\pi_i}[G_i^2\mid s,a]$; *our reading* keeps the
# discount and the weights, which they do not have.


@one_thread()
def characteristic_time(model: Model, pi: np.ndarray, gamma: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The characteristic-time design, mu [state, action]; values [gvf, state], the rest as in `importance`.

    It ignores the cumulants' noise, and is uniform in states where it requires no visits.
    """
    going = np.flatnonzero(model.going)
    need = np.zeros(model.next.shape[:2])
    for i in range(len(values)):
        discount = discounts(model, gamma[:, i])
        arrived = discount * values[i][model.next]
        centre = (model.prob * arrived).sum(axis=2)
        high, low = max(0.0, values[i][going].max()), min(0.0, values[i][going].min())
        most = discount.max(axis=2)
        deviation = np.maximum(most * high - centre, centre - most * low) ** 2
        need = np.maximum(need, pi[:, :, i] ** 2 * deviation)
    mu = np.full(need.shape, 1 / model.actions)
    wanted = (need[going] / max(need[going].sum(), 1e-300)).ravel()
    if not wanted.any():
        return mu
    # visits = least * wanted + extra, and least is maximised; variables: extra [pair], least, episodes per step
    flow = sp.csr_array(flow_matrix(model, going, model.restart).T)
    balance = sp.hstack([flow, sp.csr_array((flow @ wanted)[:, None]), sp.csr_array(-model.start[going][:, None])])
    total = sp.csr_array(np.append(np.ones(wanted.size), [1.0, 0.0])[None])
    found = scipy.optimize.linprog(
        np.append(np.zeros(wanted.size), [-1.0, 0.0]),
        A_eq=sp.csc_array(sp.vstack([balance, total])),
        b_eq=np.append(np.zeros(going.size), 1.0),
        method="highs",
    )
    if not found.success:
        raise InputError(f"model: the characteristic-time design was not found ({found.message}); check the model's rows.")
    visits = np.maximum(found.x[:-2] + found.x[-2] * wanted, 0.0).reshape(going.size, model.actions)
    required = wanted.reshape(visits.shape).any(axis=1) & (visits.sum(axis=1) > 0)
    mu[going[required]] = visits[required] / visits[required].sum(axis=1, keepdims=True)
    return mu


@one_thread()
def second_moment(pi: np.ndarray, moments: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """mu proportional to sqrt(sum_i w_i pi_i^2 u_i), [state, action]; moments u [state, action, gvf]; uniform where all are 0."""
    return np.asarray(explorer_probabilities(weights * pi**2 * moments))


@one_thread()
def characteristic_time_of(world: MDP, questions: Sequence[GVF]) -> np.ndarray:
    """The characteristic-time design of a known world, mu [state, action]."""
    asked = exact.asked_of(world, questions)
    return characteristic_time(Model.of(world), asked.pi, asked.gamma, exact.values(world, questions))


@one_thread()
def second_moment_of(world: MDP, questions: Sequence[GVF]) -> np.ndarray:
    """The second-moment rule of a known world, mu [state, action]."""
    asked = exact.asked_of(world, questions)
    moments = exact.variance(world, questions, "return_variance") + exact.action_values(world, questions) ** 2
    return second_moment(asked.pi, moments, asked.weights)


# --- Forecasts before a run: a behaviour's error constant, the distribution of one run's error, the steps that an error needs
# The error of one run is a weighted chi-square: $\hat V_i - V_i = F_i\sum_a\pi_i\,\epsilon_i$, where $\epsilon_i(s,a)$ is
# Gaussian with variance $\sigma_i^2/n$, independent over pairs but not over GVFs, which share the transitions.  It is sampled,
# with one linear solve per GVF and draw, and scaled to the exact mean (Eq. D2).

CHUNK = 4_000_000  # random numbers drawn at a time
LOOK_GROWTH = 1.15  # growth of the data between two looks of a stopping rule


def look_times(steps: int, pairs: int, growth: float = LOOK_GROWTH) -> list[int]:
    """Steps at which a stopping rule looks: first after one step per state and action, then each time the data have grown."""
    return [*growing(max(100, pairs), growth, steps), steps]


def allowed_at(looks: int, confidence: float) -> float:
    """The probability of being wrong at a look after so many others; it adds up to 1 - confidence over any number of looks."""
    return (1 - confidence) / ((looks + 1) * (looks + 2))


@one_thread()
def constants(
    world: MDP, questions: Sequence[GVF], behaviour: np.ndarray, levels: np.ndarray | None = None, where: WhereLike = None
) -> np.ndarray:
    """The limit of MSE times steps of each question under a stationary behaviour [1 or states, actions], [gvf].

    Infinite if the behaviour never tries an action that the question's policy takes; `where` as in `gvfx.evaluate`.
    """
    asked, model = exact.asked_of(world, questions), Model.of(world)
    noise, visits = exact.transition_noise(world, questions, levels), occupancy(model, behaviour)
    out = np.empty(len(asked.names))
    for i, own in importances(model, asked.pi, asked.gamma, noise, as_where(where, world).on(world)):
        out[i] = per_visit(np.where(model.going[:, None], own, 0.0), visits).sum()
    return out


@one_thread()
def constant(
    world: MDP, questions: Sequence[GVF], behaviour: np.ndarray, levels: np.ndarray | None = None, where: WhereLike = None
) -> float:
    """The weighted mean of the questions' `constants`: the limit of the run's MSE times its steps."""
    weights = stack(questions, world).weights
    return float(constants(world, questions, behaviour, levels, where) @ (weights / weights.sum()))


def steps_needed(constant: float, error: float) -> float:
    """Steps after which the expected error is `error`; infinite if the behaviour never reaches it."""
    if not error > 0:
        raise InputError(f"error: {error!r} cannot be reached; give a mean squared error above 0.")
    return math.ceil(constant / error) if math.isfinite(constant) else math.inf


@one_thread()
def error_draws(
    model: Model,
    pi: np.ndarray,
    gamma: np.ndarray,
    noise: np.ndarray,
    values: np.ndarray,
    where: np.ndarray | Evaluation,
    counts: np.ndarray,
    draws: int = 400,
    seed: int = 0,
) -> np.ndarray:
    """Draws of the MSE of one run with these visits, [draw, gvf]; infinite for GVFs that need pairs without visits.

    values [gvf, state] determine the noise that GVFs share; the other arguments are those of `importances` and `variances`.
    """
    rng = np.random.default_rng(seed)
    out = np.empty((draws, noise.shape[2]))
    d = as_evaluation(where)
    means = dict(importances(model, pi, gamma, noise, where))
    root_prob = np.sqrt(model.prob)
    scale = np.sqrt(per_visit(np.ones(counts.shape), counts))
    scale[np.isinf(scale)] = 0.0
    solvers = [(own, factorised(resolvent(model, pi[:, :, own[0]], gamma[:, own[0]]))) for own in groups(pi, gamma)]
    for first in range(0, draws, size := max(1, CHUNK // model.prob.size)):
        some = min(size, draws - first)
        shared = rng.standard_normal((some, *model.prob.shape))
        for members, solve in solvers:
            for i in members:
                target = discounts(model, gamma[:, i]) * values[i][model.next]
                target = root_prob * (target - (model.prob * target).sum(axis=2, keepdims=True))
                rest = np.sqrt(np.maximum(noise[:, :, i] - (target**2).sum(axis=2), 0.0))
                own = np.einsum("dsak,sak->dsa", shared, target) + rest * rng.standard_normal((some, *rest.shape))
                errors = solve((own * (scale * pi[:, :, i])).sum(axis=2).T)
                out[first : first + some, i] = (d.weights @ errors) ** 2 if d.of_mean else d.weights @ errors**2
    for i, own in means.items():
        mean, drawn = per_visit(own, counts).sum(), out[:, i].mean()
        out[:, i] = np.inf if np.isinf(mean) else out[:, i] * (mean / drawn if drawn > 0 else 0.0)
    return out


@dataclass(frozen=True, eq=False)
class Forecast:
    """The error of a behaviour as a function of steps: its mean, and its quantiles over runs."""

    constant: float  # MSE times steps
    ratios: np.ndarray  # [draw] sorted: errors of single runs divided by their mean

    def error(self, steps: float, share: float | None = None) -> float:
        """The expected error after `steps`, or the error below which a `share` of the runs lies."""
        return self.constant / steps * self._ratio(share)

    def steps(self, error: float, share: float | None = None) -> float:
        """Steps until the expected error is `error`, or until a `share` of the runs is below it."""
        return steps_needed(self.constant * self._ratio(share), error)

    def bounded(self, error: float, confidence: float = 0.95) -> float:
        """Steps until `error_below(error)` stops a run whose noise is known; its bound is a quantile of a gamma distribution."""
        spread = float(np.var(self.ratios))
        needed = steps_needed(self.constant, error)
        if spread == 0 or math.isinf(needed):
            return needed
        for k in itertools.count():
            if scipy.special.gammainccinv(1 / spread, allowed_at(k, confidence)) * spread <= LOOK_GROWTH**k:
                return steps_needed(self.constant * LOOK_GROWTH**k, error)
        raise AssertionError("unreachable: the data grow faster than the quantile")

    def _ratio(self, share: float | None) -> float:
        if share is not None and not 0 < share < 1:
            raise InputError(f"share: {share!r} lies outside (0, 1); give the share of runs, such as 0.95.")
        return 1.0 if share is None else float(np.quantile(self.ratios, share))


@one_thread()
def forecast(
    world: MDP,
    questions: Sequence[GVF],
    behaviour: np.ndarray,
    levels: np.ndarray | None = None,
    draws: int = 400,
    where: WhereLike = None,
) -> Forecast:
    """The forecast for a stationary behaviour [1 or states, actions] in a known world; `where` as in `constants`."""
    asked, model = exact.asked_of(world, questions), Model.of(world)
    noise = exact.transition_noise(world, questions, levels)
    visits = occupancy(model, behaviour_rows(behaviour, model))
    v, d = exact.values(world, questions, levels), as_where(where, world).on(world)
    errors = error_draws(model, asked.pi, asked.gamma, noise, v, d, visits, draws) @ (asked.weights / asked.weights.sum())
    mean = float(errors.mean())
    return Forecast(mean, np.sort(errors / mean) if 0 < mean < math.inf else np.ones(draws))


__all__ = [
    "Design", "Forecast", "Model", "best_design", "calibrated_weights", "characteristic_time", "characteristic_time_of",
    "constant", "constants", "error_draws", "evaluation", "forecast", "importance", "importance_of", "importances", "occupancy",
    "optimal", "remaining_design", "second_moment", "second_moment_of", "steps_needed", "variances",
]  # fmt: skip
