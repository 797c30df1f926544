"""Rivals: robust sampling keeps the data close to the mixture; planned designs approach their fixed points."""

import numpy as np
import pytest
from helpers.worlds import random_mdp, random_question

import gvfx
from gvfx import design
from gvfx.questions.gvf import stack


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    world = random_mdp(rng, states=5, actions=3)
    return world, [random_question(rng, world) for _ in range(2)]


def test_visits_stay_within_an_action_of_the_mixture(case):
    world, questions = case
    visits = gvfx.evaluate(world, questions, gvfx.RobustSampling(), steps=5_000).visits[0][:-1]
    mixture = stack(questions, world).pi.mean(axis=2)[:-1]
    assert np.abs(visits - mixture * visits.sum(axis=1, keepdims=True)).max() <= 2


@pytest.mark.full
@pytest.mark.compiled(4)
@pytest.mark.parametrize(
    ("behaviour", "goal"),
    [
        (gvfx.SecondMoment(random=0.0), design.second_moment_of),
        (gvfx.CharacteristicTime(random=0.0), design.characteristic_time_of),
    ],
)
def test_a_planned_rival_approaches_its_design_whatever_the_learner(case, behaviour, goal):
    world, questions = case
    last = gvfx.evaluate(world, questions, behaviour, gvfx.ExpectedSarsa(), steps=50_000).details.behaviour[0]
    assert np.abs(last - goal(world, questions))[:-1].max() < 0.1
    assert gvfx.evaluate(world, questions, behaviour, gvfx.CertaintyEquivalence(), steps=50_000).error[0, -1] < 0.01


def test_planned_rivals_check_their_numbers():
    with pytest.raises(gvfx.InputError, match="growth"):
        gvfx.SecondMoment(growth=1.0)
    with pytest.raises(gvfx.InputError, match="random"):
        gvfx.CharacteristicTime(random=2.0)
