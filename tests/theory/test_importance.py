"""How much each pair's noise matters, by loops and dense inverses."""

import dataclasses
import itertools

import numpy as np
import pytest
from helpers.worlds import chain, model_arrays, random_case
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx import design, exact
from gvfx.theory import exact as systems

SEEDS = st.integers(0, 2**32 - 1)
LIGHT = settings(max_examples=20, deadline=None)


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
    v = design.variances(*model_arrays(world, questions), counts)
    assert v[:, world.live].mean() == pytest.approx((expected / counts).sum())


def test_random_signs_stand_for_the_dense_inverse(monkeypatch):
    world, questions = random_case(3, states=40)
    counts = np.random.default_rng(0).uniform(1, 9, (40, 3))
    dense = design.importance_of(world, questions), design.variances(*model_arrays(world, questions), counts)
    monkeypatch.setattr(systems, "DENSE_BELOW", 0)
    assert design.importance_of(world, questions, signs=2000) == pytest.approx(dense[0], rel=0.1)
    assert design.variances(*model_arrays(world, questions), counts, 2000)[:, :-1] == pytest.approx(dense[1][:, :-1], rel=0.15)


def test_discounts_that_vary_and_weights_enter_the_importance():
    world, questions = random_case(1)
    varying = [gvfx.GVF(q.policy, q.cumulant, lambda s, a, n: 0.8) for q in questions]
    assert design.importance_of(world, varying) == pytest.approx(design.importance_of(world, questions))
    only = gvfx.GVF(questions[0].policy, questions[0].cumulant, 0.8, weight=3.0, name="only")
    none = gvfx.GVF(questions[1].policy, questions[1].cumulant, 0.8, weight=0.0, name="none")
    assert design.importance_of(world, [only, none]) == pytest.approx(design.importance_of(world, [only]))


def test_missing_data_make_only_the_answers_that_need_them_unsure():
    world, questions = chain(discount=0.5)
    model, pi, gamma, _ = model_arrays(world, questions)
    noise = np.ones((3, 1, 1))
    assert design.variances(model, pi, gamma, noise, np.array([[0], [4], [0]]))[0] == pytest.approx([np.inf, 0.25, np.inf])
    noise[[0, 2]] = 0
    assert design.variances(model, pi, gamma, noise, np.array([[0], [4], [0]]))[0] == pytest.approx([0.0625, 0.25, 0.0])


@LIGHT
@given(SEEDS)
def test_importance_at_the_start_and_over_states_by_loops(seed):
    """At the start it is that of one number, the mean over starts: reaches are added before they are squared."""
    world, questions = random_case(seed)
    noise, rng = exact.transition_noise(world, questions), np.random.default_rng(seed)
    d = rng.dirichlet(np.ones(world.states)) * world.live
    expected, over = np.zeros((2, world.states, world.actions))
    for i, question in enumerate(questions):
        F = exact.successor_representation(world, question)
        pi = np.array(question.policy.rows)
        for s, a in itertools.product(range(world.states), range(world.actions)):
            together = sum(world.start[s0] * F[s0, s] for s0 in range(world.states)) ** 2
            apart = sum(d[s0] / d.sum() * F[s0, s] ** 2 for s0 in range(world.states))
            expected[s, a] += together * pi[s, a] ** 2 * noise[s, a, i] / 2
            over[s, a] += apart * pi[s, a] ** 2 * noise[s, a, i] / 2
    assert design.importance_of(world, questions, where="start") == pytest.approx(expected)
    assert design.importance_of(world, questions, where=d) == pytest.approx(over)


def test_importance_at_the_start_needs_no_random_signs(monkeypatch):
    world, questions = random_case(3, states=40)
    dense = design.importance_of(world, questions, where="start")
    monkeypatch.setattr(systems, "DENSE_BELOW", 0)
    assert design.importance_of(world, questions, where="start") == pytest.approx(dense)


def test_one_start_state_is_a_list_of_one_state():
    world, questions = random_case(5)
    start = np.zeros(world.states)
    start[0] = 1.0
    world = dataclasses.replace(world, start=start)
    assert design.importance_of(world, questions, where="start") == pytest.approx(design.importance_of(world, questions, where=0))
