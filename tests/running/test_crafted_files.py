"""Files with a right checksum that do not hold what they should are refused by name: no KeyError, nothing silent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from faults.damage import crafted
from helpers.experiments import small

from gvfx.errors import GvfxError, StoreError
from gvfx.experiments.executors import run_task
from gvfx.running import drive
from gvfx.running.checkpoint import Checkpoints
from gvfx.running.saved import load
from gvfx.tensors import CorruptFile, pack, unpack
from gvfx_paper.targets import SHIPPED, Target, read_target
from gvfx_paper.truths.lattice import kept

SAVED = Path(__file__).parents[1] / "data" / "saved-0.1.0"


@pytest.mark.parametrize("name", ["table", "network", "critics"])
def test_a_crafted_result_is_named_or_harmless(name, tmp_path):
    path, raw = tmp_path / "mine.gvfx", (SAVED / f"{name}.gvfx").read_bytes()
    refused = 0
    for what, changed in crafted(raw):
        if not what.startswith(("drop", "rename", "metadata")):
            continue
        path.write_bytes(changed)
        try:
            load(path).summary()
        except GvfxError as error:
            assert "mine.gvfx" in str(error), what
            refused += 1
    assert refused > 50


def test_the_description_in_a_result_is_checked(tmp_path):
    arrays, metadata = unpack((SAVED / "table.gvfx").read_bytes())
    told = json.loads(metadata["result"])
    for changes in ({"names": []}, {"seeds": ["0"]}, {"snapshots": 5}, {"experiment": []}, {"first_state": None}):
        (tmp_path / "mine.gvfx").write_bytes(pack(arrays, {**metadata, "result": json.dumps({**told, **changes})}))
        with pytest.raises(CorruptFile, match=r"mine.gvfx: does not hold what it should \(its description is not complete\)"):
            load(tmp_path / "mine.gvfx")


@pytest.mark.parametrize("change", ["drop", "rename", "retype", "wrap"])
def test_a_crafted_target_is_named(change, tmp_path):
    path = tmp_path / "target.safetensors"
    for what, raw in crafted((SHIPPED / "walker-walk.safetensors").read_bytes()):
        if what.startswith(change) and "metadata" not in what:
            path.write_bytes(raw)
            read_target.cache_clear()
            with pytest.raises(CorruptFile, match="target.safetensors: does not hold what it should"):
                Target.load(path)


def test_a_crafted_truth_is_computed_again(tmp_path):
    axes, sizes = {"values": "float64 gvf point"}, {"gvf": 2, "point": 3}

    def truth():
        return kept(tmp_path, "kind", {"a": 1}, lambda: {"values": np.arange(6.0).reshape(2, 3)}, axes, **sizes)

    right = truth()["values"]
    (path,) = tmp_path.iterdir()
    for _, raw in [*crafted(path.read_bytes())]:
        path.write_bytes(raw)
        np.testing.assert_array_equal(truth()["values"], right)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(GvfxError, match=r"^cache: cannot use .* \(is a device, a pipe or a folder\)"):
        truth()


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """The folder of a run's checkpoints, of which only the newest is left, and the bytes of its result."""
    monkeypatch.setattr(drive, "CHECKPOINT_EVERY", 0.0)
    right = run_task(small().json, 0, str(tmp_path)).raw
    monkeypatch.setattr(drive, "CHECKPOINT_EVERY", 60.0)
    first, second = sorted(tmp_path.rglob("*.checkpoint"))
    first.unlink()
    return tmp_path, second, right


def test_a_crafted_checkpoint_is_refused_or_harmless(stopped):
    folder, path, right = stopped
    assert run_task(small().json, 0, str(folder)).raw == right
    raw, refused = path.read_bytes(), 0
    for what, changed in crafted(raw):
        path.write_bytes(changed)
        try:
            assert run_task(small().json, 0, str(folder)).raw == right, what
        except StoreError as error:
            assert str(error).startswith("checkpoint: "), what
            refused += 1
    assert refused > 50


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, "seed-0000", "me")
    checkpoints.save(5, {"a": np.zeros(3)})
    real = os.open

    def refuse(path, *more, **options):
        if str(path).endswith(".checkpoint"):
            raise PermissionError(13, "Permission denied")
        return real(path, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"^checkpoint: cannot read .*seed-0000.a.checkpoint \(Permission denied\); make it"):
        checkpoints.load()


def test_a_pipe_in_the_place_of_a_checkpoint_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "seed-0000.a.checkpoint")
    assert Checkpoints(tmp_path, "seed-0000", "me").load() is None
