"""The worlds of MR-NaS's experiment by hand-computed chances, its questions, and an estimator like the authors'."""

from __future__ import annotations

import io
from itertools import product

import numpy as np
import pytest
from rich.console import Console

import gvfx
from gvfx.benchmarks import mrnas as bench
from gvfx.benchmarks.common.river_worlds import WORLDS, double_chain, forked_river_swim, greedy, instance, n_arms, river_swim

STAY, BACK = 0.3 * 6 / 7, 0.3 / 7


def row(P, state, action):
    """The successors of a pair that have a chance."""
    return {int(s): pytest.approx(P[state, action, s]) for s in np.flatnonzero(P[state, action])}


def test_river_swim():
    P = river_swim(5)
    assert row(P, 0, 0) == {0: 1} and row(P, 0, 1) == {0: 0.3, 1: 0.7}
    assert row(P, 2, 0) == {1: 1} and row(P, 2, 1) == {1: BACK, 2: STAY, 3: 0.7}
    assert row(P, 4, 0) == {3: 1} and row(P, 4, 1) == {3: 0.3, 4: 0.7}


def test_forked_river_swim():
    """Of length 4: the first river is 0 1 2 3, the second 0 4 5 6."""
    P = forked_river_swim(4)
    assert P.shape == (7, 3, 7) and row(P, 0, 1) == {0: 0.3, 1: 0.7} and row(P, 0, 2) == row(P, 0, 0) == {0: 1}
    assert [row(P, s, 0) for s in (1, 3, 4, 5, 6)] == [{0: 1}, {2: 1}, {0: 1}, {4: 1}, {5: 1}]
    assert [row(P, s, 2) for s in (1, 2, 3, 4, 5, 6)] == [{4: 1}, {5: 1}, {3: 1}, {1: 1}, {2: 1}, {6: 1}]
    assert row(P, 5, 1) == {4: BACK, 5: STAY, 6: 0.7} and row(P, 4, 1) == {3: BACK, 4: STAY, 5: 0.7}
    assert row(P, 3, 1) == {2: 0.3, 3: 0.7} and row(P, 6, 1) == {5: 0.3, 6: 0.7}


def test_double_chain():
    P = double_chain(3)
    assert P.shape == (7, 2, 7) and row(P, 0, 0) == {4: 1} and row(P, 0, 1) == {1: 1}
    assert row(P, 1, 0) == {0: 0.3, 2: 0.7} and row(P, 3, 0) == {2: 0.3, 3: 0.7} and row(P, 4, 0) == {0: 0.3, 5: 0.7}
    assert row(P, 6, 0) == {5: 0.3, 6: 0.7} and row(P, 4, 1) == {0: 1} and row(P, 2, 1) == {1: 1}


def test_n_arms():
    P = n_arms(4)
    assert row(P, 0, 0) == {1: 1} and row(P, 0, 1) == {0: 0.65, 2: 0.35} and row(P, 0, 3) == {0: 0.825, 4: 0.175}
    assert all(row(P, s, a) == {0: 0.3, s: 0.7} for s in (1, 4) for a in range(4))


def test_greedy_policies_are_the_best():
    P, paid = river_swim(4), np.eye(8)[5].reshape(4, 2)  # paid for swimming in state 2
    found = greedy(P, paid, 0.9)

    def values(policy):
        s, a = np.arange(4), np.array(policy)
        return np.linalg.solve(np.eye(4) - 0.9 * P[s, a], paid[s, a])

    best = np.max([values(policy) for policy in product(range(2), repeat=4)], axis=0)
    np.testing.assert_allclose(values(found), best)
    assert greedy(n_arms(3), np.eye(12)[2 * 3 + 1].reshape(4, 3), 0.9).tolist() == [1, 0, 1, 0]  # the first of equals


@pytest.mark.parametrize("name, size", bench.PUBLISHED)
def test_instances_are_drawn_from_their_seed(name, size):
    (world, questions), (_, again), (_, others) = (instance(name, size, seed) for seed in (9000, 9000, 9001))
    assert world.horizon is None and world.start[0] == 1 and not world.terminal.any() and len(questions) == 3
    np.testing.assert_allclose(WORLDS[name](size).sum(axis=2), 1)
    truth = gvfx.exact.values(world, questions)
    np.testing.assert_array_equal(truth, gvfx.exact.values(world, again))
    assert (truth != gvfx.exact.values(world, others)).any()
    assert 1 <= truth.max() < 10  # a reward of 1 in one state, discounted by 0.9


def test_pseudo_counts_are_added_to_every_successor():
    world, questions = instance("RiverSwim", 4, 1)
    r = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=50, seed=0)
    P = np.ones((4, 2, 4))
    for (s, a, k), n in np.ndenumerate(r.models[0].counts):
        P[s, a, world.next[s, a, k]] += n
    P /= P.sum(axis=2, keepdims=True)
    states, truth = np.arange(4), gvfx.exact.values(world, questions)
    for i, values in enumerate(bench.pseudo_counted(r.models[0], questions)):
        taken = r.models[0].asked.pi[:, :, i].argmax(axis=1)
        paid = truth[i] - 0.9 * river_swim(4)[states, taken] @ truth[i]
        np.testing.assert_allclose(values, np.linalg.solve(np.eye(4) - 0.9 * P[states, taken], paid), atol=1e-12)


def test_the_benchmark_compares_with_what_was_published(monkeypatch):
    setting = ("RiverSwim", 15)
    monkeypatch.setattr(bench, "PUBLISHED", {setting: bench.PUBLISHED[setting]})
    monkeypatch.setattr(bench, "QUICK", (2, (20_000,)))
    monkeypatch.setattr(bench, "BEHAVIOURS", {name: bench.BEHAVIOURS[name] for name in bench.PSEUDO})
    out = io.StringIO()
    (r,) = bench.run(Console(file=out, width=200), quick=True)
    assert r.case == "RiverSwim 15 at 20,000" and r.bar == "<= 0.031" and "The estimator's share" in out.getvalue()


def test_the_bar_is_for_what_noise_leaves():
    """Errors of 1 and 3: a mean of 2 and a standard error of 1, so 4 must be below what was published."""
    errors = np.array([1.0, 3.0])
    assert bench.standard_error(errors) == pytest.approx(1.0)
    assert bench._row("a", errors, 4.1, 100).passed and not bench._row("a", errors, 3.9, 100).passed
