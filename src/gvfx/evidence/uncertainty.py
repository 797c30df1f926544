r"""The uncertainty of certainty-equivalent answers: standard errors, a bootstrap, and a stopping rule.

`standard_errors` is the delta method (`gvfx.design`, Eq. D1) in the estimated model, with noise that pairs share (`noise`).
`bootstrap` draws new counts and cumulant means from that model with the same visits, and solves it each time.  Both treat
the visits as given, which is right in the limit for any behaviour, also one that adapts to the data.

Where an answer depends on something that was never tried (an action of the target policy, in a state that it may reach), or
may rest on states that were never seen (`unseen`), the standard error is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.noise import WIDEST, shared_noise
from gvfx.evidence.unseen import STOP_BELOW, Unseen
from gvfx.inputs import check_fields, is_real
from gvfx.schedules import growing
from gvfx.theory.design import Model, error_draws, importances
from gvfx.theory.flow import ENDLESS
from gvfx.theory.forecast import LOOK_GROWTH
from gvfx.theory.importance import variances_and_doubts


@dataclass(frozen=True, eq=False)
class Parts:
    """An estimated model as the error theory needs it."""

    model: Model
    pi: np.ndarray  # [state, action, gvf]
    noise: np.ndarray  # [state, action, gvf]
    doubt: np.ndarray  # [state, action, gvf] variance of the noise, as an estimate
    unknown: np.ndarray  # [gvf, state] bool: whether the answer depends on something never tried
    unseen: Unseen
    gamma: np.ndarray  # as in `Stacked`, below 1: a sum that does not end in the data must not make a system singular


def refusal(data: Empirical) -> str:
    """Why intervals are not available for these data; empty if they are."""
    if data.world.features is not None:
        return "intervals: grouped states bias the answers in a way that counts do not show; use ungrouped states."
    if len(data.evidence.rates):
        return "intervals: a cumulant that drifts has no standard error; use a learner with forgetting=0."
    return ""


def parts_of(data: Empirical) -> Parts:
    world, n = data.world, data.visits
    if reason := refusal(data):
        raise InputError(reason)
    starts = data.evidence.starts
    prob = data.counts / np.maximum(n, 1)[:, :, None]
    pi = np.stack([data.policy(i) for i in range(len(data.asked.names))], axis=-1)
    noise, doubt = shared_noise(data)
    untried = data.asked.pi * ~data.tried[:, :, None]  # target probabilities of actions never tried
    gap = (untried.sum(axis=1) > 0) & ~world.terminal[:, None]
    unknown = np.zeros((pi.shape[2], world.states), dtype=bool)
    for group in data.groups:
        solve = data.solver(group[0], 1)
        unknown[group] = solve(gap[:, group[0]].astype(float)) > 1e-12
        if data.asked.gamma[:, group[0]].max() >= 1:  # sums that do not end in the data
            unknown[group] |= (solve(np.ones(world.states)) == 0) & ~world.terminal
    unknown |= gap.T
    model = Model(world.next, prob, starts / max(1, starts.sum()), world.terminal, world.horizon)
    return Parts(model, pi, noise, doubt, unknown, Unseen(data), np.minimum(data.asked.gamma, 1 - ENDLESS))


def standard_errors(data: Empirical) -> np.ndarray:
    """Standard error of every answer, [gvf, state]; infinite where it depends on something never tried or never seen."""
    p = parts_of(data)
    found, spread = variances_and_doubts(p.model, p.pi, p.gamma, p.noise, p.doubt, data.visits)
    errors = np.sqrt(found * widening(found, spread))
    return np.where(p.unknown | p.unseen.unknown(1.96 * errors), np.inf, errors)


def widening(found: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The factor 1 + 1/(2 nu) of every answer's variance `found`, with nu its degrees of freedom (`noise`), [gvf, state].

    spread: the variance of the variances.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        added = np.where(spread > 0, spread / (4 * found**2), 0.0)
    return 1 + np.minimum(added, WIDEST)


def bootstrap(data: Empirical, draws: int, seed: int = 0) -> np.ndarray:
    """Answers from `draws` simulated data sets of the estimated model with the same visits, [draw, gvf, state]."""
    parts_of(data)  # raises InputError where intervals are not available
    rng = np.random.default_rng(seed)
    e, shape = data.evidence, data.evidence.counts.shape
    pairs, outcome = e.counts.sum(axis=1), e.row >= 0
    out = np.empty((draws, *data.values.shape))
    for d in range(draws):
        counts, left, mass = np.zeros(shape, dtype=np.int64), pairs.copy(), pairs.copy()
        for k in range(shape[1]):  # a multinomial, one successor at a time
            counts[:, k] = rng.binomial(left, np.minimum(e.counts[:, k] / np.maximum(mass, 1), 1.0))
            left, mass = left - counts[:, k], mass - e.counts[:, k]
        n = counts[outcome][:, None]
        wobble = rng.standard_normal(e.sums.shape) * np.sqrt(data.spreads[:-1] / np.maximum(n, 1))
        drawn = e._replace(counts=counts, sums=n * (data.means[:-1] + wobble))
        out[d] = Empirical(data.world, data.asked, drawn).values
    return out


@dataclass(frozen=True)
class ErrorBelow:
    """The stopping rule of `error_below`, which explains the fields; `draws` of the error's distribution per check."""

    target: float
    relative: bool = False
    each: bool = False
    confidence: float = 0.95
    draws: int = 400

    def __post_init__(self) -> None:
        check_fields(self, "until")
        if not (is_real(self.target) and self.target > 0):
            raise InputError(f"target: {self.target!r:.40} cannot be reached; give a mean squared error above 0.")
        if not (is_real(self.confidence) and 0 < self.confidence < 1):
            raise InputError(f"confidence: {self.confidence!r} lies outside (0, 1); give a number such as 0.95.")

    def looks(self, steps: int, pairs: int, growth: float = LOOK_GROWTH) -> Sequence[int]:
        """Steps at which to check: first after one step per state and action, then each time the data have grown."""
        return [*growing(max(100, pairs), growth, steps), steps]

    def bound(self, data: Empirical, looks: int) -> tuple[float, bool]:
        """An upper bound of the present error, and whether this check could have stopped the run.

        The bound is infinite while evaluated answers depend on something never tried or may rest on what was never seen.

        looks: number of earlier checks that could have stopped the run.  The k-th may be wrong with probability
        (1 - confidence) / (k (k + 1)); over any number of checks this adds up to at most 1 - confidence.  A check at which
        the expected error is still above the target cannot stop the run and is not counted; it returns that error.
        """
        p = parts_of(data)
        where = data.evaluation
        weights, scale = data.asked.weights if self.relative else data.weights, self._scale(data)
        if p.unknown[:, where.states].any() or (p.unseen.over(where) > STOP_BELOW).any() or not (scale > 0).all():
            return np.inf, False
        if self._metric((where.squares(p.unseen.stake) / scale)[None], weights)[0] > self.target:
            return np.inf, False
        return self.bound_with(data, p, looks)

    def bound_with(self, data: Empirical, p: Parts, looks: int) -> tuple[float, bool]:
        """As `bound`, from the noise in `p` and whatever was never seen."""
        where, values, gamma, scale = data.evaluation, data.values, p.gamma, self._scale(data)
        weights = data.asked.weights if self.relative else data.weights
        n = np.maximum(data.visits, 1)
        mean = np.array(
            [own for _, own in sorted((i, (g / n).sum()) for i, g in importances(p.model, p.pi, gamma, p.noise, where))]
        )
        starts = data.starts_variance if where.of_mean else np.zeros(len(mean))
        expected = float(self._metric((mean + starts)[None] / scale, weights)[0])
        if expected >= self.target:
            return expected, False
        drawn = error_draws(p.model, p.pi, gamma, p.noise, values, where, data.visits, self.draws)
        errors = self._metric(_with_starts(drawn, mean, starts) / scale, weights)
        spread = errors.var()
        if spread == 0:
            return float(errors.mean()), True
        allowed = (1 - self.confidence) / ((looks + 1) * (looks + 2))
        return float(scipy.special.gammainccinv(errors.mean() ** 2 / spread, allowed) * (spread / errors.mean())), True

    def from_errors(
        self,
        values: np.ndarray,
        errors: np.ndarray,
        weights: np.ndarray,
        freedom: float,
        looks: int,
    ) -> tuple[float, bool]:
        """As `bound`, from answers and their standard errors [gvf, point]; freedom: that of the mean squared standard error."""
        scale = (values**2).mean(axis=1) if self.relative else np.ones(len(values))
        if not np.isfinite(errors).all() or not (scale > 0).all():
            return np.inf, False
        expected = float(self._metric((errors**2).mean(axis=1)[None] / scale, weights)[0])
        if expected >= self.target:
            return expected, False
        allowed = (1 - self.confidence) / ((looks + 1) * (looks + 2))
        return expected * freedom / float(scipy.special.chdtri(freedom, 1 - allowed)), True

    def level(self, looks: int, comparisons: int = 1) -> float:
        """The level of each of several intervals at a look, such that all looks hold together with the rule's confidence."""
        return 1 - (1 - self.confidence) / ((looks + 1) * (looks + 2)) / comparisons

    def from_bounds(self, values: np.ndarray, away: np.ndarray, weights: np.ndarray) -> tuple[float, bool]:
        """As `bound`, from answers and bounds on how far they are off, [gvf] each, of intervals with `level`."""
        scale = values**2 if self.relative else np.ones(len(values))
        if not np.isfinite(values).all() or not (scale > 0).all():
            return np.inf, False
        return float(self._metric((away**2 / scale)[None], weights)[0]), True

    def _scale(self, data: Empirical) -> np.ndarray:
        """What each GVF's error is divided by, [gvf]."""
        return data.evaluation.squares(data.values) if self.relative else np.ones(len(data.values))

    def _metric(self, errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The number that is compared with the target, [draw], from errors [draw, gvf]."""
        return errors.max(axis=1) if self.each else errors @ (weights / weights.sum())


def _with_starts(drawn: np.ndarray, mean: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Draws of squared errors [draw, gvf] with the given mean, joined by an independent error of the starts' variance [gvf].

    A question's error at the start is one Gaussian number, so its square grows in proportion to its variance.
    """
    if not starts.any():
        return drawn
    alone = np.random.default_rng(0).standard_normal(len(drawn))[:, None] ** 2 * starts
    return np.where(mean > 0, drawn * (1 + starts / np.where(mean > 0, mean, 1.0)), alone)


def error_below(target: float, *, relative: bool = False, each: bool = False, confidence: float = 0.95) -> ErrorBelow:
    """A rule for `evaluate(..., until=...)`: stop when the mean squared error is below `target`, with `confidence`.

    relative: errors are divided by each GVF's mean squared value.
    each:     the error of every GVF must be below the target, not only their weighted mean.
    """
    return ErrorBelow(target, relative, each, confidence)
