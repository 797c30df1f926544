"""Benchmark continuous: worlds with Gymnasium's dynamics and known values, points that are put back exactly, and its bars."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import gvfx
from benchmarks import continuous as bench
from benchmarks.common.box_worlds import ACROBOT, CARTPOLE, FRESH, TUNED, BoxWorld, chances, evenly, truth_at

CASES = bench.box_cases()
RNG = np.random.default_rng(0)
KNOWN = SimpleNamespace(
    points=RNG.normal(0, 0.05, (3, 4)), values=RNG.uniform(0, 9, (4, 3)), standard_errors=np.full((4, 3), 0.1)
)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
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


def test_one_step_targets_are_what_they_were():
    old = bench.one_step(10_000)
    assert (old.updates, old.tau, old.trace, old.averaged, old.scaled) == (4, 0.05, 0.0, False, False)
    assert old.capacity == 10_000 and old.learning_starts == 1_000


def test_box_actions_have_a_line_per_environment_and_bars(monkeypatch):
    monkeypatch.setattr(gvfx, "truth_of", lambda *arguments, **options: KNOWN)
    monkeypatch.setattr(bench, "seen_by_targets", lambda case, points: KNOWN.points)
    monkeypatch.setattr(bench, "box_errors", lambda case, known, learner, *rest: np.full((1, 4), 1.0 if learner.trace else 2.0))
    study = bench.box_actions((100,), 2_000, 2, 10)
    found = study.found()
    rows = list(study.bars(found))
    assert [row.passed for row in rows] == [True, True] and [row.measured for row in rows] == ["0.5x", "0.5x"]
    (shown,) = study.tables(found)
    assert list(shown.columns[0].cells) == list(CASES) and list(shown.columns[3].cells) == ["0.5"] * 3


def test_errors_are_in_units_of_the_true_values_variance():
    small = gvfx.TwinCritics(hidden=(8,), worlds=8, batch=8, updates=1, capacity=80, learning_starts=40)
    found = bench.box_errors(CASES["CartPole, any force"], KNOWN, small, [100], 80)
    wider = bench.box_errors(
        CASES["CartPole, any force"], SimpleNamespace(points=KNOWN.points, values=1e6 * KNOWN.values), small, [100], 80
    )
    assert found.shape == (1, 4) and (found > 0).all()
    np.testing.assert_allclose(wider, (KNOWN.values**2).mean(axis=1)[None] / KNOWN.values.var(axis=1), rtol=1e-3)


@pytest.mark.parametrize("world", [CARTPOLE, ACROBOT], ids=lambda w: w.name)
def test_dynamics_are_gymnasiums(world):
    env, rng = world.make().unwrapped, np.random.default_rng(0)
    for seed in range(5):
        env.reset(seed=seed)
        for _ in range(40):
            before, action = np.array(env.state, float)[None], int(rng.integers(world.actions))
            seen, _, ended, _, _ = env.step(action)
            after, over = world.step(before, np.array([action]), rng)
            assert np.allclose(world.observe(after)[0], seen, atol=1e-6)
            assert bool(over[0]) == ended
            if ended:
                break


@pytest.mark.parametrize("world", [*TUNED, *FRESH], ids=lambda w: w.name)
def test_policies_signals_and_environments_fit(world):
    env = world.make()
    first, _ = env.reset(seed=1)
    seen, *_ = env.step(0)
    assert len(first) == len(seen) == world.numbers
    batch = np.stack([first, seen])
    for policy in world.policies.values():
        told = policy(batch)
        assert told.shape == (2, world.actions)
        assert np.allclose(told.sum(axis=1), 1)
        assert np.allclose(policy(seen), told[1])
    for signal in world.signals.values():
        assert np.allclose(signal(seen), signal(batch)[1])
    assert len(world.questions()) == len(world.policies) * len(world.signals)


def test_true_values_of_a_walk_that_is_known():
    """x doubles with action 0 and stays with action 1; the signal is x."""
    world = BoxWorld(
        "known",
        1,
        2,
        begin=lambda rng, n: np.ones((n, 1)),
        step=lambda s, a, rng: (np.where(a[:, None] == 0, 2 * s, s), np.zeros(len(s), bool)),
        policies={"even": evenly(2), "stay": lambda o: chances(np.ones(o.shape[:-1]), 1.0, 2)},
        signals={"x": lambda o: o[..., 0]},
        discount=0.5,
    )
    known = truth_at(world, np.array([[1.0], [3.0]]), 20_000, np.random.default_rng(0))
    expected = np.array([[1.5 / 0.25, 4.5 / 0.25], [2.0, 6.0]])  # E[x'] = 1.5 x: the sum is 1.5 x / (1 - 0.75)
    assert np.abs(known.values - expected).max() < 0.5
    assert np.allclose(known.values[1], expected[1], atol=1e-3)
