"""The optimal design against differences, random behaviours, hand-worked answers and the constants of the paper's settings."""

import numpy as np
import pytest
from helpers.worlds import chain, random_case, random_policy, two_armed_bandit
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
import gvfx_paper
from gvfx import design, exact
from gvfx.questions.gvf import stack
from gvfx.theory.importance import per_visit
from gvfx.theory.optimum import _pairs

SEEDS = st.integers(0, 2**32 - 1)
LIGHT = settings(max_examples=20, deadline=None)


def frozen_four_rooms():
    """FourRooms with the drifter taken as N(100, 0.5)."""
    s = gvfx_paper.paper["fourrooms"]
    second = gvfx.GVF(s.questions[1].policy, gvfx.Distractor(100, 0.5, at="right"), 0.99, name="right")
    return s.world, [s.questions[0], second]


def setting(name):
    s = gvfx_paper.paper[name]
    return frozen_four_rooms() if name == "fourrooms" else (s.world, s.questions)


# --- the constants of the paper's settings -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mixture", "uniform", "explorer", "optimum", "gap"),
    [
        ("same", 127_260, 25_976, 8_195, 1_446.2, 0.025),
        ("distinct", 68_295, 9_941, 7_346, 502.5, 0.025),
        ("semi-greedy", 19_825, 52_826, 18_243, 5_237.1, 0.01),
        ("fourrooms", 85_300, 15_900, 13_282, 1_050.7, 0.03),
        ("forty", 77_810, 77_810, 52_708, 11_968.9, 0.02),
    ],
)
def test_constants_of_the_paper_settings(name, mixture, uniform, explorer, optimum, gap):
    world, questions = setting(name)
    mixed = stack(questions, world).pi.mean(axis=2)
    assert design.constant(world, questions, mixed) == pytest.approx(mixture, rel=1e-3)
    assert design.constant(world, questions, [0.25] * 4) == pytest.approx(uniform, rel=1e-3)
    fixed_point = exact.explorer_behaviour(world, questions)
    assert design.constant(world, questions, fixed_point) == pytest.approx(explorer, rel=1e-3)
    best = design.optimal(world, questions)
    assert best.converged == (name in ("semi-greedy", "forty"))  # the other gaps are 2.4 to 2.5 %
    assert best.constant == pytest.approx(optimum, rel=1e-3)
    assert 0 <= best.gap < gap
    planned = design.remaining_design(design.Model.of(world), design.importance_of(world, questions))
    assert design.constant(world, questions, planned) < 1.005 * best.constant


# --- the optimum -------------------------------------------------------------------------------------------------


@LIGHT
@given(SEEDS, st.booleans())
def test_derivatives_of_the_dual_by_differences(seed, visited):
    rng = np.random.default_rng(seed)
    price, g, nu = rng.uniform(0.1, 2, 6), rng.uniform(0, 1, 6), rng.uniform(0, 1, 6) * visited
    x, curvature, _ = _pairs(price, g, 1e-3, nu)
    up, down = (_pairs(price + h, g, 1e-3, nu) for h in (1e-5, -1e-5))
    assert (up[2] - down[2]) / 2e-5 == pytest.approx(x, rel=1e-5)
    assert (down[0] - up[0]) / 2e-5 == pytest.approx(curvature, rel=1e-4)


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.booleans(), st.sampled_from([None, 3, 30]))
def test_no_random_behaviour_beats_the_bound_and_none_the_optimum(seed, terminal, horizon):
    world, questions = random_case(seed, terminal=terminal, horizon=horizon)
    model, need = design.Model.of(world), design.importance_of(world, questions)
    best = design.optimal(world, questions)
    rng = np.random.default_rng(seed)
    others = [random_policy(rng, world) for _ in range(200)]
    others += [0.95 * best.behaviour + 0.05 * mu for mu in others[:100]]
    least = min(per_visit(need, design.occupancy(model, mu)).sum() for mu in others)
    assert best.bound <= best.constant * (1 + 1e-9)
    assert best.bound <= least
    if horizon is None:
        assert best.gap < 0.01
        assert best.constant <= least * (1 + 1e-6)
    elif horizon == 30:
        assert best.constant <= least * 1.002
    assert best.constant == pytest.approx(design.constant(world, questions, best.behaviour))


def test_one_state_is_worked_by_hand():
    """Bandit: x must be proportional to sqrt(G), and the constant is (sum sqrt G)^2."""
    world, questions = two_armed_bandit()
    wide = [gvfx.GVF([0.25, 0.75], gvfx.table_cumulant([[1, 3], [0, 0]], [[2, 1], [0, 0]]), 0.9)]
    best = design.optimal(world, wide)  # G = (1/16 * 4, 9/16 * 1)
    assert best.behaviour[0] == pytest.approx([0.4, 0.6], abs=1e-4)
    assert best.constant == pytest.approx((0.5 + 0.75) ** 2, rel=1e-6)
    assert best.gap < 1e-6
    assert design.optimal(world, questions).constant == pytest.approx(0.25, rel=1e-4)  # the second arm has no noise


def test_nothing_unsure_needs_nothing():
    world, questions = chain()
    best = design.optimal(world, questions)
    assert (best.constant, best.bound, best.gap) == (0, 0, 0)


# --- planning with data in hand ----------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_plan_makes_up_for_what_was_visited_before(seed):
    world, questions = random_case(seed, states=6, horizon=50)
    model, need = design.Model.of(world), design.importance_of(world, questions)
    rng = np.random.default_rng(seed)
    counts = 1000 * design.occupancy(model, random_policy(rng, world))

    def remaining(mu):
        return per_visit(need, counts + 500 * design.occupancy(model, mu)).sum()

    planned = remaining(design.remaining_design(model, need, counts, 500))
    others = [random_policy(rng, world) for _ in range(100)]
    assert planned <= 1.01 * min(map(remaining, [*others, np.full((6, 3), 1 / 3), design.best_design(model, need).behaviour]))


def test_plan_on_estimates_with_holes():
    """Unseen pairs (rows of zeros), states never reached and no need at all: always rows of probabilities."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        states = int(rng.integers(1, 20))
        prob = rng.dirichlet(np.ones(3), size=(states, 2)) * (rng.random((states, 2, 1)) < 0.7)
        start = np.eye(states)[0]
        model = design.Model(rng.integers(0, states, prob.shape), prob, start, np.arange(states) == 5, 10)
        need = rng.random((states, 2)) * (rng.random() < 0.8)
        counts = rng.integers(0, 9, (states, 2)) * (rng.random() < 0.8)
        mu = design.remaining_design(model, need, counts, 100)
        assert (mu > 0).all() and mu.sum(axis=1) == pytest.approx(np.ones(states))
        assert (mu[~model.going] == 0.5).all()


def test_bad_input_is_named():
    world, questions = random_case(0)
    model, need = design.Model.of(world), design.importance_of(world, questions)
    with pytest.raises(gvfx.InputError, match="need:"):
        design.remaining_design(model, -need)
    with pytest.raises(gvfx.InputError, match="counts:"):
        design.remaining_design(model, need, need[:2], 10)
    with pytest.raises(gvfx.InputError, match="behaviour:"):
        design.constant(world, questions, [[0.5, 0.25, 0.25]] * 2)
    with pytest.raises(gvfx.InputError, match="error:"):
        design.steps_needed(100, 0)
