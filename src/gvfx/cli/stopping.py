"""Ctrl-C and SIGTERM: both stop a command in the same way, and running work can be saved on the way out."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

WORDS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "terminated by SIGTERM"}
LONGEST = 4.5  # seconds that a command may take to stop
AT_ONCE = 0.25  # seconds: a second signal within them is the same one, sent to the process and to its group
STILL = "gvfx: the environment has not finished its step yet; another Ctrl-C ends at once, and what was learned is lost."


class Stopped(KeyboardInterrupt):
    """A signal stopped the command.  A KeyboardInterrupt, so code that saves its work on Ctrl-C does so on SIGTERM too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_received: list[int] = []
_patient: list[bool] = []


def install_handlers() -> None:
    """Make SIGINT and SIGTERM raise `Stopped` in the main thread; a second signal ends the process at once.

    A thread ends the process if the main thread, which may be compiling, has not done so in `LONGEST` seconds.
    """
    for number in WORDS:
        signal.signal(number, _stop)
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(heard, told), daemon=True).start()


def be_patient() -> None:
    """Wait for as long as it takes for a step of the user's environment to end, so that what was learned can be kept."""
    _patient.append(True)


def _watch(heard: socket.socket, told: socket.socket) -> None:
    """End the process `LONGEST` seconds after the first signal, or soon after a second one.  told: is kept open."""
    number = _next_signal(heard, None)
    time.sleep(AT_ONCE)
    while (more := _next_signal(heard, 0.0)) is not None:
        number = more
    again = _next_signal(heard, LONGEST - AT_ONCE)
    if again is None and _patient:
        print(STILL, file=sys.stderr, flush=True)
        again = _next_signal(heard, None)
    if again is not None:
        time.sleep(AT_ONCE)  # for the main thread, which heard it too
    _end_now(again or number or signal.SIGINT)


def _next_signal(heard: socket.socket, seconds: float | None) -> int | None:
    """The next of our signals, or None if there is none within the time."""
    heard.settimeout(seconds)
    try:
        while (number := heard.recv(1)[0]) not in (*WORDS,):
            pass
    except (TimeoutError, BlockingIOError):
        return None
    return number


def _end_now(number: int) -> None:
    for worker in multiprocessing.active_children():
        worker.kill()
    print(f"gvfx: {WORDS[signal.Signals(number)]}; finished work is kept.", file=sys.stderr, flush=True)
    os._exit(128 + number)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in WORDS:
        signal.signal(each, signal.SIG_DFL)
    _received.append(number)
    for worker in multiprocessing.active_children():
        worker.terminate()
    raise Stopped(number)


_stop.yields_to_runs = True  # type: ignore[attr-defined]  # `gvfx.running.interrupt` may take its place during a run


def raise_if_stopped() -> None:
    """For callbacks in worker threads, where signals raise nothing: raise `Stopped` if one was received."""
    if _received:
        raise Stopped(_received[0])


def sentence_and_code(stop: Any) -> tuple[str, int]:
    """What to print about a stop, with the notes added to it, and the exit code: 128 + the signal's number."""
    if hasattr(stop, "in_a_terminal"):  # gvfx.Interrupted: runs that ended in order
        return stop.in_a_terminal, stop.exit_code
    number = signal.Signals(next((n for n in stop.args if n in (*WORDS,)), signal.SIGINT))
    return "; ".join([WORDS[number], *getattr(stop, "__notes__", [])]) + ".", 128 + number


def exit_if_stopped(code: int) -> None:
    """End a stopped process without the interpreter's teardown, in which an interrupted JAX compilation can crash."""
    if _received:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
