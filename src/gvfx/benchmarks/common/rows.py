"""What benchmarks share: a measured row with its bar, the machine it was measured on, and the table."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
from rich.table import Table


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
