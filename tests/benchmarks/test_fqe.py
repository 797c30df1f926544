"""d3rlpy's FQE as `python -m benchmarks alternatives` uses it; run in its own environment by `make bench-d3rlpy`."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("d3rlpy", reason="needs d3rlpy: make bench-d3rlpy")

from benchmarks.common import fqe

RNG = np.random.default_rng(0)


def episodes(count: int, length: int, over: bool, box: bool):
    """Every step pays 1, whatever is seen and done."""
    actions = RNG.uniform(-1, 1, (count, length, 1)).astype(np.float32) if box else RNG.integers(0, 2, (count, length))
    seen, last = RNG.normal(size=(count, length + 1, 3)), np.arange(length) == length - 1
    columns = zip(seen, actions)
    return [{"observations": o, "actions": a, "rewards": np.ones(length), "terminations": last & over} for o, a in columns]


@pytest.mark.parametrize("over", [True, False])
def test_every_transition_is_used(over):
    assert fqe._dataset(episodes(6, 5, over, False), True).transition_count == 30


@pytest.mark.parametrize("setting", [fqe.defaults, fqe.sensible])
@pytest.mark.parametrize("box", [False, True])
def test_a_constant_reward_that_goes_on_is_worth_its_sum(setting, box):
    def draw(o):
        return RNG.uniform(-1, 1, (len(o), 1)).astype(np.float32) if box else RNG.integers(0, 2, len(o))

    early, late = fqe.fit(episodes(20, 20, False, box), draw, setting(0.5), (10, 800), seed=0)
    assert (early.updates, late.updates) == (10, 800) and late.seconds > early.seconds
    assert late.value == pytest.approx(2.0, abs=0.3)
