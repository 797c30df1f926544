"""Sweeps: the same bytes whatever happens, and no run is lost or made twice."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from helpers.experiments import EXPERIMENTS, RUNS, small

import gvfx
from gvfx import files
from gvfx.errors import StoreError
from gvfx.experiments import executors as clusters
from gvfx.experiments import sweep
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import SweepInterrupted, run_all, stored_result
from gvfx.tensors import CorruptFile


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.safetensors"))}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The bytes of a serial run."""
    folder = tmp_path_factory.mktemp("serial")
    tally = run_all(Store(folder), RUNS, workers=1)
    assert (tally.done, tally.found, tally.total) == (6, 0, 6)
    return contents(folder)


def test_running_again_runs_nothing(tmp_path, undisturbed):
    store = Store(tmp_path)
    run_all(store, RUNS[:1], workers=1)
    tally = run_all(store, RUNS, workers=1)
    assert (tally.done, tally.found) == (3, 3)
    assert contents(tmp_path) == undisturbed
    assert run_all(store, RUNS).done == 0
    assert not list(tmp_path.rglob("*.claim")) and not list(tmp_path.rglob("*.tmp"))


def test_processes_give_the_bytes_of_a_serial_run(tmp_path, undisturbed):
    run_all(Store(tmp_path), RUNS, workers=2)
    assert contents(tmp_path) == undisturbed


def test_any_executor_will_do(tmp_path, undisturbed):
    with ThreadPoolExecutor(2) as pool:
        run_all(Store(tmp_path), RUNS, executor=pool)
    assert contents(tmp_path) == undisturbed


@pytest.mark.parametrize(("ahead", "most"), [(None, 8), (3, 3), (40, 20)])
def test_an_executor_is_given_as_many_runs_as_it_has_workers_for(ahead, most, tmp_path, monkeypatch):
    waited = threading.Event()
    monkeypatch.setattr(sweep, "wait", lambda *args, **options: (waited.set(), wait(*args, **options))[1])

    class Waiting(ThreadPoolExecutor):
        """Its first task begins when the sweep waits for one to end."""

        given, begun = 0, 0

        def submit(self, fn, /, *args, **kwargs):
            self.given += 1
            return super().submit(self.after_the_others, fn, *args, **kwargs)

        def after_the_others(self, fn, *args, **kwargs):
            assert waited.wait(60)
            self.begun = self.begun or self.given
            return fn(*args, **kwargs)

    with Waiting(1) as pool:
        run_all(Store(tmp_path), [(EXPERIMENTS[0], 20)], executor=pool, ahead=ahead)
    assert (pool.begun, pool.given) == (most, 20)


def test_a_number_of_runs_ahead_is_at_least_one(tmp_path):
    with ThreadPoolExecutor(1) as pool, pytest.raises(gvfx.InputError, match=r"^ahead: 0 is too few; give at least 1\.$"):
        run_all(Store(tmp_path), RUNS, executor=pool, ahead=0)


def test_the_stored_result_is_the_result(tmp_path, undisturbed):
    store = Store(tmp_path)
    run_all(store, RUNS, workers=1)
    e = EXPERIMENTS[0]
    stored = stored_result(store, e, 3)
    direct = gvfx.evaluate(e.world, e.questions, e.behaviour, e.learner, steps=e.steps, seeds=3, evaluate_every=e.evaluate_every)
    assert stored.mse.tobytes() == direct.mse.tobytes()
    np.testing.assert_allclose(stored.values, direct.values, rtol=1e-6)
    np.testing.assert_array_equal(stored.visits, direct.visits)
    with pytest.raises(FileNotFoundError):
        stored_result(store, e, 4)


def test_a_damaged_file_is_set_aside_and_run_again(tmp_path, undisturbed):
    store = Store(tmp_path)
    run_all(store, RUNS, workers=1)
    path = store.path(EXPERIMENTS[0], 1)
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 4
    path.write_bytes(raw)
    with pytest.raises(CorruptFile, match="seed-0001"):
        store.load(EXPERIMENTS[0], 1)
    with pytest.warns(UserWarning, match=r"seed-0001.safetensors: damaged .* set aside .* run again"):
        assert run_all(store, RUNS, workers=1).done == 1
    assert contents(tmp_path) == undisturbed
    assert path.with_suffix(".damaged").exists()


SWEEP = """
import sys; sys.path.insert(0, sys.argv[2])
if __name__ == "__main__":
    from helpers.experiments import RUNS
    from gvfx.experiments.store import Store
    from gvfx.experiments.sweep import run_all
    print("go", flush=True)
    tally = run_all(Store(sys.argv[1]), RUNS, workers=int(sys.argv[3]))
    print(tally.done, flush=True)
"""


def start_sweep(folder, workers, script):
    script.write_text(SWEEP)
    arguments = [sys.executable, str(script), str(folder), str(Path(__file__).parents[1]), str(workers)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_kill_9_midway_loses_only_what_was_under_way(tmp_path, undisturbed):
    folder = tmp_path / "results"
    child = start_sweep(folder, 2, tmp_path / "sweep.py")
    deadline = time.time() + 300
    while not contents(folder) and time.time() < deadline:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    kept = contents(folder)
    assert kept and all(undisturbed[name] == raw for name, raw in kept.items())
    tally = run_all(Store(folder), RUNS, workers=1)
    assert tally.found == len(kept)
    assert contents(folder) == undisturbed


def test_two_processes_on_one_folder_share_the_work(tmp_path, undisturbed):
    folder = tmp_path / "results"
    children = [start_sweep(folder, 1, tmp_path / f"sweep{k}.py") for k in range(2)]
    done = [int(child.communicate()[0].split()[-1]) for child in children]
    assert sum(done) == 6
    assert contents(folder) == undisturbed


@pytest.mark.parametrize(("number", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_signal_ends_workers_within_seconds_and_keeps_what_is_finished(number, group, tmp_path, undisturbed):
    folder, script = tmp_path / "results", tmp_path / "sweep.py"
    script.write_text(SWEEP.replace("RUNS,", "[(e, 2000) for e, _ in RUNS],"))
    arguments = [sys.executable, str(script), str(folder), str(Path(__file__).parents[1]), "2"]
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        while not contents(folder) and child.poll() is None:
            time.sleep(0.02)
        begun = time.time()
        (os.killpg if group else os.kill)(child.pid, number)
        said = child.communicate()[1]
        assert time.time() - begun < 30  # the whole sweep takes minutes
    lines = [line for line in said.splitlines() if line.startswith("gvfx.experiments.sweep.SweepInterrupted: ")]
    assert len(lines) == 1 and lines[0].endswith(
        f"finished runs are stored in {folder}, and the same command continues from there."
    )
    assert said.count("Traceback") == 1, "only that of the program itself, which does not catch it"
    assert not list(folder.rglob("*.claim")) and not list(folder.rglob("*.tmp"))
    kept = contents(folder)
    assert all(undisturbed[name] == raw for name, raw in kept.items() if name in undisturbed)
    assert len(kept) == len((folder / "runs.jsonl").read_text().splitlines()), "nothing finished was left out"


def test_results_that_arrived_before_a_stop_are_stored(tmp_path, undisturbed):
    """The signal comes while two runs are under way in threads; what they return is not thrown away."""
    heard = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    class Late(ThreadPoolExecutor):
        """Its tasks are done when somebody looks, but only after the signal."""

        def submit(self, fn, /, *args, **kwargs):
            future = super().submit(fn, *args, **kwargs)
            if len(futures := self.__dict__.setdefault("all", [])) == 2:
                wait(futures)
                os.kill(os.getpid(), signal.SIGTERM)
            futures.append(future)
            return future

    try:
        with Late(1) as pool, pytest.raises(SweepInterrupted, match="^terminated; finished runs are stored in") as caught:
            run_all(Store(tmp_path), RUNS, executor=pool)
    finally:
        signal.signal(signal.SIGTERM, heard)
    assert caught.value.exit_code == 143 and isinstance(caught.value, gvfx.Interrupted)
    kept = contents(tmp_path)
    assert len(kept) >= 2 and not list(tmp_path.rglob("*.claim"))
    assert run_all(Store(tmp_path), RUNS).found == len(kept)
    assert contents(tmp_path) == undisturbed


@pytest.mark.slow
def test_workers_leave_with_their_parent(tmp_path):
    """Only the parent is killed; its workers must not stay behind."""
    child = start_sweep(tmp_path / "results", 2, tmp_path / "sweep.py")
    deadline = time.time() + 60

    def workers():
        """Other living processes of the child's group."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, group = path.read_text().rpartition(")")[2].split()[:3]
                if int(group) == child.pid and state != "Z" and path.parent.name != str(child.pid):
                    found.append(path.parent.name)
        return found

    while not contents(tmp_path) and time.time() < deadline:
        time.sleep(0.02)
    assert workers()
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    while workers() and time.time() < deadline:
        time.sleep(0.1)
    assert workers() == []


class DyingOnce(ThreadPoolExecutor):
    """An executor whose worker dies in its third task."""

    tasks = 0

    def submit(self, fn, /, *args, **kwargs):
        DyingOnce.tasks += 1
        if DyingOnce.tasks == 3:
            raise BrokenProcessPool("a worker died")
        return super().submit(fn, *args, **kwargs)


def test_a_dead_worker_is_replaced(tmp_path, undisturbed):
    with DyingOnce(1) as pool:
        run_all(Store(tmp_path), RUNS, executor=pool)
    assert contents(tmp_path) == undisturbed


def test_a_full_disk_is_one_sentence_and_keeps_what_is_finished(tmp_path, undisturbed, monkeypatch):
    store = Store(tmp_path)
    run_all(store, RUNS[:1], workers=1)
    real = os.fsync

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        run_all(store, RUNS, workers=1)
    monkeypatch.setattr(files.os, "fsync", real)
    assert not list(tmp_path.rglob("*.tmp")) and not list(tmp_path.rglob("*.claim"))
    assert run_all(store, RUNS, workers=1).found == 3
    assert contents(tmp_path) == undisturbed


def test_an_error_in_a_run_is_raised_and_releases_its_claim(tmp_path):
    world = gvfx.gridworld(3, {"left": (0, 0)}, horizon=None)
    broken = small(world=world, behaviour=gvfx.BehaviourPolicySearch())
    with pytest.raises(gvfx.InputError, match="horizon"):
        run_all(Store(tmp_path), [(broken, 1)], workers=1)
    assert not list(tmp_path.rglob("*.claim"))


def test_a_dask_cluster_that_loses_a_worker_gives_the_same_bytes(tmp_path, undisturbed):
    """Two real worker processes; one is killed while the sweep runs."""
    from distributed import LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**options) as cluster:
        pids = [worker.process.pid for worker in cluster.workers.values()]

        def kill_one(tally):
            if tally.done == 1 and pids:
                os.kill(pids.pop(), signal.SIGKILL)

        tally = run_all(Store(tmp_path), RUNS, cluster=cluster.scheduler_address, report=kill_one)
    assert tally.done == 6 and len(pids) == 1
    assert contents(tmp_path) == undisturbed


def test_no_scheduler_at_the_address_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", "0.5s")
    with pytest.raises(gvfx.InputError, match="cluster: no Dask scheduler responds"):
        run_all(Store(tmp_path), RUNS, cluster="tcp://127.0.0.1:9")
