"""The three forms of the variance against Monte Carlo and their recursions, and whether they exist."""

import numpy as np
import pytest
from helpers.worlds import corridor, dense, golden, question_tables, random_mdp, random_question
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx import exact

SEEDS = st.integers(0, 2**32 - 1)
LIGHT = settings(max_examples=30, deadline=None)
FORMS = ["expected_sarsa", "importance_sampling", "return_variance"]


# --- the three variance functions --------------------------------------------------------------------------------


def monte_carlo(world, question, behaviour, walkers, steps, seed):
    """Three sums from every first (state, action), all under `behaviour` with the first action given.

    Returns [3, state, action, walker]: sum g^t c_t, sum g^t delta_t and sum g^t rho_{1:t} delta_t, with V and Q from a
    linear solve of our own.
    """
    rng = np.random.default_rng(seed)
    P, gamma = dense(world), question.discount
    pi, mean, sd = question_tables(question)
    v = np.linalg.solve(np.eye(world.states) - gamma * np.einsum("sa,sat->st", pi, P), (pi * mean).sum(axis=1))
    q = mean + gamma * P @ v
    s = np.repeat(np.arange(world.states), world.actions * walkers)
    a = np.tile(np.repeat(np.arange(world.actions), walkers), world.states)
    sums, scale, ratio = np.zeros((3, len(s))), 1.0, np.ones(len(s))
    for _ in range(steps):
        s_next = (rng.random(len(s)) >= P[s, a, 0]).astype(int)  # two states
        c = mean[s, a] + sd[s, a] * rng.standard_normal(len(s))
        delta = c + gamma * v[s_next] - q[s, a]
        sums += scale * np.stack([c, delta, ratio * delta])
        s, scale = s_next, scale * gamma
        a = (rng.random(len(s)) >= behaviour[s, 0]).astype(int)  # two actions
        ratio *= pi[s, a] / behaviour[s, a]
    return sums.reshape(3, world.states, world.actions, walkers)


def assert_is_variance_of(expected, samples):
    """`expected` lies within 4 standard errors of the sample variance along the last axis."""
    squares = (samples - samples.mean(axis=-1, keepdims=True)) ** 2
    error = squares.std(axis=-1) / np.sqrt(samples.shape[-1])
    assert (error < 0.03 * squares.mean(axis=-1)).all(), "too few samples to tell the forms apart"
    assert (np.abs(squares.mean(axis=-1) - expected) < 4 * error).all()


def noisy_golden():
    """The golden example's first GVF with a noisy cumulant, so that the cumulant's own sd is tested too."""
    world, (first, _) = golden()
    cumulant = gvfx.table_cumulant(first.cumulant.mean, [[0.2, 0.5], [0.1, 0.3]])
    return world, gvfx.GVF(first.policy, cumulant, first.discount)


def test_eq_6_is_the_variance_of_discounted_errors_and_the_third_form_that_of_the_return():
    world, question = noisy_golden()
    pi, _, _ = question_tables(question)
    returns, errors, weighted = monte_carlo(world, question, pi, walkers=50_000, steps=60, seed=1)
    assert np.array_equal(errors, weighted), "on policy every ratio is 1"
    eq6 = exact.variance(world, [question])[:, :, 0]
    whole = exact.variance(world, [question], "return_variance")[:, :, 0]
    assert_is_variance_of(eq6, errors)
    assert_is_variance_of(whole, returns)
    assert (whole > 1.1 * eq6).all(), "the forms differ by more than the standard errors"


def test_eq_4_is_the_variance_of_ratio_weighted_errors_under_the_behaviour():
    world, question = noisy_golden()
    mu = np.array([[0.65, 0.35], [0.65, 0.35]])
    _, errors, weighted = monte_carlo(world, question, mu, walkers=50_000, steps=60, seed=2)
    eq4 = exact.variance(world, [question], "importance_sampling", mu)[:, :, 0]
    assert_is_variance_of(eq4, weighted)
    assert (eq4 > 1.05 * exact.variance(world, [question])[:, :, 0]).all()
    assert np.abs(errors.var(axis=-1) / eq4 - 1).max() > 0.05, "the ratios matter here"


def test_return_variance_equals_its_second_moment_equations():
    """E[G^2] solved from its own linear system over (state, action), minus the squared mean."""
    world, questions = golden()
    v, q = exact.values(world, questions), exact.action_values(world, questions)
    P = dense(world)
    for i, question in enumerate(questions):
        pi, mean, _ = question_tables(question)
        g = question.discount
        onward = np.einsum("sat,tb->satb", P, pi).reshape(4, 4)
        paid = (mean**2 + 2 * g * mean * (P @ v[i])).ravel()
        second = np.linalg.solve(np.eye(4) - g * g * onward, paid).reshape(2, 2)
        assert exact.variance(world, questions, "return_variance")[:, :, i] == pytest.approx(second - q[:, :, i] ** 2)
        by_state = (pi * second).sum(axis=1) - v[i] ** 2
        assert exact.state_variance(world, questions, "return_variance")[i] == pytest.approx(by_state)


def test_eq_6_omits_the_spread_of_action_values():
    world, questions = golden()
    m = exact.variance(world, questions)
    assert m[0, 0, 0] == pytest.approx(0.780, abs=5e-4)
    assert exact.variance(world, questions, "return_variance")[0, 0, 0] == pytest.approx(0.960, abs=5e-4)


@LIGHT
@given(SEEDS)
def test_the_three_forms_satisfy_their_own_recursions(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng)
    question = random_question(rng, world, discount=rng.uniform(0, 0.7))
    pi, _, sd = question_tables(question)
    mu = 0.5 * pi + 0.5 / world.actions
    P, g = dense(world), question.discount
    v, q = exact.values(world, [question])[0], exact.action_values(world, [question])[:, :, 0]
    noise = sd**2 + g * g * (P @ v**2 - (P @ v) ** 2)
    assert exact.transition_noise(world, [question])[:-1, :, 0] == pytest.approx(noise[:-1], abs=1e-9)
    spread = (pi * q**2).sum(axis=1) - (pi * q).sum(axis=1) ** 2
    for form, weight, extra in [
        ("expected_sarsa", pi, 0),
        ("importance_sampling", pi**2 / mu, 0),
        ("return_variance", pi, spread),
    ]:
        m = exact.variance(world, [question], form, mu)[:, :, 0]
        by_state = (weight * m).sum(axis=1) + extra
        assert m[:-1] == pytest.approx((noise + g * g * P @ by_state)[:-1], rel=1e-8, abs=1e-8)
        assert (m[-1] == 0).all()
        assert exact.state_variance(world, [question], form, mu)[0] == pytest.approx(by_state, rel=1e-8, abs=1e-8)


def test_on_policy_eq_4_is_eq_6():
    world, questions = golden()
    pi = question_tables(questions[0])[0]
    on_policy = exact.variance(world, questions[:1], "importance_sampling", pi)
    assert on_policy == pytest.approx(exact.variance(world, questions[:1]))


def test_variance_with_a_state_dependent_discount_is_that_of_the_delayed_return():
    """Discount g(s') on a coin flip: G = 1 + g(s') * 1 with s' = 0 (g = .2) or 1 (g = .6), then the end."""
    P = np.zeros((4, 1, 4))
    P[0, 0, 1:3] = 0.5
    P[1:, 0, 3] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False] * 3 + [True])
    question = gvfx.GVF([1.0], 1.0, lambda s, a, s_next: {1: 0.2, 2: 0.6}.get(s_next, 0.0))
    assert exact.values(world, [question])[0, 0] == pytest.approx(1.4)
    for form in FORMS:
        assert exact.variance(world, [question], form, np.ones((1, 1)))[0, 0, 0] == pytest.approx(0.04)


def test_importance_sampling_needs_a_behaviour():
    world, questions = golden()
    with pytest.raises(gvfx.InputError, match=r"^behaviour:"):
        exact.variance(world, questions, "importance_sampling")


def test_unknown_variance_form_is_an_input_error():
    world, questions = golden()
    with pytest.raises(gvfx.InputError, match=r"^form: 'td' is unknown"):
        exact.variance(world, questions, "td")


# --- existence ---------------------------------------------------------------------------------------------------


def test_the_lemmas_condition_and_the_spectral_radius_by_hand():
    """One state that returns to itself: both numbers are g^2 sum pi^2/mu."""
    world = gvfx.MDP.from_matrix([[[1.0], [1.0]]])
    mu = np.array([[0.5, 0.5]])
    fine, lost = (gvfx.GVF([0.8, 0.2], gvfx.Distractor(0, 1), g) for g in (0.8, 0.9))
    good, bad = exact.existence(world, [fine, lost], mu)
    assert (good.largest_ratio, good.spectral_radius) == pytest.approx((0.64 * 1.36, 0.64 * 1.36))
    assert good.condition and good.exists
    assert (bad.largest_ratio, bad.spectral_radius) == pytest.approx((0.81 * 1.36, 0.81 * 1.36))
    assert not bad.condition and not bad.exists


def test_where_m_does_not_exist_it_is_infinite():
    world = gvfx.MDP.from_matrix([[[1.0], [1.0]]])
    mu = np.array([[0.5, 0.5]])
    fine, lost = (gvfx.GVF([0.8, 0.2], gvfx.Distractor(0, 1), g) for g in (0.8, 0.9))
    m = exact.variance(world, [fine, lost], "importance_sampling", mu)
    assert m[0, :, 0] == pytest.approx(np.full(2, 1 / (1 - 0.64 * 1.36)))
    assert np.isinf(m[0, :, 1]).all()
    by_state = exact.state_variance(world, [fine, lost], "importance_sampling", mu)
    assert np.isfinite(by_state[0, 0]) and np.isinf(by_state[1, 0])


def test_m_may_exist_although_the_lemmas_condition_fails():
    """Two steps, then the end: the ratio is large in the first state, but no state comes back."""
    world = corridor(2)
    question = gvfx.GVF([1.0, 0.0], gvfx.Distractor(1, 1), 0.9)
    (verdict,) = exact.existence(world, [question], np.array([[0.25, 0.75]]))
    assert verdict.largest_ratio == pytest.approx(0.81 * 4)
    assert not verdict.condition
    assert verdict.spectral_radius == pytest.approx(0)
    assert verdict.exists
    m = exact.variance(world, [question], "importance_sampling", np.array([[0.25, 0.75]]))
    assert m[:, 0, 0] == pytest.approx([1 + 0.81 * 4 * 1, 1, 0])


def test_m_does_not_exist_where_the_behaviour_never_takes_a_target_action():
    world, questions = golden()
    (verdict,) = exact.existence(world, questions[:1], np.array([[1.0, 0.0]]))
    assert not verdict.exists
    assert np.isinf(exact.variance(world, questions[:1], "importance_sampling", np.array([[1.0, 0.0]]))).all()


def test_the_spectral_radius_of_a_large_world_is_not_its_largest_row_sum():
    """600 states in a row, none comes back: the radius is 0 and M exists, as it does with 400."""
    question = gvfx.GVF([1.0, 0.0], gvfx.Distractor(1, 1), 0.9)
    for cells in (400, 600):
        (verdict,) = exact.existence(corridor(cells), [question], np.array([[0.5, 0.5]]))
        assert verdict.largest_ratio == pytest.approx(1.62)
        assert verdict.spectral_radius == pytest.approx(0, abs=1e-6), cells


@pytest.mark.parametrize("side", [20, 25], ids=["dense", "iterative"])
def test_the_spectral_radius_of_a_grid_lies_in_a_bracket(side):
    """For a non-negative A, (I - A/c)^-1 is non-negative exactly when its radius is below c."""
    world = gvfx.gridworld(side, {"L": (0, 0)})
    pi = np.array([0.4, 0.1, 0.4, 0.1])
    (verdict,) = exact.existence(world, [gvfx.GVF(pi, gvfx.Constant(1, at="L"), 0.99)], np.full((1, 4), 0.25))
    A = 0.99**2 * np.einsum("a,sat->st", pi**2 / 0.25, dense(world))[:-1, :-1]
    identity, ones = np.eye(len(A)), np.ones(len(A))
    assert np.linalg.solve(identity - A / (1.001 * verdict.spectral_radius), ones).min() >= 1
    assert np.linalg.solve(identity - A / (0.999 * verdict.spectral_radius), ones).min() < 0


def test_wall_cells_do_not_decide_whether_m_exists():
    """Nobody ever stands in a wall, so a behaviour that is poor only there leaves M as it is."""
    world = gvfx.gridworld("L...\n.##.\n....")
    question = gvfx.GVF([0.4, 0.1, 0.4, 0.1], gvfx.Distractor(100, 5, at="L"), 0.9)
    good = np.tile(question.policy.probabilities, (world.states, 1))
    poor_in_walls = good.copy()
    poor_in_walls[[5, 6]] = [0.01, 0.01, 0.01, 0.97]
    expected = exact.variance(world, [question], "importance_sampling", good)[world.live]
    found = exact.variance(world, [question], "importance_sampling", poor_in_walls)[world.live]
    assert np.isfinite(expected).all()
    assert np.isfinite(found).all()
    assert found == pytest.approx(expected)
    (verdict,) = exact.existence(world, [question], poor_in_walls)
    assert verdict.exists
