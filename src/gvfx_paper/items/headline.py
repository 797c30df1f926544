"""The picture of the README: error against steps on the continuous grid, from stored runs and as `gvfx demo` shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gvfx.files import write_whole
from gvfx.report.page import UNKNOWN, Curves, Series
from gvfx.running.result import Result
from gvfx_paper.items.exhibits import LIMIT, Build, Exhibit, Items
from gvfx_paper.items.measures import outside_goals
from gvfx_paper.report import statistics
from gvfx_paper.report.statistics import short
from gvfx_paper.report.style import SAFE, steps_label
from gvfx_paper.settings.continuous import OURS, DeepCurve
from gvfx_paper.settings.limit_continuous import SIDE, LinearCurve, grid_rollouts, limits
from gvfx_paper.settings.runs import run_experiment
from gvfx_paper.truths.rollouts import rollout_error

ITEMS = Items("limit")
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


class Errors(NamedTuple):
    """What the picture shows at its times: errors [seed, time] of runs, and errors [time] that are computed."""

    paper: np.ndarray
    networks: np.ndarray
    rollouts: np.ndarray
    gvfx: np.ndarray
    limit: np.ndarray

    def lines(self) -> list[Series]:
        """One line per method: means with intervals, or what was computed."""
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
    paper, networks = (at_times(b.source.result(curve), TIMES) for curve in (PAPER, NETWORKS))
    ours = np.concatenate([at_times(b.source.result(curve), [curve.steps]) for curve in linear()], axis=1)
    return Errors(paper, networks, rolled, ours, limits(SIDE).optimal / np.array(TIMES))


@ITEMS.add("headline", "ours", "Error against steps on the continuous grid", LIMIT, [PAPER, NETWORKS, *linear()], SEEDS, rank=-1)
def _headline(b: Build) -> list[Exhibit]:
    found = errors(b)
    note = f"{MEASURE}; {len(found.gvfx)} seeds, bands are 95 % intervals. {COMPUTED}"
    figure = b.curves("headline", TITLE, np.array(TIMES), found.lines(), "mean squared error", note)
    return [
        b.table("headline-errors", b.item.title, ["method", *map(steps_label, TIMES)], found.rows(), note),
        replace(figure, highlight=figure.series[3].name),
    ]


def at_times(r: Result, times: Sequence[int]) -> np.ndarray:
    """The errors of a result at some times, [seed, time]."""
    return outside_goals(r)[:, np.searchsorted(r.steps, times)]


# --- The picture of `gvfx demo`: gvfx's default method, run now, beside the stored errors of the README's picture ----
# Networks, rollouts and the limit take minutes (`gvfx reproduce headline`), so their errors come with the package, in
# `data/headline.json`; `tools/headline_errors.py` writes them from the stored runs of that command.

STORED = Path(__file__).parent / "data" / "headline.json"
NOW = (20_000, 40_000, 100_000)  # of TIMES, at which the runs of the demo are measured
EVERY = 20_000
DIGITS = 6  # of stored numbers


def write_errors(found: Errors, versions: str, path: Path = STORED) -> None:
    """Write the errors of the README's picture, rounded."""
    rounded = {
        name: np.vectorize(lambda x: float(f"{x:.{DIGITS}g}"))(values).tolist() for name, values in found._asdict().items()
    }
    text = json.dumps({"command": "gvfx reproduce headline", "versions": versions, "times": TIMES, **rounded}, indent=1)
    write_whole(path, (text + "\n").encode())


def stored_errors() -> Errors:
    """The errors of the README's picture at all of its times."""
    kept = json.loads(STORED.read_text(encoding="utf-8"))
    return Errors(**{name: np.array(kept[name]) for name in Errors._fields})


def run_now(seeds: int, workers: int = 1) -> np.ndarray:
    """Errors [seed, time] of gvfx's default method at the times NOW."""
    e = replace(LinearCurve(steps=NOW[-1]).experiment, evaluate_every=EVERY)
    return at_times(run_experiment(e, seeds=seeds, workers=workers), NOW)


def beside_stored(runs: np.ndarray) -> Errors:
    """The runs [seed, time] in the place of gvfx's stored ones, all at the times NOW."""
    at = np.searchsorted(TIMES, NOW)
    return Errors(*(found[..., at] for found in stored_errors()))._replace(gvfx=runs)


def rows(runs: np.ndarray) -> list[list[str]]:
    """The errors as a table, one row per method; of gvfx the mean and the range of its runs."""
    out = beside_stored(runs).rows()
    found = zip(runs.mean(axis=0), runs.min(axis=0), runs.max(axis=0), strict=True)
    out[3] = [f"{GVFX}, just now", *(f"{short(mean)} [{short(low)}, {short(high)}]" for mean, low, high in found)]
    return out


def picture(runs: np.ndarray) -> Curves:
    """The README's picture as far as the runs go; the band of gvfx is the range of its runs."""
    lines = beside_stored(runs).lines()
    name, band = f"{GVFX}, just now", {"low": runs.min(axis=0), "high": runs.max(axis=0)}
    lines[3] = replace(lines[3], name=name, mean=runs.mean(axis=0), **band)
    count = len(stored_errors().networks)
    note = (
        f"{MEASURE}. gvfx: {len(runs)} runs of this demo, the band is their range. Networks: {count} stored runs of "
        f"`gvfx reproduce headline`, bands are 95 % intervals. {COMPUTED}"
    )
    return Curves("headline", TITLE, "ours", np.array(NOW), lines, "mean squared error", UNKNOWN, note, highlight=lines[3].name)


def verdict(runs: np.ndarray) -> str:
    """How the runs compare with the others at the end, in one sentence."""
    found = beside_stored(runs)
    ours = runs[:, -1].mean()
    others = {"the paper's method has": found.paper, "plain Monte Carlo": found.rollouts, "networks": found.networks}
    first, *more = (f"{name} {np.mean(values[..., -1]) / ours:,.0f} times" for name, values in others.items())
    limit = f"After {NOW[-1]:,} steps the error of gvfx is {ours / found.limit[-1]:.1f} times the statistical limit"
    return f"{limit}; {first} the error of gvfx, {', '.join(more)}."
