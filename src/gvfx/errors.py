"""Errors: bad input, runs that fail on the way, and files that cannot be read or written; each is one clear sentence."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gvfx.running.result import Result
    from gvfx.running.schema import Part


# --- Text that a terminal may show ----------------------------------------------------------------------------------


LONG, HEAD, TAIL = 300, 200, 60  # letters of a word: from which it is shortened, and what is kept of it


def printable(text: object) -> str:
    """A text on one line; characters that a terminal obeys or that cannot be seen are written as \\x1b or \\u202e."""
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in plain)


def shortened(text: str) -> str:
    """A text in which words of more than `LONG` letters, such as senseless names of files, lack their middle."""
    return re.sub(rf"\S{{{LONG + 1},}}", lambda word: f"{word[0][:HEAD]}...{word[0][-TAIL:]}", text)


ANOTHER = "name another file or folder"
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), f"free some space, or {ANOTHER}"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), f"make it writable, or {ANOTHER}"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "close some files, or allow more of them (ulimit -n)"),
    errno.ENAMETOOLONG: "give a shorter name",
}


class GvfxError(Exception):
    """The root of all errors that gvfx raises on purpose; whatever names they tell, their text is safe to print."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(shortened(printable(each)) if isinstance(each, str) else each for each in arguments))


class InputError(GvfxError, ValueError):
    """Bad input: one sentence that names the field, what was given and what to do."""


class RunError(GvfxError, RuntimeError):
    """A run that could not go on; `result` is what was learned so far (None before the first step)."""

    result: Result | None = None
    parts: Sequence[Part] | None = None  # of the seeds that were running: what `result` is made of


class Diverged(RunError):
    """A run in which a number became infinite or NaN; `checkpoint` is the step of the last good checkpoint, None without one."""

    checkpoint: int | None = None

    def __init__(self, what: str, value: float, step: int, seed: int, gvf: str | None = None, when: str = "at") -> None:
        """when: "at", or "before" if the number is looked at from time to time only."""
        whose = "" if gvf is None else f" of {gvf!r}"
        where = f"{when} step {step:,} (seed {seed})"
        super().__init__(f"run: the {what}{whose} became {value} {where}; lower the learning rate or check the signal.")
        self.what, self.value, self.step, self.seed, self.gvf, self.when = what, value, step, seed, gvf, when

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.what, self.value, self.step, self.seed, self.gvf, self.when)
        return type(self), arguments, {"checkpoint": self.checkpoint}

    def __str__(self) -> str:
        kept = "" if self.checkpoint is None else f" The checkpoint of step {self.checkpoint:,} is kept."
        return f"{self.args[0]}{kept}"


class FunctionFailed(InputError, RunError):
    """A policy of the user's that raised an error, before a run or in the middle of it; names its question."""


class EnvironmentFailed(RunError):
    """An environment that raised, or returned something invalid, in the middle of a run."""

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


def error_text(error: BaseException) -> str:
    """The type of an error and what it says, in one line of moderate length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own __str__ fails
        text = ""
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def remedy(error: OSError) -> str:
    """What to do about an error of the system."""
    return REMEDIES.get(error.errno or 0, ANOTHER if error.filename else "run it again")


def unwritten(path: object, error: OSError) -> str:
    """The sentence about a file or folder that cannot be written, without its field."""
    return f"cannot write {path} ({error.strerror or error}); {REMEDIES.get(error.errno or 0, ANOTHER)}."


def install(extra: str) -> str:
    """The command that installs an extra of this package, from an index and in a checkout."""
    return f"pip install 'gvfx[{extra}]' (in a checkout: pip install -e '.[{extra}]')"


def require(module: str, extra: str) -> None:
    """Refuse to go on without a module that comes with an extra of this package."""
    if find_spec(module) is None:
        raise InputError(f"{module}: not installed; run {install(extra)}.")
