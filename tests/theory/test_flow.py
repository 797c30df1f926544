"""Occupancies against simulation, and the highest average against every plan."""

import itertools

import numpy as np
import pytest
from helpers.worlds import dense, random_case, random_policy
from hypothesis import given, settings
from hypothesis import strategies as st

from gvfx import design
from gvfx.theory.importance import best_plan

SEEDS = st.integers(0, 2**32 - 1)
LIGHT = settings(max_examples=20, deadline=None)


@pytest.mark.parametrize("horizon", [1, 4, None])
def test_occupancy_against_simulated_episodes(horizon):
    world, _ = random_case(7, horizon=horizon)
    rng = np.random.default_rng(1)
    mu = random_policy(rng, world)
    P, visits = dense(world), np.zeros((world.states, world.actions))
    state, age = rng.choice(world.states, 4000, p=world.start), np.zeros(4000, int)
    for _ in range(200):
        action = (rng.random((4000, 1)) > mu[state].cumsum(axis=1)).sum(axis=1).clip(max=world.actions - 1)
        np.add.at(visits, (state, action), 1)
        state = (rng.random((4000, 1)) > P[state, action].cumsum(axis=1)).sum(axis=1).clip(max=world.states - 1)
        age += 1
        over = world.terminal[state] | (age >= (horizon or 10**9))
        state[over], age[over] = rng.choice(world.states, over.sum(), p=world.start), 0
    assert design.occupancy(design.Model.of(world), mu) == pytest.approx(visits / visits.sum(), rel=0.05, abs=1e-3)


@LIGHT
@given(SEEDS, st.integers(1, 3))
def test_highest_average_against_every_plan_that_knows_the_age(seed, horizon):
    world, _ = random_case(seed, states=3, actions=2, horizon=horizon)
    reward = np.random.default_rng(seed).uniform(0, 1, (3, 2))
    P, best = dense(world), 0.0
    for choices in itertools.product(itertools.product(range(2), repeat=2), repeat=horizon):
        spec, earned, steps = world.start, 0.0, 0.0
        for choice in choices:
            earned, steps = earned + sum(spec[s] * reward[s, choice[s]] for s in range(2)), steps + spec[:2].sum()
            spec = sum(spec[s] * P[s, choice[s]] for s in range(2)) * ~world.terminal
        best = max(best, earned / steps)
    assert best_plan(design.Model.of(world), reward)[0] == pytest.approx(best, rel=1e-6)
