"""Commands and functions in processes of their own that may be killed.

`command` starts Python anew, as a user does.  `forked` is the same command line in a copy of this process, in which gvfx has
already been imported: a hundredth of a second instead of a second, so that a thousand trials take minutes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

TIMEOUT = 60.0  # seconds


class Ended(NamedTuple):
    """How a process ended."""

    code: int | None  # the exit code; minus the signal that ended it; None if it had to be killed after the time limit
    out: str
    err: str
    seconds: float

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.err

    @property
    def sentence(self) -> bool:
        """Whether a mistake was named properly: exit code 1 or 2, one or a few lines on stderr, no traceback."""
        return self.code in (1, 2) and bool(self.err.strip()) and not self.traceback


def warm_up(jax: bool = False) -> None:
    """Import what commands need, before the first fork.  jax: its modules too, without starting it."""
    import gvfx.cli
    import gvfx.cli.target
    import gvfx.experiments.sweep
    import gvfx.running.evaluate
    import gvfx.running.logs
    import gvfx.running.saved  # noqa: F401

    if jax:
        import equinox  # noqa: F401
        import jax as _jax  # noqa: F401
        import optax  # noqa: F401


def command(
    *arguments: object,
    cwd: Path,
    timeout: float = TIMEOUT,
    kill_after: float | None = None,
    number: int = signal.SIGKILL,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """`gvfx ARGUMENTS` as a user starts it; after `kill_after` seconds its process group gets the signal."""
    begun = time.perf_counter()
    call = [sys.executable, "-m", "gvfx", *map(str, arguments)]
    with subprocess.Popen(
        call,
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        code: int | None
        try:
            if kill_after is not None:
                try:
                    out, err = process.communicate(timeout=kill_after)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, number)
            out, err = process.communicate(timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = None
    return Ended(code, out, err, time.perf_counter() - begun)


def forked(
    *arguments: object,
    cwd: Path,
    timeout: float = TIMEOUT,
    kill_after: float | None = None,
    number: int = signal.SIGKILL,
    before: Callable[[], None] = lambda: None,
) -> Ended:
    """`gvfx ARGUMENTS` in a copy of this process.  before: is called in the copy first, for example to arm a fault."""

    def run() -> None:
        from gvfx.cli import main

        before()
        sys.argv = ["gvfx", *map(str, arguments)]
        main()

    return called(run, cwd=cwd, timeout=timeout, kill_after=kill_after, number=number)


def called(
    function: Callable[[], None],
    *,
    cwd: Path,
    timeout: float = TIMEOUT,
    kill_after: float | None = None,
    number: int = signal.SIGKILL,
) -> Ended:
    """Call a function in a copy of this process, with its output in files of `cwd`."""
    begun = time.perf_counter()
    logs = [cwd / f".faults-{name}-{os.getpid()}" for name in ("out", "err")]
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads in a process that forks: none are running
        child = os.fork()
    if not child:
        _in_the_copy(function, cwd, logs)
    code: int | None = None
    deadline, due = begun + timeout, begun + (timeout if kill_after is None else kill_after)
    pause = 0.0005
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        now = time.perf_counter()
        if kill_after is not None and now >= due:
            _signal(child, number)
            due = float("inf")
        if now >= deadline:
            _signal(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(min(pause, max(0.0, due - now)))
        pause = min(pause * 1.2, 0.02)
    _signal(child, signal.SIGKILL)  # what it started itself
    out, err = (log.read_text(errors="replace") if log.exists() else "" for log in logs)
    for log in logs:
        log.unlink(missing_ok=True)
    return Ended(code, out, err, time.perf_counter() - begun)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _in_the_copy(function: Callable[[], None], cwd: Path, logs: list[Path]) -> None:
    """Never returns: ends with the function's exit code, or 70 and a traceback if it raises."""
    code = 70
    try:
        os.setsid()
        for log, handle in zip(logs, (1, 2), strict=True):
            file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(file, handle)
            os.close(file)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.chdir(cwd)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        function()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code & 0xFF)
