"""The tabular settings: learning curves, the MSE of each GVF, sensitivity to the learning rate, and the items of the maps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import numpy as np

from gvfx.experiments.settings.tabular import METHODS, RATES
from gvfx.questions.gvf import question_names
from gvfx.report.colours import colour, shades
from gvfx.report.page import Curves, DataTable, Series
from gvfx.reproduce import tabular_maps
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.base import build as build  # the command line imports it from here
from gvfx.reproduce.cells import SHOWN
from gvfx.reproduce.curves import ABLATION_SEEDS, Curve, Tuned, main_curves, sweep_curves, tuned_curves
from gvfx.reproduce.measures import OURS, drifter_error
from gvfx.reproduce.sections import CURVES, EACH, MAPS, TUNING
from gvfx.reproduce.tables import AFTER_TUNING, COLUMNS, finals_of, surface_lines, surface_table, sweep_errors
from gvfx.running.result import Result


def _on(setting: str) -> Callable[[Tuned], list[Curve]]:
    """Every method on a setting, at the published and at the tuned rates."""
    return lambda tuned: main_curves(setting) + tuned_curves(setting, tuned)


# --- curves ------------------------------------------------------------------------------------------------------


def _average_mse(setting: str) -> Callable[[Build], list[Exhibit]]:
    """The mean error of every method; if a sweep chose other rates and they have been run, a second figure with those."""

    def make(b: Build) -> list[Exhibit]:
        results = {c.method: b.errors(c) for c in main_curves(setting)}
        steps = next(iter(results.values())).steps
        series = [b.series(name, r.error, colour(name)) for name, r in results.items()]
        out: list[Exhibit] = [b.curves(setting, b.item.title, steps, series)]
        if setting == "fourrooms":
            out.append(_relative(b, {c.method: b.result(c) for c in main_curves(setting)}, steps))
        tuned = tuned_curves(setting, b.source.tuned)
        if tuned and b.has(tuned):
            title = f"{b.item.title}, every method at the rate our sweep chose"
            series = [b.series(_with_rate(c), b.errors(c).error, colour(c.method)) for c in tuned]
            out.append(b.curves(f"{setting}-tuned", title, steps, series))
        if setting == "semi-greedy":
            out.append(_final_errors(b, setting))
        return out

    return make


def _final_errors(b: Build, setting: str) -> DataTable:
    """What Table 1 would show of a setting that the paper has no numbers of."""
    found = finals_of(b, setting, ["paper"])
    rows = [finals.row(setting, name, METHODS) for name, finals in found.items()]
    best = [(k, 2 + METHODS.index(finals.lowest)) for k, finals in enumerate(found.values())]
    note = "Mean over seeds with a bootstrap 95 % interval. 'tuned': every method at the rate our own sweep chose."
    return b.table(f"{setting}-errors", f"{b.item.title} at the end", COLUMNS, rows, note, best)


def _relative(b: Build, results: dict[str, Result], steps: np.ndarray) -> Curves:
    """MSE of the drifting GVF divided by the square of the present level."""
    series = [b.series(name, drifter_error(r), colour(name)) for name, r in results.items()]
    note = "After 4 M steps the level's standard deviation is 1,000, so raw means are dominated by seeds that drifted far."
    return b.curves("fourrooms-relative", "The drifter's MSE over its squared level", steps, series, "MSE / level²", note)


def _with_rate(curve: Curve) -> str:
    rates = f"{curve.rate_q:g}" + (f", {curve.rate_m:g}" if curve.method == OURS else "")
    return f"{curve.method} ({rates})"


def _individual(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        results = {c.method: b.errors(c) for c in main_curves(setting)}
        names = question_names(main_curves(setting)[0].experiment.questions)
        return [
            b.curves(
                f"individual-{setting}-{i + 1}",
                f"MSE of GVF {i + 1} ({name}), {setting}",
                next(iter(results.values())).steps,
                [b.series(method, r.mse[:, :, i], colour(method)) for method, r in results.items()],
                f"MSE of {name}",
            )
            for i, name in enumerate(names)
        ]

    return make


def _sensitivity(b: Build) -> list[Exhibit]:
    """The error by the minimum learning rate of Q: a line per baseline, and one per rate of M for GVFExplorer."""
    surface = sweep_errors(b.source, "same", b.item.seeds)
    looks = zip(shades(colour(OURS), len(RATES)), cycle((False, True)), strict=False)  # of GVFExplorer: colour, dashed
    series = [
        Series(name, e, e, e, *(next(looks) if method == OURS else (colour(method),)))
        for name, method, e in surface_lines(surface)
    ]
    note = "GVFExplorer has a line for each minimum learning rate of M, from light (low) to dark (high)."
    rates = np.array(RATES)
    return [
        b.curves(
            "sensitivity", b.item.title, rates, series, AFTER_TUNING, note, x_label="minimum learning rate of Q", x_ticks=RATES
        ),
        surface_table(b, "same", surface),
    ]


GROUP = "tabular"
ITEMS = (
    Item(
        "same",
        "fig:grid_simple",
        "Two distinct policies, identical cumulant: average MSE",
        _on("same"),
        _average_mse("same"),
        CURVES,
    ),
    Item(
        "fourrooms",
        "fig:fr_drifter",
        "Non-stationary cumulant in FourRooms: average MSE",
        _on("fourrooms"),
        _average_mse("fourrooms"),
        CURVES,
        rank=1,
    ),
    Item(
        "fourrooms-visit",
        "fig:fr_drifter",
        "The same, the drift advancing on visits: average MSE",
        _on("fourrooms-visit"),
        _average_mse("fourrooms-visit"),
        CURVES,
        rank=1,
    ),
    Item("forty", "fig:scaled_gvf", "Forty GVFs: average MSE", _on("forty"), _average_mse("forty"), CURVES, rank=1),
    Item(
        "distinct",
        "fig:both_distinct_grid",
        "Two distinct policies, distinct cumulants: average MSE",
        _on("distinct"),
        _average_mse("distinct"),
        CURVES,
    ),
    Item(
        "value-error",
        "fig:val_error_base, fig:val_error_ours",
        "Where the value error lies: RoundRobin and GVFExplorer",
        lambda tuned: [Curve("distinct", m) for m in SHOWN],
        tabular_maps.value_error,
        MAPS,
    ),
    Item(
        "sensitivity",
        "fig:lr_sens_mp_sg",
        "Learning-rate sensitivity of every method: same",
        lambda tuned: sweep_curves("same"),
        _sensitivity,
        TUNING,
        ABLATION_SEEDS,
    ),
    Item(
        "individual-same",
        "fig:single_goal_grid_stochastic_ind_mse",
        "MSE of each GVF, identical cumulant",
        _on("same"),
        _individual("same"),
        EACH,
    ),
    Item(
        "individual-distinct",
        "fig:multi_goal_grid_stochastic_app",
        "MSE of each GVF, distinct cumulants",
        _on("distinct"),
        _individual("distinct"),
        EACH,
    ),
    Item(
        "variance",
        "fig:multi_goal_grid_stochastic_app",
        "Variance estimated by GVFExplorer, per GVF",
        lambda tuned: [Curve("distinct", OURS)],
        tabular_maps.variance("distinct", each=True),
        MAPS,
    ),
    Item(
        "semi-greedy",
        "fig:semi_greedy_multi_goals",
        "Semi-greedy target policies: average MSE",
        _on("semi-greedy"),
        _average_mse("semi-greedy"),
        CURVES,
    ),
    Item(
        "individual-semi-greedy",
        "fig:semi_greedy_multi_goals",
        "MSE of each GVF, semi-greedy policies",
        _on("semi-greedy"),
        _individual("semi-greedy"),
        EACH,
    ),
)
