"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gvfx.cli import completion

if TYPE_CHECKING:
    from gvfx.evidence.decisions import Decided
    from gvfx.evidence.uncertainty import ErrorBelow

Setting = Annotated[
    str,
    typer.Argument(
        help="A setting of `gvfx list`: same, distinct, semi-greedy, fourrooms, forty, continuous, walker, cheetah, ...",
        autocompletion=completion.settings,
    ),
]
Make = Annotated[str, typer.Argument(help="module:make, a function that returns your environment and your questions.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of independent runs.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Runs at the same time (default: the number of cores).")]
Results = Annotated[Path, typer.Option("--results", help="Folder of stored runs.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Address of a Dask scheduler, tcp://host:port.")]
Device = Annotated[
    str | None, typer.Option("--device", help="Where networks run: cpu, gpu or tpu; all seeds of an experiment in one loop.")
]
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


def until_given(text: str | None) -> ErrorBelow | Decided | None:
    """The value of --until as `gvfx.evaluate` takes it."""
    if text is None:
        return None
    from gvfx.errors import InputError
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
