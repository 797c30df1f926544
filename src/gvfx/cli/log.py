"""Command that answers questions from a log in a file: log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli import checks, options
from gvfx.cli.evaluate import as_json
from gvfx.cli.terminal import finite, make_console, write_json


def log(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file with a row per transition.", callback=checks.input_file)],
    questions: Annotated[
        Path,
        typer.Option(
            "--questions",
            help="A TOML file of questions (`gvfx init questions.toml` writes an example).",
            metavar="FILE",
            callback=checks.input_file,
        ),
    ],
    trust: options.Trust = False,
    where: options.Where = None,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Let episodes whose column `policy` names a policy check its value.")
    ] = True,
    save: options.Save = None,
    page: options.Page = None,
    output: options.JsonOrStdout = None,
) -> None:
    """Answer the questions from recorded transitions, with intervals and what to collect next.

    Columns: observation (or observation_0, observation_1, ...), action, next_observation, terminated, and reward, truncated,
    behaviour_prob, policy and further signals if there are any.
    """
    from gvfx.questions.written import questions_in
    from gvfx.report.answers import write_answers
    from gvfx.running.logs import evaluate_log

    asked, counts = questions_in(questions, trust), options.where_given(where)
    result = evaluate_log(file, asked, where=counts, audit=audit, save=save)
    console = make_console(output)
    console.say(*result.summary().splitlines())
    if page is not None:
        write_answers(page, result, save or file)
        console.say(f"wrote {page}")
    if output is not None:
        write_json(output, {"log": str(file), **as_json(result), "collect": finite(result.collect)})
