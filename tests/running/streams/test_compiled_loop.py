"""Every loop equals the plain reference, step by step, for the same random draws; compiled code equals it by its contracts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import reference
from helpers.runs import STEPS, compiled_run
from helpers.worlds import PI, half_in_the_top_row, small_world, two_questions

import gvfx
import gvfx_paper
from gvfx.behaviours.wrappers import Calibrated
from gvfx.schedules import Fixed, Geometric, Linear

RATE = Linear(1.0, 0.3, 1000)


def start_tables(asked, world, q=1.0, m=5.0):
    tables = [np.full((world.rows, world.actions, len(asked.names)), value) for value in (q, m)]
    ends = np.setdiff1d(world.feature[world.terminal], world.feature[~world.terminal])
    for table in tables:
        table[ends] = 0
    return tables


def agrees(world, questions, behaviour, plain, learner=None, sampled=False, smallest_m=None, start_q=1.0):
    """Run both for STEPS and compare everything they keep; returns the compiled behaviour's state."""
    learner = learner or gvfx.ExpectedSarsa(RATE, Fixed(0.5))
    asked, acting, learning, at = compiled_run(world, questions, behaviour, learner)
    q, m = start_tables(asked, world, start_q)
    expected = reference.run(
        world,
        asked,
        plain(asked),
        (RATE, Fixed(0.5), q, m),
        STEPS,
        3,
        sampled=sampled,
        variance=behaviour.needs_variance,
        smallest_m=smallest_m,
    )
    assert np.array_equal(at.visits, expected[2])
    assert at.at[3] == expected[4] > 50
    np.testing.assert_allclose(at.level, expected[3], rtol=1e-12)
    np.testing.assert_allclose(learning.q, expected[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(learning.m, expected[1], rtol=1e-8, atol=1e-10)
    return acting


def explorer(asked):
    return reference.Explorer(asked.weights)


def test_explorer():
    agrees(small_world(), two_questions(), gvfx.GVFExplorer(), explorer)


def test_explorer_with_epsilon_and_floor():
    agrees(
        small_world(),
        two_questions(),
        gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer(), Linear(1.0, 0.1, 500)), 0.01),
        lambda asked: reference.Floor(reference.Epsilon(explorer(asked), Linear(1.0, 0.1, 500)), 0.01),
    )


def test_geometric_epsilon():
    agrees(
        small_world(),
        two_questions(),
        gvfx.Epsilon(gvfx.GVFExplorer(), Geometric(1.0, 0.99, 0.05)),
        lambda asked: reference.Epsilon(explorer(asked), Geometric(1.0, 0.99, 0.05)),
    )


def test_explorer_with_a_smallest_variance():
    agrees(
        small_world(),
        two_questions(),
        gvfx.GVFExplorer(smallest_m=2.0),
        lambda asked: reference.Explorer(asked.weights, 2.0),
    )


def test_importance_sampling_learner():
    learner = gvfx.ImportanceSampling(RATE, Fixed(0.5), ratio_high=10.0)
    agrees(small_world(), two_questions(), gvfx.GVFExplorer(), explorer, learner, sampled=True)


def calibrated_agrees(world, behaviour, plain, learner=gvfx.ExpectedSarsa, start_q=0.0, smallest_m=None):
    """`agrees` with calibrated behaviours, and their scales."""
    rates, keep = (RATE, Fixed(0.5)), {}
    options = {"initial_q": start_q} | ({} if smallest_m is None else {"smallest_m": smallest_m})

    def kept(asked):
        keep["plain"] = reference.Calibrated(plain(asked), 2, rate=0.002)
        return keep["plain"]

    sampled = learner is gvfx.ImportanceSampling
    behaviour, learning = Calibrated(behaviour, 0.002), learner(*rates, **options)
    state = agrees(world, two_questions(), behaviour, kept, learning, sampled, smallest_m, start_q)
    np.testing.assert_allclose(state.scales.square, keep["plain"].scales.square, rtol=1e-8)
    np.testing.assert_allclose(state.scales.factor, keep["plain"].scales.factors(), rtol=1e-8)
    assert state.scales.steps[0] == STEPS and state.scales.square.min() > 0.1


@pytest.mark.parametrize("start_q", [0.0, 1.0])  # from tables of 0 one GVF has a scale before the other
def test_calibrated_explorer(start_q):
    calibrated_agrees(small_world(), gvfx.GVFExplorer(), explorer, start_q=start_q)


def test_calibrated_explorer_with_epsilon_floor_and_a_smallest_variance():
    behaviour = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer(smallest_m=0.1), RATE), 0.01)
    calibrated_agrees(
        small_world(grouping=2),
        behaviour,
        lambda asked: reference.Floor(reference.Epsilon(reference.Explorer(asked.weights, 0.1), RATE), 0.01),
    )


def test_calibrated_explorer_with_other_learners():
    calibrated_agrees(small_world(), gvfx.GVFExplorer(), explorer, gvfx.ImportanceSampling)
    calibrated_agrees(small_world(), gvfx.GVFExplorer(), explorer, gvfx_paper.EpisodicExpectedSarsa, smallest_m=0.01)


@pytest.mark.parametrize("name", ["Uniform", "Mixture", "RoundRobin"])
def test_fixed_behaviours(name):
    agrees(small_world(), two_questions(), getattr(gvfx, name)(), lambda asked: getattr(reference, name)())


@pytest.mark.compiled(2)
def test_follow_is_the_policy_given():
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=17)
    behaviour = gvfx.Follow(rows)
    at = compiled_run(small_world(), two_questions(), behaviour, gvfx.ExpectedSarsa(), steps=100_000)[3]
    often = at.visits.sum(axis=1) > 2000
    assert often.sum() > 5
    shares = at.visits[often] / at.visits[often].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, rows[often], atol=0.05)


@pytest.mark.parametrize("choice", ["boltzmann", "greedy"])
def test_successor_representation(choice):
    keep = {}

    def plain_successor(asked):
        keep["sr"] = reference.Successor(17, 4, 2, RATE, 2.0 if choice == "boltzmann" else 0, 0.9)
        return keep["sr"]

    state = agrees(small_world(), two_questions(), gvfx.SuccessorRepresentation(RATE, choice, 2.0, 0.9), plain_successor)
    plain = keep["sr"]
    np.testing.assert_allclose(state.psi, plain.psi, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.value, plain.value, rtol=1e-8, atol=1e-10)
    means = [np.einsum("a,xaf->xf", PI[i], plain.psi[i]) for i in range(2)]
    np.testing.assert_allclose(state.mean, means, rtol=1e-8, atol=1e-10)


def test_behaviour_policy_search():
    world = small_world()
    keep = {}

    def plain(asked):
        theta = np.tile(np.log(np.mean(PI, axis=0)), (17, 1))
        keep["bps"] = reference.Search(theta, RATE, 10.0, 1.0, 1e-3, 10.0)
        return keep["bps"]

    state = agrees(world, two_questions(), gvfx.BehaviourPolicySearch(RATE, scale=10.0), plain)
    np.testing.assert_allclose(state.theta, keep["bps"].theta, rtol=1e-8, atol=1e-10)
    assert not np.allclose(state.theta, np.log(np.mean(PI, axis=0)))


def test_state_aggregation():
    world = small_world(grouping=2)
    assert world.rows == 9
    agrees(world, two_questions(), gvfx.GVFExplorer(), explorer)


@pytest.mark.parametrize("advance", ["step", "visit"])
def test_drifting_cumulants_share_a_path(advance):
    drifter = gvfx.Drifter(0.5, 10, at="left", advance=advance)
    questions = [gvfx.GVF(PI[0], drifter, 0.9), gvfx.GVF(PI[1], 1.0, 0.5), gvfx.GVF(PI[1], drifter, 0.9)]
    agrees(small_world(), questions, gvfx.GVFExplorer(), explorer)


def test_state_dependent_discount_and_policy():
    rows = np.random.default_rng(1).dirichlet(np.ones(4), size=17)
    questions = [*two_questions(half_in_the_top_row), gvfx.GVF(rows, gvfx.Constant(1.0, at=(2, 2)), 0.7)]
    agrees(small_world(), questions, gvfx.GVFExplorer(), explorer)


def test_one_gvf_two_actions_without_horizon():
    P = np.array([[[0.5, 0.5, 0], [0.2, 0.3, 0.5]], [[0.3, 0.3, 0.4], [0.9, 0.1, 0]], [[0, 0, 1], [0, 0, 1]]])
    world = gvfx.MDP.from_matrix(P, terminal=[False, False, True])
    question = gvfx.GVF([0.3, 0.7], gvfx.table_cumulant([[1, 2], [3, 4], [0, 0]], 0.5), 0.9)
    agrees(world, [question], gvfx.GVFExplorer(), explorer)


def test_authors_successor_entries():
    keep = {}

    def plain(asked):
        keep["sr"] = reference.SuccessorEntries(17, 4, 2, RATE, 2.0, 0.9)
        return keep["sr"]

    behaviour = gvfx.SuccessorRepresentation(RATE, temperature=2.0, discount=0.9, update="entries")
    state = agrees(small_world(), two_questions(), behaviour, plain)
    np.testing.assert_allclose(state.psi, keep["sr"].psi, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.mean, keep["sr"].psi.mean(axis=3), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("choice", ["first", "boltzmann"])
@pytest.mark.parametrize(("weights", "per"), [("pairs", "policy"), ("states", "gvf")])
def test_authors_successor_after_each_episode(choice, weights, per):
    """Three GVFs, the last two with one policy: its representation counts once or twice."""
    questions = [*two_questions(), gvfx.GVF(PI[1], gvfx.Constant(3.0, at="right"), two_questions()[1].discount)]
    floor, keep = 0.02 if choice == "first" else 0.0, {}

    def plain(asked):
        counted = [0, 1, 2] if per == "gvf" else [0, 1]
        temperature = 2.0 if choice == "boltzmann" else 0
        keep["sr"] = reference.SuccessorEpisodes(asked, 17, 4, RATE, temperature, 0.9, floor, weights == "states", counted)
        return reference.Epsilon(keep["sr"], Linear(1.0, 0.1, 500), held=True)

    authors = {"update": "entries", "when": "episode", "weights": weights, "per": per, "floor": floor}
    inner = gvfx.SuccessorRepresentation(RATE, choice, 2.0, 0.9, **authors)
    state = agrees(small_world(), questions, gvfx.Epsilon(inner, Linear(1.0, 0.1, 500), "episode"), plain).inner
    keep["sr"].learn()  # the last episode, which has not ended
    assert state.psi.shape[0] == 2 and state.copies.tolist() == ([1, 2] if per == "gvf" else [1, 1])
    np.testing.assert_allclose(state.psi, keep["sr"].psi[:2], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.value, keep["sr"].value, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.policy, keep["sr"].policy, rtol=1e-8, atol=1e-10)
    kept = np.moveaxis(keep["sr"].w, 0, 2)
    np.testing.assert_allclose(state.weights, kept[:, :1] if weights == "states" else kept, rtol=1e-8, atol=1e-10)


def test_authors_policy_search_by_ratios():
    keep = {}

    def plain(asked):
        keep["bps"] = reference.Search(np.tile(np.mean(PI, axis=0), (17, 1)), RATE, 10.0, 1.0, 1e-3, 1.0, ratio=True)
        return keep["bps"]

    behaviour = gvfx.BehaviourPolicySearch(RATE, scale=10.0, ratio_high=1.0, parameters="ratio")
    state = agrees(small_world(), two_questions(), behaviour, plain)
    np.testing.assert_allclose(state.theta, keep["bps"].theta, rtol=1e-8, atol=1e-10)


def test_authors_random_policies():
    agrees(small_world(), two_questions(), gvfx_paper.RandomPolicies(), lambda asked: reference.RandomPolicies(17, 4))


def test_authors_episodic_updates():
    learner = gvfx_paper.EpisodicExpectedSarsa(RATE, Fixed(0.5), smallest_m=0.01)
    agrees(small_world(), two_questions(), gvfx.GVFExplorer(), explorer, learner, smallest_m=0.01)
