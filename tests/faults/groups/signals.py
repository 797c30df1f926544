"""Ctrl-C and SIGTERM at random moments: at most 5 seconds, finished work kept, the right exit code, no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from faults.processes import Ended, _in_the_copy, _signal, called, forked, warm_up
from faults.sweeps import ITEM, runs, stored
from faults.trials import Trials

FULL, FAST, SECONDS = 40, 1, 200
BOUND = 5.0  # seconds from the signal to the end
SEEDS = 6
ENVIRONMENT = """
import gymnasium, gvfx

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(9)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 4
        return self.at, {}

    def step(self, action):
        self.at += 2 * int(action) - 1
        return self.at, float(self.at), self.at in (0, 8), False, {}

def make():
    return Walk(), [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="reward")]
"""


def run(trials: Trials) -> None:
    warm_up()
    wanted = _undisturbed(trials)
    kinds = [partial(_sweep, workers=2), _long, _evaluate, partial(_sweep, workers=2), _threads, partial(_script, workers=2)]
    kinds += [partial(_sweep, workers=1), _long, partial(_twice, workers=2)]
    signals = [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, False)]
    turn = 0
    while not trials.done:
        number, group = signals[(turn + turn // len(kinds)) % len(signals)]  # to the whole group, or to the process alone
        kinds[turn % len(kinds)](trials, wanted=wanted, number=number, group=group)
        turn += 1


# --- a signal, and how a command ended after it ----------------------------------------------------------------------


class Stop:
    """A signal that is sent once after some seconds, or once something is there; to the process alone or to its group."""

    def __init__(self, number: int, group: bool, after: float, once: Callable[[], bool] | None = None, again: float = 0.0):
        self.number, self.group, self.after, self.once, self.again = number, group, after, once, again

    def __str__(self) -> str:
        to = "the group" if self.group else "the process alone"
        return f"{signal.Signals(self.number).name} to {to} after {self.after:.3f} s"

    def send(self, process: int) -> None:
        if self.group:
            _signal(process, self.number)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, self.number)


def stopped(function: Callable[[], None], stop: Stop, cwd: Path) -> tuple[Ended, float | None, int]:
    """Call a function in a copy of this process and stop it: how it ended, seconds from the signal to the end (None if it ended
    before), and how many of its processes were left."""
    logs = [cwd / f".stopped-{name}" for name in ("out", "err")]
    begun = time.perf_counter()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _in_the_copy(function, cwd, logs)
    due: float | None = None
    sent: float | None = None
    again, code = False, None
    while time.perf_counter() - begun < 60:
        now = time.perf_counter()
        if due is None and (stop.once is None or stop.once()):
            due = now + stop.after
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        if sent is None and due is not None and now >= due:
            stop.send(child)
            sent = now
        if sent is not None and stop.again and not again and now > sent + stop.again:
            stop.send(child)
            sent, again = now, True
        time.sleep(0.002)
    ended = time.perf_counter()
    left = _left(child)
    _signal(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    out, err = (log.read_text(errors="replace") for log in logs)
    return Ended(code, out, err, ended - begun), None if sent is None else ended - sent, left


def _left(group: int) -> int:
    """Processes of a group that are there a second after its leader has ended."""
    deadline = time.monotonic() + 1.0
    while True:
        count = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, its = path.read_text().rpartition(")")[2].split()[:3]
                count += int(its) == group and state != "Z" and path.parent.name != str(group)
        if not count or time.monotonic() > deadline:
            return count
        time.sleep(0.02)


def _judged(ended: Ended, seconds: float | None, left: int, number: int, bound: float = BOUND) -> str:
    """Empty if a command ended as it should, or what was wrong."""
    if left:
        return f"{left} processes stayed"
    if ended.traceback or "Exception ignored" in ended.err:
        return f"a traceback: {ended.err[-1500:]}"
    if seconds is None:
        return "" if ended.code == 0 else f"ended with {ended.code} before the signal: {ended.err[-500:]}"
    if seconds > bound:
        return f"took {seconds:.1f} s"
    if ended.code == 0:
        return ""  # the signal came at the very end
    if ended.code != 128 + number:
        return f"exit code {ended.code}: {ended.err[-500:]}"
    lines = [line for line in ended.err.splitlines() if line.strip()]
    if not 1 <= len(lines) <= 2 or not all(line.startswith("gvfx: ") for line in lines):
        return f"said {ended.err!r}"
    return ""


# --- sweeps ----------------------------------------------------------------------------------------------------------


def _undisturbed(trials: Trials) -> dict[str, bytes]:
    folder = trials.folder / "undisturbed"
    folder.mkdir()
    _finished(folder)
    return stored(folder)


def _finished(folder: Path) -> Ended:
    """Make what is missing, in a process of its own."""

    def finish() -> None:
        from gvfx.experiments.store import Store
        from gvfx.experiments.sweep import run_all

        tally = run_all(Store(folder / "results"), runs(SEEDS))
        print(tally.found)

    return called(finish, cwd=folder)


def _some(folder: Path) -> bool:
    return any(folder.rglob("*.safetensors"))


def _sweep(trials: Trials, *, wanted: dict[str, bytes], number: int, group: bool, workers: int) -> None:
    """`gvfx reproduce`, stopped after a while or once something is finished."""

    def command() -> None:
        from gvfx.cli import main

        sys.argv = ["gvfx", "reproduce", ITEM, "--seeds", str(SEEDS), "--workers", str(workers), "--results", "results"]
        main()

    _stopped_and_finished(trials, f"sweep, {workers} workers", command, wanted, number, group)


def _script(trials: Trials, *, wanted: dict[str, bytes], number: int, group: bool, workers: int) -> None:
    """run_all of a program without the command line, which lets Ctrl-C end it with Python's own message and exit code."""

    def program() -> None:
        from gvfx.experiments.store import Store
        from gvfx.experiments.sweep import run_all

        try:
            run_all(Store("results"), runs(SEEDS), workers=workers)
        except KeyboardInterrupt as stop:
            sys.exit(f"gvfx: {stop}" if getattr(stop, "exit_code", 0) == 128 + number else f"what: {stop!r}")

    _stopped_and_finished(trials, "run_all", program, wanted, number, group, code=1)


def _long(trials: Trials, *, wanted: dict[str, bytes], number: int, group: bool) -> None:
    """Runs that would take minutes, in two workers: they are not waited for, and leave checkpoints."""
    with trials.scratch() as folder:

        def program() -> None:
            from gvfx.experiments.store import Store
            from gvfx.experiments.sweep import run_all

            longer = [(replace(e, steps=4_000_000_000, evaluate_every=100_000_000, snapshots=()), 4) for e, _ in runs(1)]
            try:
                run_all(Store("results"), longer, workers=2)
            except KeyboardInterrupt as stop:
                sys.exit(f"gvfx: {stop}" if getattr(stop, "exit_code", 0) == 128 + number else f"what: {stop!r}")

        stop = Stop(number, group, trials.random.uniform(5.0, 7.0))
        ended, seconds, left = stopped(program, stop, folder)
        wrong = _judged(ended._replace(code=128 + number if ended.code == 1 else ended.code), seconds, left, number)
        if not wrong and not list(folder.rglob("*.checkpoint")):
            wrong = "no checkpoint was written"
        if not wrong and (claims := list(folder.rglob("*.claim"))):
            wrong = f"{len(claims)} claims stayed"
        trials.check("long runs, 2 workers", not wrong, f"{stop}: {wrong} {ended.err[-300:]}")


def _stopped_and_finished(
    trials: Trials,
    kind: str,
    function: Callable[[], None],
    wanted: dict[str, bytes],
    number: int,
    group: bool,
    code: int | None = None,
) -> None:
    with trials.scratch() as folder:
        later = trials.random.random() < 0.5
        stop = Stop(number, group, trials.random.uniform(0.05, 1.0 if later else 5.0), partial(_some, folder) if later else None)
        ended, seconds, left = stopped(function, stop, folder)
        if code is not None and ended.code == code:
            ended = ended._replace(code=128 + number)
        wrong = _judged(ended, seconds, left, number)
        kept = stored(folder)
        if not wrong and seconds is not None and ended.code != 0 and (folder / "results").exists():
            if "the same command continues" not in ended.err and kept != wanted:
                wrong = f"does not say how to go on: {ended.err!r}"
            elif claims := list(folder.rglob("*.claim")):
                wrong = f"{len(claims)} claims stayed"
        if not wrong and not all(wanted[name] == raw for name, raw in kept.items()):
            wrong = "a kept result has other bytes"
        if not wrong:
            again = _finished(folder)
            if again.code != 0 or int(again.out or -1) != len(kept):
                wrong = f"{len(kept)} were kept, but it said {again}"
            elif stored(folder) != wanted:
                wrong = "other bytes after finishing"
        trials.check(kind, not wrong, f"{kind}, {stop}, {len(kept)} kept: {wrong}")


def _twice(trials: Trials, *, wanted: dict[str, bytes], number: int, group: bool, workers: int) -> None:
    """A second signal ends a command at once."""
    with trials.scratch() as folder:

        def command() -> None:
            from gvfx.cli import main
            from gvfx.experiments import executors

            executors.GRACE = 30.0
            os.environ["GVFX_CACHE_DIR"] = str(folder / "cache")  # workers compile, and do not end soon
            sys.argv = ["gvfx", "reproduce", ITEM, "--seeds", str(SEEDS), "--workers", str(workers), "--results", "results"]
            main()

        stop = Stop(number, False, trials.random.uniform(2.0, 3.5), again=0.5)
        ended, seconds, left = stopped(command, stop, folder)
        ok = ended.code in (128 + number, -number) and seconds is not None and seconds < 1.5 and not left and not ended.traceback
        trials.check("second signal", ok, f"{stop}, again 0.5 s later: {ended}, {seconds} s, {left} processes stayed")


# --- single runs -----------------------------------------------------------------------------------------------------


def _threads(trials: Trials, *, wanted: dict[str, bytes], number: int, group: bool) -> None:
    """`gvfx run` with seeds in threads, continued from its checkpoints."""
    line = ["run", "same", "-b", "Mixture", "--steps", "3000000", "--seeds", "3", "--workers", "2", "--save", "a.gvfx"]
    with trials.scratch() as folder, trials.scratch() as whole:

        def command() -> None:
            from gvfx.cli import main

            sys.argv = ["gvfx", *line, "--checkpoint", "run"]
            main()

        stop = Stop(number, group, trials.random.uniform(0.05, 1.5))
        ended, seconds, left = stopped(command, stop, folder)
        wrong = _judged(ended, seconds, left, number) or _continued(line, folder, whole)
        trials.check("run, threads", not wrong, f"{stop}: {wrong}")


def _continued(line: list[str], folder: Path, whole: Path) -> str:
    """Whether the same command continues to what an undisturbed one gives."""
    import gvfx
    from faults.backends import digests

    ends = [forked(*line, "--checkpoint", "run", cwd=folder), forked(*line, cwd=whole)]
    if any(end.code != 0 or end.traceback for end in ends):
        return f"finishing: {ends}"
    return "" if digests(gvfx.load(folder / "a.gvfx")) == digests(gvfx.load(whole / "a.gvfx")) else "other bytes after finishing"


def _evaluate(trials: Trials, *, wanted: dict[str, bytes], number: int, group: bool) -> None:
    """`gvfx evaluate` of an own environment: what was learned so far is in the file, and the run can be continued."""
    import gvfx

    line = ["evaluate", "walk.py:make", "--steps", "60000", "--save", "a.gvfx", "--checkpoint", "run", "--no-progress"]
    with trials.scratch() as folder:
        (folder / "walk.py").write_text(ENVIRONMENT)

        def command() -> None:
            from gvfx.cli import main

            sys.argv = ["gvfx", *line]
            main()

        stop = Stop(number, group, trials.random.uniform(0.3, 2.5))
        ended, seconds, left = stopped(command, stop, folder)
        wrong = _judged(ended, seconds, left, number)
        if not wrong and ended.code != 0 and " at step " in ended.err:
            made = int(gvfx.load(folder / "a.gvfx").visits.sum())
            said = int(ended.err.split(" at step ")[1].split(";")[0].replace(",", ""))
            wrong = "" if made == said > 0 else f"{made} steps in the file, {said} said"
        if not wrong:
            again = forked(*line, cwd=folder)
            total = int(gvfx.load(folder / "a.gvfx").visits.sum()) if again.code == 0 else -1
            wrong = "" if total == 60_000 else f"continued to {total} steps: {again}"
        trials.check("evaluate, own environment", not wrong, f"{stop}: {wrong}; {ended.err[-300:]}")
