"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gvfx.cli import completion
from gvfx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gvfx.evidence.decisions import Decided
    from gvfx.evidence.uncertainty import ErrorBelow
    from gvfx.running.tracking import Tracked

Setting = Annotated[
    str,
    typer.Argument(
        help="A setting of `gvfx list`: same, distinct, semi-greedy, fourrooms, forty, continuous, walker, cheetah, ...",
        autocompletion=completion.settings,
    ),
]
TARGET = "module:make or path/to/file.py:make, a function that returns your environment and questions; or a name registered with "
Target = Annotated[str, typer.Argument(help=TARGET + "Gymnasium, such as FrozenLake-v1.")]
Questions = Annotated[
    Path | None,
    typer.Option("--questions", help="A TOML file of questions (`gvfx init questions.toml` writes an example).", metavar="FILE"),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Let the file of questions name functions and saved models, which can run any code.")
]
Steps = Annotated[str, typer.Option("--steps", help="Environment steps per run, such as 20000 or 1e6.", metavar="N")]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of independent runs.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Runs at the same time (default: the number of cores).")]
Results = Annotated[Path, typer.Option("--results", help="Folder of stored runs.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Address of a Dask scheduler, tcp://host:port.")]
Device = Annotated[
    str | None, typer.Option("--device", help="Where networks run: cpu, gpu or tpu; all seeds of an experiment in one loop.")
]
Steal = Annotated[
    bool, typer.Option("--steal", help="At the end also make runs that another process has begun, in case it is stopped.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Read every stored run again, also those that have not changed.")]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        help="Where errors count: start, or states such as 3,17 (default: all states equally).",
        metavar="start|STATES",
    ),
]
Audit = Annotated[
    float | None,
    typer.Option("--audit", help="Share of the steps that check the values at the start by rollouts (docs/audits.md), as 0.2."),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        help="Stop once the mean squared error is known to be below this; or once it is decided which policy is better, if "
        "differences up to MARGIN do not matter (learners with intervals).",
        metavar="ERROR|decided[:MARGIN]",
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the results to this JSON file.")]
JsonOrStdout = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the results to this JSON file; with - to stdout, and all else to stderr."),
]


def until_given(text: str | None) -> ErrorBelow | Decided | None:
    """The value of --until as `gvfx.evaluate` takes it."""
    if text is None:
        return None
    from gvfx.evidence.decisions import decided
    from gvfx.evidence.uncertainty import error_below

    rule, _, margin = text.partition(":")
    try:
        return decided(margin=float(margin or 0)) if rule == "decided" else error_below(float(text))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"until: {text!r} is not an error; give a number, decided, or decided:MARGIN.") from None


def where_given(text: str | None) -> str | list[int] | None:
    """The value of --where as `gvfx.evaluate` takes it."""
    parts = (text or "").split(",")
    return [int(part) for part in parts] if all(part.strip().isdigit() for part in parts) else text


def workers_given(workers: int | None) -> int:
    """The value of --workers; by default the number of cores."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers: {workers} is too few; give at least 1, or leave it out for one per core.")
    return workers or os.cpu_count() or 1


def count_given(text: str, option: str) -> int:
    """A count on the command line; 1e6 is accepted too."""
    try:
        number = float(text)
        if number == int(number):
            return int(text) if text.strip().lstrip("+-").isdigit() else int(number)
    except (ValueError, OverflowError):
        pass
    raise InputError(f"{option}: {text!r} is not a whole number; give one, such as 20000 or 1e6.")


def trackers_given(texts: Sequence[str]) -> list[Tracked] | None:
    """The values of --track as `gvfx.evaluate` takes them."""
    from gvfx.running.tracking import TensorBoard, WeightsAndBiases

    kinds = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
    split = [(text, *text.partition(":")[::2]) for text in texts]
    return [kinds[kind](where) if kind in kinds and where else text for text, kind, where in split] or None
