"""Command for the benchmarks: bench."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from gvfx import benchmarks
from gvfx.cli import completion
from gvfx.cli.terminal import make_console
from gvfx.errors import UnknownName, require

EXTRAS = dict.fromkeys(("cartpole", "deep", "online"), ("jax", "deep")) | {"mujoco": ("mujoco", "mujoco")}  # what they need


def bench(
    which: Annotated[
        str,
        typer.Argument(
            help="cartpole, deep, limit, mujoco, online, own, random_mdps, start or tabular.",
            autocompletion=completion.benchmark_names,
        ),
    ] = "tabular",
    quick: Annotated[bool, typer.Option("--quick", help="Shorter measurements with noisier ratios.")] = False,
) -> None:
    """Measure speed and accuracy against their limits in one run; exit code 1 if one is missed."""
    names = benchmarks.names()
    if which not in names:
        raise UnknownName("bench", which, names)
    if which in EXTRAS:
        require(*EXTRAS[which])
    rows = importlib.import_module(f"gvfx.benchmarks.{which}").run(make_console(), quick=quick)
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)
