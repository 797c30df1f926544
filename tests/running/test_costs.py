"""What a run will cost: against the error theory in a known world, against the truth after a pilot."""

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import WALK_QUESTIONS, Walk
from helpers.worlds import random_mdp, random_question, two_armed_bandit

import gvfx
from benchmarks.common.worlds import current
from gvfx import design
from gvfx.running.costs import OPTIMUM
from gvfx.worlds.conversion import SteppedMDP
from gvfx_paper.settings.continuous import questions as grid_questions
from gvfx_paper.worlds.continuous_grid import paper_grid

SCALED = 1000 * np.arange(18.0).reshape(6, 3)  # cumulants a thousand times larger than the other question's


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    world = random_mdp(rng, states=6, actions=3)
    return world, [random_question(rng, world, discount=0.8) for _ in range(2)]


def test_a_known_world_costs_what_the_theory_says(case):
    world, questions = case
    costs = gvfx.plan(world, questions, 0.01)
    assert costs["Uniform"].steps == pytest.approx(design.constant(world, questions, [[1 / 3] * 3]) / 0.01, rel=1e-3)
    assert costs[OPTIMUM].steps == min(c.steps for c in costs.costs) >= costs.bound
    assert all(c.low < c.steps < c.high for c in costs.costs)
    assert costs.pilot == 0 and set(costs.to_json()["costs"]) >= {"Mixture", "GVFExplorer", "SecondMoment", "CharacteristicTime"}
    with pytest.raises(gvfx.InputError, match="Uniform"):
        costs["Unifrom"]


@pytest.mark.full
@pytest.mark.compiled(2)
def test_the_planned_number_of_steps_gives_the_wanted_error(case):
    world, questions = case
    costs = gvfx.plan(world, questions, 0.002, draws=50)
    steps = int(costs["Uniform"].steps)
    errors = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=steps, seeds=40).error[:, -1]
    assert errors.mean() == pytest.approx(0.002, rel=0.3)


def test_a_pilot_comes_close(case):
    world, questions = case
    known, guessed = (gvfx.plan(world, questions, 0.01, pilot=pilot, draws=50) for pilot in (0, 4000))
    assert guessed.pilot == 4000 and guessed.unseen == 0
    for cost in known.costs:
        assert guessed[cost.name].steps == pytest.approx(cost.steps, rel=0.2)


def test_a_pilot_that_missed_what_the_answers_rest_on_is_refused(case):
    with pytest.raises(gvfx.InputError, match=r"^pilot: 3 steps are too few .*states reached, the last .*a longer pilot"):
        gvfx.plan(*case, 0.05, pilot=3, draws=2)
    world, questions = current(20, 0.4, 0.05)
    with pytest.raises(gvfx.InputError, match=r"^pilot: 300 steps are too few"):
        gvfx.plan(SteppedMDP(world), questions, 0.05, pilot=300, draws=2)


@pytest.mark.full
@pytest.mark.compiled(2)
def test_a_plan_for_the_bound_is_where_the_rule_stops(case):
    """Runs with until=error_below stop at the looks around `bounded`, 15 % apart; the expected error is reached before."""
    world, questions = case
    cost = gvfx.plan(world, questions, 0.01)["Uniform"]
    assert cost.steps < cost.high < cost.bounded
    rule = gvfx.error_below(0.01)
    stopped = gvfx.evaluate(
        world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=100_000, seeds=9, evaluate_every=1e5, until=rule
    ).stopped
    assert cost.bounded / 1.16 < np.median(stopped) < 1.16 * cost.bounded


def test_what_never_happens_takes_for_ever():
    world, questions = two_armed_bandit()
    never = gvfx.GVF([1.0, 0.0], questions[0].cumulant, 0.9, name="one arm")
    cost = gvfx.plan(world, [never], 0.01)
    assert np.isfinite(cost["Mixture"].steps)
    assert cost["GVFExplorer"].steps == pytest.approx(4 / 0.01, rel=0.01)


@pytest.mark.full
def test_calibrated_plans_want_a_relative_error(case):
    world, questions = case
    scaled = [questions[0], gvfx.GVF(questions[1].policy, gvfx.table_cumulant(SCALED, 100.0), 0.8)]
    costs = gvfx.plan(world, scaled, 0.0001, calibrate=True, draws=50)
    squares = gvfx.exact.values(world, scaled) ** 2 @ design.evaluation(world)
    relative = (design.constants(world, scaled, costs[OPTIMUM].behaviour) / squares).mean()
    assert costs[OPTIMUM].steps == pytest.approx(relative / 0.0001, rel=1e-3)
    guessed = gvfx.plan(world, scaled, 0.0001, pilot=20_000, calibrate=True, draws=50)
    assert guessed[OPTIMUM].steps == pytest.approx(costs[OPTIMUM].steps, rel=0.25)
    with pytest.raises(gvfx.InputError, match=r"^calibrate: nothing is 0 everywhere"):
        gvfx.plan(world, [gvfx.GVF(questions[0].policy, 0.0, 0.8, name="nothing")], 0.0001, calibrate=True)


@pytest.mark.parametrize(("options", "words"), [({"error": 0}, "above 0"), ({"error": 1, "pilot": -1}, "pilot")])
def test_bad_plans_are_refused(case, options, words):
    with pytest.raises(gvfx.InputError, match=words):
        gvfx.plan(*case, **options)


def test_continuous_observations_are_planned_on_cells():
    costs = gvfx.plan(Walk(), WALK_QUESTIONS[:1], 0.05, pilot=1000, draws=10)
    assert costs.pilot == 1000
    assert 0 < costs.bound <= costs[OPTIMUM].steps <= costs["Uniform"].steps < np.inf
    assert costs[OPTIMUM].behaviour.shape[1] == 2


@pytest.mark.parametrize(
    ("world", "pilot", "said"),
    [
        (Walk(), 0, "^pilot: this environment does not expose its transition table"),
        (Walk(), 20, "^pilot: 20 steps are too few for 800 pairs of a cell and an action"),
        (paper_grid(), 0, "^pilot: this world is planned on cells of it"),
        pytest.param(paper_grid(), 100, "^pilot: 100 steps are too few for 1600 pairs", marks=pytest.mark.full),
        (gym.make("Pendulum-v1"), 100, "^world: plans need Discrete actions"),
    ],
)
def test_pilots_that_cannot_tell_are_refused(world, pilot, said):
    questions = grid_questions() if world == paper_grid() else WALK_QUESTIONS[:1]
    with pytest.raises(gvfx.InputError, match=said):
        gvfx.plan(world, questions, 0.05, pilot=pilot)
