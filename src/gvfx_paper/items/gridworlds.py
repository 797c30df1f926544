"""The tabular settings: learning curves, maps, sensitivity to the learning rate, what changes if one thing is changed, and SR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np

from gvfx import rng as streams
from gvfx.questions.gvf import GVF, question_names
from gvfx.report.page import SPARE, DataTable, Series
from gvfx.running.result import Result
from gvfx.theory.exact import asked_of, existence, explorer_behaviour
from gvfx.worlds.mdp import MDP
from gvfx_paper.items.curves import ABLATION_SEEDS, Curve, Tuned, main_curves, sweep_curves, tuned_curves
from gvfx_paper.items.exhibits import ABLATIONS, CURVES, EACH, MAPS, TUNING, Build, Exhibit, Items, arrows, on_grid, visited
from gvfx_paper.items.measures import OURS, SHOWN, by_part, drifter_error, final_table, lowest, over_time
from gvfx_paper.items.tables import AFTER_TUNING, COLUMNS, finals_of, surface_lines, surface_table, sweep_errors
from gvfx_paper.report import statistics
from gvfx_paper.report.maps import Panel
from gvfx_paper.report.style import colour, shades
from gvfx_paper.settings.tabular import AVERAGE_EPISODES, DRIFTS, FORTY_GOALS, GROUPINGS, METHODS, RATES, paper

ITEMS = Items("tabular")

# --- curves ------------------------------------------------------------------------------------------------------


def _on(setting: str) -> Callable[[Tuned], list[Curve]]:
    """Every method on a setting, at the published and at the tuned rates."""
    return lambda tuned: main_curves(setting) + tuned_curves(setting, tuned)


def _average_mse(b: Build) -> list[Exhibit]:
    """The mean error of every method; if a sweep chose other rates and they have been run, a second figure with those."""
    setting = b.item.name
    results = {c.method: b.source.errors(c) for c in main_curves(setting)}
    steps = next(iter(results.values())).steps
    out: list[Exhibit] = [b.curves(setting, b.item.title, steps, b.lines(results))]
    if setting == "fourrooms":  # the MSE of the drifting GVF divided by the square of the present level
        drifting = {c.method: b.source.result(c) for c in main_curves(setting)}
        note = "After 4 M steps the level's standard deviation is 1,000, so raw means are dominated by seeds that drifted far."
        title, lines = "The drifter's MSE over its squared level", b.lines(drifting, drifter_error)
        out.append(b.curves("fourrooms-relative", title, steps, lines, "MSE / level²", note))
    tuned = tuned_curves(setting, b.source.tuned)
    if tuned and b.source.has(tuned):
        title = f"{b.item.title}, every method at the rate our sweep chose"
        lines = [b.series(_with_rate(c), b.source.errors(c).error, colour(c.method)) for c in tuned]
        out.append(b.curves(f"{setting}-tuned", title, steps, lines))
    if setting == "semi-greedy":
        out.append(_final_errors(b, setting))
    return out


def _with_rate(curve: Curve) -> str:
    rates = f"{curve.rate_q:g}" + (f", {curve.rate_m:g}" if curve.method == OURS else "")
    return f"{curve.method} ({rates})"


def _final_errors(b: Build, setting: str) -> DataTable:
    """What Table 1 would show of a setting that the paper has no numbers of."""
    found = finals_of(b, setting, ["paper"])
    rows = [finals.row(setting, name, METHODS) for name, finals in found.items()]
    best = [(k, 2 + METHODS.index(finals.lowest)) for k, finals in enumerate(found.values())]
    note = f"{statistics.MEANS}. 'tuned': every method at the rate our own sweep chose."
    return b.table(f"{setting}-errors", f"{b.item.title} at the end", COLUMNS, rows, note, best)


for _name, _label, _title, _rank in (
    ("same", "fig:grid_simple", "Two distinct policies, identical cumulant: average MSE", 0),
    ("fourrooms", "fig:fr_drifter", "Non-stationary cumulant in FourRooms: average MSE", 1),
    ("fourrooms-visit", "fig:fr_drifter", "Non-stationary cumulant in FourRooms, the drift advancing on visits: average MSE", 1),
    ("forty", "fig:scaled_gvf", "Forty GVFs: average MSE", 1),
    ("distinct", "fig:both_distinct_grid", "Two distinct policies, distinct cumulants: average MSE", 0),
    ("semi-greedy", "fig:semi_greedy_multi_goals", "Semi-greedy target policies: average MSE", 0),
):
    ITEMS.add(_name, _label, _title, CURVES, _on(_name), rank=_rank)(_average_mse)


def _individual(b: Build) -> list[Exhibit]:
    setting = b.item.name.removeprefix("individual-")
    results, out = {c.method: b.source.errors(c) for c in main_curves(setting)}, []
    for i, name in enumerate(question_names(main_curves(setting)[0].experiment.questions)):
        lines = b.lines(results, lambda r, i=i: r.mse[:, :, i])  # type: ignore[misc]
        key, title = f"{b.item.name}-{i + 1}", f"MSE of GVF {i + 1} ({name}), {setting}"
        out.append(b.curves(key, title, results[OURS].steps, lines, f"MSE of {name}"))
    return [*out]


for _name, _label, _title in (
    ("same", "fig:single_goal_grid_stochastic_ind_mse", "MSE of each GVF, identical cumulant"),
    ("distinct", "fig:multi_goal_grid_stochastic_app", "MSE of each GVF, distinct cumulants"),
    ("semi-greedy", "fig:semi_greedy_multi_goals", "MSE of each GVF, semi-greedy policies"),
):
    ITEMS.add(f"individual-{_name}", _label, _title, EACH, _on(_name))(_individual)


_SWEPT = "Learning-rate sensitivity of every method: same"


@ITEMS.add("sensitivity", "fig:lr_sens_mp_sg", _SWEPT, TUNING, sweep_curves("same"), ABLATION_SEEDS)
def _sensitivity(b: Build) -> list[Exhibit]:
    """The error by the minimum learning rate of Q: a line per baseline, and one per rate of M for GVFExplorer."""
    surface = sweep_errors(b.source, "same")
    looks = zip(shades(colour(OURS), len(RATES)), cycle((False, True)), strict=False)  # of GVFExplorer: colour, dashed
    styled = ((*line, next(looks) if line[1] == OURS else (colour(line[1]),)) for line in surface_lines(surface))
    lines = [Series(name, e, e, e, *look) for name, _, e, look in styled]
    note = "GVFExplorer has a line for each minimum learning rate of M, from light (low) to dark (high)."
    axis = {"x_label": "minimum learning rate of Q", "x_ticks": RATES}
    figure = b.curves("sensitivity", b.item.title, np.array(RATES), lines, AFTER_TUNING, note, **axis)
    return [figure, surface_table(b, "same", surface)]


# --- maps: value errors, visits, and the variance that GVFExplorer estimates -------------------------------------------

NEAR, FAR = 3, 10  # moves to the nearest goal, for parts of the map
_MAPPED = [Curve("distinct", m) for m in SHOWN]
_LIES = "fig:val_error_base, fig:val_error_ours", "Where the value error lies: RoundRobin and GVFExplorer"


@ITEMS.add("value-error", *_LIES, MAPS, _MAPPED)
def value_error(b: Build) -> list[Exhibit]:
    """Absolute value errors in `distinct`, where the behaviours went, and how the errors compare cell by cell."""
    world = paper["distinct"].world
    results = {c.method: b.source.finished(c) for c in _MAPPED}
    times = [s.step for s in results["RoundRobin"].details.snapshots]

    def absolute(r: Result, k: int) -> np.ndarray:
        return np.moveaxis(on_grid(world, np.moveaxis(np.abs(r.details.snapshots[k].values - r.details.truth), 2, 0)), 0, 2)

    frames = range(len(times))
    errors = {times[k]: {m: absolute(r, k) for m, r in results.items()} for k in frames}  # each [seed, gvf, cell]
    panels = [Panel(m, [errors[t][m].mean(axis=(0, 1)) for t in times]) for m in SHOWN]
    seen = []
    for m, r in results.items():
        shares = [visited(world, s.visits) for s in r.details.snapshots]
        seen.append(Panel(m, shares, [arrows(world, s.behaviour.mean(axis=0)) for s in r.details.snapshots]))
    title = "Value errors cell by cell: distinct"
    note = f"At step {times[-1]:,}. Where: moves to the nearest goal."
    return [
        b.maps("value-error", b.item.title, world, times, panels, "absolute value error, mean over GVFs"),
        b.maps("visits", "Where each behaviour went, and where it is heading", world, times, seen, "visits, % of steps"),
        by_part(b, "value-error-parts", title, errors[times[-1]], by_distance(world), note),
        over_time(b, "value-error-times", f"{title}, over time", errors),
    ]


def by_distance(world: MDP) -> dict[str, np.ndarray]:
    """Parts of a grid without walls by their distance to the nearest goal, bool [cell]."""
    layout = world.layout
    assert layout is not None
    row, column = np.divmod(np.arange(layout.height * layout.width), layout.width)
    moves = np.min([abs(row - r) + abs(column - c) for r, c in layout.goals.values()], axis=0)
    return {
        "everywhere": moves >= 0,
        f"up to {NEAR} moves": moves <= NEAR,
        f"{NEAR + 1} to {FAR} moves": (moves > NEAR) & (moves <= FAR),
        f"more than {FAR} moves": moves > FAR,
    }


def _variance(b: Build) -> list[Exhibit]:
    """GVFExplorer's estimated variance over time: a map of each GVF, or one of their mean with its first time beside it."""
    each, (curve,) = b.item.name == "variance", b.item.needs({})
    world, r = paper[curve.setting].world, b.source.finished(curve)
    kept = [s.variances.mean(axis=0) for s in r.details.snapshots if s.variances is not None]  # each [gvf, state]
    if each:
        panels = [Panel(f"GVF {i + 1} ({name})", [on_grid(world, m[i]) for m in kept]) for i, name in enumerate(r.names)]
    else:
        panels = [Panel("mean over GVFs", [on_grid(world, m.mean(axis=0)) for m in kept])]
    drawn = b.maps(b.item.name, b.item.title, world, [s.step for s in r.details.snapshots], panels, "estimated variance M")
    return [replace(drawn, early=not each)]


for _name, _setting, _label, _title in (
    ("variance", "distinct", "fig:multi_goal_grid_stochastic_app", "Variance estimated by GVFExplorer, per GVF"),
    ("fourrooms-variance", "fourrooms", "fig:early_m_fr, fig:later_m_fr", "Average variance in FourRooms, early and late"),
):
    ITEMS.add(_name, _label, _title, MAPS, [Curve(_setting, OURS)])(_variance)


@ITEMS.add("forty-goals", "fig:cum_value_scaled_Exp", "The ten cumulants of the forty GVFs", MAPS)
def _forty_goals(b: Build) -> list[Exhibit]:
    """The cumulant at each of the ten goals."""
    world = paper["forty"].world
    values = np.full(world.states - 1, np.nan)
    values[list(FORTY_GOALS)] = list(FORTY_GOALS.values())
    drawn = b.maps("forty-goals", b.item.title, world, [0], [Panel("cumulant", [values])], "cumulant", log=False)
    return [replace(drawn, numbers=True)]


# --- one thing changed ---------------------------------------------------------------------------------------------------

GROUPED = ("RoundRobin", "Mixture", "Uniform", OURS)  # the methods with grouped states
_GROUPINGS = {k: {m: Curve("distinct" if k == 1 else f"distinct-x{k}", m) for m in GROUPED} for k in GROUPINGS}
_GROUPING_CURVES = [c for curves in _GROUPINGS.values() for c in curves.values()]


@ITEMS.add(
    "grouping", "fig:crude_approx", "Poorer features: states grouped by 1, 2 and 4", ABLATIONS, _GROUPING_CURVES, ABLATION_SEEDS
)
def _grouping(b: Build) -> list[Exhibit]:
    figures: list[Exhibit] = []
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for k, curves in _GROUPINGS.items():
        results = {m: b.source.result(c) for m, c in curves.items()}
        figures.append(b.curves(f"grouping-{k}", f"States grouped by {k}", results[OURS].steps, b.lines(results)))
        finals = [r.error[:, -1] for r in results.values()]
        best += lowest([finals], (len(rows), 1))
        rows.append([f"{k}", *(str(statistics.mean(e)) for e in finals)])
    return [b.table("grouping", b.item.title, ["grouping factor", *GROUPED], rows, best=best), *figures]


def _one_changed(head: str, curves: dict[str, Curve]) -> Callable[[Build], list[Exhibit]]:
    """The errors of some curves over time and at the end."""

    def make(b: Build) -> list[Exhibit]:
        results = {name: b.source.result(c) for name, c in curves.items()}
        steps = next(iter(results.values())).steps
        figure = b.curves(b.item.name, b.item.title, steps, b.lines(results))
        return [figure, final_table(b, f"{b.item.name}-errors", head, results)]

    return make


for _rooms, _suffix, _when, _words in (
    ("fourrooms", "", "step", ""),
    ("fourrooms-visit", "-visit", "visit", ", the drift advancing on visits"),
):
    _drifts = {f"σ = {sd:g}": Curve(_rooms if sd == 0.5 else f"{_rooms}-{sd:g}", OURS) for sd in DRIFTS}
    _updates = {name: Curve(_rooms, OURS, learner=name) for name in ("ExpectedSarsa", "ImportanceSampling")}
    for _name, _label, _title, _head, _curves in (
        ("drift", "fig:drifter_sigma_graph", "How fast the cumulant drifts: GVFExplorer's MSE", f"drift per {_when}", _drifts),
        (
            "importance-sampling",
            "fig:FR_rho_exp_sarsa",
            "Importance sampling against Expected Sarsa in FourRooms",
            "update",
            _updates,
        ),
    ):
        ITEMS.add(_name + _suffix, _label, _title + _words, ABLATIONS, [*_curves.values()])(_one_changed(_head, _curves))


@ITEMS.add("cumulants", "fig:cumulants", "The three types of cumulants", ABLATIONS, rank=1)
def _cumulants(b: Build) -> list[Exhibit]:
    """Two hundred draws of a constant, a distractor and a drifter."""
    rng = streams.seed_streams(0)
    draws = np.array([[streams.normal(rng, k) for _ in range(200)] for k in (streams.CUMULANTS, streams.DRIFT)])
    lines = {"constant": np.full(200, 100.0), "distractor": 100 + 5 * draws[0], "drifter": 100 + np.cumsum(0.5 * draws[1])}
    series = [Series(name, v, v, v, SPARE[k]) for k, (name, v) in enumerate(lines.items())]
    return [b.curves("cumulants", b.item.title, np.arange(1, 201), series, "cumulant", x_label="draws")]


LEMMA = ("same", "distinct", "semi-greedy", "fourrooms", "forty")
SMALLEST = 0.001  # of GVFExplorer's probabilities, as in its settings


def _behaviours(world: MDP, questions: Sequence[GVF]) -> dict[str, np.ndarray]:
    """GVFExplorer's fixed point, uniform, and the target policies' mixture, each [1 or states, actions]."""
    above = np.maximum(explorer_behaviour(world, questions) - SMALLEST, 0)
    return {
        OURS: SMALLEST + (1 - SMALLEST * world.actions) * above / above.sum(axis=1, keepdims=True),
        "Uniform": np.full((1, world.actions), 1 / world.actions),
        "Mixture": asked_of(world, questions).pi.mean(axis=2),
    }


@ITEMS.add("lemma", "Lemma 5.1", "Where the variance of importance sampling exists", ABLATIONS)
def _lemma(b: Build) -> list[Exhibit]:
    """Lemma 5.1's condition and whether Eq. 4's M exists, on the paper's settings."""
    rows = []
    for setting in LEMMA:
        world, questions = paper[setting].world, paper[setting].questions
        for behaviour, mu in _behaviours(world, questions).items():
            found = existence(world, questions, mu)
            radii = [e.spectral_radius for e in found]
            counts = [len(found), sum(e.condition for e in found), sum(r < 1 for r in radii)]
            rows.append([setting, behaviour, *map(str, counts), f"{min(radii):.3g} to {max(radii):.3g}"])
    note = (
        "For how many GVFs the Lemma's condition holds, gamma² E[rho²] < 1 in every state, and for how many M of Eq. 4 exists: "
        "exactly where the spectral radius of gamma² sum_a (pi²/mu) P is below one.  GVFExplorer is its fixed point with no "
        f"probability below {SMALLEST:g}.  All of it is exact: there are no seeds."
    )
    columns = ["setting", "behaviour", "GVFs", "condition holds", "M exists", "spectral radius"]
    return [b.table("lemma", b.item.title, columns, rows, note)]


# --- SR: what it is depends on the choice of actions, which the text and the authors' launchers give differently --------

SETTINGS = ("same", "distinct", "semi-greedy")
TEMPERATURES = {"SR-1": 1, "SR-10": 10, "SR": 100, "SR-1000": 1000}
CHOICES = {"SR": "Boltzmann", "SR-greedy": "greedy"}
AUTHORS_SETTINGS = ("same", "distinct", "semi-greedy", "fourrooms-visit", "forty")
AUTHORS = {"SR": "SR, as launched", "SR-epsilon0": "SR, epsilon to 0", "SR-boltzmann": "SR, Boltzmann"}
_SR = "App. B.1 (3)"


@ITEMS.add("successor", _SR, "SR, Boltzmann against greedy", ABLATIONS, [Curve(s, m) for s in SETTINGS[:2] for m in CHOICES])
def _choices(b: Build) -> list[Exhibit]:
    """Boltzmann against greedy, by the text's algorithm: curves and errors at the end."""
    figures: list[Exhibit] = []
    rows = []
    for setting in SETTINGS[:2]:
        results = {name: b.source.result(Curve(setting, m)) for m, name in CHOICES.items()}
        steps = results["greedy"].steps
        figures.append(b.curves(f"successor-{setting}", f"{b.item.title}: {setting}", steps, b.lines(results)))
        finals = {name: r.error[:, -1] for name, r in results.items()}
        gain = statistics.improvement(finals["Boltzmann"], finals["greedy"])
        cells = [str(statistics.mean(e)) for e in finals.values()]
        printed = f"{paper[setting].published['SR']:g}"
        rows.append([setting, *cells, statistics.DIVERGED if gain.diverged else f"{gain} %", printed])
    columns = ["setting", *(f"SR, {name}" for name in CHOICES.values()), "Boltzmann below greedy", "paper, as printed"]
    note = (
        f"{statistics.MEANS} of the MSE at {int(steps[-1]):,} steps, at the published learning rates (preset paper); the "
        f"temperature is {TEMPERATURES['SR']}."
    )
    return [b.table("successor", b.item.title, columns, rows, note), *figures]


def _as_authors(setting: str, method: str) -> Curve:
    """A variant in the preset `authors`; where epsilon falls to 0 as launched, that variant is SR itself."""
    launched = method == "SR-epsilon0" and paper[setting].authors_sr.epsilon == 0
    return Curve(setting, "SR" if launched else method, "authors")


_LAUNCHED = [_as_authors(s, m) for s in AUTHORS_SETTINGS for m in AUTHORS]


@ITEMS.add("successor-authors", _SR, "SR as the authors' code runs it", ABLATIONS, _LAUNCHED)
def _authors(b: Build) -> list[Exhibit]:
    """The authors' SR as their launchers run it, with epsilon falling to 0, and by a Boltzmann policy as their text says."""
    rows = []
    for setting in AUTHORS_SETTINGS:
        printed = paper[setting].published.get("SR")
        cells = []
        for method in AUTHORS:
            final = statistics.mean(b.source.result(_as_authors(setting, method)).error[:, -1])
            cells += [str(final), "-" if printed is None or final.diverged else f"{final.value / printed:.2g}"]
        rows.append([setting, "-" if printed is None else f"{printed:g}", *cells])
    columns = ["setting", "paper, as printed", *(head for name in AUTHORS.values() for head in (name, f"{name}: times printed"))]
    note = (
        f"{statistics.MEANS} of the MSE at the end (averaged over {AVERAGE_EPISODES} episodes), and how many times the printed "
        "error it is; preset authors. As launched: the first of the best actions, no probability below "
        "0.001, epsilon falling to 0.1 (with forty GVFs to 0, so that the second column has the same runs there). "
        "Boltzmann: temperature 1."
    )
    return [b.table("successor-authors", b.item.title, columns, rows, note)]


_HEATED = [Curve(s, m) for s in SETTINGS for m in TEMPERATURES]


@ITEMS.add("successor-temperature", _SR, "SR: how much depends on the temperature", ABLATIONS, _HEATED, ABLATION_SEEDS)
def _temperature(b: Build) -> list[Exhibit]:
    finals = {c: str(statistics.mean(b.source.result(c).error[:, -1])) for c in _HEATED}
    columns = ["setting", *(f"temperature {t}" for t in TEMPERATURES.values())]
    rows = [[setting, *(final for c, final in finals.items() if c.setting == setting)] for setting in SETTINGS]
    return [b.table("successor-temperature", b.item.title, columns, rows, "MSE at the end, at the published learning rates.")]
