"""Rollouts where nothing can be learned from observations, and policies with a memory."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
import scipy.stats

import gvfx
from gvfx.learners.rollouts import sides


class Said(gymnasium.Env):
    """Says words; ends with chance 0.2 after each step, and pays 1 at the end if the last action was 1."""

    observation_space, action_space = gymnasium.spaces.Text(8), gymnasium.spaces.Discrete(2)

    def __init__(self, pays: float = 1.0) -> None:
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "hello", {}

    def step(self, action):
        over = bool(self.np_random.random() < 0.2)
        return "go on", self.pays * float(over and action == 1), over, False, {}


def alternates(rng):
    """Takes 1 at every second step, and sometimes by chance."""
    seen = []

    def act(observation):
        seen.append(observation)
        return int(len(seen) % 2 == 0 or rng.random() < 0.1)

    return act


def ask() -> list[gvfx.GVF]:
    policies = {
        "often": lambda word: [0.2, 0.8] if word == "go on" else [0.5, 0.5],
        "alternates": gvfx.stateful_policy(alternates),
    }
    return [gvfx.GVF(policy, gvfx.Reward(), 1.0, name=name) for name, policy in policies.items()]


def run(env: gymnasium.Env, questions: list[gvfx.GVF] | None = None, steps: int = 2000, **options: object) -> gvfx.Result:
    return gvfx.evaluate(env, questions or ask(), steps=steps, progress=False, evaluate_every=steps, **options)


def test_whatever_cannot_be_learned_from_is_answered_by_rollouts():
    result = run(Said())
    often = result.value()["often"]
    assert "rollouts" in result.details.experiment["chosen"] and often.low < 0.2 * 0.5 + 0.8 * 0.8 < often.high
    assert result.compare().difference("often", "alternates").low > 0
    assert result.rows()[0]["observation"] == "start" and "value at the start" in result.summary()
    assert result.intervals("start").tolist() == [[v.low, v.high] for v in result.value().values()]
    with pytest.raises(gvfx.InputError, match=r"^observation: rollouts have values at the start alone"):
        result.predict("hello")


def test_a_known_table_is_answered_by_rollouts_if_they_are_asked_for():
    question = gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95, name="goal")
    rolled, known = (gvfx.evaluate("FrozenLake-v1", [question], learner=k, steps=4000) for k in (gvfx.Rollouts(), None))
    value = rolled.value()["goal"]
    assert rolled.details.experiment["learner"].startswith("Rollouts") and value.low < known.value()["goal"].truth < value.high


def test_a_finite_world_is_stepped_for_rollouts():
    world = gvfx.gridworld(3, {"goal": (0, 0)})
    question = gvfx.GVF(gvfx.uniform_policy(), gvfx.Constant(1.0, at="goal"), 0.9, name="goal")
    value = gvfx.evaluate(world, [question], learner=gvfx.Rollouts(), steps=4000).value()["goal"]
    assert value.low < gvfx.evaluate(world, [question], steps=100).value()["goal"].truth < value.high


def test_they_stop_when_it_is_decided():
    result = run(Said(), steps=20_000, until=gvfx.decided())
    assert result.reached.all() and result.stopped[0] < 10_000


def test_the_same_seed_gives_the_same_returns_and_a_checkpoint_continues(tmp_path):
    assert str(run(Said(), seed=3).value()) == str(run(Said(), seed=3).value())
    first = run(Said(), checkpoint=tmp_path)
    assert str(run(Said(), checkpoint=tmp_path).value()) == str(first.value())


def test_box_actions_and_learners_that_are_given():
    near = gvfx.gaussian_policy(lambda o: [0.5], 0.1)
    result = run(gymnasium.make("Pendulum-v1"), [gvfx.GVF(near, gvfx.Reward(), 0.9, name="push")], learner=gvfx.Rollouts())
    assert np.isfinite(result.value()["push"].half) and "chosen" not in result.details.experiment


def test_what_was_never_paid_is_not_sure():
    rate = run(Said(pays=0.0), steps=500)  # returns of 0 may be those of a rare success
    assert 0 < rate.value()["often"].high < 0.2 and rate.value()["often"].low == 0
    assert rate.compare().difference("often", "alternates").high > 0
    alike = [gvfx.GVF(gvfx.uniform_policy(), lambda o, a, o2: 0.5, 0.0, name="alike")]  # every return is 0.5
    assert np.isinf(run(Said(), alike, steps=200, learner=gvfx.Rollouts()).value()["alike"].half)
    within = gvfx.Rollouts(ranges={"alike": (0, 1)})
    assert np.isfinite(run(Said(), alike, steps=200, learner=within).value()["alike"].half)


def test_bounds_of_success_rates_are_exact_and_those_of_ranges_hold():
    wins = np.repeat([1.0, 0.0], [7, 13])
    known = scipy.stats.binomtest(7, 20).proportion_ci(method="exact")
    assert sides(wins, None) == pytest.approx((known.low, known.high))
    assert sides(np.zeros(20), None) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    low, high = sides(np.full(400, 3.0), (0.0, 10.0)) or (0.0, 0.0)
    assert 2.5 < low < 3 < high < 3.5 and sides(np.array([0.5, 2.0]), None) is None
    ranged = run(Said(), learner=gvfx.Rollouts(ranges={"often": (0, 1)}))
    assert ranged.value()["often"].low < 0.74 < ranged.value()["often"].high


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"behaviour": gvfx.Uniform(), "learner": gvfx.Rollouts()}, r"^behaviour: rollouts follow"),
        ({"learner": gvfx.Rollouts(), "calibrate": True}, r"^learner: rollouts take no log"),
        ({"learner": gvfx.Rollouts(), "where": [0]}, r"^where: rollouts have values at the start alone"),
        ({"learner": gvfx.Rollouts(ranges={"never": (0, 1)})}, r"^ranges: there is no question 'never'"),
    ],
)
def test_what_does_not_fit_is_refused(options, sentence):
    with pytest.raises(gvfx.InputError, match=sentence):
        run(Said(), **options)


def test_bad_ranges_and_bad_memories_are_named():
    with pytest.raises(gvfx.InputError, match=r"^ranges: "):
        gvfx.Rollouts(ranges={"a": (1, 0)})
    with pytest.raises(gvfx.InputError, match="make returned 3"):
        run(Said(), [gvfx.GVF(gvfx.stateful_policy(lambda rng: 3), gvfx.Reward(), 1.0)])
    with pytest.raises(gvfx.InputError, match=r"gvfx.Rollouts\(\) as the learner"):
        gvfx.stateful_policy(alternates).table(3, 2)


def test_values_of_truncated_episodes_are_said_to_be_that():
    asked = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="often")]
    for limit, said in ((3, "world: an episode was truncated where 73% of what follows still counts"), (100, "")):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run(gymnasium.wrappers.TimeLimit(Said(), limit), asked, steps=300)
        assert [str(each.message)[: len(said)] for each in told] == ([said] if said else [])


def test_a_function_with_a_memory_is_refused_unless_it_begins_anew_in_every_episode():
    remember = alternates(np.random.default_rng(0))
    asked = [gvfx.GVF(gvfx.deterministic_policy(remember), gvfx.Reward(), 1.0, name="alternates")]
    with pytest.raises(gvfx.GvfxError, match=r"alternates\.policy: .* gvfx\.stateful_policy"):
        run(Said(), asked)
