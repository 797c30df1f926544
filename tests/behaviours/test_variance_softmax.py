"""VarianceSoftmax: the formula on tables and on networks, and parameters that make no sense."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.behaviours import GVFS, policies, probabilities, three_questions, variances
from hypothesis import given, settings

import gvfx

STEPS = (0, 25_000, 10**6)


@pytest.fixture(scope="module")
def asked():
    return three_questions()


def plain(m, t, smallest=0.1):
    """softmax(mean_i max(M_i, smallest) / T), T from 1 to 0.1 within 50,000 steps."""
    score = np.maximum(m, smallest).sum(axis=1) / GVFS / max(1 - 0.9 * t / 50_000, 0.1)
    mu = np.exp(score - score.max())
    return mu / mu.sum()


@settings(deadline=None)
@given(pi=policies, m=variances)
def test_it_is_the_softmax_of_the_mean_variance(asked, pi, m):
    for t in STEPS:
        np.testing.assert_allclose(probabilities(gvfx.VarianceSoftmax(), asked, pi, m, t), plain(m, t), rtol=1e-6, atol=1e-12)


def test_networks_have_the_same_rule():
    rng, rule = np.random.default_rng(0), gvfx.VarianceSoftmax(smallest_m=0.3).network_rule()
    for t in STEPS:
        m = rng.exponential(size=(4, GVFS))
        np.testing.assert_allclose(rule.probabilities((), t, None, m, None), plain(m, t, 0.3), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "field"), [({"temperature": gvfx.Linear(1.0, 0.0, 10)}, "temperature"), ({"smallest_m": -1.0}, "smallest_m")]
)
def test_bad_parameters_are_named(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.VarianceSoftmax(**options)
