"""What benchmarks share: a measured row with its bar, the machine it was measured on, and the table."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Row:
    """One measurement; passed is None when it could not be made here, for the reason in the note."""

    case: str
    measured: str
    bar: str
    passed: bool | None
    note: str = ""


def at_least(case: str, value: float, bar: float, note: str) -> Row:
    """A ratio that should reach a bar."""
    return Row(case, f"{value:.3g}x", f">= {bar:g}x", value >= bar, note)


def at_most(case: str, value: float, bar: float, unit: str, note: str) -> Row:
    """A cost that should stay below a bar."""
    return Row(case, f"{value:.3g}{unit}", f"<= {bar:g}{unit}", value <= bar, note)


def machine() -> str:
    """Processor, cores and versions, in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}"
    )


def as_table(rows: Sequence[Row]) -> Table:
    """The rows for a terminal."""
    marks = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: "[yellow]none[/yellow]"}
    table = Table("case", "measured", "bar", "", "note")
    for row in rows:
        table.add_row(row.case, row.measured, row.bar, marks[row.passed], row.note)
    return table


class Recorder(Console):
    """A console that also keeps the tables it prints."""

    def __init__(self, like: Console) -> None:
        super().__init__(width=like.width, file=like.file)
        self.tables: list[Table] = []

    def print(self, *objects: Any, **options: Any) -> None:
        self.tables += [each for each in objects if isinstance(each, Table)]
        super().print(*objects, **options)


def markdown(tables: Sequence[Table], command: str) -> str:
    """Printed tables as Markdown, each followed by the command that prints it and the machine."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(Text.from_markup(cell).plain.replace("|", "\\|") for cell in cells) + " |"

    parts = []
    for table in tables:
        rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
        heads = [str(column.header) for column in table.columns]
        text = "\n".join([line(heads), line(["---"] * len(heads)), *map(line, rows)])
        parts.append("\n\n".join([*([f"## {table.title}"] if table.title else []), text, f"`{command}`, {machine()}"]))
    return "\n\n".join(parts) + "\n"
