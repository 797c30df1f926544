"""The index of a store: files that were found whole are not read again, unless they have changed."""

from __future__ import annotations

import os
import shutil

import pytest
from helpers.experiments import EXPERIMENTS, RUNS

from gvfx.experiments import store as index
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store whose files are all in its index."""
    monkeypatch.setattr(index, "RECENT", -1.0)
    run_all(Store(tmp_path), RUNS, workers=1)
    assert run_all(Store(tmp_path), RUNS, workers=1).found == 6
    return Store(tmp_path)


def reads(store, monkeypatch, **options):
    """How many results are read to find all of them."""
    read, real = [], Store.load
    monkeypatch.setattr(Store, "load", lambda self, e, seed: (read.append(seed), real(self, e, seed))[1])
    assert run_all(Store(store.folder), RUNS, workers=1, **options).found == 6
    monkeypatch.setattr(Store, "load", real)
    return len(read)


def test_whole_files_are_read_once_or_to_verify_them(store, monkeypatch):
    assert reads(store, monkeypatch) == 0
    assert reads(store, monkeypatch, verify=True) == 6
    os.utime(store.path(EXPERIMENTS[0], 1))
    assert reads(store, monkeypatch) == 1
    assert reads(store, monkeypatch) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": {}}', "[" * 100_000])
def test_a_damaged_index_is_made_anew(text, store, monkeypatch):
    (store.folder / EXPERIMENTS[0].hash / index.NAME).write_text(text)
    assert reads(store, monkeypatch) == 3
    assert reads(store, monkeypatch) == 0


def test_a_file_that_has_just_been_written_is_read_again(tmp_path, monkeypatch):
    run_all(Store(tmp_path), RUNS, workers=1)
    assert reads(Store(tmp_path), monkeypatch) == 6
    assert reads(Store(tmp_path), monkeypatch) == 6  # it could have changed within the same tick of the clock


def test_a_folder_under_another_name_is_not_trusted(store):
    first, second = (store.folder / e.hash for e in EXPERIMENTS)
    shutil.rmtree(second)
    first.rename(second)
    with pytest.warns(UserWarning, match=r"belongs to another run .*and 2 more; set aside"):
        assert run_all(Store(store.folder), RUNS, workers=1).done == 6


def test_damage_that_no_time_shows_is_noticed_when_the_file_is_used(store):
    path = store.path(EXPERIMENTS[0], 1)
    known = index.Index(path.parent, EXPERIMENTS[0].hash)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    known.add(path.name, path.stat())
    known.save()
    assert Store(store.folder).has(EXPERIMENTS[0], 1)
    with pytest.raises(Exception, match="damaged"):
        Store(store.folder).load(EXPERIMENTS[0], 1)
    with pytest.warns(UserWarning, match="set aside"):
        assert run_all(Store(store.folder), RUNS, workers=1).done == 1
