"""The columns of a log, checked."""

from __future__ import annotations

import numpy as np
import pytest

import gvfx
from gvfx.running.log_table import as_log

LOG = {
    "observation": [0, 1, 2, 0],
    "action": [0, 1, 1, 0],
    "next_observation": [1, 2, 0, 1],
    "terminated": [False, False, True, False],
    "reward": [0.0, 1.0, 2.0, 3.0],
}


@pytest.mark.parametrize(
    "ends",
    [[0, 0, 1, 0], [0.0, 0.0, 1.0, 0.0], np.array([False, False, True, False]), np.array([0, False, 1.0, np.False_], object)],
)
def test_terminated_is_a_truth_value_or_0_and_1(ends):
    assert as_log(LOG | {"terminated": ends}).terminated.tolist() == [False, False, True, False]
    assert as_log(LOG | {"truncated": ends}).info["truncated"].dtype == bool


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"terminated": ["False", "False", "True", "False"]}, "terminated: 'False' in row 0 is not True, False, 0 or 1"),
        ({"terminated": [0, 2, 0, 0]}, "terminated: 2 in row 1 is not"),
        ({"terminated": [False, np.nan, True, True]}, "terminated: nan in row 1 is not"),
        ({"terminated": [None, False, True, True]}, "terminated: None in row 0 is not"),
        ({"terminated": np.zeros((4, 2))}, r"terminated: \[0.0, 0.0\] in row 0 is not"),
        ({"truncated": ["no"] * 4}, "truncated: 'no' in row 0 is not"),
        ({"observation": None}, "observation: None is not a column"),
        ({"action": 3}, "action: 3 is not a column"),
        ({"terminated": "False"}, "terminated: 'False' is not a column"),
        ({"reward": 1.0}, "reward: 1.0 is not a column"),
        ({"reward": [1.0]}, "reward: has 1 entries and observation has 4"),
        ({"action": [0, 1]}, "action: has 2 entries and observation has 4"),
        ({"speed": [1.0]}, "speed: has 1 entries"),
        ({"reward": [0.0, np.nan, 0.0, 0.0]}, "reward: is nan in row 1"),
        ({"reward": ["a"] * 4}, "reward: holds 'a' .str., not numbers"),
        ({"reward": np.zeros((4, 1, 1))}, "reward: has shape"),
        ({"observation": ["a"] * 4}, "observation: holds 'a' .str., not numbers; give one whole number .* observation_0"),
        ({"observation": np.array(["2020-01-01"] * 4, "M8[D]")}, "observation: holds datetime.date"),
        ({"observation": [0, -1, 0, 0]}, "observation: is -1 in row 1"),
        ({"observation": [[0.0], [1.0, 2.0], [0.0], [0.0]]}, "observation: its entries have different shapes"),
        ({"observation": [2**40] * 4}, "observation: .* are too many for a table"),
        ({"action": [[0.0], [np.inf], [0.0], [0.0]]}, "action: holds nan, infinity .* in row 1"),
        ({"states": 2}, "states: the log has state 2 and 2 states were given; give at least 3"),
        ({"states": "many"}, "states: 'many' is not a number of states"),
        ({"actions": 1}, "actions: the log has action 1 and 1 actions were given"),
        ({"actions": [0, 1, 1, 0]}, r"actions: \[0, 1, 1, 0\] is not a number of actions"),
        ({"info": [1, 2, 3, 4]}, "info: is not a mapping of columns"),
        ({"behaviour_prob": [0.5, 0.5, 0.5, 1.5]}, "behaviour_prob: has a number outside"),
    ],
)
def test_bad_columns_are_named(change, said):
    with pytest.raises(gvfx.InputError, match=f"^{said}"):
        as_log(LOG | change)


def test_an_empty_log_is_refused():
    with pytest.raises(gvfx.InputError, match="^log: is empty"):
        as_log({name: [] for name in LOG})


def test_whole_numbers_may_be_floats_or_truth_values():
    log = as_log(LOG | {"action": [0.0, 1.0, 1.0, 0.0]})
    assert log.action.dtype == np.int64
    assert as_log(LOG | {"observation": np.array([0, 1, 0, 1], bool)}).observation.tolist() == [0, 1, 0, 1]


def test_a_further_column_may_have_gaps_unless_a_question_reads_it():
    log = LOG | {"speed": [1.0, np.nan, 2.0, 3.0]}
    assert np.isfinite(gvfx.evaluate_log(log, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)]).values).all()
    with pytest.raises(gvfx.InputError, match="is nan; return finite numbers only, in row 1 of the log"):
        gvfx.evaluate_log(log, [gvfx.GVF([0.5, 0.5], gvfx.Info("speed"), 0.9)])


def test_a_reward_that_is_too_large_is_named():
    with pytest.raises(gvfx.InputError, match=r"cumulant: 1e\+160 is too large; .*, in row 2 of the log\.$"):
        gvfx.evaluate_log(LOG | {"reward": [0.0, 0.0, 1e160, 0.0]}, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)])


def test_a_log_without_rewards_says_so():
    log = {name: column for name, column in LOG.items() if name != "reward"}
    with pytest.raises(gvfx.InputError, match="in row 0 of the log .the log has no column 'reward'."):
        gvfx.evaluate_log(log, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)])


def four(observation):
    assert isinstance(observation, int)  # a single state, not a batch
    return [0.25] * 4


@pytest.mark.parametrize(
    "policy",
    [
        [0.25] * 4,
        [[0.25] * 4] * 3,
        four,
        gvfx.callable_policy(lambda states: np.full((len(states), 4), 0.25), batched=True),
        gvfx.mixture_policy([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]),
    ],
)
def test_policies_know_of_actions_that_were_never_logged(policy):
    result = gvfx.evaluate_log(LOG, [gvfx.GVF(policy, gvfx.Reward(), 0.9, name="all"), gvfx.GVF(gvfx.uniform_policy(), 1.0, 0.9)])
    assert result.visits.shape == (1, 3, 4)
    assert result.details.experiment["support"]["all"] == pytest.approx(0.25)


def test_actions_in_the_middle_may_be_missing():
    result = gvfx.evaluate_log(LOG | {"action": [0, 2, 2, 0]}, [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9)])
    assert result.visits.shape == (1, 3, 3)
    assert result.visits[0, :, 1].sum() == 0
