"""The cold worlds of `gvfx bench hard`, drawn from their numbers, and what the benchmark counts as worse beyond noise."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import gvfx
from gvfx import design
from gvfx.benchmarks import hard as bench
from gvfx.benchmarks.common.cold_worlds import CLASSES
from gvfx.benchmarks.common.hard_worlds import corridor


def steps_from_start(world):
    """The fewest steps from a start state to every state; infinite where there is no way."""
    steps = np.where(world.start > 0, 0.0, np.inf)
    for _ in range(world.states):
        s, a, k = np.nonzero((world.prob > 0) & np.isfinite(steps)[:, None, None] & ~world.terminal[:, None, None])
        np.minimum.at(steps, world.next[s, a, k], steps[s] + 1)
    return steps


@pytest.mark.parametrize("number", [0, 7, 100, 101])
@pytest.mark.parametrize("name", CLASSES)
def test_cold_worlds_can_be_explored_and_have_an_optimum(name, number):
    world, questions = CLASSES[name](number)
    assert world.states <= 400 and 2 <= len(questions) <= 3
    np.testing.assert_allclose(world.prob.sum(axis=2), 1)
    assert steps_from_start(world)[world.live].max() < world.horizon
    best = design.optimal(world, questions)
    assert 0 < best.bound <= best.constant * (1 + 1e-9) and best.timed <= 1.15 * best.bound
    assert best.constant < design.constant(world, questions, np.full((1, world.actions), 1 / world.actions))


@pytest.mark.parametrize("name", CLASSES)
def test_a_cold_world_is_that_of_its_number(name):
    (world, questions), (again, _), (other, _) = CLASSES[name](3), CLASSES[name](3), CLASSES[name](4)
    np.testing.assert_array_equal(world.next, again.next)
    np.testing.assert_array_equal(world.prob, again.prob)
    assert world.prob.shape != other.prob.shape or (world.prob != other.prob).any()
    assert len({question.name for question in questions}) == len(questions)


def test_most_pairs_of_the_taxi_have_no_chance_in_them():
    world, _ = CLASSES["taxi"](100)
    certain = (world.prob.max(axis=2) == 1)[world.live]
    assert 0.7 < certain.mean() < 1


def found(**errors):
    """Ratios of one world at one time, where behaviours that are not named have 100."""
    return bench.Measured("world", {name: np.array(errors.get(name, [100.0] * 4))[:, None] for name in bench.BEHAVIOURS})


@pytest.mark.parametrize(
    "ours, rival, worse",
    [
        ([2.0, 2.1, 1.9, 2.0], [1.0, 1.1, 0.9, 1.0], True),
        ([1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0], False),
        ([1.0, 1.0, 1.0, 5.0], [1.1, 0.9, 1.1, 0.9], False),  # one run, and its mean is within noise
        ([1.0, 1.1, 0.9, 1.0], [1.0, 1.1, 0.9, 1.0], False),  # the same
        ([3.0, 3.1, 2.9, 9.0], [1.0, 1.1, 0.9, 8.9], True),  # always worse, though means are within noise: by logarithms
        ([0.0, 0.0, 0.0, 0.0], [1e-9, 1e-9, 1e-9, 1e-9], False),
    ],
)
def test_worse_beyond_noise(ours, rival, worse):
    assert bench.worse_than(found(OptimalDesign=ours, Mixture=rival), 0) == ("Mixture" if worse else None)
    assert bench.worse_than(found(OptimalDesign=ours, RoundRobin=rival), 0) is None  # not one of those that the bar names


def test_ratios_are_errors_times_steps_over_the_optimum(monkeypatch):
    monkeypatch.setattr(bench, "BEHAVIOURS", {"Uniform": gvfx.Uniform})
    world, questions = corridor(5)
    m = bench.measured("corridor", (world, questions), 3, (1000, 4000))
    r = gvfx.evaluate(
        world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=4000, evaluate_every=1000, seeds=range(7000, 7003)
    )
    limit = design.optimal(world, questions).constant
    np.testing.assert_allclose(m.ratios["Uniform"], r.error[:, [0, 3]] * [1000, 4000] / limit)


def test_every_behaviour_runs_on_tables():
    assert all("tables" in make().supports for make in bench.BEHAVIOURS.values()) and set(bench.RIVALS) < set(bench.BEHAVIOURS)


def test_the_benchmark_prints_every_class_and_its_bars(monkeypatch):
    monkeypatch.setattr(bench, "CLASSES", {"corridor": lambda number: corridor(5), "another": lambda number: corridor(6)})
    monkeypatch.setattr(bench, "QUICK", ((100,), 2, (1000, 30_000)))
    monkeypatch.setattr(bench, "BEHAVIOURS", {name: bench.BEHAVIOURS[name] for name in (bench.OURS, *bench.RIVALS)})
    out = io.StringIO()
    rows = bench.run(Console(file=out, width=200), quick=True)
    assert [row.case for row in rows] == ["corridor at 30,000", "another at 30,000", "worse beyond noise"]
    assert out.getvalue().count("corridor 100") >= len(bench.BEHAVIOURS) and "of 4 (world, time)" in rows[-1].note
