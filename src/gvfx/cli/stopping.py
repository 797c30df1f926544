"""Ctrl-C and SIGTERM: both stop a command in the same way, and running work can be saved on the way out."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
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


_heard: list[int] = []  # all signals, in the order in which they came
_received: list[int] = []  # those that raised
_told: list[bool] = []  # whether a sentence was asked for
_patient: list[bool] = []
_notes: list[str] = []  # what to add to the sentence about a stop


def install_handlers() -> None:
    """Make SIGINT and SIGTERM raise `Stopped` in the main thread; a second signal ends the process at once.

    A thread ends the process if the main thread, which may be compiling, has not done so in `LONGEST` seconds.
    """
    for number in WORDS:
        signal.signal(number, _stop)
    read, write = os.pipe()
    if hasattr(os, "set_blocking"):  # not on every Windows
        os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # signals to a copy are its own
    threading.Thread(target=_listen, args=(read,), daemon=True).start()


@contextmanager
def noted(text: str) -> Iterator[None]:
    """Add this to the sentence about a stop inside the block."""
    _notes.append(text)
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(text)
        raise
    finally:
        _notes.remove(text)


def be_patient() -> None:
    """Wait for as long as it takes for a step of the user's environment to end, so that what was learned can be kept."""
    _patient.append(True)


def _listen(pipe: int) -> None:
    """Pass signals on as they arrive, also those that the main thread has no time for; the first one starts the watch."""
    heard: SimpleQueue[int] = SimpleQueue()
    while True:
        number = os.read(pipe, 1)[0]
        if number in (*WORDS,):
            if not _heard:
                threading.Thread(target=_watch, args=(number, heard), daemon=True).start()
            else:
                heard.put(number)
            _heard.append(number)


def _watch(number: int, heard: SimpleQueue[int]) -> None:
    """End the process `LONGEST` seconds after the first signal, or soon after a second one."""
    time.sleep(AT_ONCE)
    while not heard.empty():
        heard.get()
    again = None
    try:
        again = heard.get(timeout=LONGEST - AT_ONCE)
    except Empty:
        if _patient:
            print(STILL, file=sys.stderr, flush=True)
            again = heard.get()
    if again is not None:
        time.sleep(AT_ONCE)  # for the main thread, which heard it too
    _end_now(again or number)


def _end_now(number: int) -> None:
    for worker in multiprocessing.active_children():
        worker.kill()
    print(f"gvfx: {'; '.join([WORDS[signal.Signals(number)], *_notes])}.", file=sys.stderr, flush=True)
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
    _told.append(True)
    if hasattr(stop, "in_a_terminal"):  # gvfx.Interrupted: runs that ended in order
        return stop.in_a_terminal, stop.exit_code
    number = signal.Signals(next((n for n in stop.args if n in (*WORDS,)), signal.SIGINT))
    return "; ".join([WORDS[number], *getattr(stop, "__notes__", [])]) + ".", 128 + number


def exit_if_stopped(code: int) -> None:
    """End a stopped process without the interpreter's teardown, in which an interrupted JAX compilation can crash."""
    if _received:
        if not _told:  # it came before or after the command itself
            sentence, code = sentence_and_code(Stopped(_received[0]))
            print(f"gvfx: {sentence}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
