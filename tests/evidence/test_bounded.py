"""Intervals of audited values by known ranges."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.audit_reference import audit_last
from helpers.audits import TRUTH, Ring, asked

import gvfx
from gvfx.evidence.audits import bounds_of_runs, last_cumulants, lower, value_bounds
from gvfx.running.auditing import planned


def test_the_last_cumulant_by_loops():
    rng, gamma = np.random.default_rng(0), np.array([0.9, 0.5, 1.0, 0.0])
    for _ in range(100):
        cumulants, stop, terminated = rng.normal(size=(int(rng.integers(1, 12)), 4)), float(rng.random()), bool(rng.integers(2))
        found = last_cumulants(cumulants, gamma, stop, terminated)
        np.testing.assert_allclose(found, audit_last(cumulants, gamma, stop, terminated))


def test_its_mean_is_the_value_over_the_horizon():
    """A chain that pays 0, 1, 2, ... and ends after eight steps: strata make the mean of 2,000 exact to 1 %."""
    paid, stops = np.arange(8.0)[:, None], [r.stop for r in planned(np.array([2000]), [1])]
    found = np.mean([last_cumulants(paid, np.array([0.8]), stop, True) for stop in stops]) / 0.2
    assert found == pytest.approx((paid[:, 0] * 0.8 ** np.arange(8)).sum(), rel=0.01)


@pytest.mark.parametrize(("chance", "n"), [(0.01, 30), (0.01, 400), (0.3, 20)])
def test_bounds_hold_with_any_number_of_rollouts(chance, n):
    """500 intervals each at 90 %: at most 10 % miss, and there is always an upper bound below 1."""
    rng, misses = np.random.default_rng(2), 0
    for _ in range(500):
        x = (rng.random(n) < chance) * rng.uniform(0.5, 1.0, n)
        low, high = value_bounds(x, 0.0, 0.0, 1.0, 0.9)
        misses += not low <= 0.75 * chance <= high
        assert high < 1
    assert misses / 500 < 0.1


def test_bounds_shrink_and_cuts_widen_them():
    rng = np.random.default_rng(3)
    x = rng.random(4000)
    low, high = value_bounds(x, 0.0, 0.0, 1.0, 0.95)
    assert x.mean() - 0.03 < low < x.mean() < high < x.mean() + 0.03
    cut = np.where(np.arange(4000) < 400, np.nan, x)
    assert value_bounds(cut, 0.0, 0.0, 1.0, 0.95)[1] - high > 0.02
    assert lower(np.zeros(5), 0.05) == 0 and lower(np.zeros(0), 0.05) == 0
    assert value_bounds(2 * x, 0.9, 0.0, 2.0, 0.95) == pytest.approx((20 * low, 20 * high))


def test_runs_are_averaged_with_a_part_of_the_error_each():
    bounds = np.zeros((2, 1, 6, 2))
    bounds[:, 0, :, 1] = np.arange(6)
    assert bounds_of_runs(bounds[:1], 0.95).tolist() == [[0, 3]]
    assert bounds_of_runs(bounds, 0.95).tolist() == [[0, 4]]  # 0.975 each: the kept level above is 0.99
    assert bounds_of_runs(bounds, 0.9999).tolist() == [[-np.inf, np.inf]]


def test_a_run_with_ranges(tmp_path):
    """Rewards of the ring lie between 0 and 1.1: the interval holds the truth, is wider than the other one, and is saved."""
    given = gvfx.Audit(0.3, {"right": (0, 1.1)})
    result = gvfx.evaluate(Ring(), asked(), steps=3000, seed=1, audit=given)
    plain = gvfx.evaluate(Ring(), asked(), steps=3000, seed=1, audit=0.3)
    own, other = result.value()["right"], plain.value()["right"]
    assert own.value == other.value and own.half > other.half
    assert 0 <= own.low < TRUTH["right"] < own.high <= 11
    assert result.value(level=0.5)["right"].half < own.half
    assert result.value()["left"].half == plain.value()["left"].half
    result.save(tmp_path / "r.gvfx")
    assert gvfx.load(tmp_path / "r.gvfx").value()["right"].high == own.high


@pytest.mark.full
def test_networks_stop_by_ranges():
    """The bound on the error is the square of the larger side of the interval."""
    learner = gvfx.Deep(hidden=(16,), capacity=2000, learning_starts=100, waves=3)
    ranges = dict.fromkeys(("right", "left", "near"), (0, 1.1))
    until = gvfx.error_below(40.0)
    result = gvfx.evaluate(
        Ring(rows=True), asked(), gvfx.Uniform(), learner, steps=1500, where="start", audit=gvfx.Audit(0.3, ranges), until=until
    )
    assert 1.0 < result.details.bounds[0] < 121


def test_bad_ranges():
    for ranges, match in (
        ({"up": (0, 1)}, "'up' is not a question"),
        ({"left": (1, 0)}, r"\(1, 0\) is not the range of left"),
        ({"left": 3}, "3 is not the range of left"),
    ):
        with pytest.raises(gvfx.InputError, match=f"^audit: {match}"):
            gvfx.evaluate(Ring(), asked(), steps=1000, audit=gvfx.Audit(0.1, ranges))
    with pytest.raises(gvfx.InputError, match="^audit: 2 is not a share"):
        gvfx.evaluate(Ring(), asked(), steps=1000, audit=gvfx.Audit(2))
