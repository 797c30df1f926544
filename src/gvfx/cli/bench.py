"""Command for the benchmarks: bench."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from gvfx import benchmarks
from gvfx.cli import checks, completion
from gvfx.cli.terminal import make_console
from gvfx.errors import UnknownName, require
from gvfx.files import write_whole

EXTRAS = dict.fromkeys(
    ("alternatives", "audits", "box_actions", "cartpole", "continuous", "deep", "environments", "online"), ("jax", "deep")
) | {"mujoco": ("mujoco", "mujoco")}  # what they need


def bench(
    which: Annotated[
        str,
        typer.Argument(
            help="alternatives, audit_logs, audits, box_actions, cartpole, compare, continuous, deep, environments, hard, limit, "
            "load, mrnas, mujoco, online, own, random_mdps, ros, start, tabular, unseen or where.",
            autocompletion=completion.benchmark_names,
        ),
    ] = "tabular",
    quick: Annotated[bool, typer.Option("--quick", help="Shorter measurements with noisier ratios.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also write the tables to this file, as Markdown.", callback=checks.output_file),
    ] = None,
) -> None:
    """Measure speed and accuracy against their limits in one run; exit code 1 if one is missed."""
    names = benchmarks.names()
    if which not in names:
        raise UnknownName("bench", which, names)
    if which in EXTRAS:
        require(*EXTRAS[which])
    from gvfx.benchmarks.common.rows import Recorder, markdown

    console = Recorder(make_console())
    rows = importlib.import_module(f"gvfx.benchmarks.{which}").run(console, quick=quick)
    if out is not None:
        write_whole(out, markdown(console.tables, f"gvfx bench {which}" + " --quick" * quick).encode())
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)
