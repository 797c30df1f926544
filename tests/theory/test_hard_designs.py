"""The best design in worlds that are hard for its solver, against a second solver and the plain forms of its loops."""

import numpy as np
import pytest
from helpers.reference_plans import dense_pairs, followed, planned, slopes, summed
from helpers.second_solver import dense_model, least_error, log_error

from benchmarks.common.design_worlds import DESIGNS, bandits, line, sparse_random
from benchmarks.common.worlds import random_world
from gvfx import design
from gvfx.theory import importance as flow
from gvfx.theory import optimum as polish
from gvfx.theory.importance import ENDLESS, per_visit
from gvfx.theory.optimum import CONVERGED, best_endless_plan, endless_slopes, solve_with_endings

WORSE = 1e-3  # by how much the design may be above what the second solver finds
BY_TIME = {  # worlds whose gap is mostly the value of depending on the time step
    *("one way, horizon 20", "one way, horizon 2000", "line, both ends, horizon 12", "line, both ends, horizon 40"),
    *("line, just in time", "holes", "holes, a poor minimum", "corridor of 30", "door, 4 x 4"),
}


def test_there_are_enough_worlds():
    needs = [make()[1] for make in DESIGNS.values()]
    assert len(needs) >= 30 and all(need.any() for need in needs)
    assert sum((need == 0).any() for need in needs) >= 25


@pytest.mark.parametrize("name", DESIGNS)
def test_against_a_second_solver(name):
    model, need = DESIGNS[name]()
    best, second = design.best_design(model, need), least_error(model, need, starts=2)
    assert best.constant <= second * (1 + WORSE)
    assert best.bound <= min(best.constant, second) * (1 + 1e-9)
    assert best.bound * (1 - 1e-9) <= best.timed <= best.constant
    assert best.converged == (best.gap <= CONVERGED) == (name not in BY_TIME)
    assert best.constant == pytest.approx(per_visit(need, design.occupancy(model, best.behaviour)).sum())
    assert best.behaviour.sum(axis=1) == pytest.approx(np.ones(model.states))
    if name in BY_TIME and name != "door, 4 x 4":  # there 3 % stay open
        assert best.timed / best.bound - 1 < 2e-3


def test_plans_when_one_behaviour_alone_visits_a_pair():
    """A pair with a tiny G is visited by no plan of the mixture: the behaviour to begin with must stay in it."""
    world, questions = random_world(14)
    model, need = design.Model.of(world), design.importance_of(world, questions)
    best, second = design.best_design(model, need), least_error(model, need)
    assert best.bound <= best.timed <= best.constant <= second * (1 + WORSE)
    assert not best.converged and best.gap < 0.04


@pytest.mark.parametrize("name", ["random 4, horizon 30", "one way, horizon None", "holes"])
def test_gradient_of_the_second_solver_by_differences(name):
    model, need = DESIGNS[name]()
    rng, P = np.random.default_rng(0), dense_model(model)
    logits, way = rng.normal(size=(2, *need.shape))
    up, down = (log_error(model, need, P, logits + h * way)[0] for h in (1e-5, -1e-5))
    assert (log_error(model, need, P, logits)[1] * way).sum() == pytest.approx((up - down) / 2e-5, rel=1e-3)


@pytest.mark.parametrize("name", ["random 3, horizon 10", "line with an end", "holes", "random 0, horizon 1"])
def test_compiled_loops_equal_the_plain_ones(name):
    model, need = DESIGNS[name]()
    rng = np.random.default_rng(1)
    T = model.transitions()
    arrays, P, going = (T.indptr, T.indices, T.data), dense_pairs(T, model.actions), ~model.terminal
    mu, reward = rng.dirichlet(np.ones(model.actions), model.states), rng.normal(size=need.shape)
    choices = np.zeros((model.horizon, model.states), np.int16)
    value, length = flow._planned(*arrays, reward, going, model.horizon, choices)
    plain = planned(P, reward, going, model.horizon)
    assert value == pytest.approx(plain[0], rel=1e-12) and length == pytest.approx(plain[1], rel=1e-12)
    assert (choices == plain[2])[:, going].all()
    visits = flow._followed(*arrays, model.actions, model.start, choices)
    assert visits == pytest.approx(followed(P, model.start, plain[2]), rel=1e-12)
    h = rng.normal(size=model.states)
    found, mean_length = polish._slopes(*arrays, mu, model.start, h, model.horizon)
    by_differences, plain_length = slopes(P, mu, model.start, h, model.horizon)
    assert found == pytest.approx(by_differences, abs=1e-6 * (1 + abs(by_differences).max()))
    assert mean_length == pytest.approx(plain_length)
    x = summed(P, mu, model.start, model.horizon)
    assert design.occupancy(model, mu) == pytest.approx(x[:, None] * mu / x.sum())


@pytest.mark.parametrize("name", ["random 6, horizon None", "two rooms, no horizon", "bandits, no horizon"])
def test_plans_and_derivatives_without_a_horizon(name):
    """Against 500 random deterministic behaviours, and against derivatives by a complex step, which has no rounding."""
    model, need = DESIGNS[name]()
    rng = np.random.default_rng(2)
    reward = rng.uniform(0.1, 1, need.shape)
    plans = [np.eye(model.actions)[choice] for choice in rng.integers(model.actions, size=(500, model.states))]
    averages = [(reward * design.occupancy(model, mu)).sum() for mu in plans]
    highest, visits = best_endless_plan(model, reward, min(averages))
    assert max(averages) <= highest * (1 + 1e-9)
    assert (reward * visits).sum() == pytest.approx(highest, rel=1e-6)
    mu, h = rng.dirichlet(np.ones(model.actions), model.states), rng.normal(size=model.states)
    P = dense_pairs(model.transitions(), model.actions)
    found, length = endless_slopes(model, mu, h)

    def total(rows):
        onward = np.einsum("sa,san->sn", rows, P)
        return (model.start * ~model.terminal) @ np.linalg.inv(np.eye(model.states) - (1 - ENDLESS) * onward)

    assert length == pytest.approx(total(mu).sum(), rel=1e-6)
    way = rng.normal(size=mu.shape)
    way -= way.mean(axis=1, keepdims=True)
    assert (found * way).sum() == pytest.approx((total(mu + 1e-30j * way) @ h).imag / 1e-30, rel=1e-6)


def test_prices_with_endings_are_feasible():
    """Every behaviour's visits cost at most the scale of the prices, lambda + kappa / H."""
    rng = np.random.default_rng(0)
    for name in ("random 4, horizon 30", "traps, ring of 12"):
        model, need = DESIGNS[name]()
        found = solve_with_endings(model, need)
        assert flow.best_plan(model, found.price)[0] <= found.total * (1 + 1e-6)
        mu = rng.dirichlet(np.ones(model.actions), model.states)
        assert (found.price * design.occupancy(model, mu)).sum() <= found.total * (1 + 1e-6)


def test_polish_never_makes_it_worse():
    model, need = DESIGNS["one way, horizon 20"]()
    uniform = np.full(need.shape, 0.5)
    found = polish.polished(model, need, uniform)
    assert polish.total_error(model, need, found) < 0.9 * polish.total_error(model, need, uniform)
    assert polish.total_error(model, need, polish.polished(model, need, found)) <= polish.total_error(model, need, found)


# --- degenerate cases ------------------------------------------------------------------------------------------------


def test_pairs_that_no_behaviour_reaches_in_time():
    """The far end is 9 steps away: with 9 steps it is never acted in, and the behaviour serves the other pair."""
    model, need = line(10, 9, [(9, 1), (0, 0)])
    best = design.best_design(model, need)
    assert (best.constant, best.bound, best.timed, best.gap, best.converged) == (np.inf, np.inf, np.inf, 0.0, True)
    assert best.behaviour[0, 0] > 0.99
    assert np.isfinite(design.best_design(*line(10, 10, [(9, 1), (0, 0)])).constant)


@pytest.mark.parametrize("horizon", [1, 20, None])
def test_no_need_and_states_out_of_reach(horizon):
    model, need = sparse_random(3, 8, 3, horizon)
    best = design.best_design(model, 0 * need)
    assert (best.behaviour == 1 / 3).all() and (best.constant, best.bound, best.gap) == (0, 0, 0) and best.converged
    alone = design.best_design(model, need)
    assert (alone.behaviour[~model.going] == 1 / 3).all()


@pytest.mark.parametrize("horizon", [1, 7, None])
def test_every_episode_ends_at_once(horizon):
    """Bandits: mu is proportional to sqrt G, and uniform where all G are 0; sum G / x = sum_s (sum_a sqrt G)^2 / d0(s)."""
    model, need = bandits(4, horizon)
    need[1] = 0
    best = design.best_design(model, need)
    roots = np.sqrt(need[:4]).sum(axis=1)
    assert best.constant == pytest.approx((roots**2 / model.start[:4]).sum(), rel=1e-4)
    assert best.gap < 1e-3
    assert best.behaviour[0] == pytest.approx(np.sqrt(need[0]) / roots[0], abs=2e-3)
    assert best.behaviour[1] == pytest.approx(np.full(3, 1 / 3), abs=1e-3)
