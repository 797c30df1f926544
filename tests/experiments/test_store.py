"""The store: claims, files that are not what their names say, what other processes hold and left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.experiments import EXPERIMENTS, RUNS

from gvfx.errors import Diverged, StoreError
from gvfx.experiments import sweep
from gvfx.experiments.store import Divergence, Store
from gvfx.experiments.sweep import run_all
from gvfx.running import drive
from gvfx.tensors import CorruptFile, pack, unpack

TESTS = str(Path(__file__).parents[1])


def test_a_claim_keeps_others_away_and_ends_with_its_process(tmp_path):
    store = Store(tmp_path)
    claim = store.claim(EXPERIMENTS[0], 0)
    assert claim is not None and store.claim(EXPERIMENTS[0], 0) is None
    claim.release()
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[2])\n"
        "from helpers.experiments import small\nfrom gvfx.experiments.store import Store\n"
        "assert Store(sys.argv[1]).claim(small(), 0)\nprint('claimed', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), TESTS], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "claimed\n"
    assert store.claim(EXPERIMENTS[0], 0) is None
    child.kill()
    child.wait()
    child.stdout.close()
    assert store.claim(EXPERIMENTS[0], 0) is not None


def test_a_folder_that_cannot_be_made_is_named():
    with pytest.raises(StoreError, match="/proc/nowhere"):
        run_all(Store("/proc/nowhere"), RUNS, workers=1)


@pytest.fixture
def filled(tmp_path):
    """A store of all runs, and the bytes of its results."""
    run_all(Store(tmp_path), RUNS, workers=1)
    return Store(tmp_path), contents(tmp_path)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.safetensors")}


def test_a_result_under_another_name_is_set_aside_and_run_again(filled):
    store, right = filled
    shutil.copy(store.path(EXPERIMENTS[0], 1), store.path(EXPERIMENTS[0], 2))
    shutil.copy(store.path(EXPERIMENTS[1], 0), store.path(EXPERIMENTS[0], 0))
    with pytest.raises(CorruptFile, match=f"seed-0002.safetensors: belongs to another run .*{EXPERIMENTS[0].hash}, seed 1"):
        store.load(EXPERIMENTS[0], 2)
    with pytest.warns(UserWarning, match=r"^results: .*seed-0000.safetensors: belongs to another run .*, and 1 more; set aside"):
        assert run_all(Store(store.folder), RUNS, workers=1).done == 2
    assert contents(store.folder) == right and len([*store.folder.rglob("*.damaged")]) == 2


def test_a_record_of_divergence_under_another_name_is_set_aside(filled):
    store, right = filled
    record = Divergence.of(EXPERIMENTS[0].hash, Diverged("table of M", float("inf"), 6, 7, "left"))
    store.save_divergence(EXPERIMENTS[0], record)
    path = store.path(EXPERIMENTS[0], 7).with_suffix(".diverged.json")
    store.path(EXPERIMENTS[0], 1).unlink()
    path.rename(path.with_name("seed-0001.diverged.json"))
    with pytest.warns(UserWarning, match=r"seed-0001.diverged.json: belongs to another run \(.*, seed 7\)"):
        assert run_all(Store(store.folder), RUNS, workers=1).done == 1
    assert contents(store.folder) == right


CHANGES = {
    "drop": lambda a: a.pop("mse"),
    "rename": lambda a: a.update(mses=a.pop("mse")),
    "retype": lambda a: a.update(mse=a["mse"].astype(np.float32)),
    "reshape": lambda a: a.update(values=a["values"][:, :, :-1].copy()),
    "shorten": lambda a: [a.update({k: a[k][:-1].copy()}) for k in ("steps", "mse", "levels", "episodes")],
    "variances": lambda a: a.update(variances=np.empty((3, 0), np.float32)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_crafted_result_is_refused_by_name(change, filled):
    store, right = filled
    path = store.path(EXPERIMENTS[0], 1)
    arrays, metadata = unpack(path.read_bytes())
    CHANGES[change](arrays)
    path.write_bytes(pack(arrays, metadata))
    with pytest.raises(CorruptFile, match="seed-0001.safetensors: does not hold what it should"):
        store.load(EXPERIMENTS[0], 1)
    with pytest.warns(UserWarning, match="set aside"):
        run_all(Store(store.folder), RUNS, workers=1)
    assert contents(store.folder) == right


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "nothing", "device"])
def test_what_is_no_file_is_set_aside_and_run_again(kind, filled):
    store, right = filled
    path = store.path(EXPERIMENTS[0], 1)
    for place in (path, path.with_name("experiment.json")):
        place.unlink()
        {
            "folder": Path.mkdir,
            "pipe": os.mkfifo,
            "loop": lambda p: p.symlink_to(p.name),
            "nothing": lambda p: p.symlink_to("nowhere"),
            "device": lambda p: p.symlink_to("/dev/zero"),
        }[kind](place)
    with pytest.warns(UserWarning, match="set aside"):
        assert run_all(Store(store.folder), RUNS, workers=1).done == 1
    assert contents(store.folder) == right and path.with_name("experiment.json").read_text() == EXPERIMENTS[0].json


@pytest.mark.parametrize("text", ["", "{", "{}", EXPERIMENTS[1].json])
def test_a_wrong_description_of_the_experiment_is_written_anew(text, filled):
    store, _ = filled
    path = store.path(EXPERIMENTS[0], 0).with_name("experiment.json")
    path.write_text(text)
    assert run_all(Store(store.folder), RUNS, workers=1).found == 6
    assert path.read_text() == EXPERIMENTS[0].json


def test_what_killed_processes_left_is_swept_up(filled):
    store, _ = filled
    folder = store.folder / EXPERIMENTS[0].hash
    left = [folder / name for name in (".seed-0001.safetensors.0123456789abcdef.tmp", "seed-0001.claim", "seed-0002.claim.held")]
    for path in left:
        path.write_text("")
        os.utime(path, (0, 0))
    held = store.claim(EXPERIMENTS[0], 0)
    store.prepare(EXPERIMENTS)
    assert not any(path.exists() for path in left) and store.path(EXPERIMENTS[0], 0).with_suffix(".claim").exists()
    held.release()


def test_a_run_of_another_process_is_reported_after_a_while_and_can_be_stolen(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "STALLED", 0.3)
    store = Store(tmp_path)
    claim = store.claim(EXPERIMENTS[0], 1)
    others = [(EXPERIMENTS[0], 3)]
    with pytest.warns(UserWarning) as said, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_all, store, others)
        while not said and not waiting.done():
            time.sleep(0.05)
        assert str(said[0].message).startswith(
            f"results: seed 1 of {EXPERIMENTS[0].hash} is being run by process {os.getpid()} on "
        )
        assert str(said[0].message).endswith("; wait, or add --steal (in Python steal=True) to run it here.")
        assert run_all(Store(tmp_path), others, steal=True).done == 1
        claim.release()
        assert waiting.result().total == 3
    assert len(said) == 1 and not [*tmp_path.rglob("*.claim")]


def test_a_log_that_cannot_be_written_is_one_warning(tmp_path):
    (tmp_path / "runs.jsonl").mkdir()
    with pytest.warns(UserWarning) as said:
        assert run_all(Store(tmp_path), RUNS, workers=1).done == 6
    assert len(said) == 1 and "runs.jsonl (Is a directory); the runs go on without it" in str(said[0].message)


def test_checkpoints_are_deleted_after_the_result_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(drive, "CHECKPOINT_EVERY", 0.0)
    seen, real = [], Store.save

    def save(self, experiment, seed, raw):
        seen.append(len([*tmp_path.rglob(f"seed-{seed:04d}.*.checkpoint")]))
        real(self, experiment, seed, raw)

    monkeypatch.setattr(Store, "save", save)
    run_all(Store(tmp_path), RUNS[:1], workers=1)
    assert seen == [2, 2, 2] and not [*tmp_path.rglob("*.checkpoint")]
