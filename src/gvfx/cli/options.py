"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from gvfx.cli import checks, completion
from gvfx.cli.checks import MOST_SEEDS
from gvfx.cli.terminal import check_output
from gvfx.errors import InputError, UnknownName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gvfx.evidence.decisions import Decided
    from gvfx.evidence.uncertainty import ErrorBelow
    from gvfx.running.tracking import Tracked

DEVICES = ("cpu", "gpu", "tpu", "cuda", "rocm")
MOST_WORKERS = 10_000
TRACKERS = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases"}  # with the name of a folder or project
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
    typer.Option(
        "--questions",
        help="A TOML file of questions (`gvfx init questions.toml` writes an example).",
        metavar="FILE",
        callback=checks.input_file,
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Let the file of questions name functions and saved models, which can run any code.")
]
Steps = Annotated[
    str,
    typer.Option("--steps", help="Environment steps per run, such as 20000 or 1e6.", metavar="N", callback=checks.count()),
]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of independent runs.", callback=checks.count(most=MOST_SEEDS))]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", help="Runs at the same time (default: the number of cores).", callback=checks.count(most=MOST_WORKERS)
    ),
]
Results = Annotated[Path, typer.Option("--results", help="Folder of stored runs.", callback=checks.folder)]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Address of a Dask scheduler, tcp://host:port.",
        callback=checks.checked(lambda *given: _address(*given)),
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="Where networks run: cpu, gpu or tpu; all seeds of an experiment in one loop.",
        callback=checks.checked(lambda *given: _device(*given)),
    ),
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
    typer.Option(
        "--audit",
        help="Share of the steps that check the values at the start by rollouts (docs/audits.md), as 0.2.",
        callback=checks.share,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        help="Stop once the mean squared error is known to be below this; or once it is decided which policy is better, if "
        "differences up to MARGIN do not matter (learners with intervals).",
        metavar="ERROR|decided[:MARGIN]",
        callback=checks.checked(lambda text, option: until_given(text)),
    ),
]
Json = Annotated[
    Path | None, typer.Option("--json", help="Also write the results to this JSON file.", callback=checks.output_file)
]
JsonOrStdout = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="Also write the results to this JSON file; with - to stdout, and all else to stderr.",
        callback=checks.output_file,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option("--save", help="Also write the whole result to this file (see gvfx.load).", callback=checks.output_file),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="A folder from which the same command continues a run that was stopped.",
        callback=checks.output_folder,
    ),
]
CheckpointEvery = Annotated[
    float | None, typer.Option("--checkpoint-every", help="Seconds between two checkpoints (default: 60).", metavar="SECONDS")
]
Page = Annotated[
    Path | None,
    typer.Option("--report", help="Write an HTML page about the answers to this file.", callback=checks.output_file),
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
    except InputError as error:
        raise InputError(f"until: {str(error).partition(': ')[2]}") from None
    except ValueError:
        raise InputError(f"until: {text!r:.40} is not an error; give a number, decided, or decided:MARGIN.") from None


def where_given(text: str | None) -> str | list[int] | None:
    """The value of --where as `gvfx.evaluate` takes it."""
    parts = (text or "").split(",")
    return [int(part) for part in parts] if all(re.fullmatch(r"\s*[0-9]{1,18}\s*", part) for part in parts) else text


def workers_given(workers: int | None) -> int:
    """The value of --workers; by default the number of cores."""
    return workers or os.cpu_count() or 1


def _address(text: str, option: str) -> None:
    try:
        parts = urlsplit(text)
        good = bool(parts.scheme and (parts.hostname or parts.path)) and parts.port != 0
    except ValueError:  # a port that there cannot be
        good = False
    if not good or not re.fullmatch(r"[a-z]+://\S+", text):
        raise InputError(f"{option}: {text!r:.80} is not an address; give that of a Dask scheduler, such as tcp://host:8786.")


def _device(text: str, option: str) -> None:
    if text not in DEVICES:
        raise UnknownName(option, text, DEVICES)


def check_tracker(text: str, option: str) -> None:
    """Refuse a tracker that does not say where to, and a file of lines that cannot be written."""
    kind, colon, where = text.partition(":")
    if colon and kind in TRACKERS:
        if not where:
            raise InputError(f"{option}: {text!r} does not say where to; give {text}runs, for example.")
    elif not Path(text).exists() or Path(text).is_dir():  # lines are added to a file that exists, and to a device
        check_output(Path(text), option)


def trackers_given(texts: Sequence[str]) -> list[Tracked] | None:
    """The values of --track as `gvfx.evaluate` takes them."""
    from gvfx.running import tracking

    split = [(text, *text.partition(":")[::2]) for text in texts]
    return [
        getattr(tracking, TRACKERS[kind])(where) if kind in TRACKERS and where else text for text, kind, where in split
    ] or None
