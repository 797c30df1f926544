"""What commands print and write: the console, tables and files."""

from __future__ import annotations

import json
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gvfx.files import check_writable, write_whole

NUMBERS = frozenset(
    {"GVFs", "steps", "MSE", "standard error", "steps/s", "learning rate", "value error, mean |V - V̂|", "value", "episodes"}
    | {"5% of runs by", "95% of runs by", "times the optimum", "truncation error, at most", "entries", "MB"}
)


STDOUT = Path("-")  # an output file that stands for stdout; everything else then goes to stderr


def make_console(output: Path | None = None) -> Console:
    """The terminal; output to a file or a pipe is wide enough for every table.  output: the JSON file of the command."""
    aside = output == STDOUT
    seen = (sys.stderr if aside else sys.stdout).isatty()
    return Console(stderr=aside) if seen else Console(stderr=aside, width=160)


def make_table(*columns: str) -> Table:
    """An empty table; columns of numbers are aligned to the right."""
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if column in NUMBERS else "left", no_wrap=k == 0)
    return table


def check_output(path: Path | None, option: str) -> None:
    """Make the folder of an output file, and refuse one that cannot be written, before any work is done."""
    if path is None or path == STDOUT:
        return
    with suppress(OSError):  # which `check_writable` names
        path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path, option)


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file, whole or not at all, and say so; to stdout if the path is -."""
    text = json.dumps(data, indent=1)
    if path == STDOUT:
        print(text)
        return
    write_whole(path, text.encode())
    print(f"wrote {path}")


def finite(data: Any) -> Any:
    """Plain data with None in the place of numbers that JSON does not have: NaN and infinity."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
