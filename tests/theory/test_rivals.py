"""The rivals' designs by hand."""

import itertools

import numpy as np
import pytest
from helpers.worlds import dense, random_case, random_policy, two_armed_bandit

from gvfx import design, exact


def test_second_moment_by_hand():
    world, questions = two_armed_bandit()
    score = np.array([0.25 * 5**0.5, 0.75 * 3])  # E[G^2] = 1 + 4 and 9
    assert design.second_moment_of(world, questions)[0] == pytest.approx(score / score.sum())


def test_characteristic_time_gives_every_pair_the_same_share_of_its_need():
    world, questions = random_case(4, states=4, actions=2, horizon=None, terminal=False)
    mu = design.characteristic_time_of(world, questions)
    x, v, P = design.occupancy(design.Model.of(world), mu), exact.values(world, questions), dense(world)
    need = np.zeros((4, 2))
    for (s, a), (i, q) in itertools.product(itertools.product(range(4), range(2)), enumerate(questions)):
        spread = max(abs(np.array([*v[i], 0.0]) - P[s, a] @ v[i])) * 0.8
        need[s, a] = max(need[s, a], (q.policy.rows[s][a] * spread) ** 2)
    rng = np.random.default_rng(0)
    others = [design.occupancy(design.Model.of(world), random_policy(rng, world)) for _ in range(200)]
    assert (need / x).max() <= min((need / other).max() for other in others)
