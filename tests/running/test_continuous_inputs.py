"""Bad or odd input with continuous observations: a sentence, or a wide or infinite interval; never a crash."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import HALF, Walk

import gvfx

ANYTHING = (-np.inf, np.inf)
QUESTIONS = [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="half"), gvfx.GVF([0.0, 1.0], gvfx.Reward(), 0.8, name="right")]


class Shown(Walk):
    """The walk of `Walk` without its clock, through a function of what is seen; it counts its steps."""

    def __init__(self, show=lambda env: [env.x], bounds=(-5, 5), actions=2):
        self.n, self.show = 0, show
        self.action_space = gym.spaces.Discrete(actions)
        self.x = self.t = 0
        self.observation_space = gym.spaces.Box(*bounds, (len(show(self)),), np.float32)

    def look(self):
        return np.array(self.show(self), np.float32)

    def step(self, action):
        self.n += 1
        return super().step(action + 3)


def answered(env, questions=QUESTIONS, steps=1200, **more):
    return gvfx.evaluate(env, questions, steps=steps, evaluate_every=steps, seed=0, **more)


@pytest.fixture(scope="module")
def plain():
    """The answers of the walk at its start after random actions, and how wide their intervals are."""
    result = answered(Shown(bounds=ANYTHING), behaviour=gvfx.Uniform())
    return result.predict(np.zeros(1)), np.diff(result.intervals(np.zeros(1)))[:, 0]


def close(result, observation, plain):
    """Whether the intervals at an observation hold what the plain walk answers, give or take its own interval."""
    low, high = result.intervals(observation).T
    return bool(((low - plain[1] / 2 < plain[0]) & (plain[0] < high + plain[1] / 2)).all())


@pytest.mark.parametrize(
    ("show", "said"),
    [
        (lambda env: [env.x, 1.0, -7e5], "1 of 3 numbers of an observation (without o[1], o[2], which never changed)"),
        (
            lambda env: [env.x, env.x, 1 - 2 * env.x, 1e6 * env.x],
            "1 of 4 numbers of an observation (without o[1], o[2], o[3], which repeat others)",
        ),
        (lambda env: [1e30 * env.x], None),
        (lambda env: [1e-30 * env.x], None),
    ],
)
def test_constant_duplicate_and_badly_scaled_inputs_change_nothing(show, said, plain):
    env = Shown(show, ANYTHING)
    result = answered(env, behaviour=gvfx.Uniform())
    assert np.allclose(result.predict(env.reset(seed=1)), plain[0], rtol=1e-3)
    assert result.details.experiment.get("inputs") == said
    assert said is None or said in result.summary()


def test_an_input_that_never_changed_has_no_answer_where_it_is_something_else():
    result = answered(Shown(lambda env: [env.x, 1.0], ANYTHING))
    assert np.isfinite(result.intervals(np.array([0.0, 1.0]))).all()
    assert np.isinf(result.intervals(np.array([0.0, 2.0]))).all()


def test_observations_that_never_vary_have_one_answer():
    result = answered(Shown(lambda env: [3.0, 4.0]))
    assert np.ptp(result.values, axis=2).max() < 1e-9
    assert result.details.experiment["inputs"].startswith("no number of an observation ever changed")
    assert np.isfinite(result.intervals()).all()


@pytest.mark.parametrize("more", [0, 2])
def test_no_answer_far_from_all_data(more):
    """On a lattice and with kernels."""
    result = answered(Shown(lambda env: [env.x, *(env.x ** (k + 2) for k in range(more))], ANYTHING))
    far = np.array([50.0, *(50.0 ** (k + 2) for k in range(more))])
    assert np.isinf(result.intervals(far)).all()


def test_observations_may_leave_their_space(plain):
    assert close(answered(Shown(bounds=(-0.1, 0.1))), np.zeros(1), plain)


@pytest.mark.parametrize("more", [[], [2.0]])
def test_an_input_whose_scale_jumps_during_the_run(more, plain):
    def show(env):
        return [env.x * (1e6 if env.n > 600 else 1.0), env.x + 0.01 * env.t, *(k * env.t for k in more)]

    result = answered(Shown(show, ANYTHING))
    assert close(result, np.array([0.0, 0.0, *(0.0 for _ in more)]), plain)


@pytest.mark.parametrize("steps", [1, 2, 15])
def test_very_few_transitions_have_infinite_intervals(steps):
    result = answered(Shown(lambda env: [env.x, env.t, env.x * env.t]), steps=steps)
    assert np.isinf(result.intervals()).all()
    assert np.isnan(result.details.expected).all()
    assert "not resolved: there are fewer than 16 transitions" in result.summary()


def test_fewer_transitions_than_features_have_wide_intervals():
    result = answered(Shown(lambda env: [env.x, env.t, env.x * env.t, env.x**2, env.t**2]), steps=30)
    assert (np.diff(result.intervals()) > 1).mean() > 0.9


def test_one_action_only():
    result = answered(Shown(actions=1), [gvfx.GVF([1.0], gvfx.Reward(), 0.5, name="only")])
    low, high = result.intervals(np.zeros(1))[0]
    truth = 2 - 0.3 / (1 - 0.5) ** 2  # it goes left by 0.3 in every step, from 0
    assert low < truth < high


def test_a_signal_that_was_never_seen_is_not_said_to_be_zero():
    rare = gvfx.GVF(HALF, lambda o, a, o2: float(o2[0] > 100), 0.9, name="rare")
    result = answered(Shown(), [*QUESTIONS, rare])
    assert np.isinf(result.intervals()[2]).all()
    assert np.isfinite(result.intervals()[:2]).all()
    assert "rare" in result.details.experiment["not_resolved"]
    with pytest.warns(UserWarning, match="until: 1 of 1 runs ended before"):
        answered(Shown(), [rare], until=gvfx.error_below(1.0))


def test_sums_that_never_end_are_not_resolved():
    class Endless(Shown):
        def step(self, action):
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, False, truncated, info

    result = answered(Endless(), [gvfx.GVF(HALF, 1.0, 1.0, name="all")])
    assert np.isinf(result.intervals()).all()
    assert "its discount is 1 and no episode terminated" in result.details.experiment["not_resolved"]["all"]


def wrong_at(value, when=50):
    return lambda env: [value if env.n == when else env.x]


@pytest.mark.parametrize(
    ("env", "questions", "said"),
    [
        (Shown(wrong_at(np.nan)), QUESTIONS, "the observation holds nan or infinity; return finite numbers"),
        (Shown(wrong_at(np.inf)), QUESTIONS, "the observation holds nan or infinity; return finite numbers"),
        (Shown(), [gvfx.GVF(HALF, lambda o, a, o2: np.nan, 0.9)], "gvf1.cumulant: is nan"),
        (Shown(), [gvfx.GVF(HALF, lambda o, a, o2: np.inf, 0.9)], "gvf1.cumulant: is inf"),
        (Shown(), [gvfx.GVF(HALF, 1.0, lambda o, a, o2: np.nan)], "gvf1.discount: is nan"),
    ],
)
def test_what_is_not_finite_is_named(env, questions, said):
    with pytest.raises(gvfx.EnvironmentFailed, match=said):
        answered(env, questions)


# --- logs ------------------------------------------------------------------------------------------------------------


def log(choose, n=1500, shown=lambda x: [x], seed=1):
    """Steps of a point on [0, 1] to the left or right, by a rule of its place; it pays its place, and no episode ends."""
    rng = np.random.default_rng(seed)
    x, action = np.full(n + 1, 0.5), np.zeros(n, int)
    for t in range(n):
        action[t] = choose(x[t], rng)
        x[t + 1] = np.clip(x[t] + 0.1 * (2 * action[t] - 1) + 0.02 * rng.normal(), 0, 1)
    seen = np.array([shown(at) for at in x])
    columns = {"observation": seen[:-1], "action": action, "next_observation": seen[1:], "reward": x[1:]}
    return columns | {"terminated": np.zeros(n, bool), "actions": 2}


def at_random(x, rng):
    return rng.integers(2)


RIGHT = [gvfx.GVF([0.0, 1.0], gvfx.Reward(), 0.9, name="right")]
FROM_THE_MIDDLE = 9.08  # the value of always going right, by simulation


@pytest.mark.parametrize("shown", [lambda x: [x], lambda x: [x, np.sin(2 * x), np.sin(3 * x)]])
@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_a_target_that_leaves_what_the_log_has_seen_has_a_wide_interval(shown, slip):
    """The log goes to the middle from both sides: it has both actions, but going right leads to where it never was."""
    result = gvfx.evaluate_log(log(lambda x, rng: at_random(x, rng) if rng.random() < slip else int(x < 0.5), shown=shown), RIGHT)
    low, high = result.intervals(np.array(shown(0.5)))[0]
    assert low < FROM_THE_MIDDLE < high
    assert high - low > 5
    assert "WARNING" in result.summary()


@pytest.mark.parametrize("shown", [lambda x: [x], lambda x: [x, 1.0, 2 * x], lambda x: [x, np.sin(2 * x), np.sin(3 * x)]])
def test_a_log_of_both_actions_everywhere_has_a_narrow_one(shown):
    result = gvfx.evaluate_log(log(at_random, shown=shown), RIGHT)
    low, high = result.intervals(np.array(shown(0.5)))[0]
    assert low < FROM_THE_MIDDLE < high < low + 2
    assert "WARNING" not in result.summary()


def test_logs_of_few_transitions_one_action_and_nothing_that_varies():
    few = gvfx.evaluate_log(log(at_random, n=3), RIGHT)
    assert np.isinf(few.intervals()).all()
    alone = gvfx.evaluate_log({**log(at_random), "action": np.zeros(1500, int), "actions": 1}, [gvfx.GVF([1.0], 1.0, 0.9)])
    assert np.allclose(alone.values, 10.0, atol=1e-3)
    still = gvfx.evaluate_log(log(at_random, shown=lambda x: [7.0, 7.0]), RIGHT)
    assert np.ptp(still.values, axis=2).max() < 1e-9
    assert still.details.experiment["inputs"].startswith("no number")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_numbers_that_a_log_cannot_hold_are_named(value):
    wrong = log(at_random)
    wrong["observation"][7] = value
    with pytest.raises(gvfx.InputError, match="observation: holds nan, infinity or a number beyond"):
        gvfx.evaluate_log(wrong, RIGHT)


@pytest.mark.parametrize(("value", "said"), [(np.nan, "reward: is nan in row 7"), (np.inf, "reward: is inf in row 7")])
def test_rewards_of_a_log_that_are_not_finite_are_named(value, said):
    wrong = log(at_random)
    wrong["reward"][7] = value
    with pytest.raises(gvfx.InputError, match=said):
        gvfx.evaluate_log(wrong, RIGHT)
