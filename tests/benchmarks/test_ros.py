"""ROS's experiment: the world has the published moments, the two kinds of data, and the table beside the published numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import gvfx
from gvfx.benchmarks import ros as bench
from gvfx.benchmarks.common.small_grid import small_grid
from gvfx.theory.exact import state_variance


def test_the_world_is_the_published_one():
    """Their code prints 2.9242, 21.45 and 7.432, from a million episodes; the policy is rounded to three digits here."""
    world, question = small_grid()
    assert gvfx.exact.values(world, [question])[0, 0] == pytest.approx(2.9242, rel=0.005)
    assert state_variance(world, [question], "return_variance")[0, 0] == pytest.approx(21.45, rel=0.01)
    length = gvfx.exact.values(world, [gvfx.GVF(question.policy, 1.0, 1.0)])[0, 0]
    assert length == pytest.approx(7.432, rel=0.01)
    assert [round(n / 7.432) for n in bench.STEPS] == [32, 128, 512]


def test_monte_carlo_on_policy_has_the_error_of_its_variance():
    """32 episodes: variance over 32, relative; 200 runs, so within 4 standard errors of about 10 %."""
    errors = bench.monte_carlo(False, 237, range(200))
    assert errors.mean() == pytest.approx(21.45 / 32 / 2.9242**2, rel=0.45)


def test_robust_data_follow_the_policy_closely():
    first, again = (bench.monte_carlo(True, 951, seeds) for seeds in (range(3), range(7, 10)))
    np.testing.assert_array_equal(first, again)  # nothing is random
    assert np.ptp(first) == 0 and first[0] < 0.018 / 10


def test_no_episode_that_ends_counts_as_nothing():
    assert bench.monte_carlo(False, 2, [0]).tolist() == [1.0]


def test_the_default_method_tries_every_action_of_every_cell():
    assert bench.certainty_equivalence(None, 951, range(3)).max() < bench.EXACT


@pytest.mark.parametrize(("errors", "text"), [([1e-30, 2e-30], "0"), ([0.25, 0.25], "0.25"), ([0.1, 0.3], "0.2 ± 0.1")], ids=str)
def test_means_are_shown_with_their_standard_errors(errors, text):
    assert bench.shown(np.array(errors)) == text


def test_the_benchmark_stands_beside_what_was_published(monkeypatch):
    monkeypatch.setattr(bench, "QUICK", (2, bench.STEPS[:1]))
    out = io.StringIO()
    (row,) = bench.run(Console(file=out, width=200), quick=True)
    assert row.case == "gvfx's default, CE after 237 steps" and row.bar == "<= 0.00056"
    assert "on-policy, FQE" in out.getvalue() and "0.0072" in out.getvalue()
