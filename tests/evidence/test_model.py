"""The estimated world has the values of the evidence."""

import numpy as np
from helpers.worlds import random_mdp, random_question

import gvfx
from gvfx.evidence.smoothing import estimated
from gvfx.running.costs import run_pilot


def test_the_estimated_world_has_the_values_of_certainty_equivalence():
    rng = np.random.default_rng(3)
    world = random_mdp(rng, states=6, actions=3)
    questions = [random_question(rng, world, discount=0.8) for _ in range(2)]
    known = run_pilot(world, questions, 5_000)
    model, asked = estimated(known, prior=1e-9)
    np.testing.assert_allclose(gvfx.exact.values(model, asked), known.values, atol=1e-6)


def test_the_estimated_world_keeps_state_dependent_discounts_and_groups():
    world = gvfx.gridworld(4, {"left": (0, 0)}, horizon=30, grouping=2)
    question = gvfx.GVF(lambda s: [0.1, 0.2, 0.3, 0.4], gvfx.Distractor(10, 1, at="left"), lambda s, a, n: 0.5 if s == n else 0.9)
    known = run_pilot(world, [question], 5_000)
    model, asked = estimated(known, prior=1e-9)
    assert model.states == world.rows
    assert gvfx.exact.values(model, asked)[0].max() > 1
