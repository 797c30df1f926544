"""Scaling: observations in comparable units, without inputs that carry nothing.

Every input is centred and divided by its standard deviation.  An input that never changed is left out, and so is one that is
a multiple of an earlier input (up to a shift), because both would only add a direction in which nothing was seen.  An input
whose extremes lie far beyond its bulk (a scale that jumped during the run) is bent by asinh around its median, so that the
bulk keeps its resolution and the extremes stay apart.  What an input was while it never changed is remembered: where it is
something else nothing is known.  Bounds of the observation space are not read: many are infinite, and
data may leave them.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        middle, unit = np.where(bent, middle, 0.0), np.where(bent, between, 1.0)
        start = cls(kept, middle, unit, bent, np.zeros(len(kept)), np.ones(len(kept)), still, seen[0, still])
        plain = start(seen)
        return start._replace(centre=plain.mean(axis=0), spread=plain.std(axis=0))

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        return {f"scaling.{name}": array for name, array in self._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], prefix: str = "") -> Scaling:
        """The scaling that `arrays` described, whose names have a prefix now."""
        return cls(*(arrays[f"{prefix}scaling.{name}"] for name in cls._fields))

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
    copies = np.abs(off.T @ off) > COPY
    chosen: list[int] = []
    for k in range(len(inputs)):
        if not copies[k, chosen].any():
            chosen.append(k)
    return inputs[chosen]


# --- Observations far from 0 (positions in metres, times): what is subtracted from them before they become float32 --
# Learners read float32, whose neighbours are 0.25 apart at 4e6 and 64 apart at 1e9.  Numbers of the first observation of a run or
# log that are far from 0 are therefore subtracted from all of its observations, in double precision.  *Relative* vectors are
# those that learners see, *absolute* ones those of the environment; policies and signals never see relative ones.

FAR = 1e4  # absolute value from which a number is subtracted
ROUNDING = 1e-15  # share of what is subtracted, below which a difference from it is rounding alone
STEPS = 16  # neighbouring float32 numbers, within which an input's changes are lost in rounding
NAMED = 6  # numbers of an observation that are named


class Origin:
    """What is subtracted from the observations of one run or log."""

    def __init__(self, at: np.ndarray | None = None) -> None:
        """at [o]: what is subtracted, if that is known; the first vector that is seen decides otherwise."""
        self.at, self.open = at, at is None
        self.single = False  # whether observations came in float32

    @classmethod
    def of(cls, vectors: np.ndarray) -> Origin:
        """The origin of absolute vectors [n, o], by the first of them."""
        own = cls()
        own.seen(vectors[0])
        return own

    def seen(self, vector: np.ndarray) -> np.ndarray:
        """An absolute vector [o] as learners see it, float32 [o]."""
        if self.open:
            self.single = vector.dtype == np.float32
            far = np.isfinite(vector) & (np.abs(vector) >= FAR)
            self.at, self.open = np.where(far, vector, 0.0).astype(float) if far.any() else None, False
        return self.relative(vector).astype(np.float32)

    def relative(self, vectors: np.ndarray) -> np.ndarray:
        """Absolute vectors [..., o] as learners see them; unchanged if nothing is subtracted."""
        if self.at is None:
            return vectors
        off = vectors - self.at
        return np.where(np.abs(off) > ROUNDING * np.abs(self.at), off, 0.0).astype(np.float32)

    def absolute(self, vectors: np.ndarray) -> np.ndarray:
        """The inverse of `relative`."""
        return vectors if self.at is None else vectors + self.at

    def arrays(self) -> dict[str, np.ndarray]:
        """It as part of a file."""
        return {} if self.at is None else {"origin": self.at}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `arrays` gave."""
        self.at, self.open = arrays.get("origin"), False


def compact(vectors: np.ndarray) -> np.ndarray:
    """Absolute vectors as they are kept: float32, but float64 if one of their numbers is far from 0."""
    return vectors.astype(np.float64 if (np.abs(vectors) >= FAR).any() else np.float32)


def named(places: np.ndarray) -> str:
    """Numbers of an observation by their places [k], in words."""
    shown = ", ".join(f"o[{k}]" for k in places[:NAMED].tolist())
    return f"{shown} and {len(places) - NAMED} more" if len(places) > NAMED else shown


def too_far(vectors: np.ndarray) -> str:
    """A sentence about numbers of observations [n, o] in float32 that changed by hardly more than it tells apart, if any did.

    One that never changed may well be constant, unless even a change by 1 would be lost.
    """
    if vectors.dtype != np.float32:
        return ""
    size = np.abs(vectors).max(axis=0)
    spread, apart = np.ptp(vectors, axis=0), np.spacing(size)
    merged = (size >= FAR) & (spread < STEPS * apart) & ((spread > 0) | (apart >= 1))
    if not merged.any():
        return ""
    return (
        f"{named(np.flatnonzero(merged))}: float32 far from 0, where neighbouring numbers are {apart[merged].max():g} "
        "apart, and hardly changed; return float64, or subtract a fixed number."
    )


def unchanging(vectors: np.ndarray) -> str:
    """A sentence about numbers of observations, absolute vectors [n, o] of random steps, that never changed, if any did not."""
    still = Scaling.of(Origin.of(vectors).relative(vectors)).still
    words = f"never changed in {len(vectors):,} random steps; what never changes is left out of answers."
    return f"{named(still)}: {words}" if len(still) else ""
