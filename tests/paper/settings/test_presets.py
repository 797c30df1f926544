"""The presets hold the printed numbers of the paper, or, where it prints none, those of docs/presets.md and box-actions.md."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

import gvfx
import gvfx_paper
from gvfx.learners.networks.learners import Deep
from gvfx.schedules import Linear, as_falling
from gvfx_paper.algorithm2 import ACTORS, CRITICS
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings import domains as mujoco
from gvfx_paper.settings import tabular

METHODS = ("GVFExplorer", "RoundRobin", "Mixture", "Uniform", "SR", "BPS")
TABLE_2 = {  # tab:hyperparameters: alpha_Q by method, alpha_M of GVFExplorer; semi-greedy: App. B.3.2
    "same": (0.25, 0.95, 0.95, 0.95, 0.25, 0.5, 0.8),
    "distinct": (0.1, 0.8, 0.8, 0.8, 0.5, 0.8, 0.8),
    "semi-greedy": (0.5, 0.95, 0.95, 0.95, 0.8, 0.9, 0.8),
    "fourrooms": (0.5, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8),
    "fourrooms-visit": (0.5, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8),
    "forty": (0.5, 0.8, 0.8, 0.8, 0.25, None, 0.95),
}
TABLE_1 = {  # tab:summary_tabular_perf
    "same": (0.24, 1.15, 1.15, 1.22, 2.76, 26.13),
    "distinct": (0.04, 0.47, 0.44, 0.54, 4.1, 8.2),
    "semi-greedy": (),
    "fourrooms": (0.46, 1.28, 1.08, 0.9, 1.78, 18.57),
    "fourrooms-visit": (0.46, 1.28, 1.08, 0.9, 1.78, 18.57),
    "forty": (1.66, 2.35, 2.64, 2.66, 53.3),
}
STEPS = {"fourrooms": 4_000_000, "fourrooms-visit": 4_000_000}  # Table 1; the others 2,000,000


@pytest.mark.parametrize("name", TABLE_2)
def test_rates_of_table_2_and_errors_of_table_1(name):
    setting, (*rates, rate_m) = gvfx_paper.paper[name], TABLE_2[name]
    printed = {method: rate for method, rate in zip(METHODS, rates, strict=True) if rate is not None}
    assert {method: setting.rates[method] for method in printed} == printed
    for method, rate in printed.items():
        experiment = setting.experiment(method)
        assert experiment.steps == STEPS.get(name, 2_000_000)
        assert (experiment.learner.rate_q, experiment.learner.rate_m) == (rate, rate_m)
    assert setting.published == dict(zip(METHODS, TABLE_1[name], strict=False))


def test_the_settings_are_those_of_the_tables():
    assert tuple(TABLE_2) == tabular.MAIN
    assert tabular.RATES == (0.1, 0.25, 0.5, 0.8, 0.9, 0.95)  # App. B.3, "Hyperparameter Tuning"


def test_learning_rates_fall_from_1_within_500_000_steps():
    """App. B.3, "Hyperparameter Tuning"; a schedule that is given stays as it is."""
    assert as_falling(0.25) == Linear(1.0, 0.25, 500_000)
    assert as_falling(Linear(1.0, 0.1, 7)) == Linear(1.0, 0.1, 7)


def explored(behaviour):
    """Epsilon's schedule and the floor of a behaviour in a setting, and the behaviour inside."""
    assert isinstance(behaviour, gvfx.Floor) and isinstance(behaviour.behaviour, gvfx.Epsilon)
    return behaviour.behaviour.schedule, behaviour.floor, behaviour.behaviour.behaviour


TEXT_SR = {
    "rate": 0.25,
    "choice": "boltzmann",
    "temperature": 100.0,
    "discount": 0.99,
    "update": "rows",
    "when": "step",
    "weights": "pairs",
    "per": "policy",
    "floor": 0.0,
}
AUTHORS_SR = {**TEXT_SR, "choice": "first", "update": "entries", "when": "episode", "floor": 1e-3}
TEXT_BPS = {
    "rate": 0.5,
    "scale": 100.0,
    "largest_step": 1.0,
    "ratio_low": 1e-3,
    "ratio_high": 10.0,
    "parameters": "softmax",
}
AUTHORS_BPS = {**TEXT_BPS, "scale": 1.0, "largest_step": 1e300, "ratio_high": 1.0, "parameters": "ratio"}


def test_behaviours_of_the_preset_paper():
    """The table of docs/presets.md."""
    made = {method: explored(gvfx_paper.paper["same"].behaviour(method)) for method in METHODS}
    for epsilon, floor, _ in made.values():
        assert epsilon == Linear(1.0, 0.0, 500) and floor == 0.001
    inside = {method: behaviour for method, (_, _, behaviour) in made.items()}
    assert inside["GVFExplorer"] == gvfx.GVFExplorer() and inside["GVFExplorer"].smallest_m == 0.0
    assert inside["RoundRobin"] == gvfx.RoundRobin() and inside["Mixture"] == gvfx.Mixture()
    assert inside["Uniform"] == gvfx.Uniform()
    assert asdict(inside["SR"]) == TEXT_SR and asdict(inside["BPS"]) == TEXT_BPS


def test_behaviours_of_the_preset_authors():
    """The table of docs/presets.md; SR and BPS have epsilon outermost, chosen once per episode."""
    made = {method: gvfx_paper.paper["same"].behaviour(method, preset="authors") for method in METHODS}
    for method in ("GVFExplorer", "RoundRobin", "Mixture", "Uniform"):
        epsilon, floor, _ = explored(made[method])
        assert epsilon == Linear(1.0, 0.0, 500) and floor == 0.001
    inside = {method: explored(made[method])[2] for method in ("GVFExplorer", "RoundRobin", "Mixture", "Uniform")}
    assert inside["GVFExplorer"] == gvfx.GVFExplorer(smallest_m=1e-4)
    assert inside["RoundRobin"] == gvfx.RoundRobin() and inside["Mixture"] == gvfx.Mixture()
    assert inside["Uniform"] == gvfx_paper.RandomPolicies()
    for method, last, options in (("SR", 0.1, AUTHORS_SR), ("BPS", 0.0, AUTHORS_BPS)):
        outer = made[method]
        assert isinstance(outer, gvfx.Epsilon) and (outer.schedule, outer.when) == (Linear(1.0, last, 500), "episode")
        assert asdict(outer.behaviour) == options


@pytest.mark.parametrize(
    ("method", "last", "options"),
    [
        ("SR", 0.0, {"choice": "first", "floor": 1e-3}),
        ("SR-epsilon0", 0.0, {"choice": "first", "floor": 1e-3}),
        ("SR-boltzmann", 0.0, {"choice": "boltzmann", "temperature": 1.0, "floor": 0.0}),
    ],
)
def test_sr_of_the_authors_launcher_for_forty_gvfs(method, last, options):
    """Epsilon to 0, Q from 0, weights per state, one representation per GVF (run_martha_scaled.sh); the named variants too."""
    forty = gvfx_paper.paper["forty"]
    made = forty.behaviour(method, preset="authors")
    assert made.schedule == Linear(1.0, last, 500)
    assert asdict(made.behaviour) == {**AUTHORS_SR, "weights": "states", "per": "gvf", **options}
    assert forty.learner(behaviour=method, preset="authors").initial_q == 0.0


def test_named_variants_of_sr():
    """Greedy in the text's form; epsilon to 0 and Boltzmann with temperature 1 in the authors'."""
    same = gvfx_paper.paper["same"]
    assert asdict(explored(same.behaviour("SR-greedy"))[2]) == {**TEXT_SR, "choice": "greedy"}
    for t in (1, 10, 1000):
        assert asdict(explored(same.behaviour(f"SR-{t}"))[2]) == {**TEXT_SR, "temperature": float(t)}
    variants = {method: same.behaviour(method, preset="authors") for method in ("SR-epsilon0", "SR-boltzmann")}
    assert [v.schedule for v in variants.values()] == [Linear(1.0, 0.0, 500), Linear(1.0, 0.1, 500)]
    assert asdict(variants["SR-epsilon0"].behaviour) == AUTHORS_SR
    boltzmann = {"choice": "boltzmann", "temperature": 1.0, "floor": 0.0}
    assert asdict(variants["SR-boltzmann"].behaviour) == {**AUTHORS_SR, **boltzmann}


@pytest.mark.parametrize(("name", "q", "explorer_q", "m"), [("same", 1.0, 1.0, 5.0), ("forty", 1.0, 2.0, 0.5)])
def test_learners_of_the_tabular_presets(name, q, explorer_q, m):
    """The table of docs/presets.md and the lines below it; the authors bound M inside mu, not in the table."""
    setting = gvfx_paper.paper[name]
    for method, start in (("GVFExplorer", explorer_q), ("Uniform", q)):
        paper, authors = (setting.experiment(method, preset) for preset in ("paper", "authors"))
        rates = {"rate_q": setting.rates[method], "rate_m": setting.rate_m}
        assert paper.learner == gvfx.ExpectedSarsa(**rates, initial_q=start, initial_m=m)
        assert authors.learner == gvfx_paper.EpisodicExpectedSarsa(**rates, initial_q=start, initial_m=m, smallest_m=0.0)
        assert (paper.average_episodes, authors.average_episodes) == (0, 500)
    ratios = [setting.learner("ImportanceSampling", preset=preset) for preset in ("paper", "authors")]
    assert [(learner.ratio_low, learner.ratio_high) for learner in ratios] == [(0.0, 10.0), (1e-3, 1.0)]


TABLE_2_NETWORKS = {"GVFExplorer": 5e-3, "RoundRobin": 5e-4, "Mixture": 5e-4, "SR": 1e-3}  # alpha_Q; alpha_M 5e-3
TABLE_3 = {  # tab:mse_in_cont_env
    "uniform": {"SR": 21.7, "Mixture": 18.25, "RoundRobin": 16.78, "GVFExplorer": 5.19},
    "prioritised": {"SR": 112.0, "Mixture": 14.7, "RoundRobin": 11.62, "GVFExplorer": 3.87},
}


def test_the_continuous_grid_has_the_rates_of_table_2_and_the_errors_of_table_3():
    assert {method: grid.RATES[method] for method in TABLE_2_NETWORKS} == TABLE_2_NETWORKS
    assert grid.PUBLISHED == TABLE_3
    for replay, printed in TABLE_3.items():
        for method in printed:
            experiment = grid.DeepCurve(method, replay).experiment
            rate = TABLE_2_NETWORKS[method]
            assert experiment.steps == 1_000_000  # Table 3
            assert experiment.learner == Deep(
                rate_q=rate,
                rate_m=rate,
                hidden=(64, 64),  # the paper gives none
                batch=64,  # Sec. 7.2
                capacity=25_000,  # Sec. 7.2
                learning_starts=200,  # the paper gives none
                q_every=4,  # p, m and l of Algorithm 1 (algo:behavior_update)
                m_every=8,
                target_every=100,
                final_rate=1.0,
                replay=replay,
                priority="q",  # Sec. 7.2: the absolute sum of the TD errors of Q
                alpha=0.6,  # Schaul et al. (2015)
                beta=0.4,
            )
            epsilon, floor, inside = explored(experiment.behaviour)
            assert epsilon == Linear(1.0, 0.0, 4000) and floor == 0.001  # the paper gives none
            assert method != "SR" or inside == gvfx.SuccessorRepresentation(temperature=10.0)


def test_the_presets_of_algorithm_2():
    """The columns of docs/box-actions.md, "Where Algorithm 2 leaves a choice"."""
    both = {"hidden": (64, 64), "worlds": 16, "batch": 256, "capacity": 400_000, "lookahead": 0, "refresh_every": 32}
    printed = {
        **{"updates": 4, "m_every": 1, "learning_starts": 4_000, "rate_q": 3e-4, "rate_m": 3e-4, "final_rate": 1.0},
        **{"aggregate": "min", "entropy_in_target": True, "bounded": False, "target_every": 50, "tau": 1.0},
        **{"trace": 0.0, "scaled": False, "averaged": False},
    }
    ours = {
        **{"updates": 8, "m_every": 2, "learning_starts": 1_008, "rate_q": 1e-3, "rate_m": 1e-3, "final_rate": 0.1},
        **{"aggregate": "mean", "entropy_in_target": False, "bounded": True, "target_every": 1, "tau": 0.01},
        **{"trace": 0.95, "scaled": True, "averaged": True},
    }
    assert asdict(CRITICS["paper"]) == {**both, **printed, "layer_norm": False}
    assert asdict(CRITICS["stabilised"]) == {**both, **printed, "layer_norm": True}
    assert asdict(CRITICS["recommended"]) == {**both, **ours, "layer_norm": False}
    changed = {"kl_weight": 10.0, "kl_to": "each", "normalised": True, "target_entropy": -6.0, "alpha": 0.01}
    assert asdict(ACTORS["stabilised"]) == {**asdict(ACTORS["paper"]), **changed}
    assert asdict(ACTORS["paper"]) == {
        "direction": "raise",
        "normalised": False,
        "kl_weight": 0.1,
        "kl_to": "mixture",
        "target_entropy": 0.0,
        "alpha": 1.0,
        "rate": 3e-4,
        "updates": 1,
        "hidden": (64, 64),
        "share": 1.0,
    }


@pytest.mark.parametrize("name", ["walker", "cheetah"])
def test_the_presets_of_the_mujoco_settings(name):
    explorer = {"paper": ACTORS["paper"], "stabilised": ACTORS["stabilised"], "recommended": gvfx.Hold(gvfx.MixtureActor())}
    for preset, behaviour in explorer.items():
        experiment = mujoco.MujocoCurve(name, "GVFExplorer", preset).experiment
        assert experiment.learner == CRITICS[preset] and experiment.behaviour == behaviour
        assert experiment.steps == 100_000 and {q.discount for q in experiment.questions} == {0.99}  # the paper gives none


def test_an_intervention_changes_one_thing_of_the_printed_method():
    for curve in mujoco.INTERVENTION_CURVES:
        e, critics, behaviour = curve.experiment, CRITICS["paper"], ACTORS["paper"]
        of_critics, of_actor = mujoco.INTERVENTIONS[curve.change]
        assert e.learner == replace(critics, **of_critics) and e.behaviour == replace(behaviour, **of_actor)
        assert bool(of_critics) + bool(of_actor) == (curve.change != mujoco.PRINTED) and e.steps == 24_000
