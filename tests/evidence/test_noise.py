"""The noise of pairs, shared between them: credibility by hand, and what it does to pairs with few tries."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import small_world, two_questions

import gvfx
from benchmarks.common.worlds import jackpots
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import smoothed_noise
from gvfx.evidence.uncertainty import credibility, shared_noise, standard_errors


def test_credibility_by_hand():
    """Two pairs with variances 1 and 3 from 10 and 30 visits, fourth moments 2 and 12."""
    centre, between, within = credibility(np.array([1.0, 3.0]), np.array([2.0, 12.0]), np.array([10.0, 30.0]))
    assert centre == pytest.approx(2.5) and within == pytest.approx(0.25 * 1 + 0.75 * 3)
    assert between == pytest.approx(0.25 * 1.5**2 + 0.75 * 0.5**2 - 2.5 * (0.25 / 10 + 0.75 / 30))


def test_differences_that_are_chance_are_shared_and_true_ones_are_kept():
    """Variances of 200 normal samples: equal ones have little between them, ones that differ tenfold have much."""
    rng = np.random.default_rng(0)
    n = rng.integers(5, 60, 200)
    for scale, low, high in ((np.ones(200), 0.0, 0.1), (rng.choice([0.3, 3.0], 200), 1.0, 3.0)):
        draws = [rng.normal(0, s**0.5, k) for s, k in zip(scale, n, strict=True)]
        x = np.array([d.var(ddof=1) for d in draws])
        fourth = np.array([((d - d.mean()) ** 4).mean() for d in draws])
        centre, between, _ = credibility(x, fourth, n.astype(float))
        assert low <= between <= high and centre == pytest.approx(np.average(scale, weights=n), rel=0.2)


def own_noise(data):
    n = data.visits[:, :, None].astype(float)
    mean, variance = data.moments(data.values)
    return smoothed_noise(mean, variance, variance * np.where(n > 1, n / np.maximum(n - 1, 1), 1.0), n)


def evidence_of(world, questions, steps):
    asked, at = compiled_evidence(world, questions, steps=steps, behaviour=gvfx.Uniform())
    return Empirical(world, asked, at.evidence)


def test_pairs_that_never_saw_the_jackpot_are_told_of_it():
    """Every pair pays 50 with a chance of 2 %: after 2,000 steps many have not seen it and look free of noise."""
    data = evidence_of(*jackpots(), 2000)
    lucky = np.zeros(data.visits.shape, bool)
    lucky[1:] = (data.counts * (data.world.next == 0)).sum(axis=2)[1:] > 0
    poor = ~lucky & (data.visits > 5) & (np.arange(20) > 0)[:, None]
    assert poor.sum() > 5 and lucky.sum() > 5
    alone, shared = own_noise(data), shared_noise(data)[0]
    assert (shared[poor] > 3 * alone[poor]).mean() > 0.75
    assert shared[lucky].mean() < 1.1 * alone[lucky].mean()


@pytest.mark.compiled(2)
def test_much_data_makes_no_difference():
    data = evidence_of(small_world(), two_questions(), 200_000)
    noise, doubt = shared_noise(data)
    live = data.world.live
    np.testing.assert_allclose(noise[live], own_noise(data)[live], rtol=0.1, atol=0.02)
    assert (doubt >= 0).all() and np.isfinite(standard_errors(data)[:, live]).all()
