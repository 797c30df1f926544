"""The worlds, questions, lengths and rates of every setting: literal copies of the paper's text, one table for each.

What the paper leaves open is that of docs/presets.md; the rates of the main settings are in test_presets.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import gvfx
import gvfx_paper
from gvfx.learners.networks.learners import Deep
from gvfx.schedules import Linear
from gvfx_paper.authors import VarianceSoftmax
from gvfx_paper.items import ITEMS, curves
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings import domains as mujoco
from gvfx_paper.settings import limit, tabular
from gvfx_paper.worlds.continuous_grid import ContinuousGrid, Goal, authors_grid, paper_grid
from gvfx_paper.worlds.mujoco import DOMAINS

PI_1, PI_2 = (0.175, 0.175, 0.25, 0.4), (0.25, 0.15, 0.25, 0.35)  # eq:target_policies; actions L, R, U, D
TOWARDS_LEFT, TOWARDS_RIGHT = (0.4, 0.1, 0.4, 0.1), (0.1, 0.4, 0.4, 0.1)  # eq:target_policies_semi_greedy
CARDINAL = ((0.1, 0.1, 0.7, 0.1), (0.1, 0.7, 0.1, 0.1), (0.1, 0.1, 0.1, 0.7), (0.7, 0.1, 0.1, 0.1))  # N, E, S, W
FORTY = {1: 50, 24: 69, 45: 70, 130: 80, 206: 65, 287: 31, 303: 78, 378: 85, 384: 92, 399: 100}  # the authors' code
LEFT = gvfx.Distractor(100, 5, at="left")  # App. B.3.1 and B.3.2: N(100, 5) at the top left, N(50, 5) at the top right
RIGHT = gvfx.Distractor(50, 5, at="right")
ROOM = gvfx.Distractor(100, 2, at="left")  # App. B.3.4
CORNERS = {"left": (0, 0), "right": (0, 19)}
WALLS = sorted({(10, c) for c in range(20) if c not in (4, 15)} | {(r, 10) for r in range(20) if r not in (4, 15)})


def drifter(sd, advance="step"):
    return gvfx.Drifter(sd, 100, at="right", advance=advance)


QUESTIONS = {  # setting: (policy, cumulant) of each GVF
    "same": [(PI_1, LEFT), (PI_2, LEFT)],
    "distinct": [(PI_1, LEFT), (PI_2, RIGHT)],
    "semi-greedy": [(TOWARDS_LEFT, LEFT), (TOWARDS_RIGHT, RIGHT)],
    "fourrooms": [(PI_1, ROOM), (PI_2, drifter(0.5))],  # App. B.3.4: sigma = 0.5
    "fourrooms-visit": [(PI_1, ROOM), (PI_2, drifter(0.5, "visit"))],
    "forty": [(pi, gvfx.Constant(value, at=f"goal{s}")) for pi in CARDINAL for s, value in FORTY.items()],
    "distinct-x2": [(PI_1, LEFT), (PI_2, RIGHT)],
    "distinct-x4": [(PI_1, LEFT), (PI_2, RIGHT)],
    "fourrooms-0.1": [(PI_1, ROOM), (PI_2, drifter(0.1))],
    "fourrooms-1": [(PI_1, ROOM), (PI_2, drifter(1.0))],
    "fourrooms-2": [(PI_1, ROOM), (PI_2, drifter(2.0))],
    "fourrooms-visit-0.1": [(PI_1, ROOM), (PI_2, drifter(0.1, "visit"))],
    "fourrooms-visit-1": [(PI_1, ROOM), (PI_2, drifter(1.0, "visit"))],
    "fourrooms-visit-2": [(PI_1, ROOM), (PI_2, drifter(2.0, "visit"))],
    "fourrooms-stationary": [(PI_1, ROOM), (PI_2, gvfx.Distractor(100, 0.5, at="right"))],
}
GOALS = {"same": {"left": (0, 0)}, "forty": {f"goal{s}": (s // 20, s % 20) for s in FORTY}}  # the others have both corners
GROUPING = {"distinct-x2": 2, "distinct-x4": 4}  # App. B.3.3
START = {"forty": (1.0, 2.0, 0.5)}  # Q, GVFExplorer's Q, M; the others 1, 1, 5
ABLATION_RATES = {  # as the setting that they vary: alpha_Q of GVFExplorer, RoundRobin, Mixture, Uniform, SR, BPS (Table 2)
    "distinct-x2": (0.1, 0.8, 0.8, 0.8, 0.5, 0.8),
    "distinct-x4": (0.1, 0.8, 0.8, 0.8, 0.5, 0.8),
    **dict.fromkeys(
        (f"fourrooms-{k}" for k in ("0.1", "1", "2", "visit-0.1", "visit-1", "visit-2", "stationary")),
        (0.5, 0.8, 0.8, 0.8, 0.8, 0.8),
    ),
}


def test_every_setting_is_listed_here():
    assert tuple(gvfx_paper.paper) == tuple(QUESTIONS)
    assert tabular.GROUPINGS == (1, 2, 4) and tabular.DRIFTS == (0.1, 0.5, 1.0, 2.0)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_questions_of_a_setting(name):
    """gamma = 0.99 (Sec. 7.1) in all of them."""
    asked = [(q.policy, q.cumulant, q.discount) for q in gvfx_paper.paper[name].questions]
    assert asked == [(gvfx.constant_policy(pi), cumulant, 0.99) for pi, cumulant in QUESTIONS[name]]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_world_of_a_setting(name):
    """20 x 20 cells, a random move with probability 0.1, at most 500 steps (Sec. 7.1)."""
    assert gvfx_paper.paper[name].world.recipe == (
        "gridworld",
        {
            "size": 20,
            "goals": GOALS.get(name, CORNERS),
            "walls": WALLS if name.startswith("fourrooms") else [],
            "slip": 0.1,
            "horizon": 500,
            "grouping": GROUPING.get(name, 1),
        },
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_length_and_the_first_values_of_a_setting(name):
    """2 M steps; FourRooms with a drifter 4 M (Table 1).  Both presets start from the same values."""
    setting, (q, explorer_q, m) = gvfx_paper.paper[name], START.get(name, (1.0, 1.0, 5.0))
    assert setting.steps == (4_000_000 if name.startswith("fourrooms") and name != "fourrooms-stationary" else 2_000_000)
    for preset in ("paper", "authors"):
        for method, first in (("GVFExplorer", explorer_q), ("RoundRobin", q), ("Mixture", q), ("Uniform", q), ("BPS", q)):
            learner = setting.experiment(method, preset).learner
            assert (learner.initial_q, learner.initial_m) == (first, m)


@pytest.mark.parametrize("name", ABLATION_RATES)
def test_the_rates_of_a_setting_with_one_thing_changed(name):
    methods = ("GVFExplorer", "RoundRobin", "Mixture", "Uniform", "SR", "BPS")
    assert (
        tuple(gvfx_paper.paper[name].rates[m] for m in methods) == ABLATION_RATES[name] and gvfx_paper.paper[name].rate_m == 0.8
    )


def test_the_printed_leads_of_gvfexplorer():
    """The last columns of tab:summary_tabular_perf and tab:mse_in_cont_env; nothing is printed for the other settings."""
    leads = {name: setting.published_lead for name, setting in gvfx_paper.paper.items() if setting.published_lead is not None}
    assert leads == {"same": 79, "distinct": 91, "fourrooms": 48, "fourrooms-visit": 48, "forty": 29}
    assert grid.PUBLISHED_LEADS == {"uniform": 69, "prioritised": 66}


def test_the_numbers_of_seeds_and_the_tuning_protocol():
    """25 runs, 10 in the studies of rates and features (captions of App. B.3), the lowest MSE after 800,000 steps."""
    assert (curves.SEEDS, curves.ABLATION_SEEDS, curves.TUNING_STEPS) == (25, 10, 800_000)
    seeds = {name: ITEMS[name].seeds for name in ("table1", "table2", "grouping", "sensitivity", "drift")}
    assert seeds == {"table1": 25, "table2": 10, "grouping": 10, "sensitivity": 10, "drift": 25}
    assert mujoco.SEEDS == 5  # Sec. 7.3
    assert (limit.TIMES, limit.COVERED_AFTER, limit.MOST_STEPS) == ((100_000, 500_000, 2_000_000), 100_000, 1_000_000)  # ours


# --- the continuous grid -----------------------------------------------------------------------------------------

GRID = {  # App. B.4: moves, noise and radius
    "strays": (),
    "step": 0.025,
    "noise": 0.01,
    "radius": 0.05,
    "distance": "euclidean",
    "horizon": 500,
    "timeouts_terminate": False,
}


def test_the_continuous_grid_of_the_text_and_of_the_authors_code():
    left, right = Goal("left", (0.05, 0.95), 100.0, 5.0), Goal("right", (0.95, 0.95), 50.0, 5.0)
    assert paper_grid() == ContinuousGrid((left, right), **GRID)
    wide = Goal("left", (0.05, 0.95), 100.0, 10.0)
    theirs = {"strays": ((0.8, 0.1),), "distance": "l1", "timeouts_terminate": True}
    assert authors_grid() == ContinuousGrid((wide, right), **{**GRID, **theirs})


def test_the_questions_of_the_continuous_grid():
    asked = [(q.policy, q.cumulant, q.discount) for q in grid.CONTINUOUS.questions]
    assert asked == [
        (gvfx.constant_policy(PI_1), gvfx.Signal("left"), 0.99),
        (gvfx.constant_policy(PI_2), gvfx.Signal("right"), 0.99),
    ]


def test_what_differs_in_the_presets_of_the_continuous_grid():
    """The authors' launcher updates M every 4 steps; the recommended learner is that of docs/networks.md."""
    paper, authors, ours = (grid.CONTINUOUS.experiment("GVFExplorer", preset) for preset in ("paper", "authors", "recommended"))
    assert (paper.world, authors.world, ours.world) == (paper_grid(), authors_grid(), paper_grid())
    assert (paper.learner.m_every, authors.learner.m_every) == (8, 4)
    assert ours.learner == Deep(rate_q=2e-3, rate_m=2e-3, capacity=1_000_000, final_rate=0.03, waves=32)
    assert grid.RATES["Uniform"] == 5e-3  # the paper leaves it out: that of GVFExplorer


def test_the_stabilised_preset_changes_how_gvfexplorer_learns_m():
    """Everything else is as in `paper`; rates are chosen on seeds that no table reports."""
    for method in grid.METHODS:
        paper, stabilised = (grid.CONTINUOUS.experiment(method, preset) for preset in ("paper", "stabilised"))
        expected = replace(paper.learner, m_output="exp") if method == "GVFExplorer" else paper.learner
        assert stabilised == replace(paper, learner=expected)
    chosen = grid.tuning_curve("GVFExplorer", 1e-3)
    assert (chosen.first_seed, chosen.steps, chosen.preset) == (100, 400_000, "stabilised") and grid.SEEDS == 10


@pytest.mark.parametrize(("method", "alpha", "beta_share"), [("GVFExplorer", 0.8, 0.6), ("RoundRobin", 0.6, 0.2)])
def test_the_authors_launcher_on_the_continuous_grid(method, alpha, beta_share):
    """A softmax over the mean of M instead of Eq. 3, no floor, other constants of prioritised replay."""
    made = grid.CONTINUOUS.experiment(method, "authors", replay="prioritised")
    assert (made.learner.alpha, made.learner.beta, made.learner.beta_share) == (alpha, 0.4, beta_share)
    softmax = VarianceSoftmax(temperature=Linear(1.0, 0.1, 50_000), smallest_m=0.1)
    inside = softmax if method == "GVFExplorer" else gvfx.RoundRobin()
    assert made.behaviour == gvfx.Epsilon(inside, Linear(1.0, 0.0, 4000))
    assert "SR" not in grid.AUTHORS_METHODS  # their SR on networks is another algorithm


# --- Walker and Cheetah ------------------------------------------------------------------------------------------


def test_the_tasks_of_walker_and_cheetah():
    """Sec. 7.3: walk and flip, walk and run."""
    assert {name: domain.tasks for name, domain in DOMAINS.items()} == {"walker": ("walk", "flip"), "cheetah": ("walk", "run")}
    for name in DOMAINS:
        questions = mujoco.DOMAIN_SETTINGS[name].questions
        assert [(q.cumulant, q.discount) for q in questions] == [(gvfx.Signal(task), 0.99) for task in DOMAINS[name].tasks]
        assert [q.policy.name for q in questions] == [f"{name}-{task}" for task in DOMAINS[name].tasks]
