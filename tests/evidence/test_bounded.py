"""Intervals of values at the start by known ranges."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.audits import TRUTH, Ring, asked

import gvfx
from gvfx.evidence.betting import bounds_of_runs, lower, value_bounds


@pytest.mark.parametrize(("chance", "n"), [(0.01, 30), (0.01, 400), (0.3, 20)])
def test_bounds_hold_with_any_number_of_episodes(chance, n):
    """500 intervals each at 90 %: at most 10 % miss, and there is always an upper bound below 1."""
    rng, misses = np.random.default_rng(2), 0
    for _ in range(500):
        x = (rng.random(n) < chance) * rng.uniform(0.5, 1.0, n)
        low, high = value_bounds(x, np.zeros(n), 0.0, 0.0, 1.0, 0.9)
        misses += not low <= 0.75 * chance <= high
        assert high < 1
    assert misses / 500 < 0.1


def test_bounds_shrink_and_cuts_widen_them():
    rng, none = np.random.default_rng(3), np.zeros(4000)
    x = rng.random(4000)
    low, high = value_bounds(x, none, 0.0, 0.0, 1.0, 0.95)
    assert x.mean() - 0.03 < low < x.mean() < high < x.mean() + 0.03
    assert lower(np.zeros(5), 0.05) == 0 and lower(np.zeros(0), 0.05) == 0
    cut = np.where(np.arange(4000) < 400, 1.0, 0.0)  # of returns, of which nothing is known in these
    below, above = value_bounds(x, cut, 1.0, 0.0, 1.0, 0.95)
    assert below == pytest.approx(value_bounds(np.where(cut > 0, 0.0, x), none, 1.0, 0.0, 1.0, 0.95)[0]) and above - high > 0.02


@pytest.mark.parametrize("following", [0.0, 1.0])
def test_what_follows_a_cut_lies_in_the_range(following):
    """Rewards of 0 or 1 with discount 0.8, cut after three steps: whatever follows, 90 % of 500 intervals hold the value."""
    rng, misses, weights = np.random.default_rng(5), 0, 0.8 ** np.arange(3)
    value = 0.3 * weights.sum() + 0.8**3 * following / 0.2
    for _ in range(500):
        paid = (rng.random((40, 3)) < 0.3) @ weights
        low, high = value_bounds(paid, np.full(40, 0.8**3), 0.8, 0.0, 1.0, 0.9)
        misses += not low <= value <= high
        assert low >= 0 and high <= 5
    assert misses / 500 < 0.1


def test_runs_are_averaged_with_a_part_of_the_error_each():
    bounds = np.zeros((2, 1, 6, 2))
    bounds[:, 0, :, 1] = np.arange(6)
    assert bounds_of_runs(bounds[:1], 0.95).tolist() == [[0, 3]]
    assert bounds_of_runs(bounds, 0.95).tolist() == [[0, 4]]  # 0.975 each: the kept level above is 0.99
    assert bounds_of_runs(bounds, 0.9999).tolist() == [[-np.inf, np.inf]]


@pytest.mark.parametrize("rows", [False, True], ids=["tables", "linear"])
def test_a_run_with_ranges(rows, tmp_path):
    """Rewards of the ring lie between 0 and 1.1: the interval holds the truth, is wider than the other one, and is saved."""
    given, behaviour = gvfx.Audit(0.3, {"right": (0, 1.1)}), gvfx.Uniform()
    result = gvfx.evaluate(Ring(rows), asked(), behaviour, steps=3000, seed=1, audit=given)
    plain = gvfx.evaluate(Ring(rows), asked(), behaviour, steps=3000, seed=1, audit=0.3)
    own, other = result.value()["right"], plain.value()["right"]
    assert own.half > other.half and result.audit()["right"].value == plain.audit()["right"].value == own.value
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
