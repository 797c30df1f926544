"""Stopping rules asked at every check of a run that goes on to its end: when each would have stopped it, and its error then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import smoothed_noise
from gvfx.evidence.uncertainty import ErrorBelow, Parts, parts_of
from gvfx.theory.design import variances


@dataclass
class Stops:
    """One run: the steps after which each rule would have stopped it (0: never), and the mean squared error at that time."""

    steps: list[int]
    errors: list[float]
    looks: list[int]
    last: int = 0


@dataclass(frozen=True)
class Recording(ErrorBelow):
    """A rule that never stops a run and notes when others would have; runs must come one after the other.

    rules: in pairs, a larger target and a smaller one, which is asked once the first has been met.
    """

    rules: Sequence[ErrorBelow] = ()
    truth: np.ndarray = field(default_factory=lambda: np.zeros(0))  # [gvf, state]
    runs: list[Stops] = field(default_factory=list)

    def bound(self, data: Empirical, looks: int) -> tuple[float, bool]:
        steps, states = int(data.visits.sum()), self.truth.shape[1]
        if not self.runs or steps <= self.runs[-1].last:
            self.runs.append(Stops(*([0 for _ in self.rules] for _ in range(3))))  # type: ignore[arg-type]
        run = self.runs[-1]
        run.last = steps
        for k, rule in enumerate(self.rules):
            if run.steps[k] or (k % 2 and not run.steps[k - 1]):
                continue
            bound, counted = rule.bound(data, run.looks[k])
            run.looks[k] += counted
            if bound < rule.target:
                away = (data.values[:, :states] - self.truth)[:, data.world.live[:states]]
                run.steps[k], run.errors[k] = steps, float((away**2).mean())
        return np.inf, False


@dataclass(frozen=True)
class OwnVariance(ErrorBelow):
    """The rule without what pairs share and without the unseen, for comparison."""

    def bound(self, data: Empirical, looks: int) -> tuple[float, bool]:
        parts = own_parts(data)
        if parts.unknown[:, data.world.live].any():
            return np.inf, False
        return self.bound_with(data, parts, looks)


def own_parts(data: Empirical) -> Parts:
    """What the error theory reads from the data, with each pair's own variance as its noise."""
    n = data.visits[:, :, None].astype(float)
    mean, variance = data.moments(data.values)
    noise = smoothed_noise(mean, variance, variance * np.where(n > 1, n / np.maximum(n - 1, 1), 1.0), n)
    return replace(parts_of(data), noise=noise)


def own_errors(data: Empirical) -> np.ndarray:
    """Standard errors with each pair's own variance; infinite only where something was never tried, [gvf, state]."""
    p = own_parts(data)
    return np.where(p.unknown, np.inf, np.sqrt(variances(p.model, p.pi, p.gamma, p.noise, data.visits)))
