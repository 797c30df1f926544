"""What a user may give to evaluate: accepted where the meaning is clear, else refused in one sentence that names the field."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Sound, Veiled

import gvfx

QUESTIONS = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="reward")]
LAKE = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="reward")]


class OldGym(gym.Env):
    """reset and step as Gym had them."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)

    def reset(self):
        return 0

    def step(self, action):
        return 0, 1.0, False, {}


class OldStep(OldGym):
    def reset(self, *, seed=None, options=None):
        return 0, {}


def every(seconds):
    return gvfx.evaluate(Sound(), QUESTIONS, checkpoint="/proc/nowhere", checkpoint_every=seconds)


REFUSED = [
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, gvfx.Uniform), r"^behaviour: Uniform is a class; write gvfx.Uniform\(\)"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, "uniform"), r"^behaviour: 'uniform' is a string; write gvfx.Uniform\(\)"),
    (
        lambda: gvfx.evaluate(Sound(), QUESTIONS, gvfx.ExpectedSarsa()),
        "^behaviour: ExpectedSarsa is a learner; give it as learner=",
    ),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, None, gvfx.Uniform()), "^learner: Uniform is a behaviour; give it as behaviour="),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, None, gvfx.Deep), "^learner: Deep is a class"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, lambda o: [0.5, 0.5]), r"^behaviour: .* is a policy; write gvfx.Follow\(policy\)"),
    (
        lambda: gvfx.evaluate(Sound(), QUESTIONS, until=0.01),
        r"^until: 0.01 is not a stopping rule; give one such as gvfx.error_below",
    ),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, steps=0.5), "^steps: 0.5 is not a whole number"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, steps="many"), "^steps: 'many' is not a whole number"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, steps=float("nan")), "^steps: nan is not a whole number"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, seeds=0), "^seeds: 0 must be at least 1"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, seeds=2, seed=3), "^seed: give either"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, workers=2), "^workers: must be 1 for a single environment"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, progress=3), "^progress: 3 cannot be called"),
    (lambda: gvfx.evaluate("FrozenPuddle-v1", LAKE), "^world: Gymnasium cannot make 'FrozenPuddle-v1'"),
    (lambda: gvfx.evaluate(Sound, QUESTIONS), r"^world: Sound is a class; give an instance, Sound\(...\)"),
    (lambda: gvfx.evaluate(3, QUESTIONS), "^world: int is not a supported world"),
    (lambda: gvfx.evaluate({"observation": [0]}, QUESTIONS), r"^world: this is a log of transitions; use gvfx.evaluate_log"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, save="/proc/nowhere/a.gvfx"), "^save: cannot write /proc/nowhere/a.gvfx"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, save="/tmp"), "^save: /tmp is a folder; name a file"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, checkpoint="/proc/nowhere"), "^checkpoint: cannot write to /proc/nowhere"),
    (lambda: gvfx.evaluate(Sound(), QUESTIONS, checkpoint_every=1), "^checkpoint_every: there are no checkpoints; give their"),
    (lambda: every(-1), "^checkpoint_every: -1 is not a number of seconds; give one, such as 60"),
    (lambda: every(float("inf")), "^checkpoint_every: inf is not a number of seconds"),
    (lambda: every("minute"), "^checkpoint_every: 'minute' is not a number of seconds"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words[1:40] for _, words in REFUSED])
def test_refused_in_one_sentence_before_the_first_step(call, words):
    with pytest.raises(gvfx.InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("env", "words"), [(OldGym(), r"reset\(seed=...\) did not return \(observation, info\)"), (OldStep(), "step did not return")]
)
def test_an_environment_of_the_old_api_is_named(env, words):
    with pytest.raises(gvfx.EnvironmentFailed, match=words) as caught:
        gvfx.evaluate(env, QUESTIONS, steps=100)
    assert caught.value.result is None and "old Gym environment" in str(caught.value)


def test_what_is_clear_is_accepted():
    by_name = gvfx.evaluate("FrozenLake-v1", LAKE, steps=1e3, seed=3, evaluate_every=500.0)
    given = gvfx.evaluate(gym.make("FrozenLake-v1"), LAKE, steps=1000, seeds=[3], evaluate_every=500)
    assert by_name.seeds == (3,) and np.array_equal(by_name.values, given.values)
    env = Veiled(gym.make("FrozenLake-v1"))
    stepped = gvfx.evaluate(env, LAKE, steps=np.int64(500))
    assert np.array_equal(stepped.predict(env.reset()), stepped.predict(0))


def test_another_experiments_checkpoint_is_refused(tmp_path):
    gvfx.evaluate(Sound(), QUESTIONS, steps=500, checkpoint=tmp_path)
    with pytest.raises(
        gvfx.StoreError, match=r"^checkpoint: .* belongs to another experiment; delete it or choose another folder"
    ):
        gvfx.evaluate(Sound(), QUESTIONS, steps=600, checkpoint=tmp_path)


def test_the_progress_bar_is_shown_where_asked_for(capfd):
    gvfx.evaluate(Sound(), QUESTIONS, steps=500, progress=False)
    assert capfd.readouterr().err == ""
    gvfx.evaluate(Sound(), QUESTIONS, steps=500)  # nobody is looking
    assert capfd.readouterr().err == ""


def test_the_first_example_needs_few_lines(capsys):
    """From the import to an answer with an interval, for a name registered with Gymnasium."""
    page = (Path(__file__).parents[2] / "docs" / "own.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 5
    exec(code, {})
    assert re.fullmatch(r"0\.00\d+ ± 0\.00\d+\n", capsys.readouterr().out)
