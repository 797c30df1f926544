"""The command line of the benchmarks: python -m benchmarks NAME, in a checkout."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

import benchmarks
from benchmarks.study import Part, Recorder, markdown, run
from gvfx.cli.options import Kind, path
from gvfx.cli.terminal import check_output, make_console
from gvfx.errors import GvfxError, InputError, UnknownName, require
from gvfx.files import write_whole

NETWORKS = ("alternatives", "continuous", "coverage", "environments", "speed")  # they need the extra [deep]

OUTPUT = Kind(path(check_output))

app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})

HELP = f"""Measure speed and accuracy against their bars; exit code 1 if one is missed.

WHICH: {", ".join(benchmarks.names())}."""


@app.command(help=HELP)
def bench(
    which: Annotated[str, typer.Argument(help="The name of a benchmark.")] = "tabular",
    parts: Annotated[list[str] | None, typer.Argument(help="Parts of it; all without one.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter measurements with noisier ratios.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the tables to this file, as Markdown.", callback=OUTPUT.callback)
    ] = None,
) -> None:
    chosen = chosen_parts(which, parts or [])
    console = Recorder(make_console())
    rows = run(console, which, chosen, quick)
    if out is not None:
        command = " ".join(["python -m benchmarks", which, *(parts or []), *["--quick"] * quick])
        write_whole(out, markdown(console.tables, command).encode())
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)


def chosen_parts(which: str, parts: list[str]) -> dict[str, Part]:
    """The parts of a benchmark that were asked for, all if none was named."""
    if which in benchmarks.MOVED:
        raise InputError(f"{which}: now measured by `python -m benchmarks {benchmarks.MOVED[which]}`.")
    if which not in benchmarks.names():
        raise UnknownName("benchmarks", which, benchmarks.names())
    if which in NETWORKS:
        require("jax", "deep")
    known: dict[str, Part] = importlib.import_module(f"benchmarks.{which}").PARTS
    for part in parts:
        if part not in known:
            raise UnknownName(f"parts of {which}", part, list(known))
    return {part: known[part] for part in parts or known}


if __name__ == "__main__":
    try:
        app()
    except GvfxError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
