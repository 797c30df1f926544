"""Ctrl-C and SIGTERM: both stop a command in the same way, and running work can be saved on the way out."""

from __future__ import annotations

import multiprocessing
import signal
from types import FrameType

WORDS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "terminated by SIGTERM"}


class Stopped(KeyboardInterrupt):
    """A signal stopped the command.  A KeyboardInterrupt, so code that saves its work on Ctrl-C does so on SIGTERM too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


_received: list[int] = []


def install_handlers() -> None:
    """Make SIGINT and SIGTERM raise `Stopped` in the main thread; a second signal ends the process at once."""
    for number in WORDS:
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in WORDS:
        signal.signal(each, signal.SIG_DFL)
    _received.append(number)
    for worker in multiprocessing.active_children():  # else the pool would wait for their runs to end
        worker.terminate()
    raise Stopped(number)


def raise_if_stopped() -> None:
    """For callbacks of worker threads, which signals do not reach: raise `Stopped` once one was received."""
    if _received:
        raise Stopped(_received[0])


def sentence_and_code(stop: KeyboardInterrupt) -> tuple[str, int]:
    """What to print about a stop (with the notes added to it) and the shell's exit code: 128 + the signal's number."""
    number = stop.signal if isinstance(stop, Stopped) else signal.SIGINT
    return "; ".join([WORDS[number], *getattr(stop, "__notes__", [])]) + ".", 128 + number
