"""Statistics over seeds: means and their intervals, interquartile means, paired differences, steps to an error.

Samples are [seed] or [seed, t].  A seed whose run diverged is NaN: it is left out and counted, and an estimate's text says how
many there were.  How often the intervals hold the truth is measured by `gvfx reproduce seed-intervals`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from gvfx.running.result import standard_error as standard_error

DIVERGED = "diverged"
MEANS = "Mean over seeds with a 95 % interval (Student's t of the logarithm)"  # for notes under tables


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


SKEW = 1.5  # widens the upper side of a mean's interval, whose misses are on that side if errors are skewed
SKEW_OF_RATIOS = 0.25  # both chosen for normal, log-normal and exponential errors


def _log_half(relative: np.ndarray, seeds: int, skew: float = 0.0) -> np.ndarray:
    """Half the width of an interval for the logarithm of a mean, from the seeds' variance over its square: Student's t, and a
    term of the next order, as in Cox's interval for log-normal means."""
    if seeds == 1:
        return np.zeros_like(relative)
    half: np.ndarray = stdtrit(seeds - 1, 0.975) * np.sqrt(relative / seeds + skew * relative**2 / (seeds - 1))
    return half


def _even_half(variance: np.ndarray, seeds: int) -> np.ndarray:
    """Half the width of Student's interval for a mean."""
    return stdtrit(seeds - 1, 0.975) * np.sqrt(variance / seeds) if seeds > 1 else np.zeros_like(variance)


def mean_curve(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, low and high over time of samples [seed, t]; NaN if all runs diverged.

    Where all samples are positive the interval is one of the logarithm, else Student's; a single seed has no width.
    """
    left = finished(samples)
    if not len(left):
        return samples[0], samples[0], samples[0]
    middle, spread, seeds = left.mean(axis=0), left.var(axis=0, ddof=min(1, len(left) - 1)), len(left)
    positive = (left > 0).all(axis=0)
    relative, even = spread / np.where(positive, middle**2, np.inf), _even_half(spread, seeds)
    low = np.where(positive, middle * np.exp(-_log_half(relative, seeds)), middle - even)
    high = np.where(positive, middle * np.exp(_log_half(relative, seeds, SKEW)), middle + even)
    return middle, low, high


def mean(samples: np.ndarray) -> Estimate:
    """Mean over seeds with an interval as in `mean_curve`."""
    if not len(finished(samples)):
        return NOTHING
    middle, low, high = (float(each[0]) for each in mean_curve(samples[:, None]))
    return Estimate(middle, low, high, count(samples))


def share(held: np.ndarray) -> Estimate:
    """How many percent of runs [run] something is true of, with Wilson's 95 % interval."""
    n, p, z2 = len(held), held.mean(), 1.959964**2
    middle, half = (p + z2 / 2 / n) / (1 + z2 / n), np.sqrt(z2 * (p * (1 - p) + z2 / 4 / n) / n) / (1 + z2 / n)
    return Estimate(float(100 * p), float(100 * max(0, middle - half)), float(100 * min(1, middle + half)))


def interquartile_mean(samples: np.ndarray) -> float:
    """Mean of the middle half of the seeds, with fractional weights at the quartiles: robust to single bad runs."""
    n = len(samples)
    weights = np.diff(np.clip(np.arange(n + 1), n / 4, 3 * n / 4))
    return float(np.sort(samples) @ weights / weights.sum())


def difference(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """How much higher our mean is, paired, with Student's interval."""
    left = finished(ours - theirs)
    if not len(left):
        return NOTHING
    middle, half = left.mean(), float(_even_half(left.var(ddof=min(1, len(left) - 1)), len(left)))
    return Estimate(float(middle), float(middle - half), float(middle + half), count(ours - theirs))


def improvement(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """How much lower our mean is, in percent of theirs, over the first seeds that both have, paired; pairs of which one
    diverged are left out.  The interval is one of the logarithm of the ratio."""
    common = min(len(ours), len(theirs))
    pairs = np.stack([ours[:common], theirs[:common]], axis=1)
    left = finished(pairs)
    if not len(left):
        return NOTHING
    us, them = left.T / left.mean(axis=0)[:, None]
    half = float(_log_half(np.var(us - them, ddof=min(1, len(left) - 1)), len(left), SKEW_OF_RATIOS))
    ratio = left[:, 0].mean() / left[:, 1].mean()
    value, low, high = (100 * (1 - ratio * np.exp(h)) for h in (0.0, half, -half))
    return Estimate(float(value), float(low), float(high), count(pairs))


def steps_to_reach(steps: np.ndarray, samples: np.ndarray, error: float) -> float | None:
    """First measured step at which the mean error is at or below `error` and stays there; None if never."""
    left = finished(samples)
    if not len(left):
        return None
    above = np.flatnonzero(left.mean(axis=0) > error)
    if not above.size:
        return float(steps[0])
    return float(steps[above[-1] + 1]) if above[-1] + 1 < len(steps) else None
