"""One protocol for every method's learning rate: which runs it takes, their errors, and the rates it chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gvfx.experiments.settings import grid
from gvfx.experiments.settings.tabular import RATES, paper
from gvfx.reproduce.curves import ABLATION_SEEDS, TUNING_STEPS, AnyCurve, sweep_curves
from gvfx.reproduce.source import Source
from gvfx.reproduce.tables import choose_rates, sweep_errors


@dataclass(frozen=True)
class Protocol:
    """The sweep of one setting; errors(source) are [rate_q] by method, for GVFExplorer on tables [rate_q, rate_m]."""

    curves: Sequence[AnyCurve]
    rates: Sequence[float]
    seeds: int
    steps: int
    axis: str  # what the columns are
    errors: Callable[[Source], dict[str, np.ndarray]]
    published: Callable[[str], str]  # a method's published rates

    def choose(self, surface: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
        """The rates with the lowest error, per method, as (rate_q, rate_m)."""
        return choose_rates(surface, self.rates)


def protocol(setting: str) -> Protocol:
    """The protocol of a tabular setting or of `continuous`."""
    if setting == "continuous":
        return Protocol(
            curves=grid.tuning_curves(),
            rates=grid.TUNING_RATES,
            seeds=grid.TUNING_SEEDS,
            steps=grid.TUNING_STEPS,
            axis="learning rate",
            errors=grid_errors,
            published=lambda method: f"{grid.RATES[method]:g}",
        )

    def published(method: str) -> str:
        both = f", {paper[setting].rate_m:g}" if method == "GVFExplorer" else ""
        return f"{paper[setting].rate(method):g}{both}"

    return Protocol(
        curves=sweep_curves(setting),
        rates=RATES,
        seeds=ABLATION_SEEDS,
        steps=TUNING_STEPS,
        axis="minimum learning rate of Q (GVFExplorer: at its best rate of M)",
        errors=lambda source: sweep_errors(source, setting, ABLATION_SEEDS),
        published=published,
    )


def grid_errors(source: Source) -> dict[str, np.ndarray]:
    """The continuous grid: mean error after the tuning steps, [rate] by method."""

    def at(method: str, rate: float) -> float:
        return float(source.errors(grid.tuning_curve(method, rate), grid.TUNING_SEEDS).error[:, -1].mean())

    return {m: np.array([at(m, rate) for rate in grid.TUNING_RATES]) for m in grid.METHODS}
