"""Logs in CSV and Parquet files."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gvfx
from gvfx.running.log_table import read_table

TEXT = """observation,action,next_observation,terminated,reward,policy,speed
0,1,1,False,0.5,,1
1,0,2,false,1,left,
2,1,0,TRUE,-2e-1,left,3
"""


def test_a_csv_file_has_typed_columns(tmp_path):
    for separator, end in ((",", "\n"), (";", "\r\n"), ("\t", "\n\n")):
        path = tmp_path / "log.csv"
        path.write_text(TEXT.replace(",", separator).replace("\n", end), newline="")
        table = read_table(path)
        kinds = {"observation": "i", "action": "i", "next_observation": "i", "terminated": "b", "reward": "f", "policy": "O"}
        assert {name: column.dtype.kind for name, column in table.items()} == kinds | {"speed": "f"}
        assert table["terminated"].tolist() == [False, False, True]
        assert table["reward"].tolist() == [0.5, 1.0, -0.2]
        assert table["policy"].tolist() == [None, "left", "left"]
        assert table["speed"][[0, 2]].tolist() == [1, 3] and np.isnan(table["speed"][1])


def test_a_csv_file_is_answered_like_its_columns(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\ufeff" + TEXT)
    questions = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)]
    columns = {"observation": [0, 1, 2], "action": [1, 0, 1], "next_observation": [1, 2, 0], "terminated": [0, 0, 1]}
    expected = gvfx.evaluate_log(columns | {"reward": [0.5, 1.0, -0.2]}, questions, audit=False).values
    assert np.array_equal(gvfx.evaluate_log(str(path), questions, audit=False).values, expected)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("log.npz", b"", "is neither a CSV nor a Parquet file"),
        ("log.csv", b"\xff\xfe\x00", "is not a CSV file"),
        ("log.csv", b"", "is empty; give a line of names"),
        ("log.csv", b"observation,action\n", "is empty; give a line of names"),
        ("log.csv", b"observation,action\n1,2\n1\n", "line 3 of .* has 1 entries and the first has 2"),
        ("log.csv", b"observation,action\n1,2\n", "has no column 'next_observation'"),
        ("absent.csv", None, "cannot read .*absent.csv .No such file"),
        ("absent.parquet", None, "cannot read .*absent.parquet .No such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(gvfx.InputError, match=f"^log: .*{said}"):
        gvfx.evaluate_log(tmp_path / name, [gvfx.GVF([0.5, 0.5], 1.0, 0.9)])


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(gvfx.InputError, match=r"^log: cannot read .*folder\.csv"):
        read_table(tmp_path / "folder.csv")


def absent(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_parquet_needs_a_package(tmp_path, monkeypatch):
    absent(monkeypatch, "polars", "pyarrow", "pyarrow.parquet", "pandas")
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    with pytest.raises(gvfx.InputError, match="^log: a Parquet file needs a package that reads it; run pip install polars"):
        read_table(tmp_path / "log.parquet")


def test_parquet_is_read_by_the_first_package_that_is_there(tmp_path, monkeypatch):
    absent(monkeypatch, "polars", "pyarrow", "pyarrow.parquet")
    fake = ModuleType("pandas")
    fake.read_parquet = lambda path: SimpleNamespace(read=path.name)
    monkeypatch.setitem(sys.modules, "pandas", fake)
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    assert read_table(tmp_path / "log.parquet").read == "log.parquet"

    def damaged(path):
        raise ValueError("no footer\nmore")

    fake.read_parquet = damaged
    with pytest.raises(gvfx.InputError, match=r"^log: cannot read .* as Parquet \(no footer\); write it again.$"):
        read_table(tmp_path / "log.parquet")


@pytest.mark.parametrize("package", ["polars", "pandas"])
def test_parquet_of_real_packages(tmp_path, package):
    module = pytest.importorskip(package)
    pytest.importorskip("pyarrow")
    table = module.DataFrame({"observation": [0, 1], "action": [1, 0], "next_observation": [1, 0], "terminated": [False, True]})
    path = tmp_path / "log.parquet"
    table.write_parquet(path) if package == "polars" else table.to_parquet(path)
    result = gvfx.evaluate_log(path, [gvfx.GVF([0.5, 0.5], 1.0, 0.9)])
    assert result.visits[0].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(("names", "twice"), [("reward,reward", "reward"), ("propensity,behavior_prob", "behaviour_prob")])
def test_two_columns_of_one_name_are_refused(tmp_path, names, twice):
    path = tmp_path / "log.csv"
    path.write_text(f"observation,action,next_observation,terminated,{names}\n0,0,1,False,1,0.5\n")
    with pytest.raises(gvfx.InputError, match=f"^log: has 2 columns '{twice}'; keep one"):
        gvfx.evaluate_log(path, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)])
