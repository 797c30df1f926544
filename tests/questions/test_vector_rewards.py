"""Vector rewards: one question per component, by index or by weights; what does not fit is named."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Pair, PairNamed, changed

import gvfx
from gvfx.errors import InputError
from gvfx.questions.gvf import on_rewards, reward_names

HALF = [0.5, 0.5]


def asked(*cumulants):
    return [gvfx.GVF(HALF, c, 0.9, name=f"q{k}") for k, c in enumerate(cumulants)]


def test_the_reward_becomes_one_question_per_component():
    assert reward_names(Pair()) == ("0", "1") and reward_names(PairNamed()) == ("coin", "fuel")
    assert [q.name for q in on_rewards([gvfx.GVF(HALF, gvfx.Reward())], Pair())] == ["reward[0]", "reward[1]"]
    expected = ["q0[coin]", "q0[fuel]", "q1", "q2"]
    given = asked(gvfx.Reward(), gvfx.Reward(index=1), gvfx.Reward(weights=[1, 2]))
    assert [q.name for q in on_rewards(given, PairNamed())] == expected
    unnamed = [gvfx.GVF(HALF, gvfx.Reward()), gvfx.GVF([1, 0], gvfx.Reward()), gvfx.GVF(HALF, 1.0)]
    assert [q.name for q in on_rewards(unnamed, Pair())] == ["gvf1[0]", "gvf1[1]", "gvf2[0]", "gvf2[1]", "gvf3"]


def test_wrappers_and_vector_environments_are_looked_through():
    limited = gym.wrappers.TimeLimit(PairNamed(), 5)
    assert reward_names(limited) == ("coin", "fuel")
    assert reward_names(gym.vector.SyncVectorEnv([PairNamed] * 2)) == ("coin", "fuel")
    assert reward_names(type("LinearReward", (gym.Wrapper,), {})(Pair())) is None
    one = type("First", (gym.RewardWrapper,), {"reward_space": gym.spaces.Box(-1, 1, ()), "reward": lambda self, r: r[0]})
    assert reward_names(one(Pair())) is None
    assert reward_names(type("Named", (gym.Wrapper,), {"reward_names": ("iron", "oil")})(limited)) == ("iron", "oil")
    assert reward_names(gym.make("FrozenLake-v1")) is None
    same = asked(gvfx.Reward())
    assert on_rewards(same, gym.make("FrozenLake-v1")) == same


@pytest.mark.parametrize(
    ("cumulant", "words"),
    [
        (lambda: gvfx.Reward(index=2), r"q0.cumulant: Reward\(index=2\) is not one of its 2 components; give 0 to 1"),
        (lambda: gvfx.Reward(weights=[1, 2, 3]), "q0.cumulant: .*3 weights for 2 components"),
        (lambda: gvfx.Reward(weights=[]), "Reward.weights: .* finite numbers"),
        (lambda: gvfx.Reward(weights=["a"]), "Reward.weights: .* finite numbers"),
        (lambda: gvfx.Reward(weights=[1, np.nan]), "Reward.weights: .* finite numbers"),
        (lambda: gvfx.Reward(index=0, weights=[1, 2]), "Reward.weights: .*leave out index"),
        (lambda: gvfx.Reward(index=0.5), "Reward.index: 0.5 is not a whole number"),
    ],
)
def test_what_does_not_fit_the_reward_is_named(cumulant, words):
    with pytest.raises(InputError, match=words):
        on_rewards(asked(cumulant()), Pair())


@pytest.mark.parametrize(
    ("cumulant", "words"),
    [(gvfx.Reward(index=0), "one number, not a vector"), (gvfx.Reward(weights=[1.0]), "one number, not a vector")],
)
def test_components_of_a_number_are_refused(cumulant, words):
    with pytest.raises(gvfx.GvfxError, match=words):
        gvfx.evaluate(gym.wrappers.TransformReward(gym.make("FrozenLake-v1"), lambda r: r), asked_four(cumulant), steps=10)
    with pytest.raises(gvfx.GvfxError, match=words):
        gvfx.evaluate("FrozenLake-v1", asked_four(cumulant), steps=10)


def asked_four(cumulant):
    return [gvfx.GVF(gvfx.uniform_policy(), cumulant, 0.9, name="q")]


def test_an_undeclared_vector_says_what_to_write():
    hidden = changed(Pair, reward_space=None)
    with pytest.raises(gvfx.EnvironmentFailed, match=r"is a vector of shape \[2\]; give size=2"):
        gvfx.evaluate(hidden(), asked(gvfx.Reward()), steps=10)
    assert gvfx.evaluate(hidden(), asked(gvfx.Reward(size=2)), steps=50).names == ("q0[0]", "q0[1]")


def test_answers_truth_and_check_know_components_and_weights():
    given = asked(gvfx.Reward(), gvfx.Reward(index=1), gvfx.Reward(weights=[10, 1]))
    result = gvfx.evaluate(PairNamed(), given, steps=3000)
    v = {name: at.value for name, at in result.value().items()}
    assert result.names == ("q0[coin]", "q0[fuel]", "q1", "q2")
    assert v["q1"] == pytest.approx(v["q0[fuel]"], abs=1e-12)
    assert v["q2"] == pytest.approx(10 * v["q0[coin]"] + v["q0[fuel]"], abs=1e-9)
    truth = gvfx.truth_of(PairNamed(), given, max_episodes=2000)
    assert truth.names == result.names
    far = np.abs(truth.values[:, 0] - list(v.values())) / truth.standard_errors[:, 0]
    assert far.max() < 4 + 2  # the run's own error is about as large as that of the truth
    assert gvfx.check(PairNamed(), given) == []
    lanes = gvfx.evaluate(gym.vector.SyncVectorEnv([PairNamed] * 2), given, steps=3000) if vector_rewards_stack() else result
    assert lanes.names == result.names


def vector_rewards_stack() -> bool:
    """Whether Gymnasium's own vector environments keep rewards that are vectors (MO-Gymnasium has its own)."""
    envs = gym.vector.SyncVectorEnv([PairNamed] * 2)
    envs.reset(seed=0)
    try:
        return np.shape(envs.step(np.array([0, 1]))[1]) == (2, 2)
    except (TypeError, ValueError):
        return False


def test_logs_have_vector_rewards_too():
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 4, 400), rng.integers(0, 2, 400)
    after = (s + 2 * a - 1) % 4
    log = {"observation": s, "action": a, "next_observation": after, "terminated": rng.random(400) < 0.1}
    log["reward"] = np.stack([1.0 * after, -1.0 * a], axis=1)
    about = {"r": gvfx.Reward(), "sum": gvfx.Reward(weights=[1, 2]), "second": gvfx.Reward(index=1)}
    result = gvfx.evaluate_log(log, [gvfx.GVF([0.5, 0.5], reward, 0.9, name=name) for name, reward in about.items()])
    assert result.names == ("r[0]", "r[1]", "sum", "second")
    each = result.values[0]
    np.testing.assert_allclose(each[0] + 2 * each[1], each[2], atol=1e-10)
    np.testing.assert_array_equal(each[1], each[3])
    with pytest.raises(gvfx.InputError, match=r"^r.cumulant: Reward\(index=2\) is not one of its 2 components"):
        gvfx.evaluate_log(log, [gvfx.GVF([0.5, 0.5], gvfx.Reward(index=2), 0.9, name="r")])
