"""check: a purposely broken environment or question for every mistake, each found and named; sound ones pass."""

from __future__ import annotations

import dataclasses
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.environments import PairNamed, Panel, Sound, Vectors, changed, stepped

import gvfx
from gvfx.running import check as checking

HALF = [0.5, 0.5]


class Buffered(Vectors):
    """Returns one array and writes into it."""

    def __init__(self):
        self.buffer = np.zeros(2, np.float32)

    def show(self):
        self.buffer[:] = (self.s, self.s % 2)
        return self.buffer


def raising(self, action):
    raise RuntimeError("out of oil")


OK = [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="q")]


def test_sound_environments_and_questions_pass():
    assert gvfx.check(Sound(), [*OK, gvfx.GVF(HALF, gvfx.Info("force", size=2), 1.0)]) == []
    assert gvfx.check(Sound, OK) == []
    assert gvfx.check(Vectors(), [gvfx.GVF(lambda o: [0.3, 0.7], gvfx.Reward(), 0.9)]) == []
    assert gvfx.check(gym.make("FrozenLake-v1"), [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9)], steps=5000) == []


ENVIRONMENTS = [
    (3, "error", "env", "is not a Gymnasium environment"),
    (
        stepped(lambda self, o, *rest: (int(np.random.default_rng().integers(5)), *rest)),
        "error",
        "seed",
        "two runs from one seed",
    ),
    (stepped(lambda self, o, r, *rest: (o, np.random.default_rng().random(), *rest)), "error", "seed", "differ in the reward"),
    (Buffered, "error", "observation", "return a copy"),
    (changed(Vectors, show=lambda self: np.zeros(3, np.float32)), "error", "observation", r"shape \(3,\)"),
    (changed(Vectors, show=lambda self: np.zeros(2)), "error", "observation", "type float64"),
    (changed(Vectors, show=lambda self: np.full(2, np.nan, np.float32)), "error", "observation", "NaN"),
    (changed(show=lambda self: self.s + 3), "error", "observation", "lies outside Discrete"),
    (stepped(lambda self, o, r, e, t, i: (o, r, e, i)), "error", "step", "returns 4 values"),
    (
        lambda: gym.wrappers.TimeLimit(stepped(lambda self, o, r, e, t, i: (o, r, e, i))(), 5),
        "error",
        "step",
        "returns 4 values",
    ),
    (stepped(lambda self, *values: list(values)), "error", "step", "returns list"),
    (stepped(lambda self, o, r, *rest: (o, float("nan"), *rest)), "error", "reward", "is nan"),
    (stepped(lambda self, o, r, *rest: (o, "good", *rest)), "error", "reward", "not a number"),
    (stepped(lambda self, o, r, e, t, i: (o, r, None, t, i)), "error", "terminated", "neither True nor False"),
    (stepped(lambda self, o, r, e, t, i: (o, r, e, t, None)), "error", "info", "return a dict"),
    (changed(step=raising), "error", "step", "raised RuntimeError .out of oil.*step 0"),
    (changed(reset=lambda self: (0, {})), "error", "reset", "seed="),
    (changed(reset=lambda self, *, seed=None, options=None: 0), "error", "reset", "observation, info"),
    (changed(action_space=gym.spaces.MultiDiscrete([50, 30])), "error", "action_space", "MultiDiscrete has 1,500 actions"),
    (changed(action_space=gym.spaces.Box(0, np.inf)), "error", "action_space", "is unbounded in dimension 0"),
    (stepped(lambda self, o, r, e, t, i: (o, r, False, t, i)), "warning", "env", "TimeLimit"),
]


@pytest.mark.parametrize(("env", "severity", "field", "words"), ENVIRONMENTS)
def test_every_mistake_in_an_environment_is_named(env, severity, field, words):
    policies = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="q")]
    findings = gvfx.check(env, policies, steps=400)
    assert [(f.severity, f.field) for f in findings if not f.field.startswith("q.")] == [(severity, field)], findings
    finding = next(f for f in findings if f.field == field)
    assert re.search(words, finding.sentence), finding


QUESTIONS = [
    (gvfx.GVF(HALF, gvfx.Info("froce"), 0.9), "error", "info", "has no 'froce'; its keys are 'force'"),
    (gvfx.GVF(HALF, gvfx.Info("force"), 0.9), "error", "q.cumulant", "size=2"),
    (gvfx.GVF(HALF, lambda s, a, s2: float("inf"), 0.9), "error", "q.cumulant", "is inf"),
    (gvfx.GVF(HALF, lambda s, a, s2: 1 / 0, 0.9), "error", "q.cumulant", "raised ZeroDivisionError"),
    (gvfx.GVF(HALF, lambda s, a, s2: s2 == 9, 0.9), "warning", "q.cumulant", "never fired in 400"),
    (gvfx.GVF(HALF, gvfx.Reward(), lambda s, a, s2: 2.0), "error", "q.discount", r"outside \[0, 1\]"),
    (gvfx.GVF([0.2, 0.3, 0.5], gvfx.Reward(), 0.9), "error", "q.policy", "expected 2 probabilities"),
    (gvfx.GVF(np.full((4, 2), 0.5), gvfx.Reward(), 0.9), "error", "q.policy", "4 rows but the world has 5"),
    (gvfx.GVF(lambda s: [0.5, 0.4], gvfx.Reward(), 0.9), "error", "q.policy", "sums to 0.9"),
    (gvfx.GVF(lambda s: [1.5, -0.5], gvfx.Reward(), 0.9), "error", "q.policy", "negative"),
    (gvfx.GVF(lambda s: [1 / 0, 0.4], gvfx.Reward(), 0.9), "error", "q.policy", "raised ZeroDivisionError"),
    (gvfx.GVF(HALF, gvfx.Drifter(1.0), 0.9), "error", "q.cumulant", "cannot be read"),
]


@pytest.mark.parametrize(("question", "severity", "field", "words"), QUESTIONS)
def test_every_mistake_in_a_question_is_named(question, severity, field, words):
    findings = gvfx.check(Sound(), [dataclasses.replace(question, name="q")], steps=400)
    assert [(f.severity, f.field) for f in findings] == [(severity, field)], findings
    assert re.search(words, findings[0].sentence), findings


def test_policies_on_vectors_are_tried_where_the_path_leads():
    (finding,) = gvfx.check(Vectors(), [gvfx.GVF(lambda o: [o[0] / 9, 0.0], gvfx.Reward(), 0.9, name="q")])
    assert finding.field == "q.policy"


def test_a_discount_of_one_needs_termination():
    endless = stepped(lambda self, o, r, e, t, i: (o, r, False, e, i))
    (finding,) = gvfx.check(endless(), [gvfx.GVF(HALF, gvfx.Reward(), 1.0, name="q")])
    assert (finding.severity, finding.field) == ("error", "q.discount")


def test_two_questions_of_one_name_are_named():
    (finding,) = gvfx.check(Sound(), OK + OK)
    assert finding.field == "name"


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_first_copy_of_a_vector_environment_is_checked(mode):
    assert gvfx.check(SyncVectorEnv([Sound] * 2, autoreset_mode=mode), OK) == []
    assert gvfx.check(lambda: SyncVectorEnv([Vectors] * 2, autoreset_mode=mode), OK) == []
    two = SyncVectorEnv([changed(show=lambda self: self.s + 3), Sound], autoreset_mode=mode)
    assert [f.field for f in gvfx.check(two, OK)] == ["observation"]
    ends = [gvfx.GVF(HALF, lambda o, a, r, o2, info: float(info["force"][1] == 4), 0.9, name="ends")]
    assert gvfx.check(SyncVectorEnv([Sound] * 2, autoreset_mode=mode), ends) == []  # the last info of an episode is read


def test_asynchronous_vector_environments_are_checked_too():
    envs = gym.make_vec("FrozenLake-v1", 2, vectorization_mode="async")
    try:
        assert gvfx.check(envs, [gvfx.GVF(gvfx.uniform_policy(), 1.0, 0.9)], steps=200) == []
    finally:
        envs.close()


def test_a_slow_environment_is_cut_short_and_told(monkeypatch):
    ticks = iter(range(10**6))
    monkeypatch.setattr(checking, "monotonic", lambda: 0.05 * next(ticks))  # twenty steps a second
    (finding,) = gvfx.check(Sound(), OK)
    assert str(finding) == "warning: env: 199 of 1,000 steps were tried in 10 s; give seconds= for more."
    (finding,) = gvfx.check(Sound(), OK, seconds=1)
    assert "19 of 1,000 steps were tried in 1 s" in str(finding)


def test_wrappers_with_a_state_are_named():
    walk = gym.wrappers.NormalizeObservation(Vectors())
    findings = gvfx.check(walk, [gvfx.GVF(lambda o: HALF, gvfx.Reward(), 0.9)])
    assert {f.severity for f in findings} == {"warning", "error"}
    assert any("NormalizeObservation keeps its statistics over resets" in f.sentence for f in findings)
    made = gvfx.check(lambda: gym.wrappers.NormalizeObservation(Vectors()), [gvfx.GVF(lambda o: HALF, gvfx.Reward(), 0.9)])
    assert [(f.severity, f.field) for f in made] == [("warning", "env")] and "its mean and scale change" in made[0].sentence
    walk.update_running_mean = False  # frozen
    assert gvfx.check(walk, [gvfx.GVF(lambda o: HALF, gvfx.Reward(), 0.9)]) == []
    stacked = gym.wrappers.FrameStackObservation(Vectors(), 2)
    assert "last frames together" in str(gvfx.check(stacked, [gvfx.GVF(lambda o: HALF, gvfx.Reward(), 0.9)])[0])
    scaled = gym.wrappers.NormalizeReward(Sound())
    with pytest.warns(UserWarning, match="^world: NormalizeReward: its scale changes during the run"):
        gvfx.evaluate(scaled, OK, steps=50)


def test_vector_rewards_and_numbered_actions_are_checked():
    assert gvfx.check(PairNamed(), [gvfx.GVF(HALF, gvfx.Reward(weights=[1, 0]), 0.9), gvfx.GVF(HALF, gvfx.Reward(), 0.9)]) == []
    short = gvfx.check(Panel(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="q")])
    assert [f.field for f in short if f.severity == "error"] == ["q.policy"] and "6 probabilities" in str(short[0])
    nan = stepped(lambda self, o, r, *rest: (o, np.array([1.0, np.nan]), *rest))
    assert "is nan at step 0" in str(gvfx.check(nan, [])[0])
