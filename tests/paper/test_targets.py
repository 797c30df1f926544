"""Trained target policies: their density, their weights, and the shipped ones."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from gvfx.errors import InputError
from gvfx_paper.targets import Target


def test_target_density_integrates_to_one_and_matches_draws(targets):
    target, observation = targets[0], np.ones((1, 17), np.float32)
    grid = np.linspace(-3, 3, 2001)
    middle = target.act(observation)[0]
    points = np.repeat(middle[None], len(grid), axis=0)
    points[:, 0] = grid
    density = np.exp(target.log_prob(observation, points))
    others = (target.sigma * math.sqrt(2 * math.pi)) ** 5  # the other five coordinates are at their middles
    assert np.trapezoid(density, grid) * others == pytest.approx(1, abs=1e-4)
    draws = target.sample(np.repeat(observation, 20_000, axis=0), np.random.default_rng(0))
    assert draws.std(axis=0)[np.abs(middle) < 0.3] == pytest.approx(target.sigma, rel=0.03)


def test_target_acts_alike_in_numpy_and_jax(targets):
    observations = np.random.default_rng(2).normal(size=(7, 17)).astype(np.float32)
    assert isinstance(targets[0].act(observations), np.ndarray)
    assert np.allclose(targets[0].act(observations), targets[0].act(jnp.asarray(observations)), atol=1e-6)


def test_target_refuses_other_weights_and_unknown_names(targets):
    with pytest.raises(InputError, match="has other weights than this experiment"):
        Target(targets[0].name, digest="0" * 16)
    with pytest.raises(InputError, match="target: 'walker-wlk' is unknown"):
        Target("walker-wlk")
    with pytest.raises(InputError, match="sigma"):
        Target(targets[0].name, sigma=0.0)
    with pytest.raises(InputError, match="continuous actions"):
        targets[0].table(3, 4)


@pytest.mark.parametrize("name", ["walker-walk", "walker-flip", "cheetah-walk", "cheetah-run"])
def test_shipped_targets_are_mid_level(name):
    target = Target.shipped(*name.split("-"))
    assert 300 <= float(target.facts["return"]) <= 600
    assert target.facts["command"] == f"gvfx train-targets {name.replace('-', ' ')} --seed {target.facts['seed']}"
