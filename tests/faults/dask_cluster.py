"""A Dask cluster of real processes: a scheduler, and workers with their nannies, as the commands of Dask start them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

READY = 60.0  # seconds


class Running(NamedTuple):
    """A cluster in processes of its own; each is the leader of its group."""

    address: str
    scheduler: subprocess.Popen
    workers: list[subprocess.Popen]

    def kill_scheduler(self) -> None:
        _kill(self.scheduler)

    def kill_a_worker(self) -> None:
        """Kill the process that computes; its nanny starts another one."""
        nanny = self.workers[0].pid
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = path.read_text().rpartition(")")[2].split()[:2]
                if int(parent) == nanny and state != "Z" and b"spawn_main" in (path.parent / "cmdline").read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)


@contextmanager
def cluster(folder: Path, workers: int = 2, env: dict[str, str] | None = None, more: tuple[str, ...] = ()) -> Iterator[Running]:
    """more: arguments for the scheduler and the workers, such as those of TLS."""
    folder.mkdir(exist_ok=True)
    file, log = folder / "scheduler.json", folder / "dask.log"
    started: list[subprocess.Popen] = []

    def start(module: str, *arguments: str) -> subprocess.Popen:
        call = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(file), "--no-dashboard", *arguments]
        with log.open("a") as out:
            process = subprocess.Popen(
                [*call, *more], stdout=out, stderr=out, env={**os.environ, **(env or {})}, start_new_session=True, cwd=folder
            )
        started.append(process)
        return process

    try:
        scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        _wait_for(file.exists, log)
        each = [
            start("dask_worker", "--nworkers", "1", "--nthreads", "1", "--local-directory", str(folder / f"worker-{k}"))
            for k in range(workers)
        ]
        _wait_for(lambda: log.read_text().count("Registered to:") >= workers, log)
        yield Running(json.loads(file.read_text())["address"], scheduler, each)
    finally:
        for process in started:
            _kill(process)


def _wait_for(ready, log: Path) -> None:
    deadline = time.monotonic() + READY
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the Dask cluster did not start: {log.read_text()[-1500:]}")
        time.sleep(0.1)


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
