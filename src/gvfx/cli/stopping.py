"""Ctrl-C and SIGTERM: both stop a command in the same way, and running work can be saved on the way out."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from types import FrameType
from typing import Any

WORDS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "terminated by SIGTERM"}
ADVICE = "with --checkpoint FOLDER the same command could continue it."


class Stopped(KeyboardInterrupt):
    """A signal stopped the command.  A KeyboardInterrupt, so code that saves its work on Ctrl-C does so on SIGTERM too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_received: list[int] = []


def install_handlers() -> None:
    """Make SIGINT and SIGTERM raise `Stopped` in the main thread; a second signal ends the process at once."""
    for number in WORDS:
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in WORDS:
        signal.signal(each, signal.SIG_DFL)
    _received.append(number)
    for worker in multiprocessing.active_children():  # a pool would wait for their runs to end; checkpoints are kept
        worker.terminate()
    raise Stopped(number)


_stop.yields_to_runs = True  # type: ignore[attr-defined]  # `gvfx.running.interrupt` may take its place during a run


def raise_if_stopped() -> None:
    """For callbacks in worker threads, where signals raise nothing: raise `Stopped` if one was received."""
    if _received:
        raise Stopped(_received[0])


def sentence_and_code(stop: Any) -> tuple[str, int]:
    """What to print about a stop, with the notes added to it, and the exit code: 128 + the signal's number."""
    if hasattr(stop, "exit_code"):  # gvfx.Interrupted: a run that ended in order
        how = f"the run is kept in {stop.checkpoint}; the same command continues it." if stop.checkpoint else ADVICE
        return f"{stop.when}; {how}", stop.exit_code
    number = signal.Signals(stop.number if isinstance(stop, Stopped) else signal.SIGINT)
    return "; ".join([WORDS[number], *getattr(stop, "__notes__", [])]) + ".", 128 + number


def exit_if_stopped(code: int) -> None:
    """End a stopped process without the interpreter's teardown, in which an interrupted JAX compilation can crash."""
    if _received:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
