"""Behaviours: properties of their probabilities, and probe worlds whose answer is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx.kernel import Sizes
from gvfx.questions.gvf import stack
from gvfx.schedules import Fixed, Geometric, Linear

GVFS, ACTIONS = 3, 4
SIZES = Sizes(GVFS, ACTIONS)
simplex = st.lists(st.floats(0.0, 1.0), min_size=ACTIONS, max_size=ACTIONS).filter(lambda v: sum(v) > 0.1)
policies = st.lists(simplex, min_size=GVFS, max_size=GVFS).map(
    lambda rows: np.array([np.array(r) / sum(r) for r in rows]).T.copy()
)
variances = st.lists(st.lists(st.floats(0.0, 1e6), min_size=GVFS, max_size=GVFS), min_size=ACTIONS, max_size=ACTIONS).map(
    np.array
)


def bandit(*arms, horizon=None):
    """One state, one step: each arm pays N(mean, sd)."""
    P = np.zeros((2, len(arms), 2))
    P[:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, True], horizon=horizon)
    means, sds = [[[arm[k] for arm in arms], [0] * len(arms)] for k in (0, 1)]
    return world, gvfx.table_cumulant(means, sds)


@pytest.fixture(scope="module")
def asked():
    world = gvfx.gridworld(3, {"goal": (0, 0)})
    questions = [gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1, at="goal"), name=str(i)) for i in range(GVFS)]
    return world, stack(questions, world)


def probabilities(behaviour, asked, pi, m, t=10**6):
    world, stacked = asked
    mu = np.empty(ACTIONS)
    behaviour.rule(SIZES).probabilities(behaviour.begin(stacked, world), t, 0, 0, pi, np.ascontiguousarray(m), mu)
    return mu


@settings(deadline=None)
@given(pi=policies, m=variances)
def test_explorer_probabilities_sum_to_one_and_follow_eq_3(asked, pi, m):
    mu = probabilities(gvfx.GVFExplorer(), asked, pi, m)
    score = np.sqrt((pi**2 * m).sum(axis=1))
    np.testing.assert_allclose(mu, score / score.sum() if score.sum() > 0 else 0.25, rtol=1e-9, atol=1e-12)
    assert abs(mu.sum() - 1) < 1e-9


@settings(deadline=None)
@given(pi=policies, m=variances, order=st.permutations(range(GVFS)), scale=st.floats(1e-3, 1e3))
def test_explorer_ignores_the_order_of_gvfs_and_the_scale_of_variances(asked, pi, m, order, scale):
    mu = probabilities(gvfx.GVFExplorer(), asked, pi, m)
    same = probabilities(gvfx.GVFExplorer(), asked, np.ascontiguousarray(pi[:, order]), m[:, order] * scale)
    np.testing.assert_allclose(mu, same, rtol=1e-6, atol=1e-9)


@settings(deadline=None)
@given(pi=policies, m=variances, floor=st.floats(0.0, 0.24))
def test_floor_is_respected(asked, pi, m, floor):
    mu = probabilities(gvfx.Floor(gvfx.GVFExplorer(), floor), asked, pi, m)
    assert mu.min() >= floor * (1 - 1e-12)
    assert abs(mu.sum() - 1) < 1e-9
    bare = probabilities(gvfx.GVFExplorer(), asked, pi, m)
    if bare.min() >= floor:
        np.testing.assert_allclose(mu, bare, rtol=1e-6, atol=1e-12)


def test_epsilon_falls_to_its_minimum(asked):
    pi, m = np.full((ACTIONS, GVFS), 0.25), np.zeros((ACTIONS, GVFS))
    m[0] = 1.0
    for schedule, t, epsilon in [
        (Linear(1.0, 0.2, 100), 0, 1.0),
        (Linear(1.0, 0.2, 100), 50, 0.6),
        (Linear(1.0, 0.2, 100), 10**6, 0.2),
        (Geometric(1.0, 0.9, 0.05), 10, 0.9**10),
        (Geometric(1.0, 0.9, 0.05), 10**6, 0.05),
        (Fixed(0.4), 7, 0.4),
    ]:
        mu = probabilities(gvfx.Epsilon(gvfx.GVFExplorer(), schedule), asked, pi, m, t)
        np.testing.assert_allclose(mu, [1 - 0.75 * epsilon, *[epsilon / 4] * 3], rtol=1e-12)


def test_explorer_is_uniform_where_nothing_varies(asked):
    np.testing.assert_array_equal(probabilities(gvfx.GVFExplorer(), asked, np.full((4, 3), 0.25), np.zeros((4, 3))), 0.25)


def test_explorer_samples_arms_by_their_standard_deviation():
    """Arms with sd 1 and 3 under an even policy: mu = (1/4, 3/4)."""
    world, cumulant = bandit((5.0, 1.0), (-2.0, 3.0))
    learner = gvfx.ExpectedSarsa(rate_q=Fixed(0.002), rate_m=Fixed(0.002))
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], gvfx.GVFExplorer(), learner, steps=60_000)
    np.testing.assert_allclose(result.behaviour[0, 0], [0.25, 0.75], atol=0.03)


def test_explorer_honours_weights():
    """One GVF cares for arm 1 only, the other for arm 2 only; a weight of 9 triples the first arm's share."""
    world, cumulant = bandit((0.0, 1.0), (0.0, 1.0))
    questions = [gvfx.GVF([1, 0], cumulant, weight=9.0), gvfx.GVF([0, 1], cumulant, weight=1.0)]
    learner = gvfx.ExpectedSarsa(rate_q=Fixed(0.002), rate_m=Fixed(0.002))
    result = gvfx.evaluate(world, questions, gvfx.GVFExplorer(), learner, steps=60_000)
    np.testing.assert_allclose(result.behaviour[0, 0], [0.75, 0.25], atol=0.03)
    np.testing.assert_allclose(result.error, result.mse @ [0.9, 0.1])


def test_round_robin_takes_turns():
    world, cumulant = bandit((0, 0), (0, 0))
    result = gvfx.evaluate(world, [gvfx.GVF([1, 0], cumulant), gvfx.GVF([0, 1], cumulant)], gvfx.RoundRobin(), steps=1001)
    np.testing.assert_array_equal(result.visits[0, 0], [501, 500])


def test_mixture_is_the_mean_policy():
    world, cumulant = bandit((0, 0), (0, 0))
    result = gvfx.evaluate(world, [gvfx.GVF([1, 0], cumulant), gvfx.GVF([0.5, 0.5], cumulant)], gvfx.Mixture(), steps=10)
    np.testing.assert_allclose(result.behaviour[0, 0], [0.75, 0.25])


def test_successor_representation_seeks_the_arm_that_keeps_surprising():
    """A constant arm stops changing the reward weights; a noisy one never does."""
    world, cumulant = bandit((1.0, 0.0), (1.0, 5.0))
    behaviour = gvfx.SuccessorRepresentation(Fixed(0.1), temperature=0.2)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], behaviour, steps=20_000)
    assert result.behaviour[0, 0, 1] > 0.8


def test_successor_representation_learns_the_exact_one():
    world = gvfx.gridworld(3, {"goal": (0, 0)}, horizon=50)
    question = gvfx.GVF([0.3, 0.2, 0.3, 0.2], gvfx.Constant(1, at="goal"), 0.9)
    behaviour = gvfx.Epsilon(gvfx.SuccessorRepresentation(Linear(1.0, 0.002, 100_000)), Fixed(1.0))
    asked = stack([question], world)
    from test_compiled import compiled_run

    _, acting, _, _ = compiled_run(world, [question], behaviour, gvfx.ExpectedSarsa(), steps=300_000)
    exact = gvfx.exact.successor_representation(world, question)
    assert asked.pi_stride == 0
    np.testing.assert_allclose(acting.inner.mean[0][:9, :9], exact[:9, :9], atol=0.15)


def test_policy_search_moves_to_the_arm_that_carries_the_variance():
    """Rewards 0 and 10 under an even policy: sampling only the second arm gives a zero-variance estimate."""
    world, cumulant = bandit((0.0, 0.0), (10.0, 0.0), horizon=1)
    behaviour = gvfx.BehaviourPolicySearch(step_size=0.05, scale=10.0)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], behaviour, steps=5000)
    assert result.behaviour[0, 0, 1] > 0.9


def test_policy_search_survives_ratios_beyond_floating_point():
    world = gvfx.gridworld(4, {"goal": (0, 0)}, horizon=400)
    question = gvfx.GVF([0.97, 0.01, 0.01, 0.01], gvfx.Constant(1e6))
    behaviour = gvfx.BehaviourPolicySearch(step_size=10.0, scale=1.0, ratio_high=1e6)
    result = gvfx.evaluate(world, [question], behaviour, steps=50_000)
    assert np.isfinite(result.behaviour).all()
    np.testing.assert_allclose(result.behaviour.sum(axis=2), 1.0)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: gvfx.Floor(gvfx.Uniform(), 0.3), "floor"),
        (lambda: gvfx.Epsilon(gvfx.Uniform(), Fixed(1.5)), "schedule"),
        (lambda: gvfx.Epsilon(gvfx.Uniform(), Linear(0.1, 0.9, 10)), "schedule"),
        (lambda: gvfx.Epsilon(gvfx.Uniform(), Geometric(1.0, 1.5)), "schedule"),
        (lambda: gvfx.SuccessorRepresentation(choice="random"), "choice"),
        (lambda: gvfx.SuccessorRepresentation(temperature=0), "temperature"),
        (lambda: gvfx.SuccessorRepresentation(rate=1.5), "rate"),
        (lambda: gvfx.BehaviourPolicySearch(), "horizon"),
        (lambda: gvfx.Follow([0.5, 0.6]), "policy"),
    ],
)
def test_bad_parameters_are_named(make, field):
    world, cumulant = bandit((0, 0), (0, 0), (0, 0), (0, 0))
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.evaluate(world, [gvfx.GVF(np.full(4, 0.25), cumulant)], make(), steps=10)


def test_successor_representation_refuses_what_does_not_fit_in_memory():
    world = gvfx.gridworld(200, {"goal": (0, 0)})
    with pytest.raises(gvfx.InputError, match="SuccessorRepresentation needs .* GB"):
        gvfx.evaluate(world, [gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1, at="goal"))], gvfx.SuccessorRepresentation())
