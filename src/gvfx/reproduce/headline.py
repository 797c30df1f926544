"""The picture of the README: error against steps on the continuous grid, from the paper's method to the statistical limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gvfx.experiments.settings.grid import OURS, DeepCurve
from gvfx.experiments.settings.limit_continuous import SIDE, LinearCurve, grid_rollouts, limits
from gvfx.report import statistics
from gvfx.report.colours import SAFE, steps_label
from gvfx.report.page import Series
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.curves import Tuned
from gvfx.reproduce.grid import outside_goals
from gvfx.reproduce.sections import LIMIT
from gvfx.theory.rollouts import rollout_error

TIMES = (20_000, 40_000, 100_000, 200_000, 500_000, 1_000_000)
SEEDS = 5
PAPER, NETWORKS = DeepCurve(OURS), DeepCurve("Explorer+Uniform", preset="recommended")
GVFX = "gvfx, default method"
NAMES = (
    "GVFExplorer with networks, as in the paper",
    "networks, gvfx's setting",
    "plain Monte Carlo rollouts",
    GVFX,
    "statistical limit",
)


def linear() -> list[LinearCurve]:
    """The default method of gvfx, with as many runs as the others at every time."""
    return [LinearCurve(steps=steps, seeds=SEEDS) for steps in TIMES]


def _needs(tuned: Tuned) -> list[DeepCurve | LinearCurve]:
    return [PAPER, NETWORKS, *linear()]


def _headline(b: Build) -> list[Exhibit]:
    samples = [_of_networks(b, PAPER), _of_networks(b, NETWORKS), None, _of_gvfx(b), None]  # [seed, time]
    computed = {
        2: np.array([rollout_error(grid_rollouts(SIDE), steps) for steps in TIMES]),
        4: limits(SIDE).optimal / np.array(TIMES),
    }
    lines, rows = [], []
    for k, (name, hue, found) in enumerate(zip(NAMES, SAFE, samples, strict=True)):
        if found is None:
            lines.append(Series(name, computed[k], computed[k], computed[k], hue, dashed=k == len(NAMES) - 1))
            rows.append([name, *(statistics.short(float(value)) for value in computed[k])])
        else:
            lines.append(b.series(name, found, hue))
            rows.append([name, *(str(statistics.mean(found[:, t])) for t in range(len(TIMES)))])
    where = f"at the 392 points outside the goals, mean over both value functions; {len(found_seeds(samples))} seeds"
    note = (
        f"Mean squared error {where}, bands are bootstrap 95 % intervals. Rollouts start in every point with both policies; "
        f"their length is the best in hindsight. Rollouts and the limit are computed on {SIDE} × {SIDE} cells."
    )
    title = "Error against steps: two value functions on the paper's continuous grid"
    figure = b.curves("headline", title, np.array(TIMES), lines, "mean squared error", note)
    return [
        b.table("headline-errors", b.item.title, ["method", *map(steps_label, TIMES)], rows, note),
        replace(figure, highlight=lines[3].name),
    ]


def found_seeds(samples: list[np.ndarray | None]) -> np.ndarray:
    """One number per seed of the runs."""
    return next(found[:, 0] for found in samples if found is not None)


def _of_networks(b: Build, curve: DeepCurve) -> np.ndarray:
    r = b.result(curve)
    return outside_goals(r)[:, np.searchsorted(r.steps, TIMES)]


def _of_gvfx(b: Build) -> np.ndarray:
    return np.stack([outside_goals(b.result(curve))[:, -1] for curve in linear()], axis=1)


GROUP = "limit"
ITEMS = (Item("headline", "ours", "Error against steps on the continuous grid", _needs, _headline, LIMIT, SEEDS, rank=-1),)
