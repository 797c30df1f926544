"""Errors: bad input, runs that fail on the way, and files that cannot be read or written; each is one clear sentence."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gvfx.text import printable

if TYPE_CHECKING:
    from gvfx.running.record import Part
    from gvfx.running.result import Result


class GvfxError(Exception):
    """The root of all errors that gvfx raises on purpose; whatever names they tell, their text is safe to print."""

    def __init__(self, *said: object) -> None:
        super().__init__(*(printable(each) if isinstance(each, str) else each for each in said))


class InputError(GvfxError, ValueError):
    """Bad input: one sentence that names the field, what was given and what to do."""


class RunError(GvfxError, RuntimeError):
    """A run that could not go on; `result` is what was learned so far (None before the first step)."""

    result: Result | None = None
    parts: Sequence[Part] | None = None  # of the seeds that were running: what `result` is made of


class Diverged(RunError):
    """A run in which a number became infinite or NaN: which one, its value, the step, the seed and the GVF (if it is one's).

    `checkpoint` is the step of the last good checkpoint, which is kept; None without one.
    """

    checkpoint: int | None = None

    def __init__(self, what: str, value: float, step: int, seed: int, gvf: str | None = None, when: str = "at") -> None:
        """when: "at", or "before" if the number is looked at from time to time only."""
        whose = "" if gvf is None else f" of {gvf!r}"
        where = f"{when} step {step:,} (seed {seed})"
        super().__init__(f"run: the {what}{whose} became {value} {where}; lower the learning rate or check the signal.")
        self.what, self.value, self.step, self.seed, self.gvf, self.when = what, value, step, seed, gvf, when

    def __reduce__(self) -> tuple[Any, ...]:
        said = (self.what, self.value, self.step, self.seed, self.gvf, self.when)
        return type(self), said, {"checkpoint": self.checkpoint}

    def __str__(self) -> str:
        kept = "" if self.checkpoint is None else f" The checkpoint of step {self.checkpoint:,} is kept."
        return f"{self.args[0]}{kept}"


class FunctionFailed(InputError, RunError):
    """A policy of the user's that raised an error, before a run or in the middle of it; names its question."""


class EnvironmentFailed(RunError):
    """An environment that raised, or returned something invalid, in the middle of a run.

    Names the environment, the episode and the step.
    """

    def __init__(self, environment: str, episode: int, step: int, what: str) -> None:
        super().__init__(f"{environment}: episode {episode}, step {step}: {what}")
        self.environment, self.episode, self.step = environment, episode, step


class TookTooLong(BaseException):
    """Raised inside a reset or step after `step_limit`; no `except Exception` of the environment's stops it."""


class StoreError(GvfxError):
    """A file or folder that cannot be written, or whose contents are damaged or belong to something else."""


class Unsaved(StoreError):
    """A finished run whose result could not be saved; `result` has it."""

    def __init__(self, sentence: str, result: Result) -> None:
        super().__init__(sentence)
        self.result = result


class UnknownName(InputError, KeyError):
    """A name that is not in a list of choices; the sentence offers the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show its repr

    def __init__(self, kind: str, name: str, choices: list[str] | tuple[str, ...]) -> None:
        near = difflib.get_close_matches(name, choices, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(repr(c) for c in near)}?" if near else f"choose from {', '.join(choices)}."
        super().__init__(f"{kind}: {name!r:.80} is unknown; {hint}")


def said_by(error: BaseException) -> str:
    """The type of an error and what it says, in one line of moderate length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own __str__ fails
        text = ""
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def install(extra: str) -> str:
    """The command that installs an extra of this package, from an index and in a checkout."""
    return f"pip install 'gvfx[{extra}]' (in a checkout: pip install -e '.[{extra}]')"


def require(module: str, extra: str) -> None:
    """Refuse to go on without a module that comes with an extra of this package."""
    if find_spec(module) is None:
        raise InputError(f"{module}: not installed; run {install(extra)}.")
