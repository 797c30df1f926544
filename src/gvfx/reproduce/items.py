"""What `gvfx reproduce` can make: the tables and figures of the paper and our own, and the runs each one needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gvfx.errors import UnknownName
from gvfx.experiments.settings import grid as continuous
from gvfx.experiments.settings import limit
from gvfx.experiments.settings import mujoco as control
from gvfx.experiments.settings.grid import DeepCurve
from gvfx.experiments.settings.limit import LimitCurve
from gvfx.experiments.settings.mujoco import ControlCurve
from gvfx.experiments.settings.tabular import DRIFTS, GROUPINGS, MAIN, METHODS, PRESETS, RATES, paper
from gvfx.experiments.specification import Experiment

SEEDS = 25  # the paper's curves
ABLATION_SEEDS = 10  # the paper's sensitivity and grouping studies
TUNING_STEPS = 800_000  # App. B.3: rates are chosen by the error after so many steps
BASELINES = tuple(m for m in METHODS if m != "GVFExplorer")
SR_SETTINGS = ("same", "distinct", "semi-greedy")
SR_TEMPERATURES = {"SR-1": 1, "SR-10": 10, "SR": 100, "SR-1000": 1000}
Tuned = Mapping[str, Mapping[str, tuple[float, float]]]  # setting -> method -> (rate_q, rate_m) that a sweep chose


@dataclass(frozen=True)
class Curve:
    """One line in one figure: a method on a setting, at published rates unless others are given."""

    setting: str
    method: str
    preset: str = "paper"
    learner: str = "ExpectedSarsa"
    rate_q: float | None = None
    rate_m: float | None = None
    steps: int | None = None

    @property
    def experiment(self) -> Experiment:
        return _experiment(self)


@cache
def _experiment(curve: Curve) -> Experiment:
    tuning = curve.steps == TUNING_STEPS
    pictures = 0 if tuning or curve.setting not in MAIN else 2 if curve.setting == "forty" else 8
    return paper[curve.setting].experiment(
        curve.method,
        curve.preset,
        curve.learner,
        curve.rate_q,
        curve.rate_m,
        curve.steps,
        measurements=8 if tuning else 100,
        snapshots=pictures,
    )


AnyCurve = Curve | DeepCurve | LimitCurve | ControlCurve


@dataclass(frozen=True)
class Item:
    """A table or figure: the paper's label, what it shows, and the curves it is made of."""

    name: str
    label: str
    title: str
    needs: Callable[[Tuned], Sequence[AnyCurve]]
    seeds: int = SEEDS


def main_curves(setting: str, preset: str = "paper") -> list[Curve]:
    """Every method of Table 1 on one setting (the paper has no BPS on forty GVFs)."""
    return [Curve(setting, m, preset) for m in METHODS if not (setting == "forty" and m == "BPS")]


def tuned_curves(setting: str, tuned: Tuned) -> list[Curve]:
    """Every method at the rates that a sweep of ours chose for it."""
    return [Curve(setting, m, "paper", "ExpectedSarsa", *rates) for m, rates in tuned.get(setting, {}).items()]


def sweep_curves(setting: str) -> list[Curve]:
    """The tuning protocol: six minimum rates for every method, six times six for GVFExplorer."""
    skipped = {"BPS"} if setting == "forty" else set()
    single = [Curve(setting, m, rate_q=q, steps=TUNING_STEPS) for m in BASELINES if m not in skipped for q in RATES]
    pairs = [Curve(setting, "GVFExplorer", rate_q=q, rate_m=m, steps=TUNING_STEPS) for q in RATES for m in RATES]
    return single + pairs


def _table1(tuned: Tuned) -> list[Curve]:
    settings = [name for name in MAIN if paper[name].published]
    published = [c for name in settings for preset in PRESETS for c in main_curves(name, preset)]
    return published + [c for name in settings for c in tuned_curves(name, tuned)]


def _all_sweeps(tuned: Tuned) -> list[Curve]:
    return [c for name in MAIN for c in sweep_curves(name)]


def _of(setting: str) -> Callable[[Tuned], list[Curve]]:
    return lambda tuned: main_curves(setting) + tuned_curves(setting, tuned)


def _grouping(tuned: Tuned) -> list[Curve]:
    names = ["distinct", *(f"distinct-x{k}" for k in GROUPINGS[1:])]
    return [Curve(name, m) for name in names for m in ("RoundRobin", "Mixture", "Uniform", "GVFExplorer")]


def _drifts(tuned: Tuned) -> list[Curve]:
    return [Curve("fourrooms" if sd == 0.5 else f"fourrooms-{sd:g}", "GVFExplorer") for sd in DRIFTS]


def _nothing(tuned: Tuned) -> list[Curve]:
    return []


ITEMS = {
    item.name: item
    for item in [
        Item("table1", "tab:summary_tabular_perf", "Average MSE in the tabular settings", _table1),
        Item("table2", "tab:hyperparameters", "Learning rates, published and ours", _all_sweeps, ABLATION_SEEDS),
        Item("same", "fig:grid_simple", "Two distinct policies, identical cumulant: average MSE", _of("same")),
        Item("fourrooms", "fig:fr_drifter", "Non-stationary cumulant in FourRooms: average MSE", _of("fourrooms")),
        Item("fourrooms-visit", "fig:fr_drifter", "The same, the drift advancing on visits: average MSE", _of("fourrooms-visit")),
        Item("forty", "fig:scaled_gvf", "Forty GVFs: average MSE", _of("forty")),
        Item("distinct", "fig:both_distinct_grid", "Two distinct policies, distinct cumulants: average MSE", _of("distinct")),
        Item(
            "value-error",
            "fig:val_error_base, fig:val_error_ours",
            "Where the value error lies: RoundRobin and GVFExplorer",
            lambda tuned: [Curve("distinct", "RoundRobin"), Curve("distinct", "GVFExplorer")],
        ),
        Item(
            "sensitivity",
            "fig:lr_sens_mp_sg",
            "Learning-rate sensitivity of every method",
            lambda tuned: sweep_curves("same"),
            ABLATION_SEEDS,
        ),
        Item("individual-same", "fig:single_goal_grid_stochastic_ind_mse", "MSE of each GVF, identical cumulant", _of("same")),
        Item("individual-distinct", "fig:multi_goal_grid_stochastic_app", "MSE of each GVF, distinct cumulants", _of("distinct")),
        Item(
            "variance",
            "fig:multi_goal_grid_stochastic_app",
            "Variance estimated by GVFExplorer, per GVF",
            lambda tuned: [Curve("distinct", "GVFExplorer")],
        ),
        Item("semi-greedy", "fig:semi_greedy_multi_goals", "Semi-greedy target policies: average MSE", _of("semi-greedy")),
        Item(
            "individual-semi-greedy", "fig:semi_greedy_multi_goals", "MSE of each GVF, semi-greedy policies", _of("semi-greedy")
        ),
        Item("grouping", "fig:crude_approx", "Poorer features: states grouped by 1, 2 and 4", _grouping, ABLATION_SEEDS),
        Item(
            "fourrooms-variance",
            "fig:early_m_fr, fig:later_m_fr",
            "Average variance in FourRooms, early and late",
            lambda tuned: [Curve("fourrooms", "GVFExplorer")],
        ),
        Item("drift", "fig:drifter_sigma_graph", "How fast the cumulant drifts: GVFExplorer's MSE", _drifts),
        Item("forty-goals", "fig:cum_value_scaled_Exp", "The ten cumulants of the forty GVFs", _nothing),
        Item(
            "importance-sampling",
            "fig:FR_rho_exp_sarsa",
            "Importance sampling against Expected Sarsa in FourRooms",
            lambda tuned: [Curve("fourrooms", "GVFExplorer", learner=name) for name in ("ExpectedSarsa", "ImportanceSampling")],
        ),
        Item("cumulants", "fig:cumulants", "The three types of cumulants", _nothing),
        Item(
            "successor",
            "App. B.1 (3)",
            "SR: Boltzmann against greedy",
            lambda tuned: [Curve(s, m) for s in ("same", "distinct") for m in ("SR", "SR-greedy")],
        ),
        Item(
            "successor-temperature",
            "App. B.1 (3)",
            "SR: how much depends on the temperature",
            lambda tuned: [Curve(s, m) for s in SR_SETTINGS for m in SR_TEMPERATURES],
            ABLATION_SEEDS,
        ),
    ]
}
GROUPS = {"tabular": list(ITEMS)}


def _standard(replay: str = "uniform") -> Callable[[Tuned], list[DeepCurve]]:
    return lambda tuned: [DeepCurve(m, replay) for m in ("RoundRobin", "GVFExplorer")]


CONTINUOUS = [
    Item(
        "table3",
        "tab:mse_in_cont_env",
        "Average MSE in the continuous grid",
        lambda tuned: continuous.table_curves(),
        continuous.SEEDS,
    ),
    Item(
        "continuous",
        "fig:avgmse_sub1",
        "Continuous grid: average MSE, replay (solid) and PER (dashed)",
        lambda tuned: continuous.table_curves(),
        continuous.SEEDS,
    ),
    Item(
        "individual-continuous",
        "fig:mse_2d_world_individual",
        "Continuous grid: MSE of each GVF",
        lambda tuned: continuous.table_curves(),
        continuous.SEEDS,
    ),
    Item(
        "value-error-continuous",
        "fig:val_error_cont_base, fig:val_error_cont_ours, fig:cont_value_error",
        "Continuous grid: value error with PER at 900,000 steps",
        _standard("prioritised"),
        continuous.SEEDS,
    ),
    Item(
        "variance-continuous",
        "fig:cont_env_variance",
        "Continuous grid: variance estimated by GVFExplorer",
        lambda tuned: [DeepCurve("GVFExplorer")],
        continuous.SEEDS,
    ),
    Item(
        "behaviour-continuous",
        "fig:traj_2d_world",
        "Continuous grid: where RoundRobin and GVFExplorer go",
        _standard(),
        continuous.SEEDS,
    ),
    Item(
        "priorities",
        "Sec. 7.2, Prioritized Experience Replay",
        "PER by the error of Q, of M, and of the successor features",
        lambda tuned: [
            DeepCurve("GVFExplorer", "prioritised"),
            DeepCurve("GVFExplorer", "prioritised", priority="m"),
            DeepCurve("SR", "prioritised"),
            DeepCurve("SR", "prioritised", priority="sr"),
        ],
        continuous.PRIORITY_SEEDS,
    ),
    Item(
        "tuning-continuous",
        "tab:hyperparameters",
        "Continuous grid: learning rates by one protocol",
        lambda tuned: continuous.tuning_curves(),
        continuous.TUNING_SEEDS,
    ),
    Item(
        "recommended",
        "ours",
        "Continuous grid: the recommended setting",
        lambda tuned: continuous.recommended_curves(),
        continuous.SEEDS,
    ),
]
ITEMS |= {item.name: item for item in CONTINUOUS}
GROUPS["deep"] = [item.name for item in CONTINUOUS]

CONTROL = [
    Item(
        "mujoco-recommended",
        "fig:mujoco_env",
        "Walker and Cheetah: average MSE, recommended",
        lambda tuned: control.figure_curves("recommended"),
        control.SEEDS,
    ),
    Item(
        "mujoco-paper",
        "fig:mujoco_env",
        "Walker and Cheetah: average MSE, Algorithm 2 as printed",
        lambda tuned: control.figure_curves("paper"),
        control.SEEDS,
    ),
    Item(
        "mujoco-stills",
        "Sec. 7.3",
        "Walker and Cheetah: what the behaviours do",
        lambda tuned: [ControlCurve(name, "GVFExplorer", "paper") for name in control.CONTROL],
        control.SEEDS,
    ),
    Item(
        "mujoco-trials",
        "ours",
        "Cheetah: forms of the explorer",
        lambda tuned: control.trial_curves(),
        control.TRIAL_SEEDS,
    ),
]
ITEMS |= {item.name: item for item in CONTROL}
GROUPS["mujoco"] = [item.name for item in CONTROL]

LIMIT = [
    Item("limit-main", "ours", "How close to the limit", lambda tuned: limit.main_pairs()),
    Item(
        "limit-behaviours",
        "ours",
        "How close to the limit: every behaviour and learner",
        lambda tuned: limit.stationary_curves(),
        ABLATION_SEEDS,
    ),
    Item(
        "limit-drift",
        "ours",
        "A drifting cumulant: certainty equivalence and the paper's methods",
        lambda tuned: [*limit.drift_curves(), *main_curves(limit.DRIFTING)],
    ),
    Item("coverage", "ours", "How often intervals hold the truth", lambda tuned: limit.coverage_curves(), limit.COVERAGE_RUNS),
    Item("stops", "ours", "Stopping when the error is below a target", lambda tuned: limit.stop_curves(), limit.STOPS),
]
ITEMS |= {item.name: item for item in LIMIT}
GROUPS["limit"] = [item.name for item in LIMIT]


def chosen_items(names: list[str]) -> list[Item]:
    """Items by name; `tabular`, `deep`, `mujoco` and `limit` are groups of them."""
    listed: list[str] = []
    for name in names:
        if name not in ITEMS and name not in GROUPS:
            raise UnknownName("item", name, [*ITEMS, *GROUPS])
        listed += GROUPS.get(name, [name])
    return [ITEMS[name] for name in dict.fromkeys(listed)]


def load_tuned(folder: Path) -> Tuned:
    """The rates that sweeps in this results folder chose (none if there was no sweep)."""
    path = folder / "tuned.json"
    if not path.exists():
        return {}
    return {s: {m: (rates[0], rates[1]) for m, rates in methods.items()} for s, methods in json.loads(path.read_text()).items()}


def curves_with_seeds(items: list[Item], tuned: Tuned, seeds: int | None) -> Iterator[tuple[AnyCurve, int]]:
    """Every curve that the items need, with the most seeds that any of them asks for."""
    most: dict[AnyCurve, int] = {}
    for item in items:
        for curve in item.needs(tuned):
            most[curve] = max(most.get(curve, 0), item.seeds if seeds is None else seeds)
    yield from most.items()
