"""Checks of what is given to options and arguments, made before a command begins: each mistake is one sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from gvfx.cli.terminal import check_name, check_output
from gvfx.errors import InputError

MOST = 10**15  # steps or episodes
MOST_SEEDS = 1_000_000
LARGEST_SEED = 2**63 - 1
Check = Callable[[Any, str], object]  # of a value and the name of its option
Callback = Callable[[typer.Context, typer.CallbackParam, Any], Any]


class Command(TyperCommand):
    """A command that refuses empty text, for which no option and no argument has a use."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))  # text by parameter, before it is converted
        for param in self.params:
            texts = given.get(str(param.name))
            for text in texts if isinstance(texts, list | tuple) else [texts]:
                if isinstance(text, str) and not text.strip() and not ctx.resilient_parsing:
                    raise InputError(f"{param.opts[0]}: the text is empty; give a value, or leave it out.")
        return super().parse_args(ctx, args)


def checked(check: Check) -> Callback:
    """The callback of an option or argument: calls the check with every value that is given."""

    def callback(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        if not ctx.resilient_parsing:  # not for the shell's completion
            for each in value if isinstance(value, list | tuple) else [value]:
                if each is not None:
                    check(each, param.opts[0])
        return value

    return callback


def count_given(text: str | int, option: str, least: int = 1, most: int = MOST) -> int:
    """A count on the command line; 1e6 is accepted too."""
    try:
        number = float(text)
        value = int(text) if math.isfinite(number) and str(text).strip().lstrip("+-").isdecimal() else int(number)
        whole = number == int(number)
    except OverflowError:  # infinite, or above all floats
        value, whole = most + 1, True
    except ValueError:
        whole = False
    if not whole:
        raise InputError(f"{option}: {text!r:.40} is not a whole number; give one, such as 20000 or 1e6.")
    if value < least:
        raise InputError(f"{option}: {text!s:.40} is too few; give at least {least:,}.")
    if value > most:
        raise InputError(f"{option}: {text!s:.40} is too many; give at most {most:,}.")
    return value


def count(least: int = 1, most: int = MOST) -> Callback:
    """A whole number from `least` to `most`."""
    return checked(lambda value, option: count_given(value, option, least, most))


def number(at_most: float = math.inf) -> Callback:
    """A finite number above 0."""

    def check(value: float, option: str) -> None:
        if not (math.isfinite(value) and 0 < value <= at_most):
            end = f" and at most {at_most:g}" if at_most < math.inf else ""
            raise InputError(f"{option}: {value:g} does not fit; give a number above 0{end}.")

    return checked(check)


def _share(value: float, option: str) -> None:
    if not 0 <= value < 1:
        raise InputError(f"{option}: {value:g} is not a share of the steps; give a number of at least 0 and below 1.")


def folder_given(path: Path, option: str) -> None:
    """Refuse a path that is something else than a folder, or lies below something else."""
    check_name(path, option)
    found = next((each for each in (path, *path.parents) if each.exists()), path)
    if found.exists() and not found.is_dir():
        raise InputError(f"{option}: {found!s:.200} is not a folder; name one.")


def _input_file(path: Path, option: str) -> None:
    check_name(path, option)
    if path.exists() and not path.is_file():
        raise InputError(f"{option}: {path!s:.200} is a device, a pipe or a folder; name a file.")


def _output_folder(path: Path, option: str) -> None:
    folder_given(path, option)
    try:
        check_output(path / ".gvfx", option)
    except InputError:
        raise InputError(f"{option}: cannot write to the folder {path!s:.200}; name another.") from None


share = checked(_share)
seed = checked(lambda value, option: count_given(value, option, 0, LARGEST_SEED))
path, input_file, output_file = map(checked, (check_name, _input_file, check_output))
folder, output_folder = map(checked, (folder_given, _output_folder))
