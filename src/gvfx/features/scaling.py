"""Scaling: observations in comparable units, without inputs that carry nothing.

Every input is centred and divided by its standard deviation.  An input that never changed is left out, and so is one that is
a multiple of an earlier input (up to a shift), because both would only add a direction in which nothing was seen.  An input
whose extremes lie far beyond its bulk (a scale that jumped during the run) is bent by asinh around its median, so that the
bulk keeps its resolution and the extremes stay apart.  What an input was while it never changed is remembered: where it is
something else nothing is known.  Bounds of the observation space are not read: many are infinite, and
data may leave them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CONSTANT = 1e-6  # an input varies if its standard deviation exceeds this share of its largest absolute value
COPY = 1 - 1e-6  # absolute correlation from which an input counts as a copy of another
HEAVY = 20.0  # standard deviations over the interquartile range from which an input is bent
OTHERWISE = 1e-3  # share of its absolute value by which an input that never changed differs when it has changed
SAMPLE = 20_000  # observations from which quantiles and correlations are computed

LIMIT = 10.0  # scaled observations of networks are clipped here, against outliers not seen when the scales were found


class Scaling(NamedTuple):
    """The inputs that are kept, and their units; arrays alone, so that compiled functions can read it too."""

    kept: np.ndarray  # int [d] the inputs' places in an observation
    middle: np.ndarray  # [d] subtracted first
    unit: np.ndarray  # [d] of an input that is bent; 1 otherwise
    bent: np.ndarray  # bool [d]
    centre: np.ndarray  # [d] of the input after bending
    spread: np.ndarray  # [d]
    still: np.ndarray  # int [k] places of the inputs that never changed
    level: np.ndarray  # [k] what they were

    @classmethod
    def of(cls, observations: np.ndarray) -> Scaling:
        """The scaling that observations [n, o] suggest; all of them must be finite."""
        seen = np.asarray(observations, float)
        few = seen[:: max(1, len(seen) // SAMPLE)]
        largest = np.abs(seen).max(axis=0, initial=0.0)
        varies = seen.std(axis=0) > CONSTANT * largest
        kept, still = _distinct(few, np.flatnonzero(varies)), np.flatnonzero(~varies)
        low, middle, high = np.quantile(few[:, kept], [0.25, 0.5, 0.75], axis=0)
        between = high - low
        bent = (between > 0) & (seen[:, kept].std(axis=0) > HEAVY * between)
        start = cls(
            kept=kept,
            middle=np.where(bent, middle, 0.0),
            unit=np.where(bent, between, 1.0),
            bent=bent,
            centre=np.zeros(len(kept)),
            spread=np.ones(len(kept)),
            still=still,
            level=seen[0, still],
        )
        plain = start(seen)
        return start._replace(centre=plain.mean(axis=0), spread=plain.std(axis=0))

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Scaled inputs [n, d] of observations [n, o]."""
        out = (np.asarray(observations, float)[:, self.kept] - self.middle) / self.unit
        if self.bent.any():
            out[:, self.bent] = np.arcsinh(out[:, self.bent])
        return (out - self.centre) / self.spread

    def known(self, observations: np.ndarray) -> np.ndarray:
        """Whether the inputs that never changed are what they were, at observations [n, o], bool [n]."""
        off = np.abs(np.asarray(observations, float)[:, self.still] - self.level)
        return np.asarray((off <= OTHERWISE * np.abs(self.level)).all(axis=1))

    @property
    def size(self) -> int:
        """The number of inputs that are kept."""
        return len(self.kept)


def _distinct(observations: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The inputs without those that are multiples of an earlier one."""
    off = observations[:, inputs] - observations[:, inputs].mean(axis=0)
    length = np.sqrt((off**2).sum(axis=0))
    off = off / np.where(length > 0, length, 1.0)
    alike = np.abs(off.T @ off) > COPY
    chosen: list[int] = []
    for k in range(len(inputs)):
        if not alike[k, chosen].any():
            chosen.append(k)
    return inputs[chosen]
