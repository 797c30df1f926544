"""Statistics over seeds: means, bootstrap intervals, interquartile means, paired differences, steps to an error.

Samples are [seed] or [seed, t].  Bootstrap draws have a fixed seed, so the same results give the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gvfx.running.result import standard_error as standard_error

DRAWS = 4000


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.value)} [{short(self.low)}, {short(self.high)}]"

    def contains(self, number: float) -> bool:
        return self.low <= number <= self.high


def short(number: float) -> str:
    """Three significant digits, no exponent for large numbers unless they are huge."""
    if abs(number) >= 1e8:
        return f"{number:.1e}"
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def _resampled(samples: np.ndarray, draws: int) -> np.ndarray:
    """Bootstrap resamples of the seeds, [draw, seed, ...]."""
    chosen = np.random.default_rng(20241210).integers(0, len(samples), (draws, len(samples)))
    return samples[chosen]


def mean(samples: np.ndarray, draws: int = DRAWS) -> Estimate:
    """Mean over seeds with a percentile bootstrap interval."""
    low, high = np.quantile(_resampled(samples, draws).mean(axis=1), [0.025, 0.975])
    return Estimate(float(samples.mean()), float(low), float(high))


def mean_curve(samples: np.ndarray, draws: int = 1000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, low and high over time of samples [seed, t]."""
    low, high = np.quantile(_resampled(samples, draws).mean(axis=1), [0.025, 0.975], axis=0)
    return samples.mean(axis=0), low, high


def interquartile_mean(samples: np.ndarray, draws: int = DRAWS) -> Estimate:
    """Mean of the middle half of the seeds, robust to single bad runs."""
    low, high = np.quantile(_middle(_resampled(samples, draws)), [0.025, 0.975])
    return Estimate(float(_middle(samples[None])[0]), float(low), float(high))


def _middle(rows: np.ndarray) -> np.ndarray:
    """Interquartile mean of each row, with fractional weights at the quartiles."""
    n = rows.shape[1]
    edges = np.clip(np.arange(n + 1), n / 4, 3 * n / 4)
    weights = np.diff(edges)
    return np.sort(rows, axis=1) @ weights / weights.sum()


def paired_difference(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Mean of ours - theirs over common seeds."""
    return mean(ours - theirs)


def improvement(ours: np.ndarray, theirs: np.ndarray, draws: int = DRAWS) -> Estimate:
    """How much lower our mean is, in percent of theirs, seeds paired."""
    pairs = _resampled(np.stack([ours, theirs], axis=1), draws).mean(axis=1)
    low, high = np.quantile(100 * (1 - pairs[:, 0] / pairs[:, 1]), [0.025, 0.975])
    return Estimate(float(100 * (1 - ours.mean() / theirs.mean())), float(low), float(high))


def steps_to_reach(steps: np.ndarray, samples: np.ndarray, error: float) -> float | None:
    """First measured step at which the mean error is at or below `error` and stays there; None if never."""
    above = np.flatnonzero(samples.mean(axis=0) > error)
    if not above.size:
        return float(steps[0])
    return float(steps[above[-1] + 1]) if above[-1] + 1 < len(steps) else None
