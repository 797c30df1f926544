"""Box actions in environments: traces and stored targets are what plain NumPy computes, and a run continues from them."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.networks import TWINS
from scipy import stats

import gvfx
from gvfx.learners.networks import retrace
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan

GAMMA, SIGMAS = 0.8, np.array([0.5, 0.8])
LEARNER = replace(TWINS, refresh_every=2)


class Line(gym.Env):
    """x' = 0.8 x + a / 2 from [-2, 2], cut after five steps."""

    observation_space = gym.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-2, 2), 0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        square, self.x, self.t = self.x**2, 0.8 * self.x + 0.5 * float(action[0]), self.t + 1
        return np.array([self.x], np.float32), square, False, self.t >= 5, {}


def middles(x):
    """Of the two policies [row, policy], at observations x [row, 1]."""
    return np.concatenate([-0.8 * x, np.full_like(x, 0.2)], axis=1)


QUESTIONS = [
    gvfx.GVF(gvfx.gaussian_policy(lambda o: -0.8 * o, SIGMAS[0], batched=True), gvfx.Reward(), GAMMA, name="square"),
    gvfx.GVF(gvfx.gaussian_policy([0.2], SIGMAS[1]), lambda o, a, o2: float(o[0]), GAMMA, name="place"),
]


def begun(env=None, behaviour=None, learner=LEARNER, seed=0, **options):
    run = open_backend(env or Line(), QUESTIONS, behaviour, learner, options=Options(Plan.checked(1200, None, ()), **options))
    stream = run.begin(seed)
    stream.start()
    return stream


def chances(x, a):
    """Probabilities of actions a [row, 1] by both policies [row, policy]: densities inside, masses at the bounds."""
    middle = middles(x)
    inside, low, high = (f(b, middle, SIGMAS) for f, b in ((stats.norm.pdf, a), (stats.norm.cdf, -1), (stats.norm.sf, 1)))
    return np.where(a >= 1, high, np.where(a <= -1, low, inside))


@pytest.mark.parametrize("audit", [0.0, 0.5], ids=["unaudited", "audited"])
@pytest.mark.parametrize("behaviour", [gvfx.RoundRobin(), gvfx.Uniform()], ids=["targets", "uniform"])
def test_traces_are_ratios_of_probabilities(behaviour, audit):
    stream = begun(behaviour=behaviour, learner=replace(LEARNER, capacity=1200), audit=audit)
    stream.advance(1200)
    rows, c = stream.agent.seen_so_far().astype(float), stream.run.columns
    x, a, which = rows[:, c.observation], rows[:, c.action], rows[:, -1].astype(int)
    pi = chances(x, a)
    mu = np.where(which < 2, pi[np.arange(len(pi)), which % 2], 0.5)  # uniform within [-1, 1]
    following = np.concatenate(
        [
            stream.agent.scales.unscaled(stream.agent.stored()[:, c.following]),
            stream.agent.rows[: stream.agent.pending, c.following],
        ]
    )
    first = np.append(True, np.abs(x[1:, 0] - following[:-1, 0]) > 1e-4)
    want = np.minimum(1, pi / mu[:, None]) * ~first[:, None]
    np.testing.assert_allclose(rows[:, c.traces], want, atol=2e-3)
    assert first.sum() >= 1200 / 5 and (np.abs(a) == 1).any() == (which < 2).any()  # uniform actions lie inside the bounds
    assert set(which) == ({0, 1} if behaviour == gvfx.RoundRobin() else {0, 1, 2} if audit else {2})


def forward(network, x):
    for w, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        x = np.maximum(x @ np.asarray(w) + b, 0)
    return x @ np.asarray(network.weights[-1]) + np.asarray(network.biases[-1])


def plain_targets(stream, words, lanes):
    """The stored transitions' targets [row, gvf] lane by lane, in plain NumPy but for the noise."""
    run, critics = stream.run, stream.agent.learning.critics
    rows, c, twins = stream.agent.stored(), run.columns, jax.tree.map(np.array, critics.target_q)
    written, capacity = int(stream.agent.replay.written), len(stream.agent.replay.rows)
    key = jax.random.fold_in(jax.random.wrap_key_data(words), 0)
    noise = np.zeros((capacity, 2))
    noise[(written - 1 - np.arange(capacity)) % capacity] = jax.random.normal(key, (capacity, 2, 1))[..., 0]
    drawn = (rows[:, c.notes] + SIGMAS * noise[: len(rows)]).clip(-1, 1)
    said = np.mean([forward(net, np.concatenate([rows[:, c.observation], rows[:, c.action]], axis=1)) for net in twins], axis=0)
    onward = np.stack(
        [
            np.mean([forward(net, np.concatenate([rows[:, c.following], drawn[:, [i]]], axis=1))[:, i] for net in twins], axis=0)
            for i in (0, 1)
        ],
        axis=1,
    )
    low, high = np.asarray(run.agent.critics.range(critics))
    found, traces = np.zeros((len(rows), 2)), rows[:, c.traces]
    in_time = np.arange(written - len(rows), written) % capacity
    for lane in range(lanes):
        own = in_time if lanes == 1 else in_time[rows[in_time, run.lane] == lane]
        passed = np.zeros(2)
        for k in own[::-1]:
            found[k] = np.clip(rows[k, c.cumulants] + rows[k, c.discounts] * (onward[k] + passed), low, high)
            passed = run.learner.trace * traces[k] * (found[k] - said[k])
    return found


@pytest.mark.parametrize("lanes", [pytest.param(1, marks=pytest.mark.full), 3])
def test_targets_are_retraces_lane_by_lane(lanes):
    """Also where the replay buffer is full, and where resets of a vector environment leave rows out."""
    env = Line() if lanes == 1 else SyncVectorEnv([Line] * lanes, autoreset_mode=AutoresetMode.NEXT_STEP)
    stream = begun(env, gvfx.RoundRobin())
    stream.advance(120)
    rows, c = stream.agent.stored(), stream.run.columns
    assert (rows[:, c.traces] == 0).any() and stream.agent.replay.written > 80
    if lanes > 1:
        assert set(rows[:, stream.run.lane]) == {0, 1, 2} and set(rows[:, -1]) == {0, 1}
        firsts = (rows[:, c.traces] == 0).all(axis=1).mean()
        assert firsts == pytest.approx(1 / 5, abs=0.05)  # one of five transitions begins an episode
    words = np.array([3, 4], np.uint32)
    empty = retrace.empty(80, stream.run.agent.critics)
    found = stream.run.refresh(stream.agent.learning, stream.agent.replay, empty, words)
    np.testing.assert_allclose(found.values, plain_targets(stream, words, lanes), atol=2e-5)
    assert int(found.until) == int(stream.agent.replay.written)


@pytest.mark.networks(8)
@pytest.mark.parametrize(
    "learner",
    [pytest.param(LEARNER, id="stored"), pytest.param(replace(LEARNER, trace=0.0), id="one step", marks=pytest.mark.full)],
)
def test_a_continued_run_goes_on_as_the_first_would_have(learner):
    """Both begin a new episode, because environments are not stored."""
    first, second = begun(learner=learner), begun(learner=learner)
    first.advance(77)
    kept = first.state()
    assert any(name.startswith("aims") for name in kept) == (learner.trace > 0)
    second.restore(kept)
    for stream in (first, second):
        stream.start()
        stream.advance(160)
    one, two = first.state(), second.state()
    assert one.keys() == two.keys() and all(one[name].tobytes() == two[name].tobytes() for name in one)


def test_learning_begins_at_the_level_of_the_followed_policies_and_answers_are_averaged():
    stream = begun(behaviour=gvfx.RoundRobin())
    before = [np.array(net.biases[-1]) for net in stream.agent.learning.critics.q]
    stream.advance(40)
    rows, c = stream.agent.stored(), stream.run.columns
    weights = rows[:, c.traces] + 1e-3
    level = (weights * rows[:, c.cumulants]).sum(axis=0) / weights.sum(axis=0) / (1 - GAMMA)
    for net, old in zip(stream.agent.learning.critics.q, before, strict=True):
        np.testing.assert_allclose(np.array(net.biases[-1]) - old, level, rtol=1e-4, atol=1e-6)
    stream.advance(80)
    for averaged, twins in ((True, stream.agent.learning.critics.target_q), (False, stream.agent.learning.critics.q)):
        stream.run.learner = replace(LEARNER, averaged=averaged)
        np.testing.assert_array_equal(stream.agent.network().biases[-1], twins[1].biases[-1])


@pytest.mark.full
def test_very_short_runs_and_mixtures_of_actors():
    result = gvfx.evaluate(Line(), QUESTIONS, steps=12)
    assert np.isfinite(result.values).all()
    own = begun(behaviour=gvfx.MixtureActor(updates=1))
    own.advance(60)
    assert own.agent.seen_so_far()[:, -1].max() == 2 and np.isfinite(own.agent.network().biases[-1]).all()


@pytest.mark.parametrize(("field", "value"), [("lookahead", 1), ("layer_norm", True)])
def test_options_for_mujoco_alone_are_refused(field, value):
    with pytest.raises(gvfx.InputError, match=rf"^{field}: .*; leave it"):
        gvfx.evaluate(Line(), QUESTIONS, learner=replace(LEARNER, **{field: value}), steps=100)
