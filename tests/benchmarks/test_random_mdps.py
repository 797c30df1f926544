"""The random worlds of the benchmark: always the same, and harder for a uniform behaviour than for the best one."""

import numpy as np
import pytest

from gvfx import design
from gvfx.benchmarks.random_mdps import FAMILIES, random_world


@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_random_worlds_are_reproducible_and_have_an_optimum(number):
    world, questions = random_world(number)
    again, _ = random_world(number)
    np.testing.assert_array_equal(world.prob, again.prob)
    assert (world.actions, len(questions), world.successors) == FAMILIES[number]
    best = design.optimal(world, questions)
    assert 0 < best.bound <= best.constant < design.constant(world, questions, np.full((1, world.actions), 1 / world.actions))
