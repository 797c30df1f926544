"""Logs in the forms that people have them."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import gvfx
from gvfx.running.log_table import as_columns, as_log

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


class Series(list):
    name = ""

    def to_numpy(self):
        values = np.empty(len(self), object)
        values[:] = list(self)
        return values if isinstance(self[0], list | np.ndarray) else np.array(self)


def series(name, column):
    out = Series(column)
    out.name = name
    return out


def test_a_frame_of_polars():
    frame = SimpleNamespace(get_columns=lambda: [series(name, column) for name, column in COLUMNS.items()])
    assert same(as_columns(frame))
    assert same(as_columns(SimpleNamespace(collect=lambda: frame, collect_schema=None)))  # not computed yet
    polars = pytest.importorskip("polars")
    real = polars.DataFrame({name: column.tolist() for name, column in COLUMNS.items()})
    assert same(as_columns(real)) and same(as_columns(real.lazy()))


def test_a_table_of_pyarrow():
    table = {name: column.tolist() for name, column in COLUMNS.items()}
    assert same(as_columns(SimpleNamespace(column_names=list(table), to_pydict=lambda: table)))
    ragged = table | {"observation": [[0.0], [1.0, 2.0], [3.0]]}
    with pytest.raises(gvfx.InputError, match="observation: its entries have different shapes"):
        as_columns(SimpleNamespace(column_names=list(table), to_pydict=lambda: ragged))
    pyarrow = pytest.importorskip("pyarrow")
    assert same(as_columns(pyarrow.table(table)))


def test_text_in_a_data_frame_stays_text():
    found = as_columns(Frame({"policy": np.array([None, "left"], object), "action": [0, 1]}))
    assert found["policy"].tolist() == [None, "left"]


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


class Dataset(list):
    """A dataset of Minari as far as it is read."""

    observation_space = gym.spaces.Discrete(6)
    action_space = gym.spaces.Discrete(4)


def lake_dataset():
    infos = {"behavior_prob": [1.0, 0.25, 0.5], "prob": [1.0, 0.3, 0.3]}
    return [
        SimpleNamespace(observations=np.array([0, 4, 5]), actions=np.array([1, 2]), rewards=np.array([0.0, 1.0]),
                        terminations=np.array([False, True]), truncations=np.array([False, False]), infos=infos),
        SimpleNamespace(observations=np.array([0, 0]), actions=np.array([0]), rewards=np.array([0.0]),
                        terminations=np.array([False]), truncations=np.array([True]), infos={"behavior_prob": [1.0, 0.25],
                                                                                               "prob": [1.0, 0.3]}),
    ]  # fmt: skip


def test_a_dataset_knows_its_sizes_and_keeps_probabilities():
    log = as_log(Dataset(lake_dataset()))
    assert (log.states, log.actions) == (6, 4)
    assert log.behaviour_prob.tolist() == [0.25, 0.5, 0.25]
    assert log.info["prob"].tolist() == [0.3] * 3
    assert log.next_observation.tolist() == [4, 5, 0]
    result = gvfx.evaluate_log(Dataset(lake_dataset()), [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="all")])
    assert result.visits.shape == (1, 6, 4)
    assert result.details.experiment["effective"]["all"] > 0


def test_a_dataset_of_minari(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    from minari.data_collector import EpisodeBuffer

    buffers = [
        EpisodeBuffer(id=k, **{name: value if name == "infos" else list(value) for name, value in vars(episode).items()})
        for k, episode in enumerate(lake_dataset())
    ]
    spaces = {"observation_space": gym.spaces.Discrete(6), "action_space": gym.spaces.Discrete(4)}
    told = {"algorithm_name": "a", "author": "a", "author_email": "a", "code_permalink": "a", "description": "a"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = minari.create_dataset_from_buffers("lake/test-v0", buffers, **spaces, **told)
        found, expected = as_log(dataset), as_log(Dataset(lake_dataset()))
    for name in ("observation", "action", "next_observation", "terminated", "reward", "behaviour_prob"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert (found.states, found.actions) == (6, 4)


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
        ([1, 2], "^log: entry 0 is int, neither a row nor an episode"),
        ({3: [0]}, "^log: the name of column 3 is not text"),
        (np.zeros((3, 4)), "^log: ndarray is not a log"),
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
