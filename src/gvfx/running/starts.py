"""The value at the start in a result: per question, over seeds, with its interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.running.predictor import Predictor
from gvfx.types import Described

NOT_KEPT = "value: this run did not keep the starts of its episodes; run it with where='start'."


class Value(NamedTuple):
    """One question's value at the start, the mean over seeds; NaN where something is not known."""

    value: float
    low: float  # of its interval; infinite if it may rest on what was never seen or tried
    high: float
    truth: float  # NaN where the truth is not known
    spread: float  # of networks' heads, which have no intervals

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.value:.4g}" + ("" if np.isnan(self.spread) else f", spread {self.spread:.2g}")
        return f"{self.value:.4g} ± {self.half:.2g}" if np.isfinite(self.half) else f"{self.value:.4g} (not sure yet)"


def values_at_start(
    names: tuple[str, ...], starts: np.ndarray | None, predictor: Predictor, level: float = 0.95
) -> dict[str, Value]:
    """The value of every question from starts [seed, gvf, 3]: value, standard error and truth of each seed."""
    if not 0 < level < 1:
        raise InputError(f"level: {level!r} lies outside (0, 1); give a number such as 0.95.")
    if starts is None:
        raise InputError(NOT_KEPT)
    value, _, truth = np.moveaxis(starts.mean(axis=0), 1, 0)
    error = np.sqrt((starts[:, :, 1] ** 2).sum(axis=0)) / len(starts)
    spread = np.full(len(value), np.nan)
    if predictor.error_bars == "spread":
        error, spread = spread, np.sqrt((starts[:, :, 1] ** 2).mean(axis=0))
    half = predictor.quantile((1 - level) / 2) * error
    columns = zip(value, value - half, value + half, truth, spread, strict=True)
    return {name: Value(*map(float, row)) for name, row in zip(names, columns, strict=True)}


def start_rows(values: dict[str, Value]) -> list[Described]:
    """Rows of a result about the start."""
    return [
        {
            "question": name,
            "observation": "start",
            "prediction": v.value,
            "standard_error": None,
            "low": v.low if np.isfinite(v.low) else None,
            "high": v.high if np.isfinite(v.high) else None,
            "truth": None if np.isnan(v.truth) else v.truth,
            "visits": None,
            **({} if np.isnan(v.spread) else {"spread": v.spread}),
        }
        for name, v in values.items()
    ]


def start_lines(values: dict[str, Value]) -> list[str]:
    """Lines of a summary about the start, one per question."""
    width = max(map(len, values))
    truths = {name: "" if np.isnan(v.truth) else f", truth {v.truth:.4g}" for name, v in values.items()}
    return [f"{name:<{width}}  value at the start {v}{truths[name]}" for name, v in values.items()]
