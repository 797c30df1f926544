"""True values of Walker and Cheetah: their points, layout, precision and cache."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.mujoco_worlds import BOTH, rng

from gvfx.errors import InputError
from gvfx_paper.truths import trajectories as truths
from gvfx_paper.truths.trajectories import MujocoTruth
from gvfx_paper.truths.trajectories import mujoco_truth as truth_of
from gvfx_paper.worlds.mujoco import CHEETAH, WALKER, Lockstep, load_model


class Linear:
    """A target policy without a network."""

    def __init__(self, domain, seed, sigma=0.2):
        self.weights = rng(seed).normal(0, 0.3, (domain.observation_size, domain.action_size))
        self.sigma, self.digest = sigma, str(seed)

    def act(self, observations):
        return np.tanh(observations @ self.weights)


def brief(domain):
    """Shorter episodes, for quicker points."""
    return dataclasses.replace(domain, horizon=60)


def targets(domain, sigma=0.2):
    return [Linear(domain, k, sigma) for k in range(2)]


def assert_same(a, b):
    for name in MujocoTruth.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@BOTH
def test_the_truth_does_not_depend_on_the_layout(domain):
    asked = {"points": 4, "episodes": 5, "steps": 20, "seed": 3}
    domain, told = brief(domain), []
    one = truth_of(domain, targets(domain), **asked, worlds=1, progress=lambda *done: told.append(done))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert_same(one, truth_of(domain, targets(domain), **asked, worlds=15, threads=2))
    assert_same(one, truth_of(domain, targets(domain), **asked))
    other = truth_of(domain, targets(domain), **{**asked, "seed": 4})
    assert not np.array_equal(one.values, other.values)
    shapes = (one.states.shape, one.observations.shape, one.actions.shape, one.values.shape, one.standard_errors.shape)
    assert shapes == ((4, 91), (4, domain.observation_size), (4, 6), (4, 2), (4, 2))


@BOTH
def test_the_points_lie_on_the_targets_trajectories(domain):
    states, observations, actions = truths.choose_points(domain, targets(domain, sigma=1e-9), 8, 0)
    seconds = domain.substeps * load_model(domain.name).opt.timestep
    np.testing.assert_allclose(states[:, 0] / seconds, [125, 375, 625, 875] * 2)
    worlds = Lockstep(domain, 8)
    worlds.set_state(states)
    np.testing.assert_array_equal(worlds.observations(), observations)
    for k, target in enumerate(targets(domain)):
        rows = slice(4 * k, 4 * k + 4)
        np.testing.assert_allclose(actions[rows], target.act(observations[rows]), atol=1e-7)


@BOTH
def test_the_truth_is_the_mean_discounted_return_after_the_action(domain):
    quiet = targets(domain, sigma=0.0)
    truth = truth_of(brief(domain), quiet, points=2, episodes=2, steps=30, discount=0.9)
    worlds = Lockstep(domain, 2)
    for k, target in enumerate(quiet):
        worlds.set_state(truth.states)
        action, returns = truth.actions, np.zeros(2)
        for t in range(30):
            observations, cumulants = worlds.step(action)
            returns += 0.9**t * cumulants[:, k]
            action = target.act(observations)
        np.testing.assert_allclose(truth.values[:, k], returns, rtol=1e-9)
    np.testing.assert_allclose(truth.standard_errors, 0, atol=1e-12)


def test_more_episodes_know_it_better():
    few, many = (truth_of(brief(CHEETAH), targets(CHEETAH), points=4, episodes=n, steps=40) for n in (20, 180))
    np.testing.assert_array_equal(few.states, many.states)
    np.testing.assert_array_equal(few.actions, many.actions)
    moving = many.standard_errors > 1e-3
    assert moving.sum() >= 4
    assert 0.2 < np.median(many.standard_errors[moving] / few.standard_errors[moving]) < 0.5  # 1 / 3 is expected
    apart = np.abs(few.values - many.values)[moving] / np.hypot(few.standard_errors, many.standard_errors)[moving]
    assert apart.max() < 4.5
    np.testing.assert_allclose(few.noise_floor, (few.standard_errors**2).mean(axis=0))
    np.testing.assert_allclose(few.mse(few.values + np.array([1.0, 2.0])), [1.0, 4.0])
    with pytest.raises(InputError, match=r"^predicted: "):
        few.mse(few.values[:1])


def test_the_truth_is_kept_and_shipped(tmp_path, monkeypatch):
    asked = {"points": 2, "episodes": 2, "steps": 3}
    world = brief(CHEETAH)
    first = truth_of(world, targets(CHEETAH), **asked, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    raw = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(truths, "simulate", None)
        assert_same(first, truth_of(world, targets(CHEETAH), **asked, cache=tmp_path))
        with pytest.raises(TypeError):
            truth_of(world, targets(CHEETAH)[::-1], **asked, cache=tmp_path)
        with pytest.raises(TypeError):
            truth_of(CHEETAH, targets(CHEETAH), **asked, cache=tmp_path)
        patch.setattr(truths, "SHIPPED", tmp_path)
        assert_same(first, truth_of(world, targets(CHEETAH), **asked))
    path.write_bytes(raw[:-1])
    assert_same(first, truth_of(world, targets(CHEETAH), **asked, cache=tmp_path))
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    "field, changes",
    [
        ("targets", {"targets": targets(WALKER)[:1]}),
        ("points", {"points": 0}),
        ("points", {"points": 3}),
        ("episodes", {"episodes": 1}),
        ("steps", {"steps": 0}),
        ("seed", {"seed": -1}),
        ("discount", {"discount": 1.0}),
        ("worlds", {"worlds": 0}),
    ],
)
def test_bad_questions_are_named(field, changes):
    with pytest.raises(InputError, match=rf"^{field}: "):
        truth_of(**{"domain": WALKER, "targets": targets(WALKER), "points": 2, "episodes": 2, "steps": 1, **changes})
