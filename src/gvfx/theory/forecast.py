r"""Forecasts before a run: a behaviour's error constant, the distribution of one run's error, the steps that an error needs.

The error of one run is a weighted chi-square: with $T$ steps $\hat V_i - V_i = F_i\sum_a\pi_i\,\epsilon_i$, where
$\epsilon_i(s,a)$ is Gaussian with variance $\sigma_i^2/n$, independent over pairs but not over GVFs, which share the
transitions.  Its distribution is sampled: the noise of each pair is that of a multinomial over its successors plus that of
the cumulants, with one linear solve per GVF and draw.  The draws are scaled to the exact mean (Eq. D2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF, stack
from gvfx.questions.where import Evaluation, WhereLike, as_evaluation, as_where
from gvfx.theory import exact
from gvfx.theory.flow import Model, behaviour_rows, occupancy
from gvfx.theory.importance import discounts, importances, per_visit, resolvent
from gvfx.theory.systems import factorised, groups
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP

CHUNK = 4_000_000  # random numbers drawn at a time
LOOK_GROWTH = 1.15  # growth of the data between two looks of a stopping rule


@one_thread()
def constants(
    world: MDP, questions: Sequence[GVF], behaviour: np.ndarray, levels: np.ndarray | None = None, where: WhereLike = None
) -> np.ndarray:
    """The limit of MSE times steps of each question under a stationary behaviour [1 or states, actions], [gvf].

    Infinite if the behaviour never tries an action that the question's policy takes.  where: where errors count, as in
    `gvfx.evaluate`.
    """
    asked = exact.asked_of(world, questions)
    noise = exact.transition_noise(world, questions, levels)
    model = Model.of(world)
    visits = occupancy(model, behaviour)
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

    values [gvf, state] determine the noise that GVFs share; the rest of `noise` is treated as independent between GVFs.
    The other arguments are those of `importances` and `variances`.
    """
    rng = np.random.default_rng(seed)
    out = np.empty((draws, noise.shape[2]))
    d = as_evaluation(where)
    means = dict(importances(model, pi, gamma, noise, where))
    root_prob = np.sqrt(model.prob)
    scale = np.sqrt(per_visit(np.ones(counts.shape), counts))
    scale[np.isinf(scale)] = 0.0
    solvers = [
        (members, factorised(resolvent(model, pi[:, :, members[0]], gamma[:, members[0]]))) for members in groups(pi, gamma)
    ]
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
        """Steps until the rule `error_below(error)` stops a run whose noise is known: an upper bound on its error is below it.

        The rule looks each time the data have grown by LOOK_GROWTH, and its k-th look may be wrong with probability
        (1 - confidence) / (k (k + 1)); the bound is the quantile of a gamma distribution with the errors' mean and variance.
        """
        spread = float(np.var(self.ratios))
        needed = steps_needed(self.constant, error)
        if spread == 0 or math.isinf(needed):
            return needed
        for k in itertools.count():
            allowed = (1 - confidence) / ((k + 1) * (k + 2))
            if scipy.special.gammainccinv(1 / spread, allowed) * spread <= LOOK_GROWTH**k:
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
