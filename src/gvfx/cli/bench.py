"""Command for the benchmarks of the source checkout: bench."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli.terminal import make_console
from gvfx.errors import InputError, UnknownName

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
SHARED = ("__init__", "c_loop", "reference", "rows", "timing")  # modules that are not benchmarks themselves


def bench(
    which: Annotated[str, typer.Argument(help="cartpole, deep, limit, mujoco, online, own, random_mdps or tabular.")] = "tabular",
    quick: Annotated[bool, typer.Option("--quick", help="Shorter measurements with noisier ratios.")] = False,
) -> None:
    """Measure speed and accuracy against their limits in one run; exit code 1 if one is missed (needs the source checkout)."""
    if not FOLDER.is_dir():
        raise InputError("bench: the benchmarks are not installed; clone the repository and run this command there.")
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED)
    if which not in names:
        raise UnknownName("bench", which, names)
    sys.path.insert(0, str(FOLDER.parent))
    rows = importlib.import_module(f"benchmarks.{which}").run(make_console(), quick=quick)
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)
