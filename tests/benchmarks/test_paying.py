"""Start values beside rollouts: what a line says, and worlds that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.box_worlds import returns_from
from benchmarks.common.start_worlds import KINDS, NAMED, drawn
from benchmarks.paying import by_rollouts, line


def test_a_line_compares_errors_widths_and_intervals():
    truth = [{"value": np.array([1.0]), "spread": np.array([2.0])}, {"value": np.array([3.0]), "spread": np.array([2.0])}]
    plain = [{"value": [6.0], "half": [1.0], "flagged": False, "seconds": 0.0}] * 2
    ours = [
        {"value": [3.0], "half": [2.0], "flagged": True, "seconds": 0.1},
        {"value": [1.0], "half": [0.5], "flagged": False, "seconds": 0.3},
    ]
    of = line({"rollouts": plain, "gvfx": ours}, truth, 100)
    assert (of.ratio, of.error, of.widths) == pytest.approx((0.25, 0.5, 1.25))
    assert (of.held, of.rollouts_held, of.flagged, of.cost) == pytest.approx((0.5, 0.0, 0.5, 2.0))


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_worlds_are_the_same_again(kind):
    one, other = drawn(kind, 3), drawn(kind, 3)
    states = one.begin(np.random.default_rng(0), 4)
    action = np.arange(4) % one.actions
    for a, b in zip(
        one.step(states, action, np.random.default_rng(1)), other.step(states, action, np.random.default_rng(1)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert len(one.questions()) == KINDS[kind].policies and one.observe(states).shape == (4, KINDS[kind].seen)


def test_rollouts_spend_their_steps_and_no_more():
    world = NAMED["queues"]
    policy = next(iter(world.policies.values()))
    returns, steps = returns_from(world, world.begin(np.random.default_rng(0), 5), policy, np.random.default_rng(1), 1e-3)
    assert returns.shape == (1, 5) and (steps == np.ceil(np.log(1e-3) / np.log(world.discount))).all()
    few = by_rollouts(world, 500, 0)
    assert len(few["value"]) == 2 and np.isinf(few["half"]).all()  # one episode each
