"""The continuous grid: learning rates by one protocol, and GVFExplorer with one change at a time, on seeds of their own."""

from __future__ import annotations

import numpy as np

from gvfx.experiments.settings.grid import (
    METHODS,
    RATES,
    TRIAL_RATES,
    TRIAL_STEPS,
    TRIALS,
    TUNING_RATES,
    TUNING_SEEDS,
    TUNING_STEPS,
    trial_curve,
    trial_curves,
    tuning_curve,
    tuning_curves,
)
from gvfx.report import statistics
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.measures import of_seeds
from gvfx.reproduce.sections import NETWORKS


def _tuning(b: Build) -> list[Exhibit]:
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for m in METHODS:
        errors = [b.result(tuning_curve(m, rate)).error[:, -1] for rate in TUNING_RATES]
        best.append((len(rows), 1 + int(np.argmin([statistics.centre(e) for e in errors]))))
        rows.append([m, *(statistics.plus_minus(e, 2) for e in errors), f"{RATES[m]:g}"])
    columns = ["method", *(f"{rate:g}" for rate in TUNING_RATES), "published (Table 2)"]
    note = (
        f"MSE after {TUNING_STEPS:,} steps by learning rate, uniform replay, preset stabilised; Uniform's published rate is ours."
    )
    return [b.table("tuning-continuous", b.item.title, columns, rows, note, best)]


def _stabilising(b: Build) -> list[Exhibit]:
    """GVFExplorer with one change at a time, at the published and at a lower learning rate."""
    rows = []
    for trial in TRIALS:
        cells = []
        for rate in TRIAL_RATES:
            final = b.result(trial_curve(trial, rate)).error[:, -1]
            cells += [statistics.plus_minus(final, 2), of_seeds(final, np.max)]
        rows.append([trial, *cells])
    columns = ["GVFExplorer", *(f"{what} at {rate:g}" for rate in TRIAL_RATES for what in ("MSE", "largest seed"))]
    note = f"MSE after {TRIAL_STEPS:,} steps by learning rate, uniform replay, mean over seeds ± standard error."
    return [b.table("stabilising", b.item.title, columns, rows, note)]


GROUP = "deep"
ITEMS = (
    Item(
        "tuning-continuous",
        "tab:hyperparameters",
        "Continuous grid: learning rates by one protocol",
        lambda tuned: tuning_curves(),
        _tuning,
        NETWORKS,
        TUNING_SEEDS,
        rank=2,
    ),
    Item(
        "stabilising",
        "ours",
        "Continuous grid: what keeps GVFExplorer from collapsing",
        lambda tuned: trial_curves(),
        _stabilising,
        NETWORKS,
        TUNING_SEEDS,
        rank=2,
    ),
)
