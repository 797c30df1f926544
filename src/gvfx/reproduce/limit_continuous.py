"""How close to the limit on the continuous grid: linear features under OptimalDesign and the paper's behaviours."""

from __future__ import annotations

import numpy as np
import scipy.special

from gvfx.experiments.settings.limit_continuous import (
    MAIN,
    MOST_STEPS,
    SEEDS,
    SIDE,
    SIDES,
    TARGET,
    LinearCurve,
    limits,
    linear_curves,
    stop_curve,
)
from gvfx.learners.half_samples import FREEDOM
from gvfx.report import statistics
from gvfx.report.colours import steps_label
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.grid import outside_goals
from gvfx.reproduce.sections import LIMIT
from gvfx.running.result import Result

SMALL = 0.1  # values up to this are left out of the coverage: most of them are 0 but for rounding


def _limit(b: Build) -> list[Exhibit]:
    return [_errors(b), _constants(b), _stops(b)]


def _errors(b: Build) -> Exhibit:
    rows, best = [], limits(SIDE).optimal
    for curve in linear_curves():
        r = b.result(curve)
        outside = outside_goals(r)[:, -1]
        ratio = statistics.mean(outside * curve.steps / best)
        held = statistics.mean(100 * coverage(b.finished(curve))) if curve.method == MAIN else "-"
        cells = [str(statistics.mean(outside)), str(statistics.mean(r.mse[:, -1].mean(axis=1))), str(ratio), str(held)]
        rows.append([curve.method, steps_label(curve.steps), str(len(outside)), *cells])
    columns = ["behaviour", "steps", "seeds", "MSE outside", "MSE, all points", "× limit", "95 % intervals that hold, %"]
    note = (
        "LinearCertaintyEquivalence with default settings, features chosen from the data. MSE averaged over both GVFs, at the "
        f"392 points outside the goals and at all 400; mean over seeds with a bootstrap 95 % interval. × limit: MSE outside "
        f"times steps over the optimum on {SIDE} × {SIDE} cells. Intervals are counted where the true value is above {SMALL:g}."
    )
    return b.table("limit-continuous", b.item.title, columns, rows, note)


def coverage(r: Result) -> np.ndarray:
    """The share of 95 % intervals that hold the truth, over values that are not small, [seed]."""
    se = r.snapshots[-1].standard_errors
    assert se is not None
    held, big = np.abs(r.values - r.truth) <= scipy.special.stdtrit(FREEDOM, 0.975) * se, np.abs(r.truth) > SMALL
    return (held & big).sum(axis=(1, 2)) / big.sum(axis=(1, 2))


def _constants(b: Build) -> Exhibit:
    rows = []
    for side in SIDES:
        found = limits(side)
        cells = (found.optimal, found.certified, found.uniform, found.mixture)
        rows.append([f"{side} × {side}", *(f"{value:,.0f}" for value in cells)])
    columns = ["cells", "optimal design", "no behaviour is below", "Uniform", "Mixture"]
    note = (
        "MSE outside times steps that a behaviour tends to with an efficient estimator if positions are known up to their cell. "
        "The optimum still falls with finer cells."
    )
    return b.table("limit-continuous-constants", "The limit on lattices of cells", columns, rows, note)


def _stops(b: Build) -> Exhibit:
    curve = stop_curve()
    r, lost = b.finished(curve), statistics.count(b.result(curve).error)
    done = r.visits.sum(axis=(1, 2))
    stopped, error = done < MOST_STEPS, outside_goals(r)[:, -1]
    kept = statistics.mean((error[stopped] <= TARGET).astype(float) * 100) if stopped.any() else "-"
    ended = [f"{np.median(done):,.0f}", statistics.short(float(error.mean()))]
    row = [f"{TARGET:g}", f"{stopped.sum()} of {len(done)}{lost}", f"{kept} %", *ended]
    columns = ["target MSE", "stopped", "truly below it", "steps, median", "MSE outside then, mean"]
    note = f"OptimalDesign with until=error_below({TARGET:g}), at most {MOST_STEPS:,} steps."
    return b.table("limit-continuous-stops", "Stopping on the continuous grid", columns, [row], note)


def _needs() -> list[LinearCurve]:
    return [*linear_curves(), stop_curve()]


GROUP = "limit"
ITEMS = (
    Item(
        "limit-continuous",
        "ours",
        "How close to the limit with continuous observations",
        lambda tuned: _needs(),
        _limit,
        LIMIT,
        SEEDS,
    ),
)
