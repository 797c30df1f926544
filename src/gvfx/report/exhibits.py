"""Tables and figures as data, built from stored results alone: one builder serves the PNG files and the HTML page."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import numpy as np

from gvfx import streams
from gvfx.experiments.continuous import DeepCurve
from gvfx.experiments.items import BASELINES, SR_SETTINGS, SR_TEMPERATURES, Curve, Item, Tuned, main_curves, tuned_curves
from gvfx.experiments.paper import DRIFTS, FORTY_GOALS, GROUPINGS, MAIN, METHODS, RATES, paper
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import stored_result
from gvfx.report import statistics
from gvfx.report.page import Curves, DataTable, Maps, Panel, Provenance, Series
from gvfx.report.style import SPARE, colour
from gvfx.running.result import Result
from gvfx.worlds.mdp import MDP

Exhibit = Curves | Maps | DataTable


@dataclass(frozen=True)
class Source:
    """Where exhibits take their results from: a store, a number of seeds (None: each item's own), tuned rates."""

    store: Store
    seeds: int | None
    tuned: Tuned

    def result(self, curve: Curve | DeepCurve, item: Item) -> Result:
        return stored_result(self.store, curve.experiment, self.seeds or item.seeds)

    def provenance(self, item: Item, curves: Iterable[Curve | DeepCurve]) -> Provenance:
        asked = f" --seeds {self.seeds}" if self.seeds else ""
        return Provenance(
            command=f"gvfx reproduce {item.name}{asked}",
            seeds=f"{self.seeds or item.seeds} (0 to {(self.seeds or item.seeds) - 1})",
            versions=VERSIONS,
            hash=" ".join(dict.fromkeys(c.experiment.hash for c in curves)) or "none",
        )


VERSIONS = f"gvfx {version('gvfx')}, numba {version('numba')}, numpy {version('numpy')}, Python {platform.python_version()}"


@dataclass(frozen=True)
class Build:
    """One item in the making."""

    source: Source
    item: Item

    @cached_property
    def provenance(self) -> Provenance:
        return self.source.provenance(self.item, self.item.needs(self.source.tuned))

    def result(self, curve: Curve | DeepCurve) -> Result:
        return self.source.result(curve, self.item)

    def series(self, name: str, samples: np.ndarray, hue: str, dashed: bool = False) -> Series:
        middle, low, high = statistics.mean_curve(samples)
        return Series(name, middle, low, high, hue, dashed)

    def curves(self, key: str, title: str, steps: np.ndarray, series: Sequence[Series], y_label: str, note: str = "") -> Curves:
        return Curves(key, title, self.item.label, steps, series, y_label, self.provenance, note)

    def table(
        self, key: str, title: str, columns: list[str], rows: list[list[str]], note: str = "", best: list | None = None
    ) -> DataTable:
        return DataTable(key, title, self.item.label, columns, rows, best=best, provenance=self.provenance, note=note)

    def maps(
        self, key: str, title: str, world: MDP, times: Sequence[int], panels: list[Panel], unit: str, log: bool = True
    ) -> Maps:
        layout = world.layout
        assert layout is not None
        walls = np.flatnonzero(layout.walls.ravel()).tolist()
        goals = list(layout.goals.values())
        return Maps(
            key, title, self.item.label, layout.height, layout.width, walls, goals, times, panels, log, unit, self.provenance
        )


def build(item: Item, source: Source) -> list[Exhibit]:
    """The exhibits of an item; FileNotFoundError if a run is missing."""
    from gvfx.report import continuous

    return (_BUILDERS | continuous.BUILDERS)[item.name](Build(source, item))


# --- curves ------------------------------------------------------------------------------------------------------


def _average_mse(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        curves = main_curves(setting)
        results = {c.method: b.result(c) for c in curves}
        steps = next(iter(results.values())).steps
        series = [b.series(name, r.error, colour(name)) for name, r in results.items()]
        out: list[Exhibit] = [b.curves(setting, b.item.title, steps, series, "MSE, averaged over GVFs")]
        if setting == "fourrooms":
            out.append(_relative(b, results, steps))
        extra = tuned_curves(setting, b.source.tuned)
        if extra:
            try:
                tuned = {c.method: b.result(c) for c in extra}
            except FileNotFoundError:
                return out
            title = f"{b.item.title}, every method at the rate our sweep chose"
            series = [b.series(_with_rate(c), tuned[c.method].error, colour(c.method)) for c in extra]
            out.append(b.curves(f"{setting}-tuned", title, steps, series, "MSE, averaged over GVFs"))
        return out

    return make


def _relative(b: Build, results: dict[str, Result], steps: np.ndarray) -> Curves:
    """MSE of the drifting GVF divided by the square of the present level."""
    series = [b.series(name, r.mse[:, :, 1] / r.levels[:, :, 1] ** 2, colour(name)) for name, r in results.items()]
    note = "After 4 M steps the level's standard deviation is 1,000, so raw means are dominated by seeds that drifted far."
    return b.curves("fourrooms-relative", "The drifter's MSE over its squared level", steps, series, "MSE / level²", note)


def _with_rate(curve: Curve) -> str:
    rates = f"{curve.rate_q:g}" + (f", {curve.rate_m:g}" if curve.method == "GVFExplorer" else "")
    return f"{curve.method} ({rates})"


def _individual(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        results = {c.method: b.result(c) for c in main_curves(setting)}
        first = next(iter(results.values()))
        return [
            b.curves(
                f"individual-{setting}-{i + 1}",
                f"MSE of GVF {i + 1} ({name}), {setting}",
                first.steps,
                [b.series(method, r.mse[:, :, i], colour(method)) for method, r in results.items()],
                f"MSE of {name}",
            )
            for i, name in enumerate(first.names)
        ]

    return make


def _grouping(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    rows, finals = [], {}
    methods = ("RoundRobin", "Mixture", "Uniform", "GVFExplorer")
    for k in GROUPINGS:
        setting = "distinct" if k == 1 else f"distinct-x{k}"
        results = {m: b.result(Curve(setting, m)) for m in methods}
        series = [b.series(m, r.error, colour(m)) for m, r in results.items()]
        first = next(iter(results.values()))
        out.append(b.curves(f"grouping-{k}", f"States grouped by {k}", first.steps, series, "MSE, averaged over GVFs"))
        finals[k] = {m: statistics.mean(r.error[:, -1]) for m, r in results.items()}
    rows = [[f"{k}", *(str(finals[k][m]) for m in methods)] for k in GROUPINGS]
    best = [(r, 1 + int(np.argmin([finals[k][m].value for m in methods]))) for r, k in enumerate(GROUPINGS)]
    out.insert(0, b.table("grouping", b.item.title, ["grouping factor", *methods], rows, best=best))
    return out


def _drift(b: Build) -> list[Exhibit]:
    curves = {sd: Curve("fourrooms" if sd == 0.5 else f"fourrooms-{sd:g}", "GVFExplorer") for sd in DRIFTS}
    results = {sd: b.result(c) for sd, c in curves.items()}
    series = [b.series(f"σ = {sd:g}", r.error, SPARE[k]) for k, (sd, r) in enumerate(results.items())]
    return [b.curves("drift", b.item.title, next(iter(results.values())).steps, series, "MSE, averaged over GVFs")]


def _importance_sampling(b: Build) -> list[Exhibit]:
    results = {
        name: b.result(Curve("fourrooms", "GVFExplorer", learner=name)) for name in ("ExpectedSarsa", "ImportanceSampling")
    }
    series = [b.series(name, r.error, SPARE[k]) for k, (name, r) in enumerate(results.items())]
    return [b.curves("importance-sampling", b.item.title, results["ExpectedSarsa"].steps, series, "MSE, averaged over GVFs")]


def _successor(b: Build) -> list[Exhibit]:
    out: list[Exhibit] = []
    for setting in ("same", "distinct"):
        results = {m: b.result(Curve(setting, m)) for m in ("SR", "SR-greedy")}
        series = [b.series(m, r.error, SPARE[k]) for k, (m, r) in enumerate(results.items())]
        out.append(b.curves(f"successor-{setting}", f"SR, Boltzmann and greedy: {setting}", results["SR"].steps, series, "MSE"))
    return out


def _temperature(b: Build) -> list[Exhibit]:
    rows = [
        [setting, *(str(statistics.mean(b.result(Curve(setting, m)).error[:, -1])) for m in SR_TEMPERATURES)]
        for setting in SR_SETTINGS
    ]
    columns = ["setting", *(f"temperature {t}" for t in SR_TEMPERATURES.values())]
    return [b.table("successor-temperature", b.item.title, columns, rows, "MSE at the end, at the published learning rates.")]


def _cumulants(b: Build) -> list[Exhibit]:
    """Two hundred draws of a constant, a distractor and a drifter."""
    rng = streams.seed_streams(0)
    draws = np.array([[streams.normal(rng, k) for _ in range(200)] for k in (streams.CUMULANTS, streams.DRIFT)])
    lines = {"constant": np.full(200, 100.0), "distractor": 100 + 5 * draws[0], "drifter": 100 + np.cumsum(0.5 * draws[1])}
    series = [Series(name, v, v, v, SPARE[k]) for k, (name, v) in enumerate(lines.items())]
    return [b.curves("cumulants", b.item.title, np.arange(1, 201), series, "cumulant")]


# --- maps --------------------------------------------------------------------------------------------------------


def _cells(world: MDP, per_state: np.ndarray) -> np.ndarray:
    assert world.layout is not None
    return per_state[: world.layout.height * world.layout.width]


def _value_error(b: Build) -> list[Exhibit]:
    world = paper["distinct"].world
    results = {m: b.result(Curve("distinct", m)) for m in ("RoundRobin", "GVFExplorer")}
    times = [s.step for s in results["RoundRobin"].snapshots]

    def error(r: Result, k: int) -> np.ndarray:
        return _cells(world, np.abs(r.snapshots[k].values - r.truth).mean(axis=(0, 1)))

    def visits(r: Result, k: int) -> np.ndarray:
        counts = r.snapshots[k].visits.sum(axis=2).mean(axis=0)
        return _cells(world, 100 * counts / counts.sum())

    def arrows(r: Result, k: int) -> np.ndarray:
        assert world.layout is not None
        moves = _cells(world, r.snapshots[k].behaviour.mean(axis=0)) @ np.array(world.layout.arrows, dtype=float)
        return moves[:, ::-1]

    frames = range(len(times))
    errors = [Panel(m, [error(r, k) for k in frames]) for m, r in results.items()]
    seen = [Panel(m, [visits(r, k) for k in frames], [arrows(r, k) for k in frames]) for m, r in results.items()]
    return [
        b.maps("value-error", b.item.title, world, times, errors, "absolute value error, mean over GVFs"),
        b.maps("visits", "Where each behaviour went, and where it is heading", world, times, seen, "visits, % of steps"),
    ]


def _variance(setting: str) -> Callable[[Build], list[Exhibit]]:
    def make(b: Build) -> list[Exhibit]:
        world = paper[setting].world
        r = b.result(Curve(setting, "GVFExplorer"))
        times = [s.step for s in r.snapshots]

        def kept(k: int) -> np.ndarray:
            m = r.snapshots[k].variances
            assert m is not None
            return m.mean(axis=0)

        if setting == "fourrooms":
            panels = [Panel("mean over GVFs", [_cells(world, kept(k).mean(axis=0)) for k in range(len(times))])]
        else:
            panels = [
                Panel(f"GVF {i + 1} ({name})", [_cells(world, kept(k)[i]) for k in range(len(times))])
                for i, name in enumerate(r.names)
            ]
        return [b.maps(b.item.name, b.item.title, world, times, panels, "estimated variance M")]

    return make


def _forty_goals(b: Build) -> list[Exhibit]:
    world = paper["forty"].world
    values = np.full(world.states - 1, np.nan)
    values[list(FORTY_GOALS)] = list(FORTY_GOALS.values())
    return [b.maps("forty-goals", b.item.title, world, [0], [Panel("cumulant", [values])], "cumulant", log=False)]


# --- tables ------------------------------------------------------------------------------------------------------


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


def final_errors(source: Source, curves: Iterable[Curve], item: Item) -> dict[str, np.ndarray]:
    """Error at the end of every method, [seed]."""
    return {c.method: source.result(c, item).error[:, -1] for c in curves}


def _table1(b: Build) -> list[Exhibit]:
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


def _table2(b: Build) -> list[Exhibit]:
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


def _sensitivity(b: Build) -> list[Exhibit]:
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


_BUILDERS: dict[str, Callable[[Build], list[Exhibit]]] = {
    "table1": _table1,
    "table2": _table2,
    "same": _average_mse("same"),
    "fourrooms": _average_mse("fourrooms"),
    "fourrooms-visit": _average_mse("fourrooms-visit"),
    "forty": _average_mse("forty"),
    "distinct": _average_mse("distinct"),
    "value-error": _value_error,
    "sensitivity": _sensitivity,
    "individual-same": _individual("same"),
    "individual-distinct": _individual("distinct"),
    "variance": _variance("distinct"),
    "semi-greedy": _average_mse("semi-greedy"),
    "individual-semi-greedy": _individual("semi-greedy"),
    "grouping": _grouping,
    "fourrooms-variance": _variance("fourrooms"),
    "drift": _drift,
    "forty-goals": _forty_goals,
    "importance-sampling": _importance_sampling,
    "cumulants": _cumulants,
    "successor": _successor,
    "successor-temperature": _temperature,
}
