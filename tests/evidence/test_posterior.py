"""Draws of the world given the counts, held to plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers.worlds import random_mdp, random_question

import gvfx
from benchmarks.common.worlds import frozen_lake
from gvfx.evidence import posterior
from gvfx.evidence.posterior import FIRST, PRIORS, SECOND, Posterior, learned, likelihood


def counted(world, questions, steps=600, seed=0):
    run = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=steps, seeds=[seed])
    return run.details.models[0]


def lake(steps=2000, gamma=0.9):
    return counted(*frozen_lake(gamma, {"random": [0.25] * 4, "eager": [0.1, 0.4, 0.4, 0.1]}), steps)


def noisy(steps=600):
    """Random dynamics and cumulants, which are noisy in every pair; two policies and two discounts."""
    rng = np.random.default_rng(3)
    world = random_mdp(rng, 6, 3)
    paid = gvfx.table_cumulant(rng.normal(size=(6, 3)), np.full((6, 3), 0.5))
    return counted(world, [random_question(rng, world), gvfx.GVF([0.2, 0.3, 0.5], paid, 0.8, name="fixed")], steps)


def test_likelihoods_are_those_of_counts_with_a_beta_chance():
    c, n = np.array([0.0, 1.0, 4.0, 9.0]), np.array([5.0, 5.0, 4.0, 30.0])
    found = likelihood(c, n)
    assert found[:, 0].tolist() == [1, 0, 0, 0]
    for row, k, m in zip(found[:, 1:], c, n, strict=True):
        exact = scipy.stats.betabinom.pmf(k, m, FIRST, SECOND)
        np.testing.assert_allclose(row / row.max(), exact / exact.max(), rtol=1e-6)
        assert k > 0 or np.allclose(row, exact)


def test_weights_by_loops():
    rng = np.random.default_rng(0)
    like, times, start, prior = rng.random((7, 3)), rng.random((2, 7)), np.full(3, 1 / 3), rng.random((2, 3))
    for found, often, own in zip(learned(like, times, start, prior, 4), times, prior, strict=True):
        w = start
        for _ in range(4):
            total = own.copy()
            for row, count in zip(like, often, strict=True):
                total += count * w * row / (w * row).sum()
            w = total / total.sum()
        np.testing.assert_allclose(found, w)


@pytest.mark.parametrize("make", [lambda: lake(200), lambda: noisy(60)])
def test_candidates_by_sets(make):
    """Every tried pair has its own outcomes and those of its state's other actions; shown by one action alone: single."""
    model = make()
    found, shown, actions = Posterior(model), {}, model.world.actions
    for s, a, k in np.argwhere(model.counts):
        own = shown.setdefault(s, {}).setdefault(a, {})
        own[model.world.next[s, a, k]] = own.get(model.world.next[s, a, k], 0) + model.counts[s, a, k]
    expected = {}
    for s, by_action in shown.items():
        for arrived in set().union(*by_action.values()):
            for a, own in by_action.items():
                others = any(arrived in by_action[b] for b in by_action if b != a)
                expected[s * actions + a, arrived] = (own.get(arrived, 0), others)
    c = found.candidates
    got = {
        (int(pair), int(found.labels[label])): (int(count), bool(related))
        for pair, label, count, related in zip(c.pair, c.label, c.times, c.related, strict=True)
    }
    assert got == expected and len(c.pair) == len(got)


@pytest.mark.parametrize("make", [lake, noisy])
def test_answers_in_drawn_worlds_by_loops(make, monkeypatch):
    """The same draws, solved one by one with dense matrices; sparse systems give the same."""
    model = make()
    world, values = model.world, Posterior(model).values
    again, states, actions = Posterior(model), model.world.states, model.world.actions
    m, e = again.known, len(np.unique(model.seen.state * states + model.seen.arrived))
    for k, (related, single) in enumerate(zip(*again.priors(), strict=True)):
        drawn, (rows, wobble) = again.outcomes(related, single, 25), again._wobble(25)
        total = np.zeros((25, states * actions))
        np.add.at(total, (drawn.draw, drawn.pair), drawn.prob)
        np.testing.assert_allclose(total[:, again.n > 0], 1)
        if k:
            continue
        for i in range(len(values[0])):
            pi = model.policy(i)
            P, b = np.zeros((25, states, states)), np.zeros((25, states))
            for d, pair, arrived, prob, paid in zip(*drawn, strict=True):
                s, a = divmod(pair, actions)
                own = again.pays[paid, i]
                if paid >= m and not again.by_next[i]:
                    own = again.pays[m + e + len(again.labels) + pair, i]
                if paid in rows:
                    own += wobble[d, list(rows).index(paid), i]
                gamma = 0.0 if world.terminal[arrived] else float(model.asked.gamma[0, i])
                P[d, s, arrived] += pi[s, a] * prob * gamma
                b[d, s] += pi[s, a] * prob * own
            for d in range(25):
                np.testing.assert_allclose(values[d, i], np.linalg.solve(np.eye(states) - P[d], b[d]), atol=1e-9)
    monkeypatch.setattr(posterior, "DENSE", 0)
    np.testing.assert_allclose(Posterior(model).values, values, atol=1e-9)


def test_pairs_without_chance_keep_their_counts():
    model = lake()
    found = Posterior(model)
    found.sure = np.ones(len(found.n))
    related, single = found.priors()
    drawn = found.outcomes(related[0], single[0], 2)
    P = np.zeros((2, len(found.n), model.world.states))
    np.add.at(P, (drawn.draw, drawn.pair, drawn.arrived), drawn.prob)
    plain = np.zeros(P.shape[1:])
    np.add.at(plain, (model.seen.pair, model.seen.arrived), model.seen.prob)
    np.testing.assert_allclose(P, [plain, plain])


def test_an_outcome_of_many_pairs_is_expected_of_a_pair_that_has_not_shown_it():
    """Every state's action 0 leads to a trap now and then; a pair that has not shown it in 20 tries still has a chance of it."""
    rng = np.random.default_rng(1)
    P = np.zeros((12, 2, 12))
    P[np.arange(12), 0, (np.arange(12) + 1) % 11] = 0.9
    P[np.arange(12), 0, 11] += 0.1
    P[:, 1, 0] = 1
    world = gvfx.MDP.from_matrix(P, start=np.eye(12)[0])
    model = counted(world, [gvfx.GVF([0.5, 0.5], gvfx.table_cumulant(rng.random((12, 2)), 0.0), 0.9)], 600)
    found = Posterior(model)
    related, single = found.priors()
    trap = list(found.labels).index(11)
    unseen = single[:, trap] * likelihood(np.zeros(1), np.array([20.0]))
    elsewhere = single[:, list(found.labels).index(5)] * likelihood(np.zeros(1), np.array([20.0]))
    chance, other = (1 - x[:, 0] / x.sum(axis=1) for x in (unseen, elsewhere))
    assert chance.mean() > 3 * other.mean() and chance.min() > other.max() and related.shape == (PRIORS, 2, 1 + len(FIRST))


def test_draws_are_the_same_every_time_and_spread_less_with_more_data():
    few, many = lake(3000), lake(45_000)
    assert np.array_equal(Posterior(few).values, Posterior(few).values)
    wide, narrow = (Posterior(each).values.std(axis=0)[:, ~each.world.terminal].mean() for each in (few, many))
    assert narrow < wide / 2
