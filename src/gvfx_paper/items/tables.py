"""The tables of the tabular settings: Table 1 (errors at the end), Table 2 (learning rates), and the tuning of every method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gvfx.report.page import DataTable
from gvfx_paper.items import curves
from gvfx_paper.items.curves import ABLATION_SEEDS, BASELINES, TUNING_STEPS, AnyCurve, Curve, Tuned, main_curves, methods_on
from gvfx_paper.items.exhibits import TUNING, WINNERS, Build, Exhibit, Items, Source
from gvfx_paper.items.measures import LEAD, OURS, VERDICTS, Finals, final_errors, of_seeds, printed_row, steps_reached, verdict
from gvfx_paper.report import statistics
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings.tabular import MAIN, METHODS, PRESETS, RATES, paper

ITEMS = Items("tabular")
PRINTED = tuple(name for name in MAIN if paper[name].published)  # the settings of Table 1
COLUMNS = ["setting", "", *METHODS, LEAD]  # of Table 1
AT_TUNED_RATES = "ours (paper, tuned)"
AFTER_TUNING = f"MSE after {TUNING_STEPS:,} steps"


# --- Table 1 -----------------------------------------------------------------------------------------------------


def _table1_curves(tuned: Tuned) -> list[Curve]:
    published = [c for name in PRINTED for preset in PRESETS for c in main_curves(name, preset)]
    return published + [c for name in PRINTED for c in curves.tuned_curves(name, tuned)]


@ITEMS.add("table1", "tab:summary_tabular_perf", "Average MSE in the tabular settings", WINNERS, _table1_curves)
def _table1(b: Build) -> list[Exhibit]:
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    verdicts: list[list[str]] = []
    for setting in PRINTED:
        published = paper[setting].published
        rows.append(printed_row(setting, published, paper[setting].published_lead, METHODS))
        for name, finals in finals_of(b, setting, PRESETS).items():
            best.append((len(rows), 2 + METHODS.index(finals.lowest)))
            rows.append(finals.row(setting, name, METHODS))
            if name != AT_TUNED_RATES:
                both = {*published} & {*finals.errors}
                marks = (verdict(published[m], finals.estimates[m]) if m in both else "-" for m in METHODS)
                verdicts.append([setting, name, *marks, finals.ranking.outcome.value])
    note = (
        f"{statistics.MEANS}. 'paper': the text's algorithm, the present error; 'authors': what the "
        "authors' code does, its error averaged over 500 episodes; 'tuned': every method at the rate our own sweep chose."
    )
    judged = "Does the printed number reproduce?", ["setting", "preset", *METHODS, "ranking"], verdicts, VERDICTS
    main = b.table("table1", b.item.title, COLUMNS, rows, note, best)
    return [main, b.table("table1-verdicts", *judged), _statistics_table(b)]


def finals_of(b: Build, setting: str, presets: Sequence[str]) -> dict[str, Finals]:
    """The errors at the end of a setting in some presets and, where they have been run, at the tuned rates, by name."""
    variants = {f"ours ({preset})": main_curves(setting, preset) for preset in presets}
    at_tuned_rates = curves.tuned_curves(setting, b.source.tuned)
    if at_tuned_rates and b.source.has(at_tuned_rates):
        variants[AT_TUNED_RATES] = at_tuned_rates
    return {name: Finals(final_errors(b.source, found)) for name, found in variants.items()}


def _statistics_table(b: Build) -> DataTable:
    """Standard errors, interquartile means, paired differences and steps to a common error."""
    rows = []
    for setting in PRINTED:
        results = {c.method: b.source.errors(c) for c in main_curves(setting)}
        explorer = results[OURS].error
        target = 2 * min(statistics.centre(r.error[:, -1]) for r in results.values())
        for m, r in results.items():
            final = r.error[:, -1]
            middles = statistics.plus_minus(final), of_seeds(final, statistics.interquartile_mean)
            beside = "-" if m == OURS else str(statistics.difference(final, explorer[:, -1]))
            rows.append([setting, m, *middles, beside, steps_reached(r, target)])
    columns = ["setting", "method", "mean ± standard error", "interquartile mean"]
    columns += ["minus GVFExplorer, paired", "steps to twice the best"]
    return b.table("table1-statistics", "More statistics of ours (paper)", columns, rows)


# --- Table 2 and the tuning sweep --------------------------------------------------------------------------------


def sweep_errors(source: Source, setting: str) -> dict[str, np.ndarray]:
    """Error after the tuning steps, averaged over seeds: [rate_q], for GVFExplorer [rate_q, rate_m]; NaN if a run diverged."""

    def at(method: str, q: float, m: float | None = None) -> float:
        return float(source.errors(curves.sweep_curve(setting, method, q, m)).error[:, -1].mean())

    surface = {m: np.array([at(m, q) for q in RATES]) for m in methods_on(setting) if m in BASELINES}
    surface[OURS] = np.array([[at(OURS, q, m) for m in RATES] for q in RATES])
    return surface


def choose_rates(surface: dict[str, np.ndarray], rates: Sequence[float] = RATES) -> dict[str, tuple[float, float]]:
    """The rates with the lowest error, per method, as (rate_q, rate_m); a method that diverged at every rate is left out."""
    chosen = {}
    for method, errors in surface.items():
        if np.isnan(errors).all():
            continue
        q, *m = (int(k) for k in np.unravel_index(int(np.nanargmin(errors)), errors.shape))
        chosen[method] = (rates[q], rates[m[0]] if m else 0.8)
    return chosen


_SWEPT = [c for name in MAIN for c in curves.sweep_curves(name)]


@ITEMS.add("table2", "tab:hyperparameters", "Learning rates, published and ours", TUNING, _SWEPT, ABLATION_SEEDS, rank=1)
def _table2(b: Build) -> list[Exhibit]:
    surfaces = {setting: sweep_errors(b.source, setting) for setting in MAIN}
    chosen = {setting: choose_rates(surface) for setting, surface in surfaces.items()}
    rows = []
    for method in METHODS:
        row = [method]
        for setting in MAIN:
            s = paper[setting]
            published = f"{s.rates[method]:g}" if method in s.rates and method in methods_on(setting) else "-"
            if method not in chosen[setting]:
                row += [published, "-"]
                continue
            q, m = chosen[setting][method]
            row += [f"{published}, {s.rate_m:g}", f"{q:g}, {m:g}"] if method == OURS else [published, f"{q:g}"]
        rows.append(row)
    columns = ["method", *(f"{name}: {who}" for name in MAIN for who in ("paper", "ours"))]
    note = f"GVFExplorer: minimum rates of Q, M. Ours: lowest {AFTER_TUNING}, one protocol for every method."
    return [b.table("table2", b.item.title, columns, rows, note), *(surface_table(b, *pair) for pair in surfaces.items())]


def surface_lines(surface: dict[str, np.ndarray]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Name, method and errors [rate_q] of every line of a sweep: one per method, one per rate of M for GVFExplorer."""
    for method, errors in surface.items():
        if errors.ndim == 1:
            yield method, method, errors
        else:
            yield from ((f"{method}, M at {m:g}", method, errors[:, k]) for k, m in enumerate(RATES))


def surface_table(b: Build, setting: str, surface: dict[str, np.ndarray]) -> DataTable:
    """The errors of a whole sweep on one setting."""
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for name, method, line in surface_lines(surface):
        lowest = np.fmin.reduce(surface[method], axis=None)
        best += [(len(rows), 1 + k) for k, e in enumerate(line) if e == lowest]
        rows.append([name, *map(statistics.short, line)])
    title = f"{AFTER_TUNING} by minimum learning rate of Q: {setting}"
    lost = any(np.isnan(errors).any() for errors in surface.values())
    note = "Diverged: one or more of the runs with this rate did, so that it is not chosen." if lost else ""
    return b.table(f"surface-{setting}", title, ["method", *(f"{q:g}" for q in RATES)], rows, note, best)


# --- One protocol for every method's learning rate: which runs it takes, their errors, and the rates it chooses ------


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


def protocol(setting: str) -> Protocol:
    """The protocol of a tabular setting or of `continuous`."""
    if setting == "continuous":
        runs = grid.TUNING_CURVES, grid.TUNING_RATES, grid.TUNING_SEEDS, grid.TUNING_STEPS
        return Protocol(*runs, "learning rate", grid_errors, lambda method: f"{grid.RATES[method]:g}")
    s, axis = paper[setting], "minimum learning rate of Q (GVFExplorer: at its best rate of M)"

    def errors(source: Source) -> dict[str, np.ndarray]:
        return sweep_errors(source, setting)

    def published(method: str) -> str:
        return f"{s.rate(method):g}" + (f", {s.rate_m:g}" if method == OURS else "")

    return Protocol(curves.sweep_curves(setting), RATES, ABLATION_SEEDS, TUNING_STEPS, axis, errors, published)


def grid_errors(source: Source) -> dict[str, np.ndarray]:
    """The continuous grid: mean error after the tuning steps, [rate] by method."""

    def at(method: str, rate: float) -> float:
        return float(source.errors(grid.tuning_curve(method, rate)).error[:, -1].mean())

    return {m: np.array([at(m, rate) for rate in grid.TUNING_RATES]) for m in grid.METHODS}
