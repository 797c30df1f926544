"""Many processes on one results folder, some killed, some with equal pids: nothing lost, doubled, torn or failed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from faults.processes import _in_the_copy, warm_up
from faults.sweeps import stored
from faults.trials import Trials

FULL, FAST, SECONDS = 500, 12, 150
SIZES = (2, 4, 8)
SEEDS = 3


def run(trials: Trials) -> None:
    """A trial is a process; every round is a new folder that several processes work on."""
    warm_up()
    from helpers.experiments import EXPERIMENTS

    from gvfx.experiments.store import Store
    from gvfx.experiments.sweep import run_all

    runs = [(experiment, SEEDS) for experiment in EXPERIMENTS]
    whole = trials.folder / "undisturbed"
    run_all(Store(whole), runs)
    wanted = stored(whole)
    spaces = _pid_spaces()
    trials.note("equal pids in pid namespaces" if spaces else "equal pids by a patched getpid (no pid namespaces here)")
    turn = 0
    while not trials.done:
        with trials.scratch() as folder:
            count = min(SIZES[turn % len(SIZES)], max(2, trials.wanted - trials.count))
            equal = trials.random.random() < 0.5
            killed = trials.random.randrange(count) if trials.random.random() < 0.5 else 0
            _round(trials, folder, runs, wanted, count, equal, killed, spaces)
        turn += 1


def _round(
    trials: Trials, folder: Path, runs: list, wanted: dict[str, bytes], count: int, equal: bool, killed: int, spaces: bool
) -> None:
    """`count` processes on one folder, of which `killed` are killed at random moments."""
    kind = f"{count} processes{', equal pids' if equal else ''}"
    begun = time.perf_counter()
    children = [_started(folder, runs, k, equal, spaces) for k in range(count)]
    moments = sorted(trials.random.uniform(0.0, 0.6) for _ in range(killed))
    for victim, moment in enumerate(moments):
        time.sleep(max(0.0, begun + moment - time.perf_counter()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(children[victim], signal.SIGKILL)
    codes = [_waited(child) for child in children]
    good = [0 if k >= killed else codes[k] if codes[k] in (0, -signal.SIGKILL) else 0 for k in range(count)]
    said = {k: (folder / f"err-{k}").read_text(errors="replace")[-800:] for k in range(count) if codes[k] != good[k]}
    results = folder / "results"
    made = Counter((line["experiment"], line["seed"]) for line in _logged(results))
    wrong = ""
    if stored(results) != wanted:
        lost = [name for name in wanted if name not in stored(results)]
        wrong = f"lost {lost}" if lost else "other bytes"
    elif not killed and any(n > 1 for n in made.values()):
        wrong = f"made twice: {made}"
    elif left := [path.name for path in results.rglob("*") if path.suffix in (".tmp", ".claim", ".damaged")]:
        wrong = "" if killed else f"left over: {left}"
    for k in range(count):
        detail = f"{kind}, {killed} killed at {moments}, process {k}: code {codes[k]}, {said.get(k, '')} {wrong}"
        trials.check(kind, codes[k] == good[k] and (not wrong or k > 0), detail)


def _started(folder: Path, runs: list, k: int, equal: bool, spaces: bool) -> int:
    """A process that makes the runs which are missing; with `equal`, one whose pid others have too."""

    def work() -> None:
        from gvfx.experiments.store import Store
        from gvfx.experiments.sweep import run_all

        if equal and not spaces:
            os.getpid = lambda: 7
        tally = run_all(Store(folder / "results"), runs, patience=0.02)
        print(tally.done)

    def in_its_own_pid_space() -> None:
        """The copy of this copy is number 1 of a new space."""
        os.unshare(os.CLONE_NEWPID) if hasattr(os, "unshare") else _unshared()
        if child := os.fork():
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
        assert os.getpid() == 1
        work()

    child = os.fork()
    if not child:
        _in_the_copy(in_its_own_pid_space if equal and spaces else work, folder, [folder / f"out-{k}", folder / f"err-{k}"])
    return child


def _unshared() -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(0x20000000):  # CLONE_NEWPID
        raise OSError(ctypes.get_errno(), "unshare")


def _pid_spaces() -> bool:
    """Whether this process may make pid namespaces."""
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "--pid", "--fork", "true"], capture_output=True).returncode == 0


def _waited(child: int) -> int:
    """The exit code of a process; it is killed after a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 99


def _logged(results: Path) -> list[dict]:
    log = results / "runs.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
