"""Policies by their own GVF's values: the best one (or the softmax fixed point) is found exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.runs import average_evidence
from helpers.worlds import dense, random_mdp

import gvfx
from gvfx.errors import InputError
from gvfx.questions.gvf import stack


def plain(world, cumulant, discount, epsilon=0.0, temperature=0.0, rounds=3000):
    """V and pi [state, action] by value iteration with the policy of the present Q; plain, dense and slow."""
    P, going = dense(world), ~world.terminal
    v = np.zeros(world.states)
    for _ in range(rounds):
        q = going[:, None] * (cumulant + discount * P @ (going * v))
        if temperature:
            pi = np.exp((q - q.max(axis=1, keepdims=True)) / temperature)
        else:
            pi = 1.0 * (q >= q.max(axis=1, keepdims=True) - 1e-10)
        pi = (1 - epsilon) * pi / pi.sum(axis=1, keepdims=True) + epsilon / world.actions
        v = (pi * q).sum(axis=1)
    return v, pi


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (gvfx.own_greedy(), {}),
        (gvfx.own_greedy(0.3), {"epsilon": 0.3}),
        (gvfx.own_softmax(0.5), {"temperature": 0.5}),
        (gvfx.own_softmax(0.05), {"temperature": 0.05}),
    ],
)
def test_exact_values_are_those_of_the_policy_that_its_own_values_call_for(policy, fields, seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, states=6)
    cumulant = rng.normal(size=(6, 3))
    question = gvfx.GVF(policy, gvfx.table_cumulant(cumulant), 0.9)
    v, pi = plain(world, cumulant, 0.9, **fields)
    np.testing.assert_allclose(gvfx.exact.values(world, [question])[0], v, atol=1e-7)
    found = gvfx.exact.asked_of(world, [question]).pi[world.live, :, 0]
    np.testing.assert_allclose(found, pi[world.live], atol=1e-6)
    known = replace(question, policy=gvfx.table_policy(pi))
    np.testing.assert_allclose(gvfx.exact.variance(world, [question]), gvfx.exact.variance(world, [known]), atol=1e-5)


def test_a_discount_of_one_finds_the_shortest_way():
    world = gvfx.gridworld(5, {"left": (0, 0)}, slip=0.0, horizon=60)
    questions = [gvfx.GVF(gvfx.own_greedy(), -1.0, 1.0, name="way")]
    away = np.add.outer(np.arange(5), np.arange(5)).ravel()
    np.testing.assert_allclose(gvfx.exact.values(world, questions)[0, world.live], -1.0 - away)
    known = average_evidence(world, stack(questions, world))
    known = replace(known, asked=known.asked._replace(pi=known.converged_policies()))
    np.testing.assert_allclose(known.values[0, world.live], -1.0 - away)
    with pytest.raises(InputError, match="do not exist"):
        gvfx.exact.values(gvfx.MDP.from_matrix(np.ones((1, 2, 1))), questions)
