"""Statistics over seeds, against answers known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx_paper.report import statistics


def test_mean_interval_covers_the_mean_of_a_normal_sample_at_its_rate():
    """The percentile bootstrap of 25 seeds is a little short: about 93 % instead of 95 %."""
    rng = np.random.default_rng(0)
    covered = sum(statistics.mean(rng.normal(3.0, 1.0, 25), draws=400).contains(3.0) for _ in range(400))
    assert 0.89 < covered / 400 < 0.97


def test_equal_samples_have_no_width():
    estimate = statistics.mean(np.full(5, 2.5))
    assert (estimate.value, estimate.low, estimate.high) == (2.5, 2.5, 2.5)


def test_interquartile_mean_ignores_outliers():
    assert statistics.interquartile_mean(np.array([1.0, 2.0, 3.0, 1000.0])).value == pytest.approx(2.5)
    assert statistics.interquartile_mean(np.arange(8.0)).value == pytest.approx(np.mean([2, 3, 4, 5]))
    assert statistics.interquartile_mean(np.arange(5.0)).value == pytest.approx((0.75 * 1 + 2 + 0.75 * 3) / 2.5)


def test_paired_difference_is_sharper_than_two_means():
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 10, 25)
    gap = statistics.mean(shared + 1 + 0.1 * rng.normal(size=25) - shared)
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
