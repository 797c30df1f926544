"""The picture of the README: error against steps on the continuous grid, from the paper's method to the statistical limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

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
TITLE = "Error against steps: two value functions on the paper's continuous grid"
MEASURE = "Mean squared error at the 392 points outside the goals, mean over both value functions"
COMPUTED = (
    "Rollouts start in every point with both policies; their length is the best in hindsight. "
    f"Rollouts and the limit are computed on {SIDE} × {SIDE} cells."
)


def linear() -> list[LinearCurve]:
    """The default method of gvfx, with as many runs as the others at every time."""
    return [LinearCurve(steps=steps, seeds=SEEDS) for steps in TIMES]


def _needs(tuned: Tuned) -> list[DeepCurve | LinearCurve]:
    return [PAPER, NETWORKS, *linear()]


class Errors(NamedTuple):
    """What the picture shows at its times: errors [seed, time] of runs, and errors [time] that are computed."""

    paper: np.ndarray
    networks: np.ndarray
    rollouts: np.ndarray
    gvfx: np.ndarray
    limit: np.ndarray

    def lines(self) -> list[Series]:
        """One line per method: means with bootstrap intervals, or what was computed."""
        out = []
        for k, (name, hue, found) in enumerate(zip(NAMES, SAFE, self, strict=True)):
            middle, low, high = statistics.mean_curve(found) if found.ndim == 2 else (found, found, found)
            count = statistics.count(found) if found.ndim == 2 else ""
            out.append(Series(f"{name}{count}", middle, low, high, hue, dashed=k == len(NAMES) - 1))
        return out

    def rows(self) -> list[list[str]]:
        """The same as a table."""

        def cells(found: np.ndarray) -> Iterator[str]:
            for at in found.T:
                yield str(statistics.mean(at)) if found.ndim == 2 else statistics.short(float(at))

        return [[name, *cells(found)] for name, found in zip(NAMES, self, strict=True)]


def errors(b: Build) -> Errors:
    """The errors of the stored runs, of rollouts and of the limit."""
    rolled = np.array([rollout_error(grid_rollouts(SIDE), steps) for steps in TIMES])
    return Errors(_of_networks(b, PAPER), _of_networks(b, NETWORKS), rolled, _of_gvfx(b), limits(SIDE).optimal / np.array(TIMES))


def _headline(b: Build) -> list[Exhibit]:
    found = errors(b)
    note = f"{MEASURE}; {len(found.gvfx)} seeds, bands are bootstrap 95 % intervals. {COMPUTED}"
    figure = b.curves("headline", TITLE, np.array(TIMES), found.lines(), "mean squared error", note)
    return [
        b.table("headline-errors", b.item.title, ["method", *map(steps_label, TIMES)], found.rows(), note),
        replace(figure, highlight=figure.series[3].name),
    ]


def _of_networks(b: Build, curve: DeepCurve) -> np.ndarray:
    r = b.result(curve)
    return outside_goals(r)[:, np.searchsorted(r.steps, TIMES)]


def _of_gvfx(b: Build) -> np.ndarray:
    return np.stack([outside_goals(b.result(curve))[:, -1] for curve in linear()], axis=1)


GROUP = "limit"
ITEMS = (Item("headline", "ours", "Error against steps on the continuous grid", _needs, _headline, LIMIT, SEEDS, rank=-1),)
