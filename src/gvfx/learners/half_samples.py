r"""Error bars of linear answers: half-samples of episodes, each fitted again at half the resolution.

Episodes are dealt to blocks at random.  Four times the blocks are split into two halves, such that any two splits agree on half
of the blocks, and each half is fitted with half the features.  The squared error of an answer is the mean over the eight of
$(\hat V_{half} - \hat V)^2$: a half-sample differs from the whole by as much as the whole differs from the truth through chance,
and the coarser features add what the resolution matters for, which chance alone would not show.  The two halves of a split mirror
each other, so intervals use Student's t with four degrees of freedom.  Values that are small beside the question's others are
smoothed by the features in a way that both resolutions share: the standard error is at least a share `SMALLEST` of the root mean
square value.  Any other bias that both resolutions share is not seen.

Away from the data, or from the centres of a kernel, an answer has no error bar.  A mean over observations of which some lie
there, such as the value at the start, has one that allows for every possible answer at those: their share of the mean times half
of how far the possible answers reach, so that an interval of at least two standard errors holds whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gvfx.evidence.decisions import Joint
from gvfx.evidence.transitions import Transitions
from gvfx.features.bases import Basis, Kernel, Lattice, Matrix
from gvfx.features.cells import Cells
from gvfx.features.scaling import Origin
from gvfx.learners.least_squares import BLOCKS, FEWEST, ROUNDS, Range, Rows, fits

# --- What transitions cannot say about a question, however they are fitted; its error bars are then infinite --------

CELLS, PER_PAIR = 150, 20  # most cells in which it is looked what was tried, and least transitions per cell and action
SLIGHT = 1e-6  # a discounted number of choices that counts as none


def missing(data: Transitions) -> list[str]:
    """What the transitions lack for each question and what to do about it, or an empty string."""
    tried = np.bincount(data.action, minlength=data.actions) > 0
    untried = np.asarray(data.pi.max(axis=0)[~tried].sum(axis=0)[data.member] > 0)  # [gvf]
    endless, silent = np.asarray(data.discount.min(axis=0) >= 1), ~np.asarray(data.cumulant.any(axis=0))
    reasons = (
        (np.full(data.gvfs, len(data) < FEWEST), f"there are fewer than {FEWEST} transitions; give more steps"),
        (untried, "its policy takes an action that was never tried; let the behaviour try it"),
        (endless, "its discount is 1 and no episode terminated; use a discount below 1 or more steps"),
        (silent, "its signal was 0 in every transition; give more steps, or a behaviour that finds where it is not"),
    )
    return [next((reason for holds, reason in reasons if holds[i]), "") for i in range(data.gvfs)]


class Doubt(NamedTuple):
    """What cannot be excluded because it was never tried, by cell: an error that is added to the standard errors.

    With u the discounted number of choices in a cell whose action was never tried there, as the target policy makes them
    in the model of cells, an answer may be wrong by u times the width of the possible range.
    """

    cells: Cells
    error: np.ndarray  # [cell, gvf]
    support: np.ndarray  # [gvf] share of the policy's choices, over the data, whose action was tried in the cell
    tried: np.ndarray  # bool [action] whether it was tried anywhere

    @classmethod
    def of(cls, data: Transitions, pi: np.ndarray, width: np.ndarray) -> Doubt:
        """From transitions, the policies at their observations pi [n, action, policy], and the widths [gvf] of the ranges."""
        cells = Cells.of(data.observation, max(1, min(CELLS, len(data) // (PER_PAIR * data.actions))))
        size, actions = cells.size, data.actions
        here, after = cells(data.observation), cells(data.following)
        pair = here * actions + data.action
        visits = np.bincount(pair, minlength=size * actions)
        untried = (visits == 0).reshape(size, actions).astype(float)
        mean = np.full((size, *pi.shape[1:]), 1 / actions)  # of the policies, over each cell
        seen = np.bincount(here, minlength=size)
        for a, p in np.ndindex(pi.shape[1:]):
            np.divide(np.bincount(here, pi[:, a, p], size), seen, out=mean[:, a, p], where=seen > 0)
        error = np.empty((size, data.gvfs))
        for members in data.groups:
            own = mean[:, :, data.member[members[0]]]
            total = np.bincount(pair * size + after, data.discount[:, members[0]], size * actions * size)
            moved = total.reshape(size, actions, size) / np.maximum(visits, 1).reshape(size, actions, 1)
            flow = np.eye(size) * (1 + SLIGHT) - np.einsum("ca,cad->cd", own, moved)
            met = np.linalg.solve(flow, (own * untried).sum(axis=1))[:, None]
            error[:, members] = np.where(met > SLIGHT, met, 0.0) * np.where(met > SLIGHT, width[members], 0.0)
        tried = 1 - np.einsum("nap,na->p", pi, untried[here]) / len(data)
        return cls(cells, error, tried[data.member], np.bincount(data.action, minlength=actions) > 0)

    def at(self, observations: np.ndarray) -> np.ndarray:
        """The errors [gvf, n] at observations [n, o]."""
        return self.error[self.cells(observations)].T

    def nothing(self, pi: np.ndarray) -> np.ndarray:
        """Whether policies pi [1 or n, action, gvf] take only actions that were never tried, bool [gvf, 1 or n]."""
        return np.zeros((pi.shape[2], 1), bool) if self.tried.all() else pi[:, self.tried].sum(axis=1).T <= 0

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        own = {f"doubt.{name}": getattr(self, name) for name in ("error", "support", "tried")}
        return own | self.cells.arrays("doubt.cells.")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Doubt:
        tried = arrays.get("doubt.tried", np.ones(1, bool))  # results of older versions did not keep it
        return cls(Cells.from_arrays(arrays, "doubt.cells."), arrays["doubt.error"], arrays["doubt.support"], tried)


# --- Answers that are linear in features: the fit to transitions, limited to what is possible -----------------------

AT_ONCE = 50_000  # observations whose features are computed together


@dataclass(frozen=True, eq=False)
class Fit:
    """Action values that are linear in features, limited to the possible range."""

    basis: Basis
    weights: np.ndarray  # [action, size, gvf]
    within: Range

    def at(self, rows: Matrix) -> np.ndarray:
        """Q [n, action, gvf] at observations whose features are rows [n, size]."""
        return self.within.clipped(np.stack([rows @ w for w in self.weights], axis=1))

    def action_values(self, observations: np.ndarray) -> np.ndarray:
        """Q [n, action, gvf] at observations [n, o]."""
        pieces = [self.at(self.basis(observations[k : k + AT_ONCE])) for k in range(0, len(observations), AT_ONCE)]
        return np.concatenate(pieces) if pieces else np.empty((0, self.weights.shape[0], self.weights.shape[2]))

    def values(self, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """V [gvf, n] at observations [n, o] with target probabilities pi [1 or n, action, gvf]."""
        return (self.action_values(observations) * pi).sum(axis=1).T

    def following(self, data: Transitions) -> np.ndarray:
        """V(s') after every transition, [n, gvf]."""
        return self.values(data.following, data.pi[:, :, data.member]).T

    def errors(self, data: Transitions) -> np.ndarray:
        """The temporal-difference errors c + gamma V(s') - Q(s, a), [n, gvf]."""
        taken = self.action_values(data.observation)[np.arange(len(data)), data.action]
        return data.cumulant + data.discount * self.following(data) - taken


def fitted(rows: Rows, within: Range | None = None, rounds: int = ROUNDS) -> Fit:
    """The fit of all questions to all transitions; rounds: the most of an iteration."""
    within = Range.of(rows.data) if within is None else within
    return Fit(rows.basis, fits(rows, np.ones((1, rows.count), bool), within, rounds=rounds)[0], within)


HALVES = np.array([[(b & j).bit_count() % 2 == 0 for b in range(BLOCKS)] for j in (1, 2, 4, 7)])  # bool [split, block]
SPLITS = len(HALVES)
FREEDOM = SPLITS  # degrees of freedom of the error bars
INDEPENDENT = 6.0  # most directions in which answers are taken to err on their own
SMALLEST = 3e-4  # standard error, as a share of a question's root mean square value
OUTSIDE = 0.5  # largest share of the observations without error bars of which a mean has one
HALF_SAMPLES_ROUNDS = 40  # of iterations: error bars need fewer than answers


@dataclass(frozen=True, eq=False)
class Answers:
    """A fit, those of the half-samples, and where there were data."""

    fit: Fit
    halves: tuple[Fit, ...]
    visited: np.ndarray  # bool [size at half the resolution]
    supported: np.ndarray  # bool [gvf]: whether the data can say anything about it (`gvfx.learners.half_samples`)
    least: np.ndarray  # [gvf] the smallest standard error
    doubt: Doubt | None = None  # what was never tried, if the data were not collected for the questions
    origin: np.ndarray | None = None  # [o] what was subtracted from observations (`gvfx.features.scaling`)

    def values(self, observations: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answers and their standard errors, each [gvf, n], at observations [n, o] with policies pi [1 or n, action, gvf].

        Errors are infinite away from all data, and for questions that the data cannot answer; empty without half-samples.
        Answers are NaN where a log has none of the actions that a policy takes.
        """
        values, *halves = self.each(observations, pi)
        if not halves:
            return values, np.empty(0)
        known = self.covered(observations) & self.supported[:, None]
        squares = np.mean((np.array(halves) - values) ** 2, axis=0) + self.least[:, None] ** 2
        if self.doubt is not None:
            squares += self.doubt.at(observations) ** 2
            values = np.where(self.doubt.nothing(pi), np.nan, values)
        return values, np.where(known, np.sqrt(squares), np.inf)

    def each(self, observations: np.ndarray, pi: np.ndarray) -> list[np.ndarray]:
        """V [gvf, n] of the fit and of every half-sample; arguments as in `values`."""
        return [fit.values(observations, pi) for fit in (self.fit, *self.halves)]

    def means(self, observations: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The means of the answers over observations [gvf], and the squared standard errors of their differences, [gvf, gvf].

        On the diagonal are those of the means, infinite for questions that the data cannot answer, and if too few observations
        are covered.  The half-samples are the same for all questions; what they do not show is added for both.  Arguments as in
        `values`; NaN without half-samples.
        """
        values, *halves = self.each(observations, pi)
        value = values.mean(axis=1)
        if not halves:
            return value, np.full((len(value), len(value)), np.nan)
        off, added = np.mean(halves, axis=2) - value, self.least**2
        if self.doubt is not None:
            added = added + self.doubt.at(observations).mean(axis=1) ** 2
            value = np.where(self.doubt.nothing(pi).any(axis=1), np.nan, value)
        outside = self.outside(observations, values)
        finite = added + np.nan_to_num(outside, posinf=0.0)
        squares = ((off[:, :, None] - off[:, None]) ** 2).mean(axis=0) + finite[:, None] + finite
        np.fill_diagonal(squares, (off**2).mean(axis=0) + added + outside)
        return value, squares

    def covered(self, observations: np.ndarray) -> np.ndarray:
        """Whether answers have error bars at observations [n, o], bool [n]; there are half-samples."""
        basis = self.fit.basis if isinstance(self.fit.basis.features, Kernel) else self.halves[0].basis
        return basis.covered(self.visited, observations)

    def outside(self, observations: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What the answers [gvf, n] at observations [n, o] that are not covered add to the squared error of their mean, [gvf]."""
        out, (low, high) = ~self.covered(observations), self.fit.within
        reach = np.maximum(values - low[:, None], high[:, None] - values)
        error = np.where(out, reach, 0.0).mean(axis=1) / 2
        return np.where(self.supported & (out.mean() <= OUTSIDE), error**2, np.inf)

    def freedom(self, observations: np.ndarray, pi: np.ndarray) -> float:
        """Degrees of freedom of the mean squared standard error over observations [n, o]; pi as in `values`.

        Between one per split, if all answers err together, and INDEPENDENT times as many.  It is judged by the angles between
        the deviations of different splits: those of independent directions in d dimensions have a mean squared cosine of 1 / d.
        """
        values, *halves = self.each(observations, pi)
        off = np.stack([(half - values).ravel() for half in halves[:SPLITS]])  # one half per split
        inner = off @ off.T
        size = np.sqrt(np.maximum(inner.diagonal(), np.finfo(float).tiny))
        cosines = (inner / np.outer(size, size))[np.triu_indices(len(off), 1)]
        return SPLITS * float(np.clip(1 / np.maximum((cosines**2).mean(), 1e-12), 1.0, INDEPENDENT))

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        out = self.fit.basis.arrays() | {"range": np.stack(self.fit.within)}
        out |= {f"weights.{k}": fit.weights for k, fit in enumerate((self.fit, *self.halves))}
        out |= {"visited": self.visited, "supported": self.supported, "least": self.least, **Origin(self.origin).arrays()}
        return out if self.doubt is None else out | self.doubt.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Answers:
        basis = Basis.from_arrays(arrays)
        within = Range(*arrays["range"])
        weights = [arrays[f"weights.{k}"] for k in range(sum(name.startswith("weights.") for name in arrays))]
        halves = tuple(Fit(basis.halved(), own, within) for own in weights[1:])
        doubt = Doubt.from_arrays(arrays) if "doubt.error" in arrays else None
        visited, supported, least = (arrays[name] for name in ("visited", "supported", "least"))
        return cls(Fit(basis, weights[0], within), halves, visited, supported, least, doubt, arrays.get("origin"))


def answered(rows: Rows, intervals: bool = True) -> Answers:
    """The answers of all questions from transitions in `BLOCKS` blocks, with error bars unless `intervals` is False."""
    data, basis, within = rows.data, rows.basis, Range.of(rows.data)
    fit = fitted(rows, within)
    supported = np.array([not reason for reason in missing(data)])
    if not intervals:
        return Answers(fit, (), np.zeros(0, bool), supported, np.zeros(data.gvfs))
    following = predicted(rows, [fit] * rows.count)[1]
    coarse, size = basis.halved(), None
    if isinstance(basis.features, Lattice):
        rows = rows.seen_with(coarse)
    else:
        size = coarse.size  # the first features of a kernel are those of half its centres
    visited = rows.total(np.ones(rows.count, bool), size).gram.diagonal().reshape(data.actions, -1).sum(axis=0) > 0
    halves = tuple(
        Fit(coarse, w, within) for w in fits(rows, np.concatenate([HALVES, ~HALVES]), within, size, HALF_SAMPLES_ROUNDS)
    )
    least = SMALLEST * np.sqrt((following**2).mean(axis=0))
    return Answers(fit, halves, visited, supported, least)


# --- Predictions for every transition from fits that have not seen its episode --------------------------------------

FOLDS: np.ndarray = np.arange(BLOCKS) // 2  # of the blocks


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fits to all episodes but those of one fold, for every fold, and what they predict for that fold's transitions."""

    fold: np.ndarray  # int [n]
    fits: tuple[Fit, ...]  # [fold]
    taken: np.ndarray  # [n, gvf] Q(s, a)
    following: np.ndarray  # [n, gvf] V(s')
    errors: np.ndarray  # [n, gvf] c + gamma V(s') - Q(s, a)

    def values(self, observations: np.ndarray, pi: np.ndarray, fold: np.ndarray | None = None) -> np.ndarray:
        """V [gvf, n] at observations [n, o] with policies pi [1 or n, action, gvf], by the fits without the observations' folds
        [n], or by the mean of all fits."""
        each = np.stack([fit.values(observations, pi) for fit in self.fits])
        return each.mean(axis=0) if fold is None else each[fold, :, np.arange(len(fold))].T


def crossfit(rows: Rows) -> CrossFit:
    """Predictions for all transitions, in `BLOCKS` blocks, from the sums over all blocks without those of their fold."""
    data, within, key = rows.data, Range.of(rows.data), (rows.basis.strength, rows.basis.sharing)
    if key not in rows.found:
        weights = fits(rows, np.arange(FOLDS[-1] + 1)[:, None] != FOLDS[None], within, rounds=HALF_SAMPLES_ROUNDS)
        each = tuple(Fit(rows.basis, w, within) for w in weights)
        taken, following = predicted(rows, [each[k] for k in FOLDS])
        errors = data.cumulant + data.discount * following - taken
        rows.found[key] = CrossFit(FOLDS[rows.block], each, taken, following, errors)
    return rows.found[key]


def accumulated(data: Transitions, errors: np.ndarray) -> np.ndarray:
    """The mean square of what temporal-difference errors [n, gvf] of unseen transitions add up to along episodes, [gvf].

    With H the discounted sum of the errors from a transition on and D that of their squares, it is the mean of H^2 - D: chance is
    not correlated between transitions, whatever acted, and what is left are the errors of the answers.
    """
    order = np.argsort(data.episode, kind="stable")
    delta, discount = errors[order], data.discount[order]
    last = np.append(np.flatnonzero(np.diff(data.episode[order])), len(order) - 1)
    lengths = np.diff(last, prepend=-1)
    after, squares = delta.copy(), delta**2
    for k in range(1, int(lengths.max())):
        t = last[lengths > k] - k
        after[t] += discount[t] * after[t + 1]
        squares[t] += discount[t] ** 2 * squares[t + 1]
    return np.asarray((after**2 - squares).mean(axis=0))


def steadiest(rows: Rows, strengths: Sequence[float]) -> Rows:
    """The rows with the strength of the penalty whose errors out of fold accumulate least, in units of the answers' variance."""
    tried = [replace(rows, basis=replace(rows.basis, strength=strength)) for strength in strengths]
    spread = crossfit(rows).following.var(axis=0) + np.finfo(float).tiny
    return min(tried, key=lambda one: float((accumulated(one.data, crossfit(one).errors) / spread).mean()))


def predicted(rows: Rows, by_block: Sequence[Fit]) -> tuple[np.ndarray, np.ndarray]:
    """Q(s, a) and V(s') of every transition by the fit for its block, [n, gvf] each."""
    taken, following = np.empty((2, len(rows.data), rows.data.gvfs))
    for piece, points in rows:
        fit = by_block[piece.block]
        each = fit.within.clipped(piece.each(points, fit.weights))
        taken[piece.index], following[piece.index] = piece.taken(each), piece.following(each, piece.data.member)
    return taken, following


# --- The value at the start with continuous observations: the mean of the answers over the observations in which episodes
# began.  Its error is that of the mean itself, from the half-samples, and not the mean of the answers' errors.  The starts add
# the variance of a mean over as many of them as were seen, joined by one more that is as far away as observations are on average,
# as in `gvfx.evidence.uncertainty`.

STARTS = 2000  # observations over which the value at the start is a mean, at most
OTHERS = 64  # observations that say how far away others are
FIX = "leave out inputs that do not matter, or have it audited (audit=0.15)"


def start_means(
    found: Answers, data: Transitions, policies: Callable[[np.ndarray], np.ndarray], further: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The values at the start and the squared standard errors of their differences, as `Answers.means` gives them.

    NaN without starts.  policies: a function from observations [n, o] to the policies there [1 or n, action, gvf].
    further:  observations [m, o] of further resets, in which no episode of the data began; equal starts then count once.
    """
    starts, others = _starts(data, further)
    if not len(starts):
        return np.full(data.gvfs, np.nan), np.full((data.gvfs, data.gvfs), np.nan)
    pi = policies(starts)
    value, squares = found.means(starts, pi)
    at_starts, elsewhere = found.fit.values(starts, pi), found.fit.values(others, policies(others))
    away, far = (v - at_starts.mean(axis=1, keepdims=True) for v in (at_starts, elsewhere))
    variance = np.stack([_variance(away - away[i], far - far[i]) for i in range(len(value))])
    np.fill_diagonal(variance, np.where(np.isnan(value), np.inf, _variance(away, far)))  # nothing was tried: infinite
    return value, squares + variance


def _starts(data: Transitions, further: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Observations in which episodes began, and others."""
    starts = data.observation[data.first]
    if further is not None:
        starts = np.concatenate([np.unique(starts, axis=0), further])
    return some(starts, STARTS), some(data.observation, OTHERS)


def _variance(away: np.ndarray, far: np.ndarray) -> np.ndarray:
    """The variance due to the starts, from deviations at the starts and elsewhere [..., n]."""
    return ((away**2).sum(axis=-1) + (far**2).mean(axis=-1)) / away.shape[-1] ** 2


def start_answers(value: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Means with their standard errors, [gvf, 2], from what `start_means` or `Answers.means` gives."""
    return np.column_stack([value, np.sqrt(squares.diagonal())])


def start_joint(value: np.ndarray, squares: np.ndarray) -> Joint:
    """The same as means with the errors of their differences."""
    unsure, errors = ~np.isfinite(squares.diagonal()), np.sqrt(squares)
    errors[unsure, unsure] = np.nan
    return Joint(value, errors, unsure, unsure, np.zeros(len(value)), FREEDOM)


def outside(found: Answers, data: Transitions) -> str:
    """How many of the starts have no error bar of their own, in words; empty if all have one."""
    starts, _ = _starts(data)
    share = 1 - found.covered(starts).mean() if found.halves and len(starts) else 0.0
    if not share:
        return ""
    effect = "has no interval" if share > OUTSIDE else "has an interval that allows for every possible value there"
    return f"{share:.1%} of {len(starts):,} lie away from the features' centres, so that the value at the start {effect}; {FIX}"


def some(rows: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of the rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
