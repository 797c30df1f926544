"""Robust on-policy sampling keeps the data close to the mixture."""

import numpy as np
import probes

import gvfx
from gvfx.behaviours.rivals import RobustSampling
from gvfx.gvf import stack


def test_visits_stay_within_an_action_of_the_mixture():
    rng = np.random.default_rng(0)
    world = probes.random_mdp(rng, states=5, actions=3)
    questions = [probes.random_question(rng, world) for _ in range(2)]
    visits = gvfx.evaluate(world, questions, RobustSampling(), steps=5_000).visits[0][:-1]
    mixture = stack(questions, world).pi.mean(axis=2)[:-1]
    assert np.abs(visits - mixture * visits.sum(axis=1, keepdims=True)).max() <= 2
