r"""Error bars of linear answers: half-samples of episodes, each fitted again at half the resolution.

Four times the episodes are split into two halves at random, and each half is fitted with half the features.  The squared error
of an answer is the mean over the eight of $(\hat V_{half} - \hat V)^2$: a half-sample differs from the whole by as much as the
whole differs from the truth through chance, and the coarser features add what the resolution matters for, which chance alone
would not show.  The two halves of a split mirror each other, so intervals use Student's t with four degrees of freedom.  Values
that are small beside the question's others are smoothed by the features in a way that both resolutions share: the standard error
is at least a share `SMALLEST` of the root mean square value.  Any other bias that both resolutions share is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gvfx.evidence.transitions import Transitions
from gvfx.features.kernel import Kernel
from gvfx.learners.basis import Basis
from gvfx.learners.least_squares import sums
from gvfx.learners.limits import Range
from gvfx.learners.linear_fit import Fit, fitted
from gvfx.learners.support import FEWEST, Doubt, missing

SPLITS = 4
FREEDOM = SPLITS  # degrees of freedom of the error bars
INDEPENDENT = 6.0  # most directions in which answers are taken to err on their own
SMALLEST = 3e-4  # standard error, as a share of a question's root mean square value
ROUNDS = 40  # of iterations: error bars need fewer than answers


@dataclass(frozen=True, eq=False)
class Answers:
    """A fit, those of the half-samples, and where there were data."""

    fit: Fit
    halves: tuple[Fit, ...]
    visited: np.ndarray  # bool [size at half the resolution]
    supported: np.ndarray  # bool [gvf]: whether the data can say anything about it (`gvfx.learners.support`)
    least: np.ndarray  # [gvf] the smallest standard error
    doubt: Doubt | None = None  # what was never tried, if the data were not collected for the questions

    def values(self, observations: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answers and their standard errors, each [gvf, n], at observations [n, o] with policies pi [1 or n, action, gvf].

        Errors are infinite away from all data, and for questions that the data cannot answer; empty without half-samples.
        Answers are NaN where a log has none of the actions that a policy takes.
        """
        values = self.fit.values(observations, pi)
        if not self.halves:
            return values, np.empty(0)
        off = [(half.values(observations, pi) - values) ** 2 for half in self.halves]
        basis = self.fit.basis if isinstance(self.fit.basis.features, Kernel) else self.halves[0].basis
        known = basis.covered(self.visited, observations) & self.supported[:, None]
        squares = np.mean(off, axis=0) + self.least[:, None] ** 2
        if self.doubt is not None:
            squares += self.doubt.at(observations) ** 2
            values = np.where(self.doubt.nothing(pi), np.nan, values)
        return values, np.where(known, np.sqrt(squares), np.inf)

    def mean(self, observations: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean of the answers over observations and its standard error, each [gvf]; arguments as in `values`.

        Infinite where one of the answers is; NaN without half-samples.
        """
        values, errors = self.values(observations, pi)
        value = values.mean(axis=1)
        if not self.halves:
            return value, np.full(len(value), np.nan)
        off = [(half.values(observations, pi).mean(axis=1) - value) ** 2 for half in self.halves]
        squares = np.mean(off, axis=0) + self.least**2
        if self.doubt is not None:
            squares += self.doubt.at(observations).mean(axis=1) ** 2
        return value, np.where(np.isfinite(errors).all(axis=1), np.sqrt(squares), np.inf)

    def differences(self, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """Squared standard errors of the differences between questions' means over observations, [gvf, gvf].

        The half-samples are the same for all questions; what they do not show is added for both.  NaN without half-samples.
        """
        value = self.fit.values(observations, pi).mean(axis=1)
        if not self.halves:
            return np.full((len(value), len(value)), np.nan)
        off = np.stack([half.values(observations, pi).mean(axis=1) - value for half in self.halves])
        added = self.least**2
        if self.doubt is not None:
            added = added + self.doubt.at(observations).mean(axis=1) ** 2
        return ((off[:, :, None] - off[:, None]) ** 2).mean(axis=0) + added[:, None] + added

    def freedom(self, observations: np.ndarray, pi: np.ndarray) -> float:
        """Degrees of freedom of the mean squared standard error over observations [n, o]; pi as in `values`.

        Between one per split, if all answers err together, and INDEPENDENT times as many.  It is judged by the angles between
        the deviations of different splits: those of independent directions in d dimensions have a mean squared cosine of 1 / d.
        """
        values = self.fit.values(observations, pi)
        off = np.stack([(half.values(observations, pi) - values).ravel() for half in self.halves[::2]])  # one half per split
        inner = off @ off.T
        size = np.sqrt(np.maximum(inner.diagonal(), np.finfo(float).tiny))
        cosines = (inner / np.outer(size, size))[np.triu_indices(len(off), 1)]
        return SPLITS * float(np.clip(1 / np.maximum((cosines**2).mean(), 1e-12), 1.0, INDEPENDENT))

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        out = self.fit.basis.arrays() | {"range": np.stack(self.fit.within)}
        out |= {f"weights.{k}": fit.weights for k, fit in enumerate((self.fit, *self.halves))}
        out |= {"visited": self.visited, "supported": self.supported, "least": self.least}
        return out if self.doubt is None else out | self.doubt.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Answers:
        """The answers that `arrays` described."""
        basis = Basis.from_arrays(arrays)
        within = Range(*arrays["range"])
        weights = [arrays[f"weights.{k}"] for k in range(sum(name.startswith("weights.") for name in arrays))]
        halves = tuple(Fit(basis.halved(), own, within) for own in weights[1:])
        doubt = Doubt.from_arrays(arrays) if "doubt.error" in arrays else None
        return cls(Fit(basis, weights[0], within), halves, arrays["visited"], arrays["supported"], arrays["least"], doubt)


def answered(data: Transitions, basis: Basis, seed: int = 0, intervals: bool = True) -> Answers:
    """The answers of all questions from transitions, with error bars unless `intervals` is False."""
    rows, within = basis.rows(data), Range.of(data)
    total = sums(rows)
    fit = fitted(rows, basis, total, within)
    supported = np.array([not reason for reason in missing(data)])
    if not intervals:
        return Answers(fit, (), np.zeros(0, bool), supported, np.zeros(data.gvfs))
    coarse = basis.halved()
    if isinstance(basis.features, Kernel):
        total = total.first(coarse.size)  # the first features of the kernel are those of half its centres
    else:
        rows = coarse.rows(data)
        total = sums(rows)
    visited = np.stack([gram.diagonal() for gram in total.gram]).sum(axis=0) > 0
    halves: list[Fit] = []
    for chosen in splits(data.episode, seed):
        half, rest = (rows.part(own, coarse, coarse.size) for own in (chosen, ~chosen))
        own = sums(half)
        halves += [fitted(half, coarse, own, within, ROUNDS), fitted(rest, coarse, total - own, within, ROUNDS)]
    least = SMALLEST * np.sqrt((fit.following(data) ** 2).mean(axis=0))
    return Answers(fit, tuple(halves), visited, supported, least)


def splits(episode: np.ndarray, seed: int) -> list[np.ndarray]:
    """Half of the episodes, SPLITS times, as masks over transitions [n]; of stretches where there are few episodes."""
    _, block = np.unique(episode, return_inverse=True)
    if block.max() + 1 < FEWEST:
        block = np.arange(len(episode)) * FEWEST // len(episode)
    count = int(block.max()) + 1
    rng = np.random.default_rng([seed, 0x68616C66])
    return [(rng.permutation(count) < count // 2)[block] for _ in range(SPLITS)]
