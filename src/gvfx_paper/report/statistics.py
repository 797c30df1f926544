"""Statistics over seeds: means, bootstrap intervals, interquartile means, paired differences, steps to an error.

Samples are [seed] or [seed, t].  Bootstrap draws have a fixed seed, so the same results give the same numbers.
A seed whose run diverged is NaN: it is left out and counted, and an estimate's text says how many there were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gvfx.running.result import standard_error as standard_error

DRAWS = 4000
DIVERGED = "diverged"


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % confidence interval."""

    value: float  # infinite if all runs diverged
    low: float
    high: float
    count: str = ""  # how many runs diverged, for the text

    def __str__(self) -> str:
        """'0.21 [0.2, 0.22]'; if runs diverged '0.21 [0.2, 0.22] (8 of 10; 2 diverged)' or 'diverged'."""
        if self.diverged:
            return DIVERGED
        return f"{short(self.value)} [{short(self.low)}, {short(self.high)}]{self.count}"

    @property
    def diverged(self) -> bool:
        """Whether all runs diverged."""
        return not np.isfinite(self.value)

    def contains(self, number: float) -> bool:
        return self.low <= number <= self.high


NOTHING = Estimate(np.inf, np.inf, np.inf)  # of a method all of whose runs diverged


def short(number: float) -> str:
    """Three significant digits, no exponent for large numbers unless they are huge; not finite only if runs diverged."""
    if not np.isfinite(number):
        return DIVERGED
    if abs(number) >= 1e8:
        return f"{number:.1e}"
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


# --- runs that diverged ------------------------------------------------------------------------------------------


def finished(samples: np.ndarray) -> np.ndarray:
    """The samples of the seeds that did not diverge."""
    return samples[~np.isnan(samples.reshape(len(samples), -1)).any(axis=1)]


def count(samples: np.ndarray) -> str:
    """' (8 of 10; 2 diverged)', to be put after a number; empty if no run diverged."""
    left, total = len(finished(samples)), len(samples)
    return "" if left == total else f" ({left} of {total}; {total - left} diverged)" if left else f" ({DIVERGED})"


def centre(samples: np.ndarray) -> float:
    """The mean over the seeds that did not diverge, for comparisons; infinite if all did, so that it is never the lowest."""
    left = finished(samples)
    return float(left.mean()) if len(left) else np.inf


def plus_minus(samples: np.ndarray, digits: int | None = None) -> str:
    """'0.21 ± 0.01': the mean over seeds and its standard error (to `digits`), with the count of runs that diverged."""
    left = finished(samples)
    if not len(left):
        return DIVERGED
    error = standard_error(left)
    return f"{short(left.mean())} ± {short(error) if digits is None else f'{error:.{digits}g}'}{count(samples)}"


# --- estimates ---------------------------------------------------------------------------------------------------


def _resampled(samples: np.ndarray, draws: int) -> np.ndarray:
    """Bootstrap resamples of the seeds, [draw, seed, ...]."""
    chosen = np.random.default_rng(20241210).integers(0, len(samples), (draws, len(samples)))
    return samples[chosen]


def _estimate(samples: np.ndarray, of: Callable[[np.ndarray], np.ndarray], draws: int = DRAWS) -> Estimate:
    """What `of` makes of rows of seeds [row, seed, ...], [row], with a percentile bootstrap interval."""
    left = finished(samples)
    if not len(left):
        return NOTHING
    low, high = np.quantile(of(_resampled(left, draws)), [0.025, 0.975])
    return Estimate(float(of(left[None])[0]), float(low), float(high), count(samples))


def mean(samples: np.ndarray, draws: int = DRAWS) -> Estimate:
    """Mean over seeds with a percentile bootstrap interval."""
    return _estimate(samples, lambda rows: rows.mean(axis=1), draws)


def mean_curve(samples: np.ndarray, draws: int = 1000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, low and high over time of samples [seed, t]; NaN if all runs diverged."""
    left = finished(samples)
    if not len(left):
        return samples[0], samples[0], samples[0]
    low, high = np.quantile(_resampled(left, draws).mean(axis=1), [0.025, 0.975], axis=0)
    return left.mean(axis=0), low, high


def interquartile_mean(samples: np.ndarray) -> Estimate:
    """Mean of the middle half of the seeds, with fractional weights at the quartiles: robust to single bad runs."""

    def middle(rows: np.ndarray) -> np.ndarray:
        n = rows.shape[1]
        weights = np.diff(np.clip(np.arange(n + 1), n / 4, 3 * n / 4))
        return np.sort(rows, axis=1) @ weights / weights.sum()

    return _estimate(samples, middle)


def improvement(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """How much lower our mean is, in percent of theirs, over the first seeds that both have, paired; pairs of which one
    diverged are left out."""
    common = min(len(ours), len(theirs))

    def lower(rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = 100 * (1 - rows[:, :, 0].mean(axis=1) / rows[:, :, 1].mean(axis=1))
        return found

    return _estimate(np.stack([ours[:common], theirs[:common]], axis=1), lower)


def steps_to_reach(steps: np.ndarray, samples: np.ndarray, error: float) -> float | None:
    """First measured step at which the mean error is at or below `error` and stays there; None if never."""
    left = finished(samples)
    if not len(left):
        return None
    above = np.flatnonzero(left.mean(axis=0) > error)
    if not above.size:
        return float(steps[0])
    return float(steps[above[-1] + 1]) if above[-1] + 1 < len(steps) else None
