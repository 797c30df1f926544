"""The cases of `gvfx bench box_actions`: points of the target policies are put back exactly; the table and its bars."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import gvfx
from gvfx.benchmarks import box_actions as bench

CASES = bench.cases()
RNG = np.random.default_rng(0)
KNOWN = SimpleNamespace(
    points=RNG.normal(0, 0.05, (3, 4)), values=RNG.uniform(0, 9, (4, 3)), standard_errors=np.full((4, 3), 0.1)
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_points_are_put_back_and_stepped_from(case):
    points, env = bench.seen_by_targets(case, 2), case.make()
    env.reset(seed=0)
    assert points.shape == (4, *env.observation_space.shape) and len({tuple(p) for p in points}) == 4
    for point in points:
        found = []
        for _ in range(2):
            case.put(env, point)
            found.append(env.step(env.action_space.high)[0])
        np.testing.assert_array_equal(*found)
        assert np.abs(found[0] - point).max() < 2  # one step away
    assert not any(finding.severity == "error" for finding in gvfx.check(env, case.questions(), steps=20))


def test_before_is_what_was_printed_before():
    old = bench.before(10_000)
    assert (old.updates, old.tau, old.trace, old.averaged, old.scaled) == (4, 0.05, 0.0, False, False)
    assert old.capacity == 10_000 and old.learning_starts == 1_000


def test_the_benchmark_prints_every_case_and_its_bars(monkeypatch):
    monkeypatch.setattr(bench, "truth", lambda case, points, episodes: KNOWN)
    monkeypatch.setattr(bench, "errors", lambda case, known, learner, *rest: np.full((1, 4), 1.0 if learner.trace else 2.0))
    console = Console(record=True, width=200)
    rows = bench.run(console, quick=True)
    assert [row.passed for row in rows] == [True, True] and [row.measured for row in rows] == ["0.5x", "0.5x"]
    text = console.export_text()
    assert all(case.name in text for case in CASES) and "0.50" in text


def test_errors_are_in_units_of_the_true_values_variance():
    small = gvfx.TwinCritics(hidden=(8,), worlds=8, batch=8, updates=1, capacity=80, learning_starts=40)
    found = bench.errors(CASES[2], KNOWN, small, [100], 80)
    wider = bench.errors(CASES[2], SimpleNamespace(points=KNOWN.points, values=1e6 * KNOWN.values), small, [100], 80)
    assert found.shape == (1, 4) and (found > 0).all()
    np.testing.assert_allclose(wider, (KNOWN.values**2).mean(axis=1)[None] / KNOWN.values.var(axis=1), rtol=1e-3)
