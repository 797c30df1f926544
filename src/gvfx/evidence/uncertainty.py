r"""The uncertainty of certainty-equivalent answers: intervals, standard errors, and a stopping rule.

Intervals come from draws of the world given the counts (`posterior`), as does the stopping rule.  In worlds with `DENSE_BELOW`
or more states, and for the learning curves, `standard_errors` is the delta method (`gvfx.design`, Eq. D1) in the estimated model,
with noise shared by pairs (`shared_noise`).

Where an answer depends on something that was hardly tried (an action of the target policy, in a state that it may reach), or may
rest on states that were never seen (`unseen`), the standard error is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, Seen
from gvfx.evidence.posterior import posterior
from gvfx.evidence.smoothing import determinism, smoothed_noise
from gvfx.evidence.unseen import NORMAL, SETTLED, STOP_BELOW, Unseen, discovery
from gvfx.inputs import check_fields, check_level, is_real
from gvfx.questions.where import START, Evaluation
from gvfx.theory.design import allowed_at, error_draws, look_times
from gvfx.theory.exact import DENSE_BELOW, factorised, groups, resolvent
from gvfx.theory.importance import ENDLESS, Model, importances, per_visit, variances_and_doubts

# --- The noise of every pair, learned from its own outcomes and from those of all other pairs (empirical Bayes) -----
# The error theory needs $\sigma^2(s,a) = Var(c + \gamma V(s') | s, a)$.  A pair that was tried a few times without its rare
# outcome looks free of noise, and its answer is wrong at the same time: intervals from each pair's own variance are too narrow
# exactly where they fail.  Pairs of one world resemble each other, so each pair's variance s^2 is drawn towards what its
# surroundings suggest, by Buehlmann's credibility:
#
# $$\hat\sigma^2 = Z s^2 + (1 - Z)\,\bar x\,g, \qquad Z = \frac{n}{n + W/B},$$
#
# where g(s) is the local scale (the mean square of $c + \gamma V(s') - V(s)$ over the distinct outcomes that leave or enter the
# state), $x = s^2/g$ the noise in units of it, $\bar x$ its mean over pairs, B the variance of the true x between pairs and W/n
# that of its estimate within a pair, from the fourth moments.  Where pairs truly differ, B is large and each keeps its own
# variance; where the differences are chance, they share one.  On average over pairs nothing is added.  In addition no pair has
# less than the share h(n) of its local scale, with h the chance that a pair tried n times next shows an outcome that it has not
# shown before (the discovery curve of `unseen`, of outcomes instead of states).
#
# What remains uncertain about a pair's noise is its *doubt*, $g^2 B W / (n B + W)$, with W drawn towards the pair's own.  A
# variance $A = \sum_k w_k\hat\sigma_k^2$ has then itself a variance $S = \sum_k w_k^2 doubt_k$ (so $\nu = 2A^2/S$ degrees of
# freedom, Satterthwaite), and intervals use $A\,(1 + 1/(2\nu)) = A + S/(4A)$.  Student's t would widen more; measured coverage
# does not ask for it.

VISITS = 10.0  # of all pairs' fourth moment, added to each pair's own
SMALLEST = 1e-100  # scale that is not taken for 0
WIDEST = 8.0  # the largest 1/(2 nu)
THIN_BELOW = 0.1  # largest expected (discounted) number of actions hardly tried with which an answer gets a finite interval


def shared_noise(data: Empirical) -> tuple[np.ndarray, np.ndarray]:
    """The noise of every pair and the variance of that estimate (its doubt), both [state, action, gvf]."""
    world, seen, v = data.world, data.seen, data.values
    pairs, gvfs = world.states * world.actions, len(v)
    n = data.visits.ravel().astype(float)
    mean, variance = data.moments(v)
    shape = variance.shape[:2]
    own, doubt = variance * np.where(n > 1, n / np.maximum(n - 1, 1), 1.0).reshape(*shape, 1), np.zeros(variance.shape)
    tries, new = discovery(seen.pair, data.evidence.counts.ravel()[seen.outcome].astype(float), n, np.zeros(len(seen.pair)))
    missing = new[np.searchsorted(tries, n, side="right") - 1]
    often = n > 1
    for i in range(gvfs):
        target, inner = data.targets(i, v[i]), data.spreads[seen.row, i]
        scale = np.repeat(_scale(seen, (target - v[i][seen.state]) ** 2 + inner, world.states), world.actions)
        alone = own[:, :, i].ravel()
        scaled = scale > SMALLEST
        used = often & scaled
        if not alone[used].any():
            continue
        away = (target - mean[:, :, i].ravel()[seen.pair]) ** 2
        fourth = np.bincount(seen.pair, seen.prob * (away**2 + 6 * away * inner + 3 * inner**2), pairs)
        centre, between, within = credibility(alone[used] / scale[used], fourth[used] / scale[used] ** 2, n[used])
        if within == 0:
            continue
        share = n * between / (n * between + within)  # Z
        pooled = np.maximum(share * alone + (1 - share) * centre * scale, missing * scale)
        own[:, :, i] = np.where(n > 0, pooled, 0.0).reshape(shape)
        away, fourth = (np.divide(x, y, out=np.zeros(pairs), where=scaled) for x, y in ((pooled, scale), (fourth, scale**2)))
        fourth -= away**2
        within = (n * np.maximum(fourth, 0.0) + VISITS * within) / (n + VISITS)
        doubt[:, :, i] = np.where(n > 0, scale**2 * between * within / (n * between + within), 0.0).reshape(shape)
    return smoothed_noise(mean, variance, own, data.visits[:, :, None].astype(float)), doubt


def credibility(x: np.ndarray, fourth: np.ndarray, n: np.ndarray) -> tuple[float, float, float]:
    """Mean of the pairs' variances x, the variance of the true ones between pairs, and that of one visit's estimate within.

    fourth: fourth central moments in the same units;  n: visits.  Pairs count by their visits.
    """
    weight = n / n.sum()
    centre = float(weight @ x)
    within = float(weight @ np.maximum(fourth - x**2, 0.0))
    spread = float(weight @ (x - centre) ** 2)
    return centre, max(spread - within * float(weight @ (1 / n)), 0.02 * centre**2), within


def _scale(seen: Seen, square: np.ndarray, states: int) -> np.ndarray:
    """Mean of `square` [seen] over the outcomes that leave or enter each state, [state]."""
    total, count = (np.bincount(seen.state, w, states) + np.bincount(seen.arrived, w, states) for w in (square, None))
    return total / np.maximum(count, 1)


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """An estimated model as the error theory needs it."""

    model: Model
    pi: np.ndarray  # [state, action, gvf]
    noise: np.ndarray  # [state, action, gvf]
    doubt: np.ndarray  # [state, action, gvf] variance of the noise, as an estimate
    unknown: np.ndarray  # [gvf, state] bool: whether the answer depends on something never tried
    thin: np.ndarray  # [gvf, state] bool: whether it depends on something hardly tried
    unseen: Unseen
    gamma: np.ndarray  # as in `Stacked`, below 1: a sum that does not end in the data must not make a system singular


def refusal(data: Empirical) -> str:
    """Why intervals are not available for these data; empty if they are."""
    if data.world.features is not None:
        return "intervals: grouped states bias the answers in a way that counts do not show; use ungrouped states."
    if len(data.evidence.rates):
        return "intervals: a cumulant that drifts has no standard error; use a learner with forgetting=0."
    return ""


def error_model(data: Empirical) -> ErrorModel:
    world, n = data.world, data.visits
    if reason := refusal(data):
        raise InputError(reason)
    starts = data.evidence.starts
    prob = data.counts / np.maximum(n, 1)[:, :, None]
    pi = np.stack([data.policy(i) for i in range(len(data.asked.names))], axis=-1)
    noise, doubt = shared_noise(data)
    untried = data.asked.pi * ~data.tried[:, :, None]  # target probabilities of actions never tried
    gap = (untried.sum(axis=1) > 0) & ~world.terminal[:, None]
    unknown, thin = np.zeros((2, pi.shape[2], world.states), dtype=bool)
    once = hardly_tried(data)
    for group in data.groups:
        solve = data.solver(group[0], 1)
        unknown[group] = solve(gap[:, group[0]].astype(float)) > 1e-12
        thin[group] = solve((pi[:, :, group[0]] * once).sum(axis=1)) > THIN_BELOW
        if data.asked.gamma[:, group[0]].max() >= 1:  # sums that do not end in the data
            unknown[group] |= (solve(np.ones(world.states)) == 0) & ~world.terminal
    unknown |= gap.T
    model = Model(world.next, prob, starts / max(1, starts.sum()), world.terminal, world.horizon)
    return ErrorModel(model, pi, noise, doubt, unknown, thin, Unseen(data), np.minimum(data.asked.gamma, 1 - ENDLESS))


def hardly_tried(data: Empirical) -> np.ndarray:
    """Pairs of states that others lead to, but in which no action was tried `SETTLED` times, and which may have chance in them.

    What the other actions of a state have shown says much about a pair tried once; here they have shown little.
    """
    seen, n = data.seen, data.visits
    entered = np.bincount(seen.arrived[seen.arrived != seen.state], minlength=data.world.states) > 0
    return (n > 0) & (entered & (n.max(axis=1) < SETTLED))[:, None] & (determinism(data).sure < 0.5)


def standard_errors(data: Empirical) -> np.ndarray:
    """Standard error of every answer, [gvf, state]; infinite where it depends on something never tried or never seen."""
    p = error_model(data)
    found, spread = variances_and_doubts(p.model, p.pi, p.gamma, p.noise, p.doubt, data.visits)
    errors = np.sqrt(found * widening(found, spread))
    sides = np.repeat(errors[:, :, None], 2, axis=2)
    return np.sqrt(((sides + p.unseen.added(sides, p.unknown | p.thin)) ** 2).mean(axis=-1))


def widening(found: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The factor 1 + 1/(2 nu) of variances `found` [...], with nu their degrees of freedom.

    spread: the variance of the variances.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 + np.minimum(np.where(spread > 0, spread / (4 * found**2), 0.0), WIDEST)


# --- Intervals from draws of the world ---------------------------------------------------------------------------------
# A side of an interval is the distance from the answer to the end of the draws' own interval, which is their median and `WIDER`
# times its distances to the quantiles of 2.5 and 97.5 %.  It is kept in units of `NORMAL`, so that a 95 % interval is exact, and
# another level widens or narrows each side as a normal distribution would.  Where more of an answer is at stake than `AT_STAKE`,
# what states never seen may be worth is added to the sides (`Unseen.added`).  The error of a difference is the root mean square
# of the draws' distances from the answers' own, `WIDER_APART` times: in short runs differences missed more often than answers.

WIDER, WIDER_APART = 1.1, 1.2


def drawable(data: Empirical) -> bool:
    """Whether intervals come from draws of the world."""
    return data.world.states < DENSE_BELOW and not refusal(data)


def _sides(drawn: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Standard errors of answers [...] towards lower and higher values, [..., 2], from draws [draw, ...]."""
    low, middle, high = np.quantile(drawn, (0.025, 0.5, 0.975), axis=0)
    ends = answer - middle + WIDER * (middle - low), middle - answer + WIDER * (high - middle)
    return np.maximum(np.stack(ends, axis=-1), 0.0) / NORMAL


def interval_errors(data: Empirical) -> dict[str, np.ndarray]:
    """The standard errors of every answer [gvf, state], and where they come from draws, those of both sides [gvf, state, 2]."""
    if not drawable(data):
        return {"standard_errors": standard_errors(data)}
    p = error_model(data)
    sides = _sides(posterior(data).values, data.values)
    sides = sides + p.unseen.added(sides, p.unknown | p.thin)
    return {"standard_errors": np.sqrt((sides**2).mean(axis=-1)), "sides": sides}


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
        check_level(self.confidence, "confidence")

    looks = staticmethod(look_times)

    def bound(self, data: Empirical, looks: int) -> tuple[float, bool]:
        """An upper bound of the present error, and whether this check could have stopped the run.

        The bound is infinite while evaluated answers depend on something never tried or may rest on what was never seen.

        looks: number of earlier checks that could have stopped the run.  The k-th may be wrong with probability
        (1 - confidence) / (k (k + 1)); over any number of checks this adds up to at most 1 - confidence.  A check at which
        the expected error is still above the target cannot stop the run and is not counted; it returns that error.
        """
        p = error_model(data)
        where = data.evaluation
        weights, scale = data.asked.weights if self.relative else data.weights, self._scale(data)
        if p.unknown[:, where.states].any() or (p.unseen.over(where) > STOP_BELOW).any() or not (scale > 0).all():
            return np.inf, False
        if self._metric((where.squares(p.unseen.stake) / scale)[None], weights)[0] > self.target:
            return np.inf, False
        if not drawable(data):
            return self.bound_with(data, p, looks)
        drawn, values = posterior(data), data.values
        errors = (drawn.at_start - values @ where.weights) ** 2 if where.of_mean else where.squares(drawn.values - values)
        return self._from_draws(self._metric(errors / scale, weights), looks)

    def bound_with(self, data: Empirical, p: ErrorModel, looks: int) -> tuple[float, bool]:
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
        return self._from_draws(self._metric(_with_starts(drawn, mean, starts) / scale, weights), looks)

    def _from_draws(self, errors: np.ndarray, looks: int) -> tuple[float, bool]:
        """As `bound`, from draws of the error [draw]: the quantile of a gamma distribution with their mean and variance."""
        if errors.mean() >= self.target:
            return float(errors.mean()), False
        spread = errors.var()
        if spread == 0:
            return float(errors.mean()), True
        allowed = allowed_at(looks, self.confidence)
        return float(scipy.special.gammainccinv(errors.mean() ** 2 / spread, allowed) * (spread / errors.mean())), True

    def from_errors(
        self, values: np.ndarray, errors: np.ndarray, weights: np.ndarray, freedom: float, looks: int
    ) -> tuple[float, bool]:
        """As `bound`, from answers and their standard errors [gvf, point]; freedom: that of the mean squared standard error."""
        scale = (values**2).mean(axis=1) if self.relative else np.ones(len(values))
        if not np.isfinite(errors).all() or not (scale > 0).all():
            return np.inf, False
        expected = float(self._metric((errors**2).mean(axis=1)[None] / scale, weights)[0])
        if expected >= self.target:
            return expected, False
        return expected * freedom / float(scipy.special.chdtri(freedom, 1 - allowed_at(looks, self.confidence))), True

    def from_own(
        self, where: Evaluation, values: np.ndarray, errors: np.ndarray, weights: np.ndarray, looks: int
    ) -> tuple[float, bool]:
        """As `bound`, from a learner's own answers and standard errors [gvf, state] and the questions' weights [gvf].

        Errors of different states and questions may have any correlation: the bound is largest if all of them are the same."""
        scale = where.squares(values) if self.relative else np.ones(len(values))
        square = where.squares(np.where(where.states, errors, 0.0))
        if not np.isfinite(square).all() or not (scale > 0).all():
            return np.inf, False
        expected = float(self._metric(square[None] / scale, weights)[0])
        if expected >= self.target:
            return expected, False
        return expected * float(scipy.special.ndtri((1 + self.level(looks)) / 2)) ** 2, True

    def level(self, looks: int, comparisons: int = 1) -> float:
        """The level of each of several intervals at a look, such that all looks hold together with the rule's confidence."""
        return 1 - allowed_at(looks, self.confidence) / comparisons

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


# --- The value at the start, $V(d_0) = \sum_s d_0(s)\,V(s)$, and its standard error ---------------------------------
# It is one linear function of the answers, so its variance is not the mean of theirs: with $F$ as in Eq. D1 and
# $f_i(s) = \sum_{s_0} d_0(s_0) F_i(s_0,s)$,
#
# $$\mathrm{Var}\,\hat V_i(d_0) \approx \sum_{s,a} f_i(s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a) / n(s,a). \quad (D7)$$
#
# Where the starts are not known, $d_0$ is the share of episodes that began in each state.  With k episodes that adds the
# variance of a mean over k starts, $(\sum_j (V(s_j) - \bar V)^2 + p) / k^2$, where the starts are joined by one more that is as
# far away as the states are on average, $p$: a run that has always begun in the same state does not show that it always will.
#
# The standard error is infinite if a start's answer depends on an action hardly tried, or if the mean chance of the unseen over
# starts is too large (`unseen`).


def start_values(
    data: Empirical, values: np.ndarray | None = None, truth: np.ndarray | None = None, draws: bool = True
) -> np.ndarray:
    """The value at the start, its standard error, the truth, and the standard errors towards lower and higher values, [gvf, 5].

    NaN in place of what is not available.
    values [gvf, state]: of a learner other than certainty equivalence, whose errors are not known;  truth [gvf]
    draws: whether errors may come from draws of the world; the delta method takes less time.
    """
    d = START.on(data.world).weights
    own = (data.values if values is None else values) @ d
    truth = np.full(len(own), np.nan) if truth is None else truth
    if values is not None or refusal(data):
        sides = np.full((len(own), 2), np.nan)
    else:
        sides = np.add(*start_sides(data, error_model(data), draws))
    return np.stack([own, np.sqrt((sides**2).mean(axis=1)), truth, *sides.T], axis=1)


def reaches(data: Empirical, p: ErrorModel) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs of a GVF's index and its f(s) pi(a|s), what a target of the pair moves the value at the start by, [state, action]."""
    d = START.on(data.world).weights
    for members in groups(p.pi, p.gamma):
        system = resolvent(p.model, p.pi[:, :, members[0]], p.gamma[:, members[0]])
        reach = factorised(sp.csr_array(system.T))(d)[:, None] * p.pi[:, :, members[0]]
        for i in members:
            yield i, reach


def start_sides(data: Empirical, p: ErrorModel, draws: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The standard errors of the value at the start towards lower and higher values, and what the unseen adds, [gvf, 2] each."""
    d = START.on(data.world).weights
    if draws and drawable(data):
        sides = _sides(posterior(data).values @ d, data.values @ d)
        sides = np.sqrt(sides**2 + data.starts_variance[:, None])
    else:
        sides = np.repeat(delta_start_errors(data, p)[:, None], 2, axis=1)
    unknown = (p.unknown | p.thin)[:, d > 0].any(axis=1, keepdims=True)
    return sides, p.unseen.added(sides[:, None], unknown, d[:, None])[:, 0]


def delta_start_errors(data: Empirical, p: ErrorModel) -> np.ndarray:
    """The standard error of the value at the start by the delta method (Eq. D7), whatever was never tried or seen, [gvf]."""
    counts = data.visits
    found, spread = np.zeros((2, p.noise.shape[2]))
    for i, reach in reaches(data, p):
        known, rough = (np.where(counts > 0, x[:, :, i], 0.0) for x in (p.noise, p.doubt))
        found[i] = per_visit(reach**2 * known, counts).sum()  # Eq. D7
        spread[i] = per_visit(reach**4 * rough, counts.astype(float) ** 2).sum()
    return np.sqrt(found * widening(found, spread) + data.starts_variance)
