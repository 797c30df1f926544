"""What commands print and write: the console, tables and files.  Names are shown as text: no markup, no escape sequences."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from gvfx.errors import InputError
from gvfx.files import check_writable, write_whole
from gvfx.text import printable

NUMBERS = frozenset(
    {"GVFs", "steps", "MSE", "standard error", "steps/s", "learning rate", "value error, mean |V - V̂|", "value", "episodes"}
    | {"5% of runs by", "95% of runs by", "times the optimum", "truncation error, at most", "entries", "MB"}
)
STDOUT = Path("-")  # an output file that stands for stdout; everything else then goes to stderr
SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")  # of the terminal, in the environment
_made: list[Path] = []  # folders and files for output, the outermost first


class Terminal(Console):
    """A console that shows lines as they are."""

    def say(self, *lines: str) -> None:
        """Print lines."""
        for line in lines:
            self.print(printable(line), highlight=False, markup=False, emoji=False, soft_wrap=True)

    def say_titled(self, title: str, line: str) -> None:
        """Print a line that begins with a title in bold."""
        self.print(Text.assemble((printable(title), "bold"), printable(line)), highlight=False, soft_wrap=True)


class PlainTable(Table):
    """A table whose cells are shown as they are."""

    def add_row(
        self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:  # rich's signature
        plain = (Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*plain, style=style, end_section=end_section)


def prepare_streams() -> None:
    """Let nothing in the environment break the output: closed streams, an encoding without our characters, a senseless size."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # until the process ends
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    for name in SIZES:
        if not re.fullmatch(r"[1-9][0-9]{0,3}", os.environ.get(name, "80")):
            del os.environ[name]


def flush_streams() -> str | None:
    """Write what is left in the buffers; the reason if that fails, after which the rest of the output is dropped."""
    reason = None
    for handle, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:
            reason = error.strerror or str(error)
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
    return reason


def make_console(output: Path | None = None) -> Terminal:
    """The terminal; output to a file or a pipe is wide enough for every table.  output: the JSON file of the command."""
    aside = output == STDOUT
    seen = (sys.stderr if aside else sys.stdout).isatty()
    return Terminal(stderr=aside) if seen else Terminal(stderr=aside, width=160)


def make_table(*columns: str) -> Table:
    """An empty table; columns of numbers are aligned to the right."""
    table = PlainTable(box=SIMPLE_HEAD, header_style="bold")
    for k, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="right" if column in NUMBERS else "left", no_wrap=k == 0)
    return table


def check_name(path: Path, option: str) -> None:
    """Refuse a name that no file or folder can have, that is a link to itself, or that may not be looked at."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"{option}: {path!s:.80} cannot be used ({said}); give another name.") from None


def check_output(path: Path | None, option: str) -> None:
    """Make the folder of an output file, and refuse one that cannot be written, before any work is done."""
    if path is None or path == STDOUT:
        return
    check_name(path, option)
    with suppress(OSError):  # which `check_writable` names
        missing = [each for each in (*reversed(path.parents), path) if not each.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        _made.extend(missing)
    check_writable(path, option)


def remove_unused() -> None:
    """Remove the folders and files that were made for output and are still empty: of a command that was refused or failed."""
    while _made:
        path = _made.pop()
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            elif path.is_file() and not path.stat().st_size:
                path.unlink()


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file, whole or not at all, and say so; to stdout if the path is -."""
    text = json.dumps(data, indent=1)
    if path == STDOUT:
        print(text)
        return
    write_whole(path, text.encode())
    make_console().say(f"wrote {path}")


def finite(data: Any) -> Any:
    """Plain data with None in the place of numbers that JSON does not have: NaN and infinity."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
