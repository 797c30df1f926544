"""Numbers, paths and functions that users give, checked: each mistake is one sentence that names the field."""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gvfx.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

LARGEST = 2**63  # what a count may not reach
LARGE = 1e50  # the largest size of a signal; intervals need fourth powers of its sums
LARGE_IN_SINGLE = 1e15  # likewise of networks, which compute squares in single precision


def whole(value: Any, field: str, least: int | None = None, most: int | None = None) -> int:
    """A count that may be given as a whole float, such as 1e5; at least `least` and at most `most`."""
    if not _is_whole(value):
        raise InputError(f"{field}: {shown(value)} is not a whole number; give one, such as 100_000.")
    if least is not None and value < least:
        raise InputError(f"{field}: {int(value)} is too few; give at least {least}.")
    if value >= LARGEST or (most is not None and value > most):
        raise InputError(f"{field}: {shown(int(value))} is too large; give at most {f'{most:,}' if most else '2**63 - 1'}.")
    return int(value)


def _is_whole(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_number and (isinstance(value, int) or math.isfinite(value)) and value == int(value)


def shown(value: Any) -> str:
    """A value in one short line."""
    return " ".join(f"{value!r:.80}".split())[:40]


def is_finite(value: Any) -> bool:
    """Whether this is one finite number that fits into a float."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def is_real(value: Any) -> bool:
    """Whether this is one finite number, and not True or False."""
    return is_finite(value) and not isinstance(value, bool | np.bool_)


def check_signal(values: Any, field: str) -> None:
    """Refuse finite numbers of a signal that are too large to be computed with."""
    size = np.max(np.abs(values), initial=0.0)
    if size > LARGE:
        raise InputError(f"{field}: {size:g} is too large; divide the signal, so that it stays below {LARGE:g}.")


def check_level(level: Any, field: str = "level") -> None:
    """Refuse a level of intervals that is not a probability."""
    if not (is_real(level) and 0 < level < 1):
        raise InputError(f"{field}: {shown(level)} lies outside (0, 1); give a number such as 0.95.")


def check_allowed(part: Any) -> None:
    """Refuse numbers among a part's fields outside what is `allowed`, intervals such as "[0, 1)" by the names of fields."""
    for names, interval in part.allowed.items():
        low, high = map(float, interval[1:-1].split(","))
        for name in names.split():
            value = getattr(part, name)
            if not isinstance(value, int | float | np.number):
                continue
            above = value >= low if interval[0] == "[" else value > low
            if not (above and (value <= high if interval[-1] == "]" else value < high)):
                raise InputError(f"{name}: {value!r} lies outside {interval}; give a number within it.")


# --- values by their declared types --------------------------------------------------------------------------------


def check_fields(part: Any, what: str) -> None:
    """Refuse a part of gvfx's own (what: "behaviour", for example) if a field does not have its declared type (`unfit`)."""
    if not is_dataclass(part) or not type(part).__module__.startswith("gvfx."):
        return
    for field in fields(part):
        value = getattr(part, field.name)
        if str(field.type).startswith("Behaviour"):
            if not hasattr(value, "supports") or isinstance(value, type):
                whose = f"{type(part).__name__}({field.name}={shown(value)})"
                raise InputError(f"{what}: {whose} is not a behaviour; give one, such as gvfx.Uniform().")
            check_fields(value, what)
        elif wanted := unfit(value, str(field.type)):
            raise InputError(f"{what}: {type(part).__name__}({field.name}={shown(value)}) does not fit; give {wanted}.")


def checked(function: Function) -> Function:
    """The function, whose arguments must have their declared types (`unfit`)."""
    signature = inspect.signature(function)
    declared = {name: str(parameter.annotation) for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        for name, value in signature.bind(*arguments, **options).arguments.items():
            if wanted := unfit(value, declared[name]):
                raise InputError(f"{name}: {shown(value)} does not fit; give {wanted}.")
        return function(*arguments, **options)

    return call  # type: ignore[return-value]


def unfit(value: Any, declared: str) -> str:
    """What to give instead of a value that does not fit a declared type such as "float | None"; empty if it fits."""
    tests = _tests(declared)
    if any(test is None or test[0](value) for test in tests):
        return ""
    return " or ".join(dict.fromkeys(test[1] for test in tests if test is not None and test[1]))


@functools.cache
def _tests(declared: str) -> list[tuple[Callable[[Any], bool], str] | None]:
    return [_test(part.strip()) for part in re.split(r"\|(?![^\[]*\])", declared)]


def _test(kind: str) -> tuple[Callable[[Any], bool], str] | None:
    """Whether a value is of a kind, and the kind in words; None: unknown."""
    if kind.startswith("Literal["):
        choices = re.findall(r"['\"]([^'\"]*)['\"]", kind)
        return lambda value: isinstance(value, str) and value in choices, " or ".join(map(repr, choices))
    if kind in ("MDP", "GVF", "Store", "Experiment", "Generator"):
        return lambda value: any(base.__name__ == kind for base in type(value).__mro__), f"a gvfx.{kind}"
    return FITS.get(kind.partition("[")[0] if kind not in FITS else kind)


def _is_numbers(value: Any) -> bool:
    """Whether this is an array, or lists of equal length, of numbers that are not NaN."""
    try:
        array = np.asarray(value)
    except Exception:  # rows of different lengths, and objects that refuse
        return False
    return array.dtype.kind in "iub" or (array.dtype.kind == "f" and not np.isnan(array).any())


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and (is_finite(value) or value in (math.inf, -math.inf))


FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, ""),
    "float": (_is_number, "a number"),
    "int": (lambda value: _is_whole(value) and abs(value) < LARGEST, "a whole number"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "Schedule": (lambda value: hasattr(value, "state") and not isinstance(value, type), "a schedule such as gvfx.Fixed(0.1)"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "Path": (lambda value: isinstance(value, os.PathLike), "a path"),
    "tuple[int, ...]": (
        lambda value: isinstance(value, list | tuple) and all(_is_whole(n) and 0 < n < LARGEST for n in value),
        "whole numbers above 0, such as (64, 64)",
    ),
    "Mapping": (lambda value: isinstance(value, Mapping), "a dict"),
    "Sequence[str]": (
        lambda value: isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value),
        "a list of texts",
    ),
    "tuple[str, ...]": (lambda value: isinstance(value, tuple) and all(isinstance(v, str) for v in value), "a tuple of texts"),
    "np.ndarray": (_is_numbers, "an array of numbers"),
    "Function": (callable, "a function"),
    "Callable": (callable, "a function"),
}


def as_array(value: Any, field: str, dtype: type) -> np.ndarray:
    """Numbers (whole ones for int, True, False, 0 or 1 for bool) as a contiguous array of this type."""
    what = {int: "whole numbers", np.int32: "whole numbers", bool: "True and False"}.get(dtype, "numbers")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub" and array.size:
            raise TypeError
        with np.errstate(invalid="ignore", over="ignore"):
            out: np.ndarray = np.ascontiguousarray(array, dtype=dtype)
    except Exception:
        raise InputError(f"{field}: {shown(value)} does not hold {what}; give an array of them.") from None
    if dtype is not float and array.dtype != dtype and not (out == array).all():
        raise InputError(f"{field}: {shown(value)} holds more than {what}; give an array of them alone.")
    return out


def as_path(value: Any, field: str) -> Path:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise InputError(f"{field}: {shown(value)} is not a path; give a text such as 'answers.gvfx'.")
    return Path(value)


def listed(values: Any, field: str, what: str) -> list[Any]:
    """The entries of a list; an InputError if it cannot be gone through."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping) or getattr(values, "shape", None) == ():
        raise InputError(f"{field}: {shown(values)} is not a list; give a list of {what}.")
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
