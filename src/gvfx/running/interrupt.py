"""Ctrl-C and SIGTERM: a run ends between two steps and keeps what it has learned."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """A run that was ended from outside by Ctrl-C or SIGTERM; `result` is what was learned so far (None before any step).

    `exit_code` is what a program that ends because of it should return: 130 or 143.
    """

    result: Any = None
    parts: Any = None

    def __init__(self, signum: int, step: int, advice: str) -> None:
        super().__init__(f"{NAMES[signal.Signals(signum)]} at step {step:,}; {advice}")
        self.signum, self.step, self.exit_code = signum, step, 128 + signum


class Interruption:
    """Takes note of Ctrl-C and SIGTERM while runs are going on (`with Interruption() as asked`), so that they can end in order.

    `asked.signum` is set by the first signal; a second one raises KeyboardInterrupt at once.  Handlers that the program
    has installed itself are left alone, and so are signals outside the main thread.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for signum, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                if signal.getsignal(signum) == default:
                    self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            raise KeyboardInterrupt
        self.signum = signum
