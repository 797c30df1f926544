"""Error theory against brute force, Monte Carlo, hand-worked answers and the constants of the paper's settings."""

import itertools

import numpy as np
import probes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx import design, exact
from gvfx.questions.gvf import stack
from gvfx.theory import systems
from gvfx.theory.flow import highest_average
from gvfx.theory.importance import per_visit
from gvfx.theory.optimum import _pairs

SEEDS = st.integers(0, 2**32 - 1)
LIGHT = settings(max_examples=20, deadline=None)


def frozen_four_rooms():
    """FourRooms with the drifter taken as N(100, 0.5)."""
    s = gvfx.paper["fourrooms"]
    second = gvfx.GVF(s.questions[1].policy, gvfx.Distractor(100, 0.5, at="right"), 0.99, name="right")
    return s.world, [s.questions[0], second]


def setting(name):
    s = gvfx.paper[name]
    return frozen_four_rooms() if name == "fourrooms" else (s.world, s.questions)


def random_case(seed, states=5, actions=3, gvfs=2, horizon=20, terminal=True):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), size=(states, actions))
    ends = np.arange(states) == (states - 1 if terminal else -1)
    world = gvfx.MDP.from_matrix(P, terminal=ends, horizon=horizon)
    return world, [probes.random_question(rng, world, discount=0.8) for _ in range(gvfs)]


def arrays(world, questions):
    """What the functions on arrays take: model, pi, gamma, noise."""
    asked = stack(questions, world)
    return design.Model.of(world), asked.pi, asked.gamma, exact.transition_noise(world, questions)


# --- the constants of the paper's settings -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mixture", "uniform", "explorer", "optimum", "gap"),
    [
        ("same", 127_260, 25_976, 8_195, 1_446.2, 0.04),
        ("distinct", 68_295, 9_941, 7_346, 502.5, 0.035),
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
    assert best.converged
    assert best.constant == pytest.approx(optimum, rel=1e-3)
    assert 0 <= best.gap < gap
    planned = design.plan(design.Model.of(world), design.importance_of(world, questions))
    assert design.constant(world, questions, planned) < 1.005 * best.constant


# --- importance and variances ------------------------------------------------------------------------------------


@LIGHT
@given(SEEDS, st.booleans())
def test_importance_by_loops(seed, terminal):
    world, questions = random_case(seed, terminal=terminal)
    noise = exact.transition_noise(world, questions)
    expected = np.zeros((world.states, world.actions))
    for i, question in enumerate(questions):
        F = exact.successor_representation(world, question)
        pi = np.array(question.policy.rows)
        for s, a in itertools.product(range(world.states), range(world.actions)):
            reach = sum(F[s0, s] ** 2 for s0 in np.flatnonzero(world.live)) / world.live.sum()
            expected[s, a] += reach * pi[s, a] ** 2 * noise[s, a, i] / 2
    assert design.importance_of(world, questions) == pytest.approx(expected)
    counts = np.random.default_rng(seed).uniform(1, 9, expected.shape)
    v = design.variances(*arrays(world, questions), counts)
    assert v[:, world.live].mean() == pytest.approx((expected / counts).sum())


def test_random_signs_stand_for_the_dense_inverse(monkeypatch):
    world, questions = random_case(3, states=40)
    counts = np.random.default_rng(0).uniform(1, 9, (40, 3))
    dense = design.importance_of(world, questions), design.variances(*arrays(world, questions), counts)
    monkeypatch.setattr(systems, "DENSE_BELOW", 0)
    assert design.importance_of(world, questions, signs=2000) == pytest.approx(dense[0], rel=0.1)
    assert design.variances(*arrays(world, questions), counts, 2000)[:, :-1] == pytest.approx(dense[1][:, :-1], rel=0.15)


def test_discounts_that_vary_and_weights_enter_the_importance():
    world, questions = random_case(1)
    varying = [gvfx.GVF(q.policy, q.cumulant, lambda s, a, n: 0.8) for q in questions]
    assert design.importance_of(world, varying) == pytest.approx(design.importance_of(world, questions))
    only = gvfx.GVF(questions[0].policy, questions[0].cumulant, 0.8, weight=3.0, name="only")
    none = gvfx.GVF(questions[1].policy, questions[1].cumulant, 0.8, weight=0.0, name="none")
    assert design.importance_of(world, [only, none]) == pytest.approx(design.importance_of(world, [only]))


def test_missing_data_make_only_the_answers_that_need_them_unsure():
    world, questions = probes.chain(discount=0.5)
    model, pi, gamma, _ = arrays(world, questions)
    noise = np.ones((3, 1, 1))
    assert design.variances(model, pi, gamma, noise, np.array([[0], [4], [0]]))[0] == pytest.approx([np.inf, 0.25, np.inf])
    noise[[0, 2]] = 0
    assert design.variances(model, pi, gamma, noise, np.array([[0], [4], [0]]))[0] == pytest.approx([0.0625, 0.25, 0.0])


def test_certainty_equivalence_has_the_predicted_error():
    """Counted models of 3,000 visits per pair, 500 times: mean error, variances per state, and the spread of one run."""
    world, questions = random_case(5, states=4, actions=2)
    rng = np.random.default_rng(0)
    model, pi, gamma, noise = arrays(world, questions)
    truth, P, n, runs = exact.values(world, questions), probes.dense(world), 3000, 500
    counts = np.full((4, 2), float(n))
    estimates = np.empty((runs, 2, 4))
    for r in range(runs):
        counted = rng.multinomial(n, P) / n
        counted[-1] = P[-1]
        for i, q in enumerate(questions):
            mean = np.array(q.cumulant.mean) + np.array(q.cumulant.sd) * rng.normal(size=(4, 2)) / n**0.5
            policy = np.array(q.policy.rows)
            onward = np.einsum("sa,sap->sp", policy, counted) * 0.8 * ~world.terminal * ~world.terminal[:, None]
            estimates[r, i] = np.linalg.solve(np.eye(4) - onward, (policy * mean).sum(axis=1) * ~world.terminal)
    squares = (estimates - truth) ** 2
    predicted = design.variances(model, pi, gamma, noise, counts)
    assert squares.mean(axis=0)[:, :-1] == pytest.approx(predicted[:, :-1], rel=0.25)
    errors = squares[:, :, world.live].mean(axis=2).mean(axis=1)
    assert errors.mean() == pytest.approx((design.importance_of(world, questions) / n).sum(), rel=0.1)
    drawn = design.error_draws(model, pi, gamma, noise, truth, design.evaluation(world), counts, 4000).mean(axis=1)
    assert np.quantile(errors, 0.95) == pytest.approx(np.quantile(drawn, 0.95), rel=0.15)


# --- where a behaviour goes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 4, None])
def test_occupancy_against_simulated_episodes(horizon):
    world, _ = random_case(7, horizon=horizon)
    rng = np.random.default_rng(1)
    mu = probes.random_policy(rng, world)
    P, visits = probes.dense(world), np.zeros((world.states, world.actions))
    state, age = rng.choice(world.states, 4000, p=world.start), np.zeros(4000, int)
    for _ in range(200):
        action = (rng.random((4000, 1)) > mu[state].cumsum(axis=1)).sum(axis=1).clip(max=world.actions - 1)
        np.add.at(visits, (state, action), 1)
        state = (rng.random((4000, 1)) > P[state, action].cumsum(axis=1)).sum(axis=1).clip(max=world.states - 1)
        age += 1
        over = world.terminal[state] | (age >= (horizon or 10**9))
        state[over], age[over] = rng.choice(world.states, over.sum(), p=world.start), 0
    assert design.occupancy(design.Model.of(world), mu) == pytest.approx(visits / visits.sum(), rel=0.05, abs=1e-3)


@LIGHT
@given(SEEDS, st.integers(1, 3))
def test_highest_average_against_every_plan_that_knows_the_age(seed, horizon):
    world, _ = random_case(seed, states=3, actions=2, horizon=horizon)
    reward = np.random.default_rng(seed).uniform(0, 1, (3, 2))
    P, best = probes.dense(world), 0.0
    for choices in itertools.product(itertools.product(range(2), repeat=2), repeat=horizon):
        spec, earned, steps = world.start, 0.0, 0.0
        for choice in choices:
            earned, steps = earned + sum(spec[s] * reward[s, choice[s]] for s in range(2)), steps + spec[:2].sum()
            spec = sum(spec[s] * P[s, choice[s]] for s in range(2)) * ~world.terminal
        best = max(best, earned / steps)
    assert highest_average(design.Model.of(world), reward) == pytest.approx(best, rel=1e-6)


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
    others = [probes.random_policy(rng, world) for _ in range(200)]
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
    world, questions = probes.bandit()
    wide = [gvfx.GVF([0.25, 0.75], gvfx.table_cumulant([[1, 3], [0, 0]], [[2, 1], [0, 0]]), 0.9)]
    best = design.optimal(world, wide)  # G = (1/16 * 4, 9/16 * 1)
    assert best.behaviour[0] == pytest.approx([0.4, 0.6], abs=1e-4)
    assert best.constant == pytest.approx((0.5 + 0.75) ** 2, rel=1e-6)
    assert best.gap < 1e-6
    assert design.optimal(world, questions).constant == pytest.approx(0.25, rel=1e-4)  # the second arm has no noise


def test_nothing_unsure_needs_nothing():
    world, questions = probes.chain()
    best = design.optimal(world, questions)
    assert (best.constant, best.bound, best.gap) == (0, 0, 0)


# --- planning with data in hand ----------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_plan_makes_up_for_what_was_visited_before(seed):
    world, questions = random_case(seed, states=6, horizon=50)
    model, need = design.Model.of(world), design.importance_of(world, questions)
    rng = np.random.default_rng(seed)
    counts = 1000 * design.occupancy(model, probes.random_policy(rng, world))

    def remaining(mu):
        return per_visit(need, counts + 500 * design.occupancy(model, mu)).sum()

    planned = remaining(design.plan(model, need, counts, 500))
    others = [probes.random_policy(rng, world) for _ in range(100)]
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
        mu = design.plan(model, need, counts, 100)
        assert (mu > 0).all() and mu.sum(axis=1) == pytest.approx(np.ones(states))
        assert (mu[~model.going] == 0.5).all()


def test_bad_input_is_named():
    world, questions = random_case(0)
    model, need = design.Model.of(world), design.importance_of(world, questions)
    with pytest.raises(gvfx.InputError, match="need:"):
        design.plan(model, -need)
    with pytest.raises(gvfx.InputError, match="counts:"):
        design.plan(model, need, need[:2], 10)
    with pytest.raises(gvfx.InputError, match="behaviour:"):
        design.constant(world, questions, [[0.5, 0.25, 0.25]] * 2)
    with pytest.raises(gvfx.InputError, match="error:"):
        design.steps_needed(100, 0)


# --- prediction, weights, rivals ---------------------------------------------------------------------------------


def test_constants_per_question_and_of_a_behaviour_that_leaves_something_out():
    world, questions = random_case(2)
    mu = [0.2, 0.3, 0.5]
    each = design.constants(world, questions, mu)
    assert each.mean() == pytest.approx(design.constant(world, questions, mu))
    assert np.isinf(design.constants(world, questions, [0, 0.5, 0.5])).all()
    assert design.steps_needed(np.inf, 0.1) == np.inf
    assert design.steps_needed(100.0, 0.3) == 334


def test_one_noisy_pair_is_a_chi_square():
    world, questions = probes.bandit()
    forecast = design.forecast(world, questions, [0.5, 0.5], draws=20_000)
    assert forecast.constant == pytest.approx(0.25 / 0.5)
    assert forecast.error(100, 0.95) == pytest.approx(0.005 * 3.84, rel=0.05)
    assert forecast.steps(0.005) == 100
    with pytest.raises(gvfx.InputError, match="share:"):
        forecast.error(100, 1.5)


def test_calibrated_weights_undo_scales():
    values, where = np.array([[1.0, 2.0], [1000.0, 2000.0], [0.0, 0.0]]), np.array([0.5, 0.5])
    weights = design.calibrated_weights(values, where)
    assert weights[0] / weights[1] == pytest.approx(1e6)
    assert weights[2] == 0 and weights.mean() == pytest.approx(1)


def test_second_moment_by_hand():
    world, questions = probes.bandit()
    score = np.array([0.25 * 5**0.5, 0.75 * 3])  # E[G^2] = 1 + 4 and 9
    assert design.second_moment_of(world, questions)[0] == pytest.approx(score / score.sum())


def test_characteristic_time_gives_every_pair_the_same_share_of_its_need():
    world, questions = random_case(4, states=4, actions=2, horizon=None, terminal=False)
    mu = design.characteristic_time_of(world, questions)
    x, v, P = design.occupancy(design.Model.of(world), mu), exact.values(world, questions), probes.dense(world)
    need = np.zeros((4, 2))
    for (s, a), (i, q) in itertools.product(itertools.product(range(4), range(2)), enumerate(questions)):
        spread = max(abs(np.array([*v[i], 0.0]) - P[s, a] @ v[i])) * 0.8
        need[s, a] = max(need[s, a], (q.policy.rows[s][a] * spread) ** 2)
    rng = np.random.default_rng(0)
    others = [design.occupancy(design.Model.of(world), probes.random_policy(rng, world)) for _ in range(200)]
    assert (need / x).max() <= min((need / other).max() for other in others)
