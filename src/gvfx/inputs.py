"""Numbers, paths and functions that users give, checked: each mistake is one sentence that names the field."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError


def whole(value: Any, field: str, least: int | None = None) -> int:
    """A count that may be given as a whole float, such as 1e5; at least `least`."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (is_number and (isinstance(value, int) or math.isfinite(value)) and value == int(value)):
        raise InputError(f"{field}: {value!r:.40} is not a whole number; give one, such as 100_000.")
    if least is not None and value < least:
        raise InputError(f"{field}: {int(value)} is too few; give at least {least}.")
    return int(value)


def is_real(value: Any) -> bool:
    """Whether this is one finite number, and not True or False."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and math.isfinite(value)
    except OverflowError:  # an int above all floats
        return False


def check_level(level: Any) -> None:
    """Refuse a level of intervals that is not a probability."""
    if not (is_real(level) and 0 < level < 1):
        raise InputError(f"level: {level!r:.40} lies outside (0, 1); give a number such as 0.95.")


def check_fields(part: Any, what: str) -> None:
    """Refuse a behaviour or learner of gvfx if a field does not have its declared type (number, bool or schedule).

    what: "behaviour" or "learner"; those that it wraps are checked as well.
    """
    if not is_dataclass(part) or not type(part).__module__.startswith("gvfx."):
        return
    for field in fields(part):
        value, kinds = getattr(part, field.name), str(field.type).split(" | ")
        if "Behaviour" in kinds:
            if not hasattr(value, "supports") or isinstance(value, type):
                raise InputError(f"{what}: {value!r:.40} is not a behaviour; give one, such as gvfx.Uniform().")
            check_fields(value, what)
        elif (value is None and "None" in kinds) or not {"float", "int", "bool", "Schedule"} >= {*kinds} - {"None"}:
            continue
        elif not any(FITS[kind](value) for kind in kinds if kind in FITS):
            wanted = " or ".join(WORDS[kind] for kind in kinds if kind in WORDS)
            raise InputError(f"{what}: {type(part).__name__}({field.name}={value!r:.40}) does not fit; give {wanted}.")


FITS: dict[str, Callable[[Any], bool]] = {
    "float": lambda value: isinstance(value, Real) and not isinstance(value, bool),
    "int": lambda value: isinstance(value, Real) and not isinstance(value, bool) and not float(value) % 1 > 0,
    "bool": lambda value: isinstance(value, bool | np.bool_),
    "Schedule": lambda value: hasattr(value, "state") and not isinstance(value, type),
}
WORDS = {"float": "a number", "int": "a whole number", "bool": "True or False", "Schedule": "a schedule such as gvfx.Fixed(0.1)"}


def as_path(value: Any, field: str) -> Path:
    """The path that a text or path names."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise InputError(f"{field}: {value!r:.40} is not a path; give a text such as 'answers.gvfx'.")
    return Path(value)


def listed(values: Any, field: str, what: str) -> list[Any]:
    """The entries of a list; an InputError if it cannot be gone through."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise InputError(f"{field}: {values!r:.40} is not a list; give a list of {what}.")
    return list(values)


def check_takes(function: Callable[..., Any], field: str, *arguments: object) -> None:
    """Refuse a function that cannot be called with these arguments; one without a signature is accepted."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise InputError(f"{field}: the function does not take {len(arguments)} arguments; give one that does.") from None
