"""Observations far from 0, such as positions in metres or times: answers are those of the same world around 0."""

from __future__ import annotations

import signal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from helpers.networks import DEEP

import gvfx
from gvfx.worlds.spec import box_spec

STATES = np.arange(5.0)[:, None]


class Chain(gym.Env):
    """Five places in a row, the first of them `far` from 0; the reward is the number of the place."""

    def __init__(self, far=0.0, dtype=np.float64, box=False):
        self.far, self.dtype, self.box = far, dtype, box
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), dtype)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32) if box else gym.spaces.Discrete(2)

    def look(self):
        return np.array([self.far + self.place], self.dtype)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = int(self.np_random.integers(5)), 0
        return self.look(), {}

    def step(self, action):
        right = action[0] > 0 if self.box else action == 1
        self.place, self.t = int(np.clip(self.place + (1 if right else -1), 0, 4)), self.t + 1
        return self.look(), float(self.place), False, self.t >= 20, {}


def questions(far):
    """Two policies, one of which reads the observation and is only defined at those of the environment."""

    def back(o):
        assert far <= o[0] <= far + 4
        return [0.9, 0.1] if o[0] - far > 1.5 else [0.1, 0.9]

    place = gvfx.Measure(lambda o, a, r, after, info: after[0] - far)
    policies = {"random": [0.5, 0.5], "back": back}
    return [gvfx.GVF(p, c, 0.9, name=n) for (n, p), c in zip(policies.items(), (gvfx.Reward(), place), strict=True)]


def answered(far, steps=1500, env=None, **more):
    return gvfx.evaluate(env or Chain(far), questions(far), steps=steps, evaluate_every=steps, progress=False, **more)


@pytest.fixture(scope="module")
def near():
    return answered(0.0)


def same(result, far, near):
    """Whether answers at all states are those of the world around 0."""
    return np.allclose(result.predict(STATES + far), near.predict(STATES), rtol=1e-6) and np.ptp(near.predict(STATES)[0]) > 5


@pytest.mark.parametrize(
    "far", [2e6, pytest.param(5.4e6, marks=pytest.mark.full), pytest.param(-1e7, marks=pytest.mark.full), 1e9]
)
def test_linear_answers_are_those_of_the_world_around_0(far, near, tmp_path):
    result = answered(far, save=tmp_path / "far.gvfx", seeds=2)
    assert same(answered(far), far, near)
    assert np.isin(result.details.points[:, 0] - far, STATES).all()  # as the environment returns them
    loaded = gvfx.load(tmp_path / "far.gvfx", Chain(far), questions(far))
    assert np.array_equal(loaded.predict(STATES + far), result.predict(STATES + far))


def test_errors_can_count_at_observations_far_from_0():
    at = [np.array([s]) for s in (1.0, 3.0)]
    here, there = (answered(far, where=[o + far for o in at]) for far in (0.0, 2e6))
    assert same(there, 2e6, here) and np.allclose(here.details.expected, there.details.expected)


def test_vector_environments_far_from_0():
    def run(far):
        return answered(far, env=SyncVectorEnv([lambda: Chain(far)] * 3))

    assert same(run(1e9), 1e9, run(0.0))


def test_a_run_continues_from_its_checkpoint(tmp_path):
    far, asked = 1e9, questions(1e9)

    def run(progress):
        return gvfx.evaluate(Chain(far), asked, steps=1500, evaluate_every=500, progress=progress, checkpoint=tmp_path)

    def stop(seed, steps, error):
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(gvfx.Interrupted):
        run(stop)
    assert any(tmp_path.iterdir())
    with pytest.warns(match="begins a new episode"):  # in another state
        result = run(False)
    assert np.allclose(result.predict(STATES + far)[0], [14.39, 16.47, 20.0, 23.53, 25.61], atol=0.1)


def logged(far):
    env, rng, rows = Chain(far), np.random.default_rng(0), []
    for k in range(60):
        (o, _), over = env.reset(seed=k), False
        while not over:
            a = int(rng.integers(2))
            after, r, end, over, _ = env.step(a)
            rows.append({"observation": o, "action": a, "reward": r, "next_observation": after, "terminated": end})
            o = after
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_logs_far_from_0():
    here, there = (gvfx.evaluate_log(logged(far), questions(far)) for far in (0.0, 1e9))
    assert same(there, 1e9, here)
    assert {c["observation"][0] - 1e9 for c in there.details.experiment["collect"]} <= {*STATES[:, 0]}
    here, there = (answered(far, steps=300, log=logged(far)) for far in (0.0, 1e9))
    assert same(there, 1e9, here)


@pytest.mark.parametrize("box", [False, True])
def test_networks_and_critics_far_from_0(box, tmp_path):
    pytest.importorskip("jax")
    far, learner = 1e9, gvfx.TwinCritics() if box else DEEP
    asked = [gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), gvfx.Reward(), 0.5)] if box else questions(far)[:1]
    env, path = Chain(far, box=box), tmp_path / "far.gvfx"
    result = gvfx.evaluate(env, asked, learner=learner, steps=1500, audit=0, progress=False, save=path)
    values = result.predict(STATES + far)[0]
    assert (np.diff(values) > 0).all() and np.ptp(values) > (2 if box else 5)
    assert np.array_equal(gvfx.load(path, env, asked).predict(STATES + far)[0], values)


def test_ordinary_observations_stay_as_they_are():
    spec, rng = box_spec(Chain()), np.random.default_rng(0)
    for x in rng.normal(size=20) * 3000:
        assert spec.seen(np.array([x])).tobytes() == np.float32(x).tobytes()
    assert spec.origin.arrays() == {}


@pytest.mark.parametrize(
    ("env", "said"),
    [(Chain(1e9, np.float32), "float32 far from 0, where neighbouring numbers are 64 apart"), (Chain(1e9), "")],
)
def test_check_names_numbers_that_float32_merges(env, said):
    found = [f.sentence for f in gvfx.check(env)]
    assert found == [] if not said else any("o[0]" in s and said in s for s in found)


def test_a_run_warns_about_numbers_that_float32_merges():
    with pytest.warns(match=r"world: o\[0\]: float32 far from 0, where neighbouring numbers are 64 apart"):
        answered(1e9, steps=300, env=Chain(1e9, np.float32))
    answered(1e6, steps=300, env=Chain(1e6, np.float32))


def test_check_names_numbers_that_never_change():
    env = gym.wrappers.TransformObservation(
        Chain(), lambda o: np.array([7e5, o[0], -1.0]), gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    )
    (finding,) = gvfx.check(env)
    assert finding.severity == "warning" and finding.sentence.startswith("o[0], o[2]: never changed")
