"""A Dask cluster: undisturbed, a worker, the scheduler or the client killed: the same bytes, one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from faults.dask_cluster import Running, cluster
from faults.processes import Ended, warm_up
from faults.sweeps import ITEM, runs, stored
from faults.trials import Trials

FULL, FAST, SECONDS = 8, 0, 120
SEEDS = 8


def run(trials: Trials) -> None:
    warm_up()
    from gvfx.experiments.store import Store
    from gvfx.experiments.sweep import run_all

    whole = trials.folder / "undisturbed"
    run_all(Store(whole), runs(SEEDS))
    wanted = stored(whole)
    kinds = ("scheduler killed", "undisturbed", "worker killed", "client killed")
    for turn in range(trials.wanted):
        if trials.done:
            return
        kind = kinds[turn % len(kinds)]
        with trials.scratch() as folder, cluster(folder / "dask", workers=2) as found:
            wrong = _trial(kind, folder, found, wanted, trials.random.uniform(0.0, 0.6))
            trials.check(kind, not wrong, f"{kind}: {wrong}")


def _trial(kind: str, folder: Path, found: Running, wanted: dict[str, bytes], wait: float) -> str:
    """Empty, or what went wrong."""
    fault: dict[str, Callable[[subprocess.Popen], None]] = {
        "scheduler killed": lambda client: found.kill_scheduler(),
        "worker killed": lambda client: found.kill_a_worker(),
        "client killed": lambda client: os.killpg(client.pid, signal.SIGKILL),
    }
    ended = _swept(folder, found.address, fault.get(kind, lambda client: None), wait)
    kept = stored(folder / "results")
    if ended.traceback or ended.code is None:
        return f"{ended}"
    if any(wanted[name] != raw for name, raw in kept.items()):
        return "a stored result has other bytes"
    lines = [line for line in ended.err.splitlines() if line.strip()]
    if kind == "scheduler killed":
        said = len(lines) == 1 and lines[0].startswith("gvfx: cluster: ") and "the same command continues" in lines[0]
        if (ended.code != 1 or not said) and not (ended.code == 0 and kept == wanted):
            return f"{ended}"
        ended = _swept(folder, None)
    elif kind == "client killed":
        ended = _swept(folder, found.address)
    if ended.code != 0 or ended.err.strip():
        return f"{ended}"
    return "" if stored(folder / "results") == wanted else "other bytes at the end"


def _swept(
    folder: Path, address: str | None, fault: Callable[[subprocess.Popen], None] = lambda client: None, wait: float = 0.0
) -> Ended:
    """`gvfx reproduce` on the cluster; the fault happens some time after the first result is stored."""
    line = ["reproduce", ITEM, "--seeds", str(SEEDS), "--results", str(folder / "results")]
    line += ["--workers", "1"] if address is None else ["--cluster", address]
    begun = time.perf_counter()
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        client = subprocess.Popen(
            [sys.executable, "-m", "gvfx", *line], stdout=out, stderr=err, cwd=folder, start_new_session=True
        )
        while client.poll() is None and not stored(folder / "results") and time.perf_counter() - begun < 60:
            time.sleep(0.02)
        time.sleep(wait)
        fault(client)
        try:
            code: int | None = client.wait(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(client.pid, signal.SIGKILL)
            client.wait()
            code = None
    texts = [(folder / name).read_text(errors="replace") for name in ("out", "err")]
    return Ended(code, texts[0][-500:], texts[1], time.perf_counter() - begun)
