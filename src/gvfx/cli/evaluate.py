"""Command that answers questions about your own environment: evaluate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gvfx.cli import checks, completion, options
from gvfx.cli.names import made_by_name
from gvfx.cli.stopping import be_patient
from gvfx.cli.terminal import finite, make_console, write_json
from gvfx.text import printable

if TYPE_CHECKING:
    from gvfx.running.result import Result


def evaluate(
    target: options.Target,
    questions: options.Questions = None,
    trust: options.Trust = False,
    steps: options.Steps = "100000",
    seeds: options.Seeds = 1,
    seed: Annotated[int | None, typer.Option("--seed", help="Run this one seed.", callback=checks.seed)] = None,
    behaviour: Annotated[
        str | None,
        typer.Option(
            "--behaviour", "-b", help="A behaviour by class name (default: it is chosen).", autocompletion=completion.behaviours
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner", "-l", help="A learner by class name (default: by the observations).", autocompletion=completion.learners
        ),
    ] = None,
    until: options.Until = None,
    where: options.Where = None,
    audit: Annotated[
        float | None,
        typer.Option(
            "--audit",
            help="Share of the steps that check the values at the start, such as 0.15.",
            metavar="SHARE",
            callback=checks.share,
        ),
    ] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Divide each GVF's weight by its mean square value.")] = False,
    evaluate_every: Annotated[
        str | None,
        typer.Option(
            "--evaluate-every",
            help="Steps between measurements (default: twenty per run).",
            metavar="N",
            callback=checks.count(),
        ),
    ] = None,
    save: options.Save = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = None,
    track: Annotated[
        list[str],
        typer.Option(
            "--track",
            help="Send every measurement to a file of JSON lines, to tensorboard:FOLDER or to wandb:PROJECT (offline); may be "
            "repeated.",
            metavar="TRACKER",
            callback=checks.checked(options.check_tracker),
        ),
    ] = [],  # noqa: B006
    page: options.Page = None,
    output: options.JsonOrStdout = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            help="Runs at the same time; more than 1 in known worlds only.",
            callback=checks.count(most=options.MOST_WORKERS),
        ),
    ] = 1,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show or hide the progress bar (default: in a terminal).")
    ] = None,
) -> None:
    """Answer the questions about your environment from one stream of experience, with intervals.

    Exit codes: 0, also if --until was not met within the steps; 1 if the run failed; 2 if the input is invalid; 130 after Ctrl-C.
    """
    from gvfx.behaviours.base import Behaviour
    from gvfx.errors import RunError
    from gvfx.learners.base import Learner
    from gvfx.report.answers import write_answers
    from gvfx.running.evaluate import evaluate as answer
    from gvfx.running.interrupt import Interrupted
    from gvfx.running.loading import load_asked

    total = checks.count_given(steps, "--steps")
    every = None if evaluate_every is None else checks.count_given(evaluate_every, "--evaluate-every")
    chosen: dict[str, Any] = {
        "behaviour": made_by_name("behaviour", behaviour, Behaviour),
        "learner": made_by_name("learner", learner, Learner),
        "until": options.until_given(until),
        "where": options.where_given(where),
        "track": options.trackers_given(track),
    }
    asked = load_asked(target, questions, trust)
    be_patient()
    try:
        result = answer(
            asked.make(),
            asked.required(),
            steps=total,
            seeds=seeds,
            seed=seed,
            audit=audit,
            calibrate=calibrate,
            evaluate_every=every,
            save=save,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            workers=workers,
            progress=progress,
            **chosen,
        )
    except (RunError, Interrupted) as stop:
        if save is not None and stop.result is not None and save.is_file():
            print(printable(f"gvfx: what was learned so far is in {save}."), file=sys.stderr)
        raise
    console = make_console(output)
    console.say(*result.summary().splitlines())
    if save is not None:
        console.say(f"wrote {save}")
    if page is not None:
        write_answers(page, result, save or Path(target))
        console.say(f"wrote {page}")
    if output is not None:
        write_json(output, {"target": target, **as_json(result)})


def as_json(result: Result) -> dict[str, object]:
    """A result as plain data: the answers at the start and everywhere, the curves; numbers that are not finite become null."""
    start = {} if result.starts is None else {name: value._asdict() for name, value in result.value().items()}
    stopped = {
        name: getattr(result, name).tolist() for name in ("stopped", "bounds", "reached") if getattr(result, name) is not None
    }
    plain: dict[str, object] = finite({"start": start, "answers": result.rows(), **stopped, **result.to_json()})
    return plain
