"""Outcomes that a pair has not shown yet, and how far they could move the value at the start."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gvfx
from benchmarks.compare import cases, threshold
from gvfx.evidence.decisions import joint_of
from gvfx.evidence.unseen import chances, extreme, stakes

SOON_SURE = (1326, 1330, 1332, 1338, 1342)  # seeds of runs in which no reward comes soon


def lake_model(steps, seed=0):
    case = cases()["FrozenLake"]
    result = gvfx.evaluate(case.world, case.questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=steps, seeds=[seed])
    return case, result.details.models[0]


def by_sweeps(model, mass, i, sign):
    """The favourable (or unfavourable) model by value iteration, in loops."""
    world, pi, value = model.world, model.policy(i), np.zeros(model.world.states)
    for _ in range(300):
        new = np.zeros(world.states)
        for s in range(world.states):
            outcomes = {}
            for a in range(world.actions):
                for k in np.flatnonzero(model.counts[s, a]):
                    row, arrived = model.evidence.row.reshape(world.next.shape)[s, a, k], world.next[s, a, k]
                    outcomes[a, k] = model.means[row, i] + (0.0 if world.terminal[arrived] else 0.95 * value[arrived])
            for a in np.flatnonzero(model.tried[s]):
                mean = sum(model.counts[s, a, k] / model.visits[s, a] * x for (b, k), x in outcomes.items() if b == a)
                extremal = sign * max(sign * x for x in outcomes.values())
                new[s] += pi[s, a] * ((1 - mass[s, a]) * mean + mass[s, a] * extremal)
        value = new
    return value


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extremes_by_loops(sign):
    _, model = lake_model(600)
    mass = chances(model)
    np.testing.assert_allclose(extreme(model, mass, 0, sign), by_sweeps(model, mass, 0, sign), atol=1e-6)


def test_without_missing_outcomes_the_extremes_are_the_answers():
    _, model = lake_model(600)
    for sign in (1.0, -1.0):
        np.testing.assert_allclose(extreme(model, np.zeros((16, 4)), 1, sign), model.values[1], atol=1e-9)


@pytest.mark.compiled(2)
def test_the_chance_falls_with_tries_and_is_that_of_thirds():
    """Every outcome on the ice has a chance of 1/3: n tries miss one with (2/3)^n each; h + sd is then known."""
    _, model = lake_model(50_000)
    n, mass = model.visits, chances(model)
    for tries in (4, 8):
        h, square = (2 / 3) ** tries, (2 / 3) ** tries / 3
        few = np.where(np.arange(n.size) == 0, tries, n.ravel()).reshape(n.shape)  # one pair of as few tries
        object.__setattr__(model, "__dict__", model.__dict__ | {"visits": few})
        assert chances(model)[0, 0] == pytest.approx(min(1.0, h + square**0.5), rel=0.35)
        object.__setattr__(model, "__dict__", model.__dict__ | {"visits": n})
    assert mass[model.world.terminal].max() == 0 and mass[n > 500].max() < 0.02


@pytest.mark.compiled(4)
def test_what_looks_sure_early_is_within_the_stake():
    """20 runs of 600 steps: many values near 0 are far from the truth by their standard errors, none with the stakes; later
    these are small."""
    case = cases()["FrozenLake"]
    options = {"learner": gvfx.CertaintyEquivalence(), "where": "start", "evaluate_every": 600}
    early = gvfx.evaluate(case.world, case.questions, steps=600, seeds=range(2040, 2060), **options)
    joints = [j for j in (joint_of(model, [(0, 1, 2)]) for model in early.details.models) if not j.open.any()]
    away = np.array([abs(j.values[0] - case.truth[0]) for j in joints])
    error, stake = np.array([j.errors[0, 0] for j in joints]), np.array([j.stakes[0] for j in joints])
    assert (away > 2.5 * error).sum() >= 2 and not (away > 2.5 * error + stake).any()
    assert stakes(lake_model(30_000)[1], case.world.start).max() < 0.01


@pytest.mark.full
def test_a_threshold_is_not_passed_by_luck():
    """Five runs that by standard errors alone say, within 1,100 steps, that all policies are below: none does, or is decided."""
    case = cases()["FrozenLake"]
    rule = gvfx.decided(threshold=threshold(case))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are not decided so soon
        result = gvfx.evaluate(case.world, case.questions, steps=1100, seeds=SOON_SURE, until=rule, evaluate_every=1100)
    assert not result.reached.any()


def test_a_decision_reads_them():
    case, model = lake_model(3000)
    joint = joint_of(model, [(0, 1, 2)])
    np.testing.assert_array_equal(joint.stakes, np.maximum(joint.stake, stakes(model, case.world.start)))
    assert (joint.stakes > joint.stake).all()
