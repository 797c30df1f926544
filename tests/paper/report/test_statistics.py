"""Statistics over seeds, against answers known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx_paper.report import statistics


@pytest.mark.parametrize("seeds", [3, 5, 10, 25])
def test_intervals_hold_the_mean_at_their_rate(seeds):
    """Normal and log-normal errors, also few of them (`gvfx reproduce seed-intervals` has the table)."""
    rng = np.random.default_rng(0)
    for draw, least, most in (
        (rng.normal(1, 0.1, (20_000, seeds)), 0.94, 0.96),
        (rng.normal(1, 0.3, (20_000, seeds)), 0.94, 0.965),
        (rng.lognormal(-0.5, 1.0, (20_000, seeds)), 0.915, 0.965),
    ):
        _, low, high = statistics.mean_curve(draw.T)
        assert least < ((low <= 1) & (high >= 1)).mean() < most


@pytest.mark.parametrize("seeds", [3, 5, 25])
def test_intervals_of_gains_and_differences_hold(seeds):
    rng = np.random.default_rng(1)
    ours, theirs = rng.lognormal(0, 0.4, (2, 2000, seeds)) * np.array([0.7, 1.0])[:, None, None]
    apart = 0.3 * np.exp(0.08)
    gains = [statistics.improvement(a, b).contains(30) for a, b in zip(ours, theirs, strict=True)]
    gaps = [statistics.difference(b, a).contains(apart) for a, b in zip(ours, theirs, strict=True)]
    assert 0.93 < np.mean(gains) < 0.985 and 0.93 < np.mean(gaps) < 0.98


def test_intervals_of_shares_hold_and_have_a_width_at_their_ends():
    rng = np.random.default_rng(2)
    for chance in (0.5, 0.9):
        assert 0.92 < np.mean([statistics.share(rng.random(40) < chance).contains(100 * chance) for _ in range(3000)]) < 0.98
    assert statistics.share(np.ones(40, dtype=bool)).low < 95 and str(statistics.share(np.zeros(40, dtype=bool)))[:4] == "0 [0"


def test_what_can_be_negative_has_students_interval():
    samples = np.array([-1.0, 0.0, 1.0])
    assert statistics.mean(samples).high == pytest.approx(4.30265 / 3**0.5, rel=1e-4)


def test_a_single_seed_has_no_width():
    assert str(statistics.mean(np.array([2.0]))) == "2 [2, 2]"
    assert statistics.improvement(np.array([1.0]), np.array([2.0])).low == 50.0


def test_equal_samples_have_no_width():
    estimate = statistics.mean(np.full(5, 2.5))
    assert (estimate.value, estimate.low, estimate.high) == (2.5, 2.5, 2.5)


def test_interquartile_mean_ignores_outliers():
    assert statistics.interquartile_mean(np.array([1.0, 2.0, 3.0, 1000.0])) == pytest.approx(2.5)
    assert statistics.interquartile_mean(np.arange(8.0)) == pytest.approx(np.mean([2, 3, 4, 5]))
    assert statistics.interquartile_mean(np.arange(5.0)) == pytest.approx((0.75 * 1 + 2 + 0.75 * 3) / 2.5)


def test_paired_difference_is_sharper_than_two_means():
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 10, 25)
    gap = statistics.difference(shared + 1 + 0.1 * rng.normal(size=25), shared)
    assert gap.low > 0.9 and gap.high < 1.1


def test_improvement_is_in_percent_of_the_other():
    ours, theirs = np.array([1.0, 1.0, 1.0]), np.array([4.0, 4.0, 4.0])
    gain = statistics.improvement(ours, theirs)
    assert (gain.value, gain.low, gain.high) == (75.0, 75.0, 75.0)
    assert statistics.improvement(theirs, ours).value == -300.0


def test_steps_to_reach_must_stay_reached():
    steps = np.array([10, 20, 30, 40])
    assert statistics.steps_to_reach(steps, np.array([[5.0, 1.0, 5.0, 1.0]]), 2.0) == 40
    assert statistics.steps_to_reach(steps, np.array([[5.0, 1.0, 1.0, 1.0]]), 2.0) == 20
    assert statistics.steps_to_reach(steps, np.array([[1.0, 1.0, 1.0, 1.0]]), 2.0) == 10
    assert statistics.steps_to_reach(steps, np.array([[5.0, 1.0, 1.0, 3.0]]), 2.0) is None


def test_standard_error():
    assert statistics.standard_error(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert statistics.standard_error(np.array([[1.0, 2.0], [3.0, 2.0]])) == pytest.approx([1.0, 0.0])
    assert statistics.standard_error(np.array([7.0])) == 0.0


def test_the_same_samples_give_the_same_interval():
    samples = np.random.default_rng(2).exponential(size=25)
    assert statistics.mean(samples) == statistics.mean(samples)
