"""Ctrl-C and SIGTERM: a run ends between two steps and returns what it has learned."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gvfx.running.record import Part
    from gvfx.running.result import Result

NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
ADVICE = "with --checkpoint FOLDER the same command could continue it."
AT_ONCE = 0.25  # seconds: a second signal within them is the same one, sent to the process and to its group


class Interrupted(KeyboardInterrupt):
    """A run stopped by Ctrl-C or SIGTERM; `result` is what was learned so far (None before any step).

    `exit_code` is the conventional exit code of a program that ends because of it: 130 or 143.
    """

    result: Result | None = None
    parts: Sequence[Part] | None = None

    def __init__(self, signum: int, step: int, checkpoint: Path | None = None) -> None:
        """checkpoint: the folder of the run's checkpoints, if it has one."""
        when = f"{NAMES[signal.Signals(signum)]} at step {step:,}"
        kept = f"{when}; the run is kept in {checkpoint}; "
        lost = "what was learned so far is in the exception's `result`; with checkpoint='folder' a run can be continued."
        super().__init__(f"{kept}start it again with the same arguments to continue." if checkpoint else f"{when}; {lost}")
        self.in_a_terminal = f"{kept}the same command continues it." if checkpoint else f"{when}; {ADVICE}"
        self.signum, self.step, self.checkpoint, self.exit_code = signum, step, checkpoint, 128 + signum


class Interruption:
    """Records Ctrl-C and SIGTERM during runs (`with Interruption() as interruption`), so that they can end between steps.

    `interruption.signum` is set by the first signal; a second one raises KeyboardInterrupt immediately.  Handlers that the
    program has installed itself are left in place; outside the main thread nothing is installed.  Inside another one, in any
    thread, the `with` statement returns that other one.
    """

    def __init__(self, insist: bool = True) -> None:
        """insist: whether a second signal raises; otherwise it is ignored, too."""
        self.signum: int | None = None
        self.insisted = False  # whether there was a second signal
        self._insist, self._first = insist, 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        handlers = {signum: signal.getsignal(signum) for signum in DEFAULTS}
        for handler in handlers.values():
            if isinstance(under_way := getattr(handler, "__self__", None), Interruption):
                return under_way
        if threading.current_thread() is threading.main_thread():
            for signum, handler in handlers.items():
                if handler == DEFAULTS[signum] or getattr(handler, "yields_to_runs", False):
                    self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum, self._first = signum, time.monotonic()
        elif self._insist and time.monotonic() - self._first > AT_ONCE:
            self.insisted = True
            raise KeyboardInterrupt(signum)
