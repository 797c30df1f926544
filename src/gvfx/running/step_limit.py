"""A limit on the seconds that one reset or step of an environment may take (`evaluate(..., step_limit=)`).

On the main thread of Linux and macOS a timer interrupts the step, unless it hangs in compiled code that never returns to Python.
Where it cannot be interrupted, a warning says which call does not return.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

from gvfx.errors import InputError, TookTooLong
from gvfx.inputs import is_real

Called = TypeVar("Called", bound=Callable[..., Any])
LONGEST = 1e6  # seconds


class StepLimit:
    """`with StepLimit(seconds):` every function made by `limited` in the block is interrupted after that time; None: never."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (is_real(seconds) and 0 < seconds <= LONGEST):
            raise InputError(f"step_limit: {seconds!r:.40} is not a time; give the seconds of one step, above 0.")
        self.seconds = seconds
        self.begun = 0.0  # when the call under way began; 0: none is
        self.interrupts = False
        self.over = threading.Event()

    def __enter__(self) -> StepLimit:
        self._token = _LIMIT.set(None if self.seconds is None else self)
        if self.seconds is not None:
            main = threading.current_thread() is threading.main_thread()
            self.interrupts = main and hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
            if self.interrupts:
                signal.signal(signal.SIGALRM, self._interrupt)
            threading.Thread(target=self._watch, args=(self.seconds,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        _LIMIT.reset(self._token)
        if self.interrupts:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def around(self, function: Called) -> Called:
        """The function with the limit."""
        seconds = self.seconds or 0.0

        def call(*arguments: Any, **options: Any) -> Any:
            self.begun = time.monotonic()
            if self.interrupts:
                signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
            try:
                return function(*arguments, **options)
            finally:
                if self.interrupts:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                self.begun = 0.0

        return call  # type: ignore[return-value]

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        if self.begun:
            raise TookTooLong(f"took more than {self.seconds:g} s, the step_limit")

    def _watch(self, seconds: float) -> None:
        """Warn once about a call that does not return, nor can be interrupted."""
        patience = 2 * seconds if self.interrupts else seconds
        while not self.over.wait(seconds / 4):
            begun = self.begun
            if begun and time.monotonic() - begun > patience:
                warnings.warn(
                    f"step_limit: the environment has not returned for {time.monotonic() - begun:.3g} s and cannot be "
                    "interrupted; end the process, and start it again with the same checkpoint= to continue.",
                    stacklevel=1,
                )
                return


_LIMIT: ContextVar[StepLimit | None] = ContextVar("step limit", default=None)


def limited(function: Called) -> Called:
    """A reset or step with the limit of this run; the function itself if there is none."""
    limit = _LIMIT.get()
    return function if limit is None else limit.around(function)
