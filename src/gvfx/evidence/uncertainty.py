r"""The uncertainty of certainty-equivalent answers: standard errors, a bootstrap, and a stopping rule.

`standard_errors` is the delta method (`gvfx.design`, Eq. D1) in the estimated model, with noise shared by pairs (`shared_noise`).
`bootstrap` draws new counts and cumulant means from that model with the same visits, and solves it each time.  Both treat
the visits as given, which is right in the limit for any behaviour, also one that adapts to the data.

Where an answer depends on something that was never tried (an action of the target policy, in a state that it may reach), or
may rest on states that were never seen (`unseen`), the standard error is infinite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp
import scipy.sparse.linalg

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, Seen
from gvfx.evidence.smoothing import smoothed_noise
from gvfx.evidence.unseen import STOP_BELOW, Unseen, discovery
from gvfx.inputs import check_fields, check_level, is_real
from gvfx.questions.where import START, Evaluation
from gvfx.theory.design import allowed_at, error_draws, look_times
from gvfx.theory.exact import DENSE_BELOW, discounts, factorised, groups, resolvent, weighted_transitions
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


# --- Regression to the mean: what visits that adapt to the data do to the answers, estimated from the data themselves
# A behaviour that plans takes the actions that looked good and leaves the others.  An action that was unlucky in its first tries
# is tried no more and stays wrong, one that was lucky is tried until it is known: means of visits that adapt are too low on
# average (Nie et al. 2018).  Counts alone do not show it, but what is known about such selection in general applies (Efron 2011):
# an estimate that stands out from others like it is partly luck, the more so the fewer data it has, however they were collected.
# The targets' means $m(s,a)$ of a state's actions are drawn towards their common mean by empirical Bayes,
#
# $$\tilde m(s,a) = Z\,m(s,a) + (1-Z)\,\frac{\sum_b Z_b\,m(s,b)}{\sum_b Z_b}, \qquad Z = \frac{n}{n+k},$$
#
# with k the noise of a target over the variance between the true means of a state's actions, by the method of moments, the median
# over states.  Where actions differ much in units of the noise, k is small and nothing is drawn anywhere.
#
# Because the answers are linear in the targets of a state's actions, this is the answer of another policy, which moves the weight
# of hardly tried actions to those that are better known:
#
# $$\tilde\pi(b|s) = Z_b\,\pi(b|s) + \frac{Z_b}{\sum_a Z_a}\,\sum_a (1-Z_a)\,\pi(a|s).$$

LEAST_BETWEEN = 0.02  # variance between actions in units of the noise, so that k is at most 50


def regressed(data: Empirical, noise: np.ndarray) -> Empirical:
    """The same evidence with every policy's weight moved from hardly tried actions to the state's others.

    noise [state, action, gvf]: of the targets, as `gvfx.evidence.uncertainty` estimates it.
    """
    mean = data.moments(data.values)[0]
    pi = np.empty(mean.shape)
    n = data.visits.astype(float)
    for group in data.groups:
        k = prior_visits(n, mean[:, :, group], noise[:, :, group])
        trust = n / (n + k) if k > 0 else (n > 0).astype(float)
        total = trust.sum(axis=1, keepdims=True)
        own = data.policy(group[0])
        shared = trust / np.where(total > 0, total, 1.0) * ((1 - trust) * own).sum(axis=1, keepdims=True)
        pi[:, :, group] = (trust * own + shared)[:, :, None]
    return dataclasses.replace(data, asked=data.asked._replace(pi=pi, pi_stride=1))


def prior_visits(n: np.ndarray, mean: np.ndarray, noise: np.ndarray) -> float:
    """k: noise of one visit over the variance between a state's actions, at least 0.

    n [state, action];  mean, noise [state, action, gvf] of the targets of questions with one policy.
    """
    tried = (n > 0)[:, :, None]
    actions = tried.sum(axis=1)
    centre = (tried * mean).sum(axis=1, keepdims=True) / np.maximum(actions, 1)[:, None]
    scale = (tried * noise).sum(axis=1) / np.maximum(actions, 1)
    chance = (tried * noise / np.maximum(n, 1)[:, :, None]).sum(axis=1) * (1 - 1 / np.maximum(actions, 1))
    between = ((tried * (mean - centre) ** 2).sum(axis=1) - chance) / np.maximum(actions - 1, 1)
    telling = (actions > 1) & (scale > 0)
    if not telling.any():
        return 0.0
    return 1 / max(float(np.median(between[telling] / scale[telling])), LEAST_BETWEEN)


@dataclass(frozen=True, eq=False)
class ErrorModel:
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
    unknown = np.zeros((pi.shape[2], world.states), dtype=bool)
    for group in data.groups:
        solve = data.solver(group[0], 1)
        unknown[group] = solve(gap[:, group[0]].astype(float)) > 1e-12
        if data.asked.gamma[:, group[0]].max() >= 1:  # sums that do not end in the data
            unknown[group] |= (solve(np.ones(world.states)) == 0) & ~world.terminal
    unknown |= gap.T
    model = Model(world.next, prob, starts / max(1, starts.sum()), world.terminal, world.horizon)
    return ErrorModel(model, pi, noise, doubt, unknown, Unseen(data), np.minimum(data.asked.gamma, 1 - ENDLESS))


def standard_errors(data: Empirical) -> np.ndarray:
    """Standard error of every answer, [gvf, state]; infinite where it depends on something never tried or never seen."""
    p = error_model(data)
    found, spread = variances_and_doubts(p.model, p.pi, p.gamma, p.noise, p.doubt, data.visits)
    errors = np.sqrt(found * widening(found, spread))
    return np.where(p.unknown | p.unseen.unknown(1.96 * errors), np.inf, errors)


def widening(found: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The factor 1 + 1/(2 nu) of variances `found` [...], with nu their degrees of freedom.

    spread: the variance of the variances.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 + np.minimum(np.where(spread > 0, spread / (4 * found**2), 0.0), WIDEST)


def bootstrap(data: Empirical, draws: int, seed: int = 0) -> np.ndarray:
    """Answers from `draws` simulated data sets of the estimated model with the same visits, [draw, gvf, state]."""
    error_model(data)  # raises InputError where intervals are not available
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
        return self.bound_with(data, p, looks)

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
        errors = self._metric(_with_starts(drawn, mean, starts) / scale, weights)
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


# --- How the standard error of the value at the start changes along its own interval --------------------------------
# Where a value rests on rare outcomes, such as a goal that is seldom reached, its noise grows with it: an estimate that is half
# the truth has a standard error that is too small as well, and an interval of the same length on both sides misses far more
# values above it than below.  The remedy for a proportion is Wilson's interval, which takes the standard error at the end of the
# interval; the same is done here along the least favourable family (Efron 1987): every pair's outcomes are tilted so that the
# value moves as far as it can for their likelihood,
#
# $$P_t(o|s,a) \propto \hat P(o|s,a)\,\exp\!\Big(t\,\frac{h(s,a)\,(X_o - \bar X(s,a))}{n(s,a)\,\mathrm{se}}\Big),$$
#
# with X the target of an outcome and h(s,a) what it moves the value at the start by (`reaches`), and the variance (D7) is that in
# the tilted model, values and all.  t = 1.96 is the upper end of a 95 % interval.

FURTHEST = 1.96  # t
LARGEST_TILT = 5.0  # of an outcome's log probability
MOST = 4.0  # factor by which a standard error changes


def side_factors(data: Empirical, p: ErrorModel) -> np.ndarray:
    """The standard error at the lower and the upper end of an interval, over that at its centre, [gvf, 2].

    1 in worlds with `DENSE_BELOW` or more states.
    """
    gvfs, n = p.noise.shape[2], np.maximum(data.visits, 1)
    out = np.ones((gvfs, 2))
    if data.world.states >= DENSE_BELOW:
        return out
    row, d = data.evidence.row.reshape(data.world.next.shape), START.on(data.world).weights
    for members in groups(p.pi, p.gamma):
        pi, gamma = p.pi[:, :, members[0]], discounts(p.model, p.gamma[:, members[0]])
        centre = _system(p.model, pi, gamma)
        for i in members:
            paid, inner = data.means[row, i], data.spreads[row, i]
            found, reach, away = _variance(p.model, centre, pi, gamma, paid, inner, d, n)
            if not found > 0:
                continue
            for side, t in enumerate((-FURTHEST, FURTHEST)):
                move = t * (reach / n)[:, :, None] / np.sqrt(found)
                prob = p.model.prob * np.exp(np.clip(move * away, -LARGEST_TILT, LARGEST_TILT))
                tilted = p.model._replace(prob=prob / np.maximum(prob.sum(axis=2, keepdims=True), 1e-300))
                system = _system(tilted, pi, gamma)
                at_end = _variance(tilted, system, pi, gamma, paid + move * inner, inner, d, n)[0]
                out[i, side] = np.clip(np.sqrt(at_end / found), 1 / MOST, MOST)
    return out


def _system(model: Model, pi: np.ndarray, gamma: np.ndarray) -> scipy.sparse.linalg.SuperLU:
    """I - gamma P_pi, factorised; gamma [state, action, successor]."""
    kernel = weighted_transitions(model, np.broadcast_to(pi, model.next.shape[:2]), gamma)
    return scipy.sparse.linalg.splu(sp.csc_array(sp.eye_array(model.states) - kernel))


def _variance(
    model: Model,
    system: scipy.sparse.linalg.SuperLU,
    pi: np.ndarray,
    gamma: np.ndarray,
    paid: np.ndarray,
    inner: np.ndarray,
    d: np.ndarray,
    n: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Eq. D7 with each pair's own noise, h [state, action], and the targets less their means [state, action, successor].

    paid, inner [state, action, successor]: mean and variance of the outcomes' cumulants;  d [state]: the starts.
    """
    v = system.solve((pi * (model.prob * paid).sum(axis=2)).sum(axis=1))
    reach = system.solve(d, trans="T")[:, None] * pi
    target = paid + gamma * v[model.next]
    away = target - (model.prob * target).sum(axis=2, keepdims=True)
    noise = (model.prob * (away**2 + inner)).sum(axis=2)
    return float(per_visit(reach**2 * noise, n).sum()), reach, away


# --- The value at the start, $V(d_0) = \sum_s d_0(s)\,V(s)$, and its standard error ---------------------------------
# It is one linear function of the answers, so its variance is not the mean of theirs: with $F$ as in Eq. D1 and
# $f_i(s) = \sum_{s_0} d_0(s_0) F_i(s_0,s)$,
#
# $$\mathrm{Var}\,\hat V_i(d_0) \approx \sum_{s,a} f_i(s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a) / n(s,a). \quad (D7)$$
#
# Two things are added for visits that adapt to the data (`OptimalDesign`).  The answers are then biased, and what regression to
# the mean would change in them (`regressed`) counts as an error: $e^2 = \mathrm{Var} + (\tilde V(d_0) - \hat V(d_0))^2$, with the
# variance that of the regressed model.  And the standard error is that at either end of the interval (`side_factors`), so that an
# interval reaches further on the side on which the value would be noisier; what regression to the mean changes is added on its
# own side.
#
# Where the starts are not known, $d_0$ is the share of episodes that began in each state.  With k episodes that adds the
# variance of a mean over k starts, $(\sum_j (V(s_j) - \bar V)^2 + p) / k^2$, where the starts are joined by one more that is as
# far away as the states are on average, $p$: a run that has always begun in the same state does not show that it always will.
#
# The standard error is infinite if a start's answer depends on an action never tried, or if the mean chance of the unseen over
# starts, or its stake, is too large (`unseen`).


def start_values(data: Empirical, values: np.ndarray | None = None, truth: np.ndarray | None = None) -> np.ndarray:
    """The value at the start, its standard error, the truth, and the standard errors towards lower and higher values, [gvf, 5].

    NaN in place of what is not available.
    values [gvf, state]: of a learner other than certainty equivalence, whose errors are not known;  truth [gvf]
    """
    d = START.on(data.world).weights
    own = (data.values if values is None else values) @ d
    truth = np.full(len(own), np.nan) if truth is None else truth
    if values is not None or refusal(data):
        nothing = np.full(len(own), np.nan)
        return np.stack([own, nothing, truth, nothing, nothing], axis=1)
    p = error_model(data)
    deviation, shift = _deviation_and_shift(data, p)
    factors = side_factors(data, p)
    lower = _total(data, deviation * factors[:, 0], np.minimum(shift, 0.0))
    upper = _total(data, deviation * factors[:, 1], np.maximum(shift, 0.0))
    errors = _total(data, deviation, shift)
    unknown = _unknown(data, p, errors)
    errors, lower, upper = (np.where(unknown, np.inf, x) for x in (errors, lower, upper))
    return np.stack([own, errors, truth, lower, upper], axis=1)


def reaches(data: Empirical, p: ErrorModel) -> Iterator[tuple[int, np.ndarray]]:
    """Pairs of a GVF's index and its f(s) pi(a|s), what a target of the pair moves the value at the start by, [state, action]."""
    d = START.on(data.world).weights
    for members in groups(p.pi, p.gamma):
        system = resolvent(p.model, p.pi[:, :, members[0]], p.gamma[:, members[0]])
        reach = factorised(sp.csr_array(system.T))(d)[:, None] * p.pi[:, :, members[0]]
        for i in members:
            yield i, reach


def start_errors(data: Empirical, p: ErrorModel, sure: bool = False) -> np.ndarray:
    """The standard error of the value at the start, [gvf]; sure: whatever was never tried or seen."""
    errors = _total(data, *_deviation_and_shift(data, p))
    return errors if sure else np.where(_unknown(data, p, errors), np.inf, errors)


def _deviation_and_shift(data: Empirical, p: ErrorModel) -> tuple[np.ndarray, np.ndarray]:
    """The standard deviation of the value at the start (Eq. D7), and what regression to the mean adds to it, [gvf] each."""
    other, counts = regressed(data, p.noise), data.visits
    noise, doubt = shared_noise(other)
    found, spread = np.empty((2, noise.shape[2]))
    policies = np.stack([other.policy(i) for i in range(noise.shape[2])], axis=-1)
    for i, reach in reaches(data, dataclasses.replace(p, pi=policies)):
        own = reach.sum(axis=1, keepdims=True) * p.pi[:, :, i]
        known, rough = (np.where(counts > 0, x[:, :, i], 0.0) for x in (noise, doubt))  # never tried: `_unknown`
        found[i] = per_visit(own**2 * known, counts).sum()  # Eq. D7
        spread[i] = per_visit(own**4 * rough, counts.astype(float) ** 2).sum()
    return np.sqrt(found * widening(found, spread)), (other.values - data.values) @ START.on(data.world).weights


def _total(data: Empirical, deviation: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The standard error from its parts and the chance of the starts."""
    return np.sqrt(deviation**2 + shift**2 + data.starts_variance)


def _unknown(data: Empirical, p: ErrorModel, errors: np.ndarray) -> np.ndarray:
    """Whether the value at the start may rest on what was never tried or seen, [gvf] bool."""
    d = START.on(data.world).weights
    return np.asarray(p.unknown[:, d > 0].any(axis=1) | p.unseen.unknown(1.96 * errors[:, None], d[:, None])[:, 0])
