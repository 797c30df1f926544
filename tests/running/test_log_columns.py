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


def test_a_pandas_data_frame():
    pandas = pytest.importorskip("pandas")
    assert same(as_columns(pandas.DataFrame({name: list(column) for name, column in COLUMNS.items()})))
    flat = {name: column for name, column in COLUMNS.items() if column.ndim == 1}
    for name in ("observation", "next_observation"):
        flat |= {f"{name}_{k}": COLUMNS[name][:, k] for k in range(2)}
    assert same(as_columns(pandas.DataFrame(flat)))


def test_numbered_columns_are_the_numbers_of_an_observation():
    numbered = {f"observation_{k}": np.arange(3.0) + k for k in range(12)}
    found = as_columns(numbered | {"next_observation_0": [1.0], "action": [0]})
    assert found["observation"][0].tolist() == list(range(12))  # in the order of their numbers, not of their names
    assert found["next_observation"].tolist() == [[1.0]]


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
    for log in ([kind(episode) for episode in episodes()], (kind(episode) for episode in episodes())):
        found = as_columns(log)
        assert same(found)
        assert found["truncated"].tolist() == [False, False, True]


def test_infos_of_episodes_are_columns_without_those_of_the_reset():
    first, second = episodes()
    found = as_columns([
        first | {"infos": {"speed": [9.0, 1.0, 2.0], "kind": "fast", "at": np.zeros((3, 2))}},
        second | {"infos": {"speed": [3.0], "kind": "slow", "at": np.ones((2, 2))}},
    ])  # fmt: skip
    assert found["speed"].tolist() == [1.0, 2.0, 3.0]
    assert found["at"].tolist() == [[0, 0], [0, 0], [1, 1]]
    assert "kind" not in found


def test_columns_under_the_names_of_collections():
    names = dict(zip(COLUMNS, ("observations", "actions", "next_observations", "terminals", "rewards"), strict=True))
    assert same(as_columns({names[name]: column for name, column in COLUMNS.items()}))
    rows = [{names[name]: column[t] for name, column in COLUMNS.items()} for t in range(3)]
    assert same(as_columns(rows))


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ([], "^log: is empty"),
        ([{"observation": 0, "action": 1}, {"action": 1}], "^log: row 1 has no 'observation'"),
        ([episodes()[0], {k: v for k, v in episodes()[1].items() if k != "rewards"}], "^log: episode 1 has no 'reward'"),
        ([episodes()[0], episodes()[1] | {"observations": np.zeros((2, 3))}], "^observation: its entries differ in shape"),
        ({"observations": np.zeros((4, 2)), "actions": np.zeros(2)}, "^observations: there are 4 for 2 actions"),
        ({"observations": {"place": [0.0]}, "actions": [0]}, "^observation: is a mapping; join"),
    ],
)
def test_what_does_not_fit_together_is_named(log, said):
    with pytest.raises(gvfx.InputError, match=said):
        as_columns(log)


def test_entries_of_different_shapes_are_refused():
    rows = [{"observation": [1.0], "action": 0}, {"observation": [1.0, 2.0], "action": 0}]
    with pytest.raises(gvfx.InputError, match="observation: its entries have different shapes"):
        as_columns(rows)


def test_what_is_not_a_log_is_refused():
    with pytest.raises(gvfx.InputError, match="int is not a log"):
        as_columns(3)
