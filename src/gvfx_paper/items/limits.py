"""How close to the statistical limit: on tables and on the continuous grid; intervals and stopping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy
import scipy.special

from gvfx.learners.half_samples import FREEDOM
from gvfx.report.page import Series
from gvfx.running.result import Result
from gvfx_paper.items.curves import ABLATION_SEEDS, SEEDS, main_curves
from gvfx_paper.items.exhibits import LIMIT, Build, Exhibit, Items
from gvfx_paper.items.measures import drifter_error, lowest, outside_goals
from gvfx_paper.report import statistics
from gvfx_paper.report.style import colour, steps_label
from gvfx_paper.settings import limit
from gvfx_paper.settings import limit_continuous as grid
from gvfx_paper.settings.limit import CE, SARSA, STATIONARY, TIMES, LimitCurve, optimum
from gvfx_paper.settings.limit_continuous import SIDE, SIDES, LinearCurve, limits

ITEMS = Items("limit")
SHORT = {CE: "CE", SARSA: "Expected Sarsa"}
Results = Mapping[tuple[str, str], Result]  # (behaviour, learner) -> result


def _against_the_optimum(b: Build) -> list[Exhibit]:
    """Every stationary setting: how many times the optimum's error each method has, and how soon it reaches a common one."""
    curves = [c for c in b.item.needs({}) if isinstance(c, LimitCurve)]
    results = {s: _results(b, [c for c in curves if c.setting == s]) for s in STATIONARY}
    return [_ratios(b, results), _steps(b, results), *(_curves(b, setting, found) for setting, found in results.items())]


for _name, _title, _pairs, _seeds in (
    ("limit-main", "How close to the limit", limit.MAIN_CURVES, SEEDS),
    ("limit-behaviours", "How close to the limit: every behaviour and learner", limit.STATIONARY_CURVES, ABLATION_SEEDS),
):
    ITEMS.add(_name, "ours", _title, LIMIT, _pairs, _seeds)(_against_the_optimum)


def _results(b: Build, curves: Sequence[LimitCurve]) -> Results:
    return {(c.method, c.learner): b.source.result(c) for c in curves}


def over_optimum(setting: str, r: Result) -> np.ndarray:
    """MSE times steps over the optimum's constant, [seed, t]: 1 is the limit."""
    return r.error * r.steps / optimum(setting)


def _ratios(b: Build, results: Mapping[str, Results]) -> Exhibit:
    pairs = list(results[STATIONARY[0]])
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []

    def add(setting: str, samples: Mapping[tuple[str, str], Sequence[np.ndarray]], tends: Mapping[tuple[str, str], str]) -> None:
        best.extend(lowest([samples[pair] for pair in pairs], (len(rows), 3), of_columns=True))
        for pair in pairs:
            cells = [str(statistics.mean(s)) for s in samples[pair]]
            rows.append([setting, pair[0], SHORT[pair[1]], *cells, tends[pair]])

    def ratios(setting: str, r: Result) -> list[np.ndarray]:  # [time][seed]
        return list(over_optimum(setting, r)[:, np.searchsorted(r.steps, TIMES)].T)

    measured = {setting: {pair: ratios(setting, r) for pair, r in found.items()} for setting, found in results.items()}
    averages = {pair: list(np.mean([measured[s][pair] for s in limit.AVERAGED], axis=0)) for pair in pairs}
    add(f"average of {len(limit.AVERAGED)}", averages, dict.fromkeys(pairs, ""))
    for setting in STATIONARY:
        add(setting, measured[setting], {pair: _tends(setting, *pair) for pair in pairs})
    columns = ["setting", "behaviour", "learner", *(f"{steps_label(t)} steps" for t in TIMES), "limit.predicted for many steps"]
    note = (
        f"{statistics.MEANS} of MSE times steps over the optimum's constant; 1 is the limit. The average is over "
        f"{', '.join(limit.AVERAGED)}. Predicted: what the theory says a fixed behaviour tends to; Expected "
        "Sarsa's rates stay above zero, so its ratio grows with the steps."
    )
    return b.table(b.item.name, b.item.title, columns, rows, note, best)


def _tends(setting: str, method: str, learner: str) -> str:
    ratio = limit.predicted(setting, method) if learner == CE else None
    return "-" if ratio is None else statistics.short(ratio)


def _steps(b: Build, results: Mapping[str, Results]) -> Exhibit:
    """Steps to the error that the paper's method has at its end."""
    rows = []
    for setting, found in results.items():
        reference = found["GVFExplorer", SARSA]
        target, total = statistics.centre(reference.error[:, -1]), int(reference.steps[-1])
        for (method, learner), r in found.items():
            reached = statistics.steps_to_reach(r.steps, r.error, target)
            words = "not reached" if reached is None else f"{reached:,.0f}" if reached > r.steps[0] else f"<= {reached:,.0f}"
            share = "-" if reached is None else f"1/{total / reached:.3g}"
            rows.append([setting, statistics.short(target), method, SHORT[learner], words + statistics.count(r.error), share])
    columns = ["setting", "MSE", "behaviour", "learner", "steps", "of GVFExplorer's"]
    note = (
        "The MSE that GVFExplorer with Expected Sarsa at the published rates has at the end, and the first measurement from "
        "which the mean over seeds stays at or below it (every 10,000 steps for OptimalDesign with CE and GVFExplorer with "
        "Expected Sarsa, every 100,000 for the others)."
    )
    return b.table(f"{b.item.name}-steps", "Steps to the error that the paper's method ends with", columns, rows, note)


def _curves(b: Build, setting: str, found: Results) -> Exhibit:
    steps = _common(found)
    series = [_line(b, pair, over_optimum(setting, r)[:, np.isin(r.steps, steps)]) for pair, r in found.items()]
    note = (
        "1 is what the best behaviour tends to; early on, when little was seen, every error is bounded and the ratio is small. "
        "Solid: certainty equivalence; dashed: Expected Sarsa."
    )
    return b.curves(f"{b.item.name}-{setting}", f"{b.item.title}, {setting}", steps, series, "MSE × steps / optimum", note)


def _common(found: Results) -> np.ndarray:
    """The times at which all were measured."""
    return min((r.steps for r in found.values()), key=len)


def _line(b: Build, pair: tuple[str, str], samples: np.ndarray) -> Series:
    method, learner = pair
    return b.series(f"{method}, {SHORT[learner]}", samples, colour(method), learner == SARSA)


_DRIFTING = "A drifting cumulant: certainty equivalence and the paper's methods"


@ITEMS.add("limit-drift", "ours", _DRIFTING, LIMIT, [*limit.DRIFT_CURVES, *main_curves(limit.DRIFTING)])
def _drift(b: Build) -> list[Exhibit]:
    """FourRooms with the drifter: certainty equivalence beside every method of the paper."""
    ours = _results(b, limit.DRIFT_CURVES)
    theirs = {(c.method, SARSA): b.source.result(c) for c in main_curves(limit.DRIFTING)}
    best = min(statistics.centre(r.error[:, -1]) for r in theirs.values())
    rows = []
    for (method, learner), r in {**ours, **theirs}.items():
        final = statistics.mean(r.error[:, -1])
        relative = statistics.mean(drifter_error(r)[:, -1])
        rows.append([method, SHORT[learner], str(final), str(relative), "-" if final.diverged else f"{best / final.value:.3g}"])
    columns = ["behaviour", "learner", "MSE", "drifter's MSE / level²", "times below the paper's best"]
    steps = _common(ours)
    note = f"After {int(steps[-1]):,} steps. {statistics.MEANS}. Drift paths are the same for all."
    return [
        b.table("limit-drift", b.item.title, columns, rows, note),
        b.curves(
            "limit-drift-curves",
            "FourRooms with a drifting cumulant: average MSE",
            steps,
            [_line(b, pair, r.error[:, np.isin(r.steps, steps)]) for pair, r in ours.items()],
        ),
    ]


@ITEMS.add("coverage", "ours", "How often intervals hold the truth", LIMIT, limit.COVERAGE_CURVES, limit.COVERAGE_RUNS)
def _coverage(b: Build) -> list[Exhibit]:
    """How many of the 95 % intervals hold the truth, averaged over the states whose answers have a variance."""
    rows = []
    for curve in limit.COVERAGE_CURVES:
        r, lost = b.source.finished(curve), statistics.count(b.source.result(curve).error)
        held, open_ended = covered(r)
        for name, share in [("all", held.mean(axis=1)), *zip(r.names, held.T, strict=True)]:
            cells = (f"{len(share)}{lost}", f"{statistics.mean(100 * share)} %", f"{100 * open_ended:.2g} %")
            rows.append([curve.setting, name, f"{r.steps[-1]:,}", *cells])
    columns = ["setting", "GVF", "steps", "runs", "truth inside", "intervals without an end"]
    note = (
        "95 % intervals by the delta method under OptimalDesign, after a cold start. The share of states whose interval holds "
        "the true value, over states with a variance above 0, then over runs, with a 95 % interval over runs. An interval "
        "has no end where an answer rests on something never tried; it counts as holding the truth."
    )
    return [b.table("coverage", b.item.title, columns, rows, note)]


def covered(r: Result, level: float = 0.95) -> tuple[np.ndarray, float]:
    """Share of a run's intervals that hold the truth [seed, gvf], and the share of all that have no end."""
    se = r.details.snapshots[-1].standard_errors
    assert se is not None
    unsure = se > 0
    inside = np.abs(r.values - r.details.truth) <= -scipy.special.ndtri((1 - level) / 2) * se
    return (inside & unsure).sum(axis=2) / unsure.sum(axis=2), float(np.isinf(se).sum() / unsure.sum())


SIMULATED = 20_000  # samples of seeds
ERRORS: dict[
    str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
] = {  # errors whose mean is 1 by their kind: draws [sample, seed]
    "normal, sd 0.1": lambda rng, size: rng.normal(1, 0.1, size),
    "normal, sd 0.3": lambda rng, size: rng.normal(1, 0.3, size),
    "log-normal, sd of logs 0.5": lambda rng, size: rng.lognormal(-0.125, 0.5, size),
    "log-normal, sd of logs 1": lambda rng, size: rng.lognormal(-0.5, 1, size),
    "exponential": lambda rng, size: rng.exponential(1, size),
}


@ITEMS.add("seed-intervals", "ours", "How often intervals over seeds hold the mean", LIMIT)
def _seed_intervals(b: Build) -> list[Exhibit]:
    """Simulated errors of some seeds: the share of intervals that hold the mean, and how wide they are."""
    rng, rows = np.random.default_rng(20241210), []
    for kind, draw in ERRORS.items():
        for seeds in (3, 5, 10, 25):
            samples = draw(rng, (SIMULATED, seeds))
            _, low, high = statistics.mean_curve(samples.T)
            mean, half = samples.mean(axis=1), 1.96 * samples.std(axis=1) / seeds**0.5  # about what a percentile bootstrap gives
            held = (f"{100 * inside.mean():.1f} %" for inside in ((low <= 1) & (high >= 1), np.abs(mean - 1) <= half))
            rows.append([kind, str(seeds), *held, f"{np.median(high - low):.2g}"])
    columns = ["errors with mean 1", "seeds", "intervals that hold it", "mean ± 1.96 sd / √seeds", "median width"]
    note = (
        f"{SIMULATED:,} simulated samples each. The intervals of all tables and figures, from the mean times exp(−t c / √n) "
        f"to the mean times exp(t √(c² / n + {statistics.SKEW:g} c⁴ / (n − 1))), where c is the standard deviation of n seeds "
        "over their mean and t Student's quantile."
    )
    return [b.table("seed-intervals", b.item.title, columns, rows, note)]


@ITEMS.add("stops", "ours", "Stopping when the error is below a target", LIMIT, limit.STOP_CURVES, limit.STOPS)
def _stops(b: Build) -> list[Exhibit]:
    """How often the error is below the target when the rule says so, and how many steps that took."""
    rows = []
    for curve in limit.STOP_CURVES:
        assert curve.target is not None
        ideal = statistics.short(optimum(curve.setting) / curve.target)
        target, stopped, kept, steps, error = _stopped(b, curve, curve.target, b.source.finished(curve).error[:, -1])
        rows.append([curve.setting, target, stopped, kept, statistics.short(steps), error, ideal])
    columns = ["setting", "target MSE", "stopped", "truly below it", "steps, median", "MSE then, mean", "optimum's steps"]
    note = (
        "OptimalDesign from a cold start with until=error_below(target), 95 % sure. Optimum's steps: when the best behaviour, "
        "known from the start, has the target as its expected error, which is no assurance for a single run."
    )
    return [b.table("stops", b.item.title, columns, rows, note)]


def _stopped(b: Build, curve: LimitCurve | LinearCurve, target: float, error: np.ndarray) -> tuple[str, str, str, float, str]:
    """The target, how many runs stopped, how many of these have an error [seed] below it, median steps, and the mean error."""
    done, lost = b.source.finished(curve).visits.sum(axis=(1, 2)), statistics.count(b.source.result(curve).error)
    stopped = done < curve.experiment.steps
    kept = statistics.share(error[stopped] <= target) if stopped.any() else "-"
    how_many = f"{stopped.sum()} of {len(done)}{lost}"
    return f"{target:g}", how_many, f"{kept} %", float(np.median(done)), statistics.short(float(error.mean()))


# --- the continuous grid ------------------------------------------------------------------------------------------------

SMALL = 0.1  # values up to this are left out of the coverage: most of them are 0 but for rounding
_TITLE = "How close to the limit with continuous observations"


@ITEMS.add("limit-continuous", "ours", _TITLE, LIMIT, [*grid.CURVES, grid.STOP_CURVE], grid.SEEDS)
def _grid_limit(b: Build) -> list[Exhibit]:
    return [_grid_errors(b), _constants(b), _grid_stops(b)]


def _grid_errors(b: Build) -> Exhibit:
    rows, best = [], limits(SIDE).optimal
    for curve in grid.CURVES:
        r = b.source.result(curve)
        outside = outside_goals(r)[:, -1]
        ratio = statistics.mean(outside * curve.steps / best)
        held = statistics.mean(100 * grid_coverage(b.source.finished(curve))) if curve.method == grid.MAIN else "-"
        cells = [str(statistics.mean(outside)), str(statistics.mean(r.mse[:, -1].mean(axis=1))), str(ratio), str(held)]
        rows.append([curve.method, steps_label(curve.steps), str(len(outside)), *cells])
    columns = ["behaviour", "steps", "seeds", "MSE outside", "MSE, all points", "× limit", "95 % intervals that hold, %"]
    note = (
        "LinearCertaintyEquivalence with default settings, features chosen from the data. MSE averaged over both GVFs, at the "
        f"392 points outside the goals and at all 400. {statistics.MEANS}. × limit: MSE outside "
        f"times steps over the optimum on {SIDE} × {SIDE} cells. Intervals are counted where the true value is above {SMALL:g}."
    )
    return b.table("limit-continuous", b.item.title, columns, rows, note)


def grid_coverage(r: Result) -> np.ndarray:
    """The share of 95 % intervals that hold the truth, over values that are not small, [seed]."""
    se = r.details.snapshots[-1].standard_errors
    assert se is not None
    held, big = np.abs(r.values - r.details.truth) <= scipy.special.stdtrit(FREEDOM, 0.975) * se, np.abs(r.details.truth) > SMALL
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


def _grid_stops(b: Build) -> Exhibit:
    error = outside_goals(b.source.finished(grid.STOP_CURVE))[:, -1]
    *first, steps, mean = _stopped(b, grid.STOP_CURVE, grid.TARGET, error)
    row = [*first, f"{steps:,.0f}", mean]
    columns = ["target MSE", "stopped", "truly below it", "steps, median", "MSE outside then, mean"]
    note = f"OptimalDesign with until=error_below({grid.TARGET:g}), at most {grid.MOST_STEPS:,} steps."
    return b.table("limit-continuous-stops", "Stopping on the continuous grid", columns, [row], note)
