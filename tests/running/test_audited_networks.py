"""Audits of networks, for Discrete and for Box actions."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.audits import POLICIES, TRUTH, Ring, asked

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan

SMALL = gvfx.Deep(hidden=(16,), capacity=2000, learning_starts=100, waves=3)
TWINS = gvfx.TwinCritics(hidden=(16,), worlds=8, batch=32, updates=1, capacity=1600, learning_starts=80)


class Line(gym.Env):
    """x' = x / 2 + a / 2 from [-1, 1], pays x' in every step; without an end."""

    observation_space = gym.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(0, 1)
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x = 0.5 * self.x + 0.5 * float(action[0])
        return np.array([self.x], np.float32), self.x, False, False, {}


def box_asked():
    """From x, an action of mean 0.2 (never clipped): V = (x / 2) / (1 - g / 2) + 0.1 / ((1 - g) (1 - g / 2))."""
    policy = gvfx.gaussian_policy(lambda observations: np.full((len(observations), 1), 0.2), 0.2)
    return [gvfx.GVF(policy, gvfx.Reward(), 0.8, name="push")]


def begun(env, questions, learner, audit=0.2):
    plan = Plan.checked(1500, None, (), 0)
    stream = open_backend(env, questions, None, learner, options=Options(plan, audit=audit)).begin(0)
    stream.start()
    return stream


@pytest.mark.full
def test_networks_are_audited_by_default():
    """In a run that is long enough; the stopping rule can use what audits find."""
    result = gvfx.evaluate(Ring(rows=True), asked(), gvfx.Uniform(), SMALL, steps=1500, seed=0, where="start")
    for name, v in result.value().items():
        assert abs(v.value - TRUTH[name]) < 3 * v.half < 6.0
    assert result.details.experiment["audit"] == 0.15
    np.testing.assert_array_equal(result.intervals("start"), [(v.low, v.high) for v in result.value().values()])
    short = gvfx.evaluate(Ring(rows=True), asked(), gvfx.Uniform(), SMALL, steps=400, seed=0)
    assert short.details.audits is None
    until = gvfx.error_below(25.0)
    stopped = gvfx.evaluate(
        Ring(rows=True), asked(), gvfx.Uniform(), SMALL, steps=1500, seed=0, where="start", audit=0.3, until=until
    )
    assert stopped.details.bounds[0] < 25.0 and stopped.reached[0]
    with pytest.raises(gvfx.InputError, match=r"^until: the error of this learner cannot be bounded"):
        gvfx.evaluate(Ring(rows=True), asked(), gvfx.Uniform(), SMALL, steps=1500, audit=0, where="start", until=until)


def test_frozen_networks_are_the_networks():
    stream = begun(Ring(rows=True), asked(), SMALL)
    stream.advance(600)
    points = np.eye(6, dtype=np.float32)
    frozen, network = stream.agent.freeze(), stream.agent.network()
    for p in range(2):
        pi = np.array([POLICIES["right"], POLICIES["left"]]).T
        values, taken = frozen.at(p, [(point, pi) for point in points], [0] * 6, np.random.default_rng(0))
        own = [i for i in range(3) if stream.run.targets.member[i] == p]
        wanted = network.values(points, np.broadcast_to(pi[:, stream.run.targets.member], (6, 2, 3)))[0]
        np.testing.assert_allclose(values.T[own], wanted[own], atol=0.02 * np.ptp(wanted))
        assert taken.shape == (6, 3)
    second, size = frozen.surprise
    assert second.shape == (3,) and (size >= 0.999 * second).all() and (second > 0).all()


@pytest.mark.full
def test_box_actions_are_audited():
    result = gvfx.evaluate(Line(), box_asked(), None, TWINS, steps=1500, seed=0, audit=0.3)
    (v,) = result.value().values()
    truth = 0.25 / 0.6 + 0.1 / (0.2 * 0.6)
    assert abs(v.value - truth) < 3 * v.half < 1.5
    (found,) = result.audit().values()
    assert found.rollouts > 10 and found.cut <= 1


def test_frozen_critics_are_the_critics():
    stream = begun(Line(), box_asked(), TWINS)
    stream.advance(400)
    points, actions = np.array([[0.1], [0.5]], np.float32), np.array([[0.3], [-0.2]], np.float32)
    seen = [(point, np.array([[0.2]], np.float32)) for point in points]
    values, taken = stream.agent.freeze().at(0, seen, list(actions), np.random.default_rng(0))
    np.testing.assert_allclose(taken, stream.agent.network().at(points, actions), atol=1e-4)
    drawn = (0.2 + 0.2 * np.random.default_rng(1).standard_normal((2, 4000, 1))).clip(-1, 1).astype(np.float32)
    around = np.broadcast_to(points[:, None], (2, 4000, 1))
    wanted = stream.agent.network().at(around, drawn)
    np.testing.assert_allclose(values, wanted.mean(axis=1), atol=5 * wanted.std() / np.sqrt(32))


def test_audited_networks_are_compared():
    """Differences between two policies have the audited values, and the errors of paired rollouts."""
    policies = {"right": [0.3, 0.7], "left": [0.8, 0.2]}
    questions = [gvfx.GVF(pi, gvfx.Reward(), 0.9, name=name) for name, pi in policies.items()]
    result = gvfx.evaluate(Ring(rows=True), questions, gvfx.Uniform(), SMALL, steps=1500, seed=0, audit=0.3)
    found, checks = result.compare(), result.audit()
    apart = found.difference("right", "left")
    assert apart.difference == pytest.approx(checks["right"].value - checks["left"].value)
    error = result.details.audit_differences[0, 0, 1, 0]
    assert 1.9 * error < (apart.high - apart.low) / 2 < 4 * error
    assert apart.low < TRUTH["right"] - TRUTH["left"] < apart.high
