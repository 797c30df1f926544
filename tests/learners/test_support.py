"""What transitions lack, and what may lie beyond choices that were never tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.linear import some_transitions

from gvfx.learners.half_samples import FEWEST, Doubt, missing


def test_nothing_is_missing_in_plain_data():
    assert missing(some_transitions()) == ["", "", ""]


def test_reasons_are_named():
    data = some_transitions()
    assert all("fewer than 16" in reason for reason in missing(data.part(slice(0, FEWEST - 1))))
    assert missing(data.part(slice(0, FEWEST)))[0] == ""
    quiet = replace(data, cumulant=data.cumulant * [1, 0, 1])
    assert ["signal was 0" in reason for reason in missing(quiet)] == [False, True, False]
    endless = replace(data, discount=np.where([True, False, False], 1.0, data.discount))
    assert ["discount is 1 and no episode" in reason for reason in missing(endless)] == [True, False, False]
    pi = data.pi.copy()
    pi[:, 2, 0] = 0
    untried = replace(data, action=data.action % 2, pi=pi)
    assert ["never tried" in reason for reason in missing(untried)] == [False, True, False]


def corridor(steps=600):
    """Ten places in a row, each with its own cell; action 1 goes right and was never tried from the eighth on."""
    place = np.arange(steps) % 10
    action = np.where(place < 7, np.arange(steps) // 10 % 2, 0)
    following = np.clip(place + np.where(action == 1, 1, -1), 0, 9)
    data = some_transitions(steps, inputs=1, actions=2, gvfs=2)
    pi = np.zeros((steps, 2, 2))
    pi[:, 1, 0] = pi[:, 0, 1] = 1  # always right, always left
    return replace(
        data,
        observation=place[:, None].astype(np.float32),
        following=following[:, None].astype(np.float32),
        action=action,
        discount=np.full((steps, 2), 0.5),
        pi=pi,
    )


def test_doubt_is_the_discounted_number_of_untried_choices_times_the_width():
    data = corridor()
    found = Doubt.of(data, data.pi, np.array([8.0, 8.0]))
    right, left = found.at(np.arange(10.0)[:, None])
    assert np.allclose(right[:8], 8.0 * 0.5 ** np.arange(7, -1, -1))  # from the eighth place on: once, at once
    assert np.allclose(right[8:], 8.0)
    assert (left == 0).all()
    assert np.allclose(found.support, [0.7, 1.0])


def test_an_endless_range_is_doubted_without_end_and_only_where_untried_choices_are_met():
    data = corridor()
    right, left = Doubt.of(data, data.pi, np.array([np.inf, np.inf])).at(np.arange(10.0)[:, None])
    assert np.isinf(right).all()
    assert (left == 0).all()


@pytest.mark.parametrize("inputs", [2, 4])
def test_doubt_comes_back_from_its_arrays(inputs):
    data = some_transitions(1500, inputs=inputs)
    data = replace(data, action=np.where(data.observation[:, 0] > 0.1, 0, data.action))
    found = Doubt.of(data, np.repeat(data.pi[:1], len(data), axis=0), np.ones(3))
    assert found.error.max() > 0.1
    again = Doubt.from_arrays(found.arrays())
    assert np.array_equal(again.at(data.following), found.at(data.following))
