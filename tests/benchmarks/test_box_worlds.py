"""The worlds of `gvfx bench continuous`: Gymnasium's dynamics, and true values where they are known."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx.benchmarks.common.box_examples import ACROBOT, CARTPOLE, FRESH, TUNED
from gvfx.benchmarks.common.box_worlds import BoxWorld, chances, evenly, truth_at


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
