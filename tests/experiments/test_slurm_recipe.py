"""The program for SLURM in docs/cluster.md, word for word but for its size, on a real SLURM cluster of one node.

`make test-clusters` installs what is needed and runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.sweeps import stored
from helpers.blocks import ROOT, blocks
from helpers.slurm_cluster import missing, of_the_cluster, slurm

import gvfx_paper
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all

PAGE = "docs/cluster.md"
METHODS = ("GVFExplorer", "RoundRobin", "Mixture")
PATIENCE = 180.0  # seconds that anything may take
WATCHED = """
from pathlib import Path

from gvfx.running import drive
from gvfx.running.checkpoint import Checkpoints

drive.CHECKPOINT_EVERY = 0.2


def told(self, load=Checkpoints.load):
    found = load(self)
    if found is not None:
        with Path("continued").open("a") as file:
            file.write(self.identity + "\\n")
    return found


if Checkpoints.load.__name__ == "load":  # Dask loads this twice
    Checkpoints.load = told
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}; make test-clusters installs them"),
]


@pytest.fixture(scope="module")
def cluster():
    """Three jobs at a time: two workers, and the program if it is a job itself."""
    pytest.importorskip("dask_jobqueue")
    with slurm(jobs=3) as running:
        yield running
    left = of_the_cluster(running.folder)
    assert not left, f"processes that did not end: {left}"


@pytest.fixture
def written(tmp_path):
    """Write the program into a folder, with further replacements."""

    def write(**replaced: str) -> Path:
        (block,) = [b for b in blocks(PAGE) if b.language == "python"]
        code = block.tested
        for old, new in replaced.values():
            assert old in code, f"{old!r} is not in the program"
            code = code.replace(old, new)
        (tmp_path / "sweep.py").write_text(code)
        return tmp_path

    return write


def environment(cluster, **more: str) -> dict[str, str]:
    """Of the program: `python` is this one, and Dask listens on the loopback interface, as the page says for other networks."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{cluster.env['PATH']}"
    return {**cluster.env, "PATH": path, "DASK_JOBQUEUE__SLURM__INTERFACE": "lo", **more}


@contextmanager
def started(folder: Path, env: dict[str, str]):
    """The program as a process, which has ended afterwards; what it and its jobs print is shown if a test fails."""
    with (folder / "printed").open("a") as out:
        process = subprocess.Popen(["python", "sweep.py"], cwd=folder, env=env, stdout=out, stderr=out)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        print((folder / "printed").read_text()[-3000:])


def wait_for(condition, process: subprocess.Popen | None = None) -> None:
    """Wait until a condition holds; a program that ends before that, or too long a time, is a failure."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, "the program ended too early"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)


def made_here(folder: Path, seeds: int, **options: int) -> dict[str, bytes]:
    """The same runs in this process."""
    setting = gvfx_paper.paper["distinct"]
    run_all(Store(folder), [(setting.experiment(name, **options), seeds) for name in METHODS], workers=1)
    return stored(folder)


def test_the_program_as_a_job_stores_the_bytes_of_a_local_run(cluster, written, tmp_path):
    """Submitted as the page says: it submits its workers, and cancels them at its end."""
    folder, before = written(), cluster.submitted()
    (command,) = re.findall(r"`(sbatch [^`]*sweep\.py\")`", (ROOT / PAGE).read_text())
    call = [*shlex.split(command)[:1], "--wait", *shlex.split(command)[1:]]
    done = subprocess.run(call, cwd=folder, env=environment(cluster), capture_output=True, text=True, timeout=PATIENCE)
    printed = "\n".join(path.read_text() for path in folder.glob("slurm-*.out"))
    assert done.returncode == 0, f"{done.stderr}\n{printed}"
    assert cluster.submitted() - before == 3
    found = stored(folder / "results")
    assert len(found) == 12 and found == made_here(tmp_path / "here", 4)
    assert len(list((folder / "logs").iterdir())) == 4  # what two jobs print
    assert not list(folder.glob(".dask-jobqueue*")), "keys are left"
    wait_for(lambda: not cluster("squeue", "--noheader"))


@pytest.mark.parametrize("failures", ["3", "0"])
def test_runs_of_cancelled_jobs_continue_from_their_checkpoints_in_new_jobs(cluster, written, tmp_path, failures):
    """Given to other workers by Dask; or given up, if that is one failure too many, and submitted again by run_all."""
    folder, before = written(longer=("experiment(name), 4)", "experiment(name, steps=40_000_000), 1)")), cluster.submitted()
    (tmp_path / "watched.py").write_text(WATCHED)
    env = environment(cluster, DASK_DISTRIBUTED__WORKER__PRELOAD=str(tmp_path / "watched.py"))
    env["DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"] = failures
    with started(folder, env) as program:
        wait_for(lambda: len({path.parent for path in folder.rglob("*.checkpoint")}) == 2, program)  # both workers run
        cancelled = cluster.running()
        cluster("scancel", *cancelled)
        assert program.wait(PATIENCE) == 0
    assert cluster.submitted() - before >= 2 + len(cancelled)
    assert (folder / "continued").read_text(), "no run continued"
    found = stored(folder / "results")
    assert len(found) == 3 and found == made_here(tmp_path / "here", 1, steps=40_000_000)
    assert not list(folder.rglob("*.checkpoint"))


def test_workers_leave_before_the_walltime_and_others_come(cluster, written, tmp_path):
    """--lifetime: a few seconds in place of hours."""
    times = {"life": ('"230m"', '"8s"'), "stagger": ('"5m"', '"1s"')}
    folder, before = written(**times, more=(", 4)", ", 40)")), cluster.submitted()
    with started(folder, environment(cluster)) as program:
        assert program.wait(PATIENCE) == 0
    logs = [path.read_text() for path in (folder / "logs").iterdir()]
    assert sum("worker-lifetime-reached" in log for log in logs) >= 2
    assert cluster.submitted() - before >= 3
    found = stored(folder / "results")
    assert len(found) == 120 and found == made_here(tmp_path / "here", 40)


def test_jobs_end_when_the_program_is_killed_and_it_continues_when_started_again(cluster, written, tmp_path):
    folder = written(more=(", 4)", ", 40)"))
    with started(folder, environment(cluster)) as program:
        wait_for(lambda: len(stored(folder / "results")) > 5, program)
        program.send_signal(signal.SIGKILL)
        program.wait()
    begun = time.monotonic()
    wait_for(lambda: not cluster("squeue", "--noheader"))
    assert time.monotonic() - begun < 90
    old = {path: path.stat().st_mtime_ns for path in (folder / "results").rglob("*.safetensors")}
    assert 5 < len(old) < 120
    with started(folder, environment(cluster)) as program:
        assert program.wait(PATIENCE) == 0
    assert all(path.stat().st_mtime_ns == when for path, when in old.items())
    assert stored(folder / "results") == made_here(tmp_path / "here", 40)
