"""Pairs without chance: the chance of being lucky against resampling, and worlds with and without such pairs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_evidence

import gvfx
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import determinism, shows_one


def known(P, cumulant, steps, horizon=50):
    """The evidence of uniformly random steps from state 0."""
    world = gvfx.MDP.from_matrix(P, start=np.eye(len(P))[0], horizon=horizon)
    question = gvfx.GVF(np.full(P.shape[1], 1 / P.shape[1]), cumulant, 0.9)
    asked, at = compiled_evidence(world, [question], steps=steps, behaviour=gvfx.Uniform())
    return Empirical(world, asked, at.evidence)


def ring(states, slip):
    """A ring walked by steps of 1, 2 and 3; step 3 slips: it is one of 1 with that chance."""
    P = np.zeros((states, 3, states))
    for s in range(states):
        for a in range(3):
            chance = slip if a == 2 else 0.0
            P[s, a, (s + a + 1) % states] += 1 - chance
            P[s, a, (s + 1) % states] += chance
    return P


def test_the_chance_to_show_one_outcome_equals_resampling():
    """Three pairs, seen (6, 2), (3, 1) and (5, 4, 1) times; 40,000 random subsets of their tries: 3 standard errors are 0.005."""
    outcomes = [[6, 2], [3, 1], [5, 4, 1]]
    pair = np.repeat([4, 7, 9], [2, 2, 3])
    count = np.array([6, 2, 3, 1, 5, 4, 1], float)
    total = np.repeat([8.0, 4.0, 10.0], [2, 2, 3])
    tries, alike = shows_one(pair, count, total)
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5):
        drawn = []
        for counts in outcomes:
            if sum(counts) >= n:
                which = np.repeat(np.arange(len(counts)), counts)
                subsets = which[rng.random((40_000, len(which))).argsort(axis=1)[:, :n]]
                drawn.append((subsets == subsets[:, :1]).all(axis=1).mean())
        assert alike[tries.tolist().index(n)] == pytest.approx(np.mean(drawn), abs=0.005)
    assert alike[0] == pytest.approx(1) and (np.diff(alike) <= 0).all()


def test_where_every_pair_has_chance_nothing_is_sure():
    P = np.random.default_rng(0).dirichlet(np.ones(6), (6, 3))
    found = determinism(known(P, gvfx.Constant(1.0, at=2), 3000))
    assert found.share == 0 and not found.sure.any()


def test_pairs_without_chance_are_told_from_the_others():
    data = known(ring(30, 0.5), gvfx.Constant(1.0, at=2), 6000)
    found = determinism(data)
    shown = np.array([[np.count_nonzero(data.counts[s, a]) for a in range(3)] for s in range(30)])
    assert data.visits.min() > 20
    assert found.sure[:, :2].min() > 0.95 and not found.sure[shown > 1].any() and found.sure[:, 2].max() < 0.5
    assert found.share == pytest.approx(found.sure.mean()) and found.share > 0.5


def test_one_try_counts_for_less_where_the_action_is_often_noisy():
    """After few steps: a pair that was tried as often is surer if its action has shown no chance elsewhere."""
    data = known(ring(200, 0.5), gvfx.Constant(1.0, at=2), 6000)
    found = determinism(data)
    compared = 0
    for n in range(1, 40):
        same = data.visits == n
        calm, noisy = (found.sure[:, actions][same[:, actions]] for actions in ([0, 1], [2]))
        calm, noisy = calm[calm > 0], noisy[noisy > 0]
        if calm.size and noisy.size:
            compared += 1
            assert noisy.max() < calm.min()
    assert compared
    assert not found.sure[data.visits == 0].any()


def test_a_pair_that_only_holds_is_not_sure():
    """State 2 is left with a chance of 0.01: an action that never left it has shown one outcome only, and is not called sure."""
    P = ring(12, 0.5)
    P[2] = 0.99 * np.eye(12)[2] + 0.01 * P[2]
    data = known(P, gvfx.Constant(1.0, at=5), 20_000)
    counts = data.counts.copy()
    held = counts[2, 0].sum()
    counts[2, 0] = np.where(data.world.next[2, 0] == 2, held, 0)
    data = Empirical(data.world, data.asked, data.evidence._replace(counts=counts.reshape(data.evidence.counts.shape)))
    found = determinism(data)
    assert held > 200 and found.sure[2, 0] == 0 and found.sure[4, 0] > 0.95


def test_noise_of_cumulants_is_chance():
    """The same ring; state 2 pays a normal amount, so that its pairs have chance in them."""
    data = known(ring(30, 0.5), gvfx.Distractor(5, 1, at=2), 6000)
    found = determinism(data)
    assert not found.sure[2].any()
    others = np.ones((30, 2), bool)
    others[2] = False
    assert found.sure[:, :2][others].min() > 0.9
