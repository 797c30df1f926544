"""The squashed Gaussian is a density."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from gvfx.learners.networks.critic_updates import squashed_sample
from gvfx.learners.networks.heads import Heads


def test_squashed_gaussian_integrates_to_one():
    net = Heads(np.random.default_rng(0), 3, (8,), (2, 1))
    noise = jnp.linspace(-8, 8, 20_001)[:, None]
    action, log_prob = squashed_sample(net, jnp.ones((len(noise), 3)), noise)
    assert np.trapezoid(np.exp(np.float64(log_prob)), np.float64(action[:, 0])) == pytest.approx(1, abs=1e-3)


def test_squashed_log_probability_stays_finite_far_out():
    net = Heads(np.random.default_rng(0), 3, (8,), (2, 1))
    _, log_prob = squashed_sample(net, jnp.ones((2, 3)), jnp.array([[30.0], [-30.0]]))
    assert np.isfinite(log_prob).all()
