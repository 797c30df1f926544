"""Tables: Table 1 with verdicts, Table 2, and the sensitivity surfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from gvfx.experiments.settings.grid import DeepCurve
from gvfx.experiments.settings.tabular import MAIN, METHODS, RATES, paper
from gvfx.report import statistics
from gvfx.report.page import DataTable, Series
from gvfx.report.style import colour
from gvfx.reproduce.items import BASELINES, Curve, Item, main_curves, tuned_curves
from gvfx.reproduce.source import Build, Exhibit, Source


def verdict(published: float, ours: statistics.Estimate) -> str:
    """Our number beside the paper's: inside our interval, better or worse."""
    if ours.contains(published):
        return "inside CI"
    return "better" if ours.high < published else "worse"


def ranking(errors: dict[str, np.ndarray]) -> tuple[str, statistics.Estimate]:
    """Whether GVFExplorer beats the best baseline, and by how many percent."""
    best = min((m for m in errors if m != "GVFExplorer"), key=lambda m: errors[m].mean())
    gain = statistics.improvement(errors["GVFExplorer"], errors[best])
    if gain.low > 0:
        return f"holds: {gain.value:.0f} % below {best} [{gain.low:.0f}, {gain.high:.0f}]", gain
    if gain.high < 0:
        return f"differs: {best} is lower, by {-gain.value / (100 - gain.value) * 100:.0f} %", gain
    return f"undecided: {gain.value:.0f} % against {best} [{gain.low:.0f}, {gain.high:.0f}]", gain


def final_errors(source: Source, curves: Iterable[Curve | DeepCurve], item: Item) -> dict[str, np.ndarray]:
    """Error at the end of every method, [seed]."""
    return {c.method: source.result(c, item).error[:, -1] for c in curves}


def table1(b: Build) -> list[Exhibit]:
    columns = ["setting", "", *METHODS, "GVFExplorer against the best baseline"]
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    detail: list[list[str]] = []
    for setting in [name for name in MAIN if paper[name].published]:
        published = paper[setting].published
        claim = 100 * (1 - published["GVFExplorer"] / min(published[m] for m in BASELINES if m in published))
        rows.append(
            [
                setting,
                "paper, as printed",
                *(f"{published[m]:g}" if m in published else "-" for m in METHODS),
                f"{claim:.0f} % below",
            ]
        )
        variants = [("ours (paper)", main_curves(setting)), ("ours (authors)", main_curves(setting, "authors"))]
        if tuned_curves(setting, b.source.tuned):
            variants.append(("ours (paper, tuned)", tuned_curves(setting, b.source.tuned)))
        for name, curves in variants:
            errors = final_errors(b.source, curves, b.item)
            estimates = {m: statistics.mean(e) for m, e in errors.items()}
            best.append((len(rows), 2 + METHODS.index(min(estimates, key=_value_of(estimates)))))
            rows.append([setting, name, *(str(estimates[m]) if m in errors else "-" for m in METHODS), ranking(errors)[0]])
            if not name.endswith("tuned)"):
                marks = [verdict(published[m], estimates[m]) if m in published and m in errors else "-" for m in METHODS]
                detail.append([setting, name, *marks, _ranking_verdict(errors)])
    note = (
        "Mean over seeds with a bootstrap 95 % interval. 'paper': the text's algorithm, the present error; 'authors': what the "
        "authors' code does, its error averaged over 500 episodes; 'tuned': every method at the rate our own sweep chose."
    )
    return [
        b.table("table1", b.item.title, columns, rows, note, best),
        b.table(
            "table1-verdicts",
            "Does the printed number reproduce?",
            ["setting", "preset", *METHODS, "ranking"],
            detail,
            "inside CI: the printed number lies in our 95 % interval; better or worse: ours is lower or higher.",
        ),
        _statistics_table(b),
    ]


def _value_of(estimates: dict[str, statistics.Estimate]) -> Callable[[str], float]:
    return lambda method: estimates[method].value


def _ranking_verdict(errors: dict[str, np.ndarray]) -> str:
    word = ranking(errors)[0].split(":")[0]
    return {"holds": "as claimed", "differs": "ranking differs", "undecided": "undecided"}[word]


def _statistics_table(b: Build) -> DataTable:
    """Standard errors, interquartile means, paired differences and steps to a common error."""
    rows = []
    for setting in [name for name in MAIN if paper[name].published]:
        results = {c.method: b.result(c) for c in main_curves(setting)}
        explorer = results["GVFExplorer"].error
        target = 2 * min(r.error[:, -1].mean() for r in results.values())
        for m, r in results.items():
            final = r.error[:, -1]
            reached = statistics.steps_to_reach(r.steps, r.error, target)
            rows.append(
                [
                    setting,
                    m,
                    f"{statistics.short(final.mean())} ± {statistics.short(statistics.standard_error(final))}",
                    str(statistics.interquartile_mean(final)),
                    "-" if m == "GVFExplorer" else str(statistics.paired_difference(final, explorer[:, -1])),
                    f"{reached:,.0f}" if reached else "not reached",
                ]
            )
    columns = [
        "setting",
        "method",
        "mean ± standard error",
        "interquartile mean",
        "minus GVFExplorer, paired",
        "steps to twice the best",
    ]
    return b.table("table1-statistics", "More statistics of ours (paper)", columns, rows)


def sweep_errors(source: Source, setting: str, item: Item) -> dict[str, np.ndarray]:
    """Error after the tuning steps, averaged over seeds: [rate_q], for GVFExplorer [rate_q, rate_m]."""

    def at(method: str, q: float, m: float | None = None) -> float:
        curve = Curve(setting, method, rate_q=q, rate_m=m, steps=800_000)
        return float(source.result(curve, item).error[:, -1].mean())

    baselines = [m for m in BASELINES if not (setting == "forty" and m == "BPS")]
    surface = {m: np.array([at(m, q) for q in RATES]) for m in baselines}
    surface["GVFExplorer"] = np.array([[at("GVFExplorer", q, m) for m in RATES] for q in RATES])
    return surface


def choose_rates(surface: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The rates with the lowest error, per method, as (rate_q, rate_m)."""
    chosen = {}
    for method, errors in surface.items():
        index = np.unravel_index(int(np.nanargmin(errors)), errors.shape)
        chosen[method] = (RATES[index[0]], RATES[index[1]] if len(index) > 1 else 0.8)
    return chosen


def table2(b: Build) -> list[Exhibit]:
    surfaces = {setting: sweep_errors(b.source, setting, b.item) for setting in MAIN}
    rows = []
    for method in METHODS:
        row = [method]
        for setting, surface in surfaces.items():
            s = paper[setting]
            published = f"{s.rates[method]:g}" if method in s.rates and not (setting == "forty" and method == "BPS") else "-"
            if method not in surface:
                row += [published, "-"]
                continue
            q, m = choose_rates(surface)[method]
            both = method == "GVFExplorer"
            row += [f"{published}, {s.rate_m:g}" if both else published, f"{q:g}, {m:g}" if both else f"{q:g}"]
        rows.append(row)
    columns = ["method", *(f"{name}: {who}" for name in MAIN for who in ("paper", "ours"))]
    note = "GVFExplorer: minimum rates of Q, M. Ours: lowest MSE after 800,000 steps, one protocol for every method."
    return [b.table("table2", b.item.title, columns, rows, note), *(_surface_table(b, *pair) for pair in surfaces.items())]


def _surface_table(b: Build, setting: str, surface: dict[str, np.ndarray]) -> DataTable:
    """The whole sensitivity surface of a setting."""
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for method, errors in surface.items():
        lines = [(method, errors)] if errors.ndim == 1 else [(f"{method}, M at {m:g}", errors[:, k]) for k, m in enumerate(RATES)]
        lowest = errors.min()
        for name, line in lines:
            best += [(len(rows), 1 + k) for k, e in enumerate(line) if e == lowest]
            rows.append([name, *map(statistics.short, line)])
    title = f"MSE after 800,000 steps by minimum learning rate of Q: {setting}"
    return b.table(f"surface-{setting}", title, ["method", *(f"{q:g}" for q in RATES)], rows, best=best)


def sensitivity(b: Build) -> list[Exhibit]:
    surface = sweep_errors(b.source, "same", b.item)
    series = [Series(m, e, e, e, colour(m)) for m, e in surface.items() if e.ndim == 1]
    explorer = surface["GVFExplorer"]
    low, high = explorer.min(axis=1), explorer.max(axis=1)
    series.append(Series("GVFExplorer (best M rate; band: all M rates)", low, low, high, colour("GVFExplorer")))
    note = "Horizontal axis: the minimum learning rate of Q, in thousandths."
    steps = np.array(RATES) * 1000
    return [
        b.curves("sensitivity", b.item.title, steps, series, "MSE after 800,000 steps", note),
        _surface_table(b, "same", surface),
    ]
