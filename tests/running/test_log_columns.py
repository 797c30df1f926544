"""Logs in the forms that people have them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import gvfx
from gvfx.running.log_columns import as_columns

COLUMNS = {
    "observation": np.array([[0.0, 1.0], [1.0, 1.5], [5.0, 5.0]]),
    "action": np.array([0, 1, 0]),
    "next_observation": np.array([[1.0, 1.5], [2.0, 2.0], [6.0, 6.0]]),
    "terminated": np.array([False, True, False]),
    "reward": np.array([1.0, 2.0, 3.0]),
}


def same(found, names=tuple(COLUMNS)):
    return all(np.array_equal(found[name], COLUMNS[name]) for name in names)


def test_a_mapping_stays_as_it_is():
    assert as_columns(COLUMNS) is COLUMNS


def test_a_list_of_rows():
    assert same(as_columns([{name: column[t] for name, column in COLUMNS.items()} for t in range(3)]))


class Frame(dict):
    """A data frame as far as it is read: columns of objects."""

    columns = tuple(COLUMNS)


def test_a_data_frame_whose_entries_are_lists():
    assert same(as_columns(Frame({name: list(column) for name, column in COLUMNS.items()})))


def episodes():
    first = {
        "observations": np.array([[0.0, 1.0], [1.0, 1.5], [2.0, 2.0]]),
        "actions": [0, 1],
        "rewards": [1.0, 2.0],
        "terminations": [False, True],
        "truncations": [False, False],
    }
    second = {"observations": np.array([[5.0, 5.0], [6.0, 6.0]]), "actions": [0], "rewards": [3.0]}
    return [first, second | {"terminations": [False], "truncations": [True]}]


@pytest.mark.parametrize("kind", [dict, lambda episode: SimpleNamespace(**episode)])
def test_episodes_with_one_more_observation_than_actions(kind):
    found = as_columns([kind(episode) for episode in episodes()])
    assert same(found)
    assert found["truncated"].tolist() == [False, False, True]


def test_entries_of_different_shapes_are_refused():
    rows = [{"observation": [1.0], "action": 0}, {"observation": [1.0, 2.0], "action": 0}]
    with pytest.raises(gvfx.InputError, match="observation: its entries have different shapes"):
        as_columns(rows)


def test_what_is_not_a_log_is_refused():
    with pytest.raises(gvfx.InputError, match="int is not a log"):
        as_columns(3)
