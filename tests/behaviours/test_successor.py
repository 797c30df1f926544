"""SuccessorRepresentation: what it seeks, what it learns, what it needs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_run
from helpers.worlds import gaussian_bandit

import gvfx
from gvfx.questions.gvf import stack
from gvfx.schedules import Fixed, Linear


@pytest.mark.compiled(2)
def test_successor_representation_seeks_the_arm_that_keeps_surprising():
    """A constant arm stops changing the reward weights; a noisy one never does."""
    world, cumulant = gaussian_bandit((1.0, 0.0), (1.0, 5.0))
    behaviour = gvfx.SuccessorRepresentation(Fixed(0.1), temperature=0.2)
    result = gvfx.evaluate(world, [gvfx.GVF([0.5, 0.5], cumulant)], behaviour, steps=20_000)
    assert result.details.behaviour[0, 0, 1] > 0.8


@pytest.mark.compiled(2)
def test_successor_representation_learns_the_exact_one():
    world = gvfx.gridworld(3, {"goal": (0, 0)}, horizon=50)
    question = gvfx.GVF([0.3, 0.2, 0.3, 0.2], gvfx.Constant(1, at="goal"), 0.9)
    behaviour = gvfx.Epsilon(gvfx.SuccessorRepresentation(Linear(1.0, 0.002, 100_000)), Fixed(1.0))
    asked = stack([question], world)
    _, acting, _, _ = compiled_run(world, [question], behaviour, gvfx.ExpectedSarsa(), steps=300_000)
    exact = gvfx.exact.successor_representation(world, question)
    assert asked.pi_stride == 0
    np.testing.assert_allclose(acting.inner.mean[0][:9, :9], exact[:9, :9], atol=0.15)


def test_successor_representation_refuses_what_does_not_fit_in_memory():
    world = gvfx.gridworld(200, {"goal": (0, 0)})
    with pytest.raises(gvfx.InputError, match="SuccessorRepresentation needs .* GB"):
        gvfx.evaluate(world, [gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1, at="goal"))], gvfx.SuccessorRepresentation())
