"""Exact values against hand-worked answers, brute force and the constants of the paper's settings."""

import numpy as np
import pytest
from helpers.worlds import chain, dense, question_tables, random_mdp, random_question, two_armed_bandit
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
import gvfx_paper
from gvfx import exact
from gvfx.questions.gvf import stack
from gvfx.theory import exact as systems

SEEDS = st.integers(0, 2**32 - 1)
LIGHT = settings(max_examples=30, deadline=None)
FORMS = ["expected_sarsa", "importance_sampling", "return_variance"]


# --- check values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "expected", "digits"),
    [
        ("same", [1.3047, 3.4569], 4),
        ("distinct", [1.3045, 0.4934], 4),
        ("semi-greedy", [59.364, 29.682], 3),
    ],
)
def test_mean_value_over_401_states_of_the_paper_settings(setting, expected, digits):
    s = gvfx_paper.paper[setting]
    v = exact.values(s.world, s.questions)
    assert v.shape == (2, 401)
    assert v.mean(axis=1) == pytest.approx(expected, abs=0.51 * 10**-digits)


def test_mean_value_of_the_forty_gvfs():
    s = gvfx_paper.paper["forty"]
    v = exact.values(s.world, s.questions)
    assert v.shape == (40, 401)
    assert v.mean() == pytest.approx(3.087, abs=0.00051)


# --- values ------------------------------------------------------------------------------------------------------


def test_values_of_the_chain_by_hand():
    world, questions = chain(discount=0.5)
    assert exact.values(world, questions) == pytest.approx(np.array([[1.5, 1.0, 0.0]]))
    assert exact.action_values(world, questions)[:, 0, 0] == pytest.approx([1.5, 1.0, 0.0])


def test_values_of_the_chain_without_discount():
    world, questions = chain(discount=1.0)
    assert exact.values(world, questions)[0] == pytest.approx([2.0, 1.0, 0.0])


def test_bandit_by_hand():
    world, questions = two_armed_bandit()
    mu = np.array([[0.5, 0.5]])
    assert exact.values(world, questions)[0] == pytest.approx([2.5, 0.0])
    assert exact.action_values(world, questions)[0, :, 0] == pytest.approx([1.0, 3.0])
    for form in FORMS:
        assert exact.variance(world, questions, form, mu)[:, :, 0] == pytest.approx(np.array([[4.0, 0.0], [0.0, 0.0]]))
    by_state = [exact.state_variance(world, questions, form, mu)[0] for form in FORMS]
    assert np.array(by_state) == pytest.approx(np.array([[1.0, 0.0], [0.5, 0.0], [1.75, 0.0]]))


@LIGHT
@given(SEEDS, st.integers(2, 7), st.integers(1, 4), st.booleans())
def test_values_are_the_fixed_point_of_their_bellman_equation(seed, states, actions, terminal):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, states, actions, terminal)
    question = random_question(rng, world)
    pi, mean, _ = question_tables(question)
    v = exact.values(world, [question])[0]
    backup = np.einsum("sa,sa->s", pi, mean + question.discount * dense(world) @ v)
    backup[world.terminal] = 0
    assert v == pytest.approx(backup, rel=1e-9, abs=1e-9)


@LIGHT
@given(SEEDS)
def test_action_values_agree_with_values(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng)
    questions = [random_question(rng, world) for _ in range(3)]
    v, q = exact.values(world, questions), exact.action_values(world, questions)
    for i, question in enumerate(questions):
        pi, mean, _ = question_tables(question)
        assert (pi * q[:, :, i]).sum(axis=1) == pytest.approx(v[i], abs=1e-9)
        backup = mean + question.discount * dense(world) @ v[i]
        assert q[:-1, :, i] == pytest.approx(backup[:-1], abs=1e-9)
        assert (q[-1] == 0).all()


def test_truncation_does_not_change_the_truth():
    """A horizon cuts episodes but values bootstrap on."""
    short, questions = chain(horizon=1)
    assert exact.values(short, questions)[0] == pytest.approx([1.5, 1.0, 0.0])


@LIGHT
@given(SEEDS)
def test_state_dependent_discount_against_a_brute_force_solve(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, states=5)
    gamma = rng.uniform(0, 0.95, (5, 3, 5))
    plain = random_question(rng, world)
    question = gvfx.GVF(plain.policy, plain.cumulant, lambda s, a, s_next: gamma[s, a, s_next])
    pi, mean, _ = question_tables(question)
    P = dense(world)
    system, right = np.eye(4), np.zeros(4)  # state 4 is terminal: its value is 0
    for s in range(4):
        for a in range(3):
            right[s] += pi[s, a] * mean[s, a]
            for s_next in range(4):
                system[s, s_next] -= pi[s, a] * P[s, a, s_next] * gamma[s, a, s_next]
    v = exact.values(world, [question, plain])
    assert v[0] == pytest.approx(np.append(np.linalg.solve(system, right), 0), abs=1e-9)
    assert v[1] == pytest.approx(exact.values(world, [plain])[0], abs=1e-12)


def test_discount_function_may_end_a_sum_that_the_world_never_ends():
    """Discount 1 except on leaving state 1, in a world without termination: 2 paid, then nothing."""
    P = [[[0, 1.0]], [[1.0, 0]]]
    world = gvfx.MDP.from_matrix(P)
    question = gvfx.GVF([1.0], 1.0, lambda s, a, s_next: float(s == 0))
    assert exact.values(world, [question])[0] == pytest.approx([2.0, 1.0])


def test_values_are_linear_in_a_drifters_level():
    s = gvfx_paper.paper["fourrooms"]
    at = {level: exact.values(s.world, s.questions, np.array([0.0, level])) for level in (0.0, 1.0, -250.0)}
    assert (at[0.0][1] == 0).all()
    assert at[1.0][1].max() > 0.5
    assert at[-250.0][1] == pytest.approx(-250 * at[1.0][1])
    assert at[-250.0][0] == pytest.approx(at[1.0][0]), "a question without drift must not move"
    assert exact.values(s.world, s.questions)[1] == pytest.approx(100 * at[1.0][1]), "default: the drifter's start"
    base, unit = exact.value_parts(s.world, stack(s.questions, s.world))
    assert base[1] + 7 * unit[1] == pytest.approx(7 * at[1.0][1])


def test_action_values_and_noise_follow_the_given_levels():
    world, _ = two_armed_bandit()
    question = gvfx.GVF([0.25, 0.75], gvfx.Drifter(0.5, 100, at=0), 0.9)
    assert exact.action_values(world, [question], np.array([7.0]))[0, :, 0] == pytest.approx([7.0, 7.0])
    assert exact.action_values(world, [question])[0, :, 0] == pytest.approx([100.0, 100.0])
    P = np.array([[[0.5, 0.5]], [[0, 1.0]]])
    leaving = gvfx.MDP.from_matrix(P, terminal=[False, True])  # V = L / (1 - g/2), noise = (g V / 2)^2
    question = gvfx.GVF([1.0], gvfx.Drifter(0.5, 100, at=0), 0.8)
    for level in (3.0, -6.0):
        noise = exact.transition_noise(leaving, [question], np.array([level]))
        assert noise[0, 0, 0] == pytest.approx((0.4 * level / 0.6) ** 2)


def test_successor_representation_counts_discounted_visits():
    world, questions = chain(discount=0.5)
    assert exact.successor_representation(world, questions[0]) == pytest.approx(
        np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 0]], float)
    )


@LIGHT
@given(SEEDS)
def test_successor_rows_sum_to_the_discounted_lifetime_and_give_the_values(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, terminal=False)
    question = random_question(rng, world)
    F = exact.successor_representation(world, question)
    pi, mean, _ = question_tables(question)
    assert F.sum(axis=1) == pytest.approx(np.full(4, 1 / (1 - question.discount)))
    assert F @ (pi * mean).sum(axis=1) == pytest.approx(exact.values(world, [question])[0], abs=1e-9)


@LIGHT
@given(SEEDS)
def test_values_are_successors_times_cumulants_with_termination(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng)
    question = random_question(rng, world)
    F = exact.successor_representation(world, question)
    pi, mean, _ = question_tables(question)
    assert (F[-1] == 0).all() and (F[:, -1] == 0).all()
    assert F @ (pi * mean).sum(axis=1) == pytest.approx(exact.values(world, [question])[0], abs=1e-9)


# --- a discount of one -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense_below", [1500, 0], ids=["dense", "sparse"])
@pytest.mark.parametrize("which", ["swap", "random"])
def test_discount_one_without_termination_is_an_input_error(monkeypatch, dense_below, which):
    """`swap` makes an exactly singular matrix, `random` one that is singular up to rounding."""
    monkeypatch.setattr(systems, "DENSE_BELOW", dense_below)
    if which == "swap":
        world = gvfx.MDP.from_matrix([[[0, 1.0]], [[1.0, 0]]])
    else:
        world = random_mdp(np.random.default_rng(0), states=6, terminal=False)
    question = gvfx.GVF(np.full(world.actions, 1 / world.actions), 1.0, 1.0)
    with pytest.raises(gvfx.InputError, match=r"^discount: .*'gvf1'"):
        exact.values(world, [question])


def test_discount_one_works_on_a_map_with_walls():
    """Walls are states that nobody enters; the episode ends at the goal, so every free cell is worth 1."""
    world = gvfx.gridworld("..#\n.#.\n..G")
    v = exact.values(world, [gvfx.GVF([0.25] * 4, gvfx.Constant(1, at="G"), 1.0)])[0]
    assert v[world.live] == pytest.approx(np.ones(7))


# --- the two solvers ---------------------------------------------------------------------------------------------


def test_dense_and_sparse_solvers_agree(monkeypatch):
    world = gvfx.gridworld("L...#...\n....#...\n........\n##.##.##\n....#...\n.......R")
    questions = [
        gvfx.GVF([0.4, 0.1, 0.4, 0.1], gvfx.Distractor(100, 5, at="L"), 0.8),
        gvfx.GVF([0.1, 0.4, 0.1, 0.4], gvfx.Drifter(0.5, 100, at="R"), 0.7),
    ]
    mu = np.full((1, 4), 0.25)

    def everything():
        parts = [exact.values(world, questions), exact.successor_representation(world, questions[0])]
        return parts + [exact.variance(world, questions, form, mu) for form in FORMS]

    by_dense = everything()
    monkeypatch.setattr(systems, "DENSE_BELOW", 0)
    for a, b in zip(by_dense, everything(), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_a_60_by_60_grid_through_the_sparse_solver():
    world = gvfx.gridworld(60, {"left": (0, 0)})
    assert world.states == 3601 >= systems.DENSE_BELOW
    pi = np.array([0.4, 0.1, 0.4, 0.1])
    question = gvfx.GVF(pi, gvfx.Distractor(100, 5, at="left"), 0.99)
    v = exact.values(world, [question])[0]
    following = np.einsum("a,sak,sak->s", pi, world.prob, v[world.next])
    expected = 0.99 * following
    expected[0], expected[-1] = 100, 0
    assert v == pytest.approx(expected, abs=1e-9)
    m = exact.variance(world, [question])[:, :, 0]
    assert m[0] == pytest.approx(25 * np.ones(4))
    assert (m[:-1] >= 0).all() and np.isfinite(m).all()
    mu = exact.explorer_behaviour(world, [question])
    assert mu.sum(axis=1) == pytest.approx(np.ones(3601))
