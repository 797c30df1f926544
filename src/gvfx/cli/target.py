"""What a command is asked about: an environment and questions, named by text.

`module:make` and `path/to/file.py:make` name a function that returns an environment and a list of questions, or an environment
alone; the questions are then `questions` of the same module.  A name registered with Gymnasium has its questions in a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF, expand
from gvfx.questions.written import called, named, questions_in, split_target
from gvfx.running.backends import is_world
from gvfx.worlds.spec import registered

NO_QUESTIONS = (
    "questions: there are none; return an environment and a list of questions, put a list `questions` beside the function, or "
    "give a file with --questions (gvfx init questions.toml writes one)."
)


@dataclass(frozen=True)
class Loaded:
    """An environment or world of gvfx, and the questions about it."""

    name: str  # as it was written
    make: Callable[[], Any]  # a new environment at every call
    questions: Sequence[GVF]

    def required(self) -> list[GVF]:
        """The questions; an InputError if there are none."""
        if not self.questions:
            raise InputError(NO_QUESTIONS)
        return list(self.questions)


def is_own(target: str) -> bool:
    """Whether a text may name an environment of one's own: a function, a file, or a name as Gymnasium writes it."""
    return bool(split_target(target)[1]) or ":" in target or re.search(r"-v\d+$", target) is not None


def load(target: str, questions: str | Path | None = None, trust: bool = False) -> Loaded:
    """An environment and its questions; those of a file, if given, which may name functions and saved models with `trust`."""
    read = None if questions is None else questions_in(questions, trust)
    if not split_target(target)[1]:
        return Loaded(target, _begun_with(registered(target, "target"), lambda: registered(target)), read or [])
    make, module = named(target)
    if not callable(make):
        raise InputError(f"target: {target} is {type(make).__name__}; name a function that returns an environment.")
    made = called(make, target)
    alone = is_world(made)
    if not alone and not (isinstance(made, tuple | list) and len(made) == 2 and is_world(made[0])):
        what = f"{len(made)} values" if isinstance(made, tuple | list) else type(made).__name__
        raise InputError(f"target: {target} returned {what}; return an environment, or an environment and a list of questions.")
    if read is None:
        given = getattr(module, "questions", []) if alone else made[1]
        read = expand(called(given, f"the function `questions` beside {target}") if callable(given) else given)
    return Loaded(target, _begun_with(made, make) if alone else _begun_with(made[0], lambda: make()[0]), read)


def _begun_with(first: Any, make: Callable[[], Any]) -> Callable[[], Any]:
    """A function that returns what was made already, and after that makes others."""
    kept = [first]
    return lambda: kept.pop() if kept else make()
