"""Commands for your own environment and questions: check and truth."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from gvfx.cli import checks, options
from gvfx.cli.terminal import make_console, make_table, write_json

MOST_POINTS = 1_000_000


def check(
    target: options.Target,
    questions: options.Questions = None,
    trust: options.Trust = False,
    steps: Annotated[
        str, typer.Option("--steps", help="Number of random steps to try.", metavar="N", callback=checks.count())
    ] = "1000",
    output: options.JsonOrStdout = None,
) -> None:
    """Find mistakes in your environment and questions before the first run; exit code 2 if there are errors."""
    from gvfx.running.check import check as find
    from gvfx.running.loading import load_asked

    asked = load_asked(target, questions, trust)
    findings = find(asked.make, asked.questions, checks.count_given(steps, "--steps"))
    console = make_console(output)
    console.say(*map(str, findings))
    errors = sum(finding.severity == "error" for finding in findings)
    console.say(f"{errors} errors, {len(findings) - errors} warnings" if findings else "no mistakes found")
    if output is not None:
        write_json(output, {"target": target, "findings": [dataclasses.asdict(finding) for finding in findings]})
    if errors:
        raise typer.Exit(2)


def truth(
    target: options.Target,
    questions: options.Questions = None,
    trust: options.Trust = False,
    points: Annotated[
        int | None,
        typer.Option(
            "--points",
            help="Evaluate at N states sampled by random walks (default: the start state).",
            metavar="N",
            callback=checks.count(most=MOST_POINTS),
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision",
            help="Add episodes until the standard error is below this share of the value, such as 0.01.",
            callback=checks.number(),
        ),
    ] = None,
    absolute: Annotated[
        float | None,
        typer.Option("--absolute", help="Add episodes until the standard error itself is below this.", callback=checks.number()),
    ] = None,
    relative: Annotated[
        float | None, typer.Option("--relative", hidden=True, help="Old name of --precision.", callback=checks.number())
    ] = None,
    max_episodes: Annotated[
        int,
        typer.Option("--max-episodes", help="Maximum number of episodes per point and policy.", callback=checks.count(least=2)),
    ] = 10_000,
    output: options.JsonOrStdout = None,
) -> None:
    """Estimate the true answers to your questions by Monte Carlo, with standard errors."""
    from gvfx.running.loading import load_asked
    from gvfx.truths.monte_carlo import truth_of

    asked = load_asked(target, questions, trust)
    wanted = relative if precision is None else precision
    found = truth_of(asked.make(), asked.required(), points, precision=absolute, relative=wanted, max_episodes=max_episodes)
    table = make_table("GVF", "at", "value", "standard error", "truncation error, at most", "episodes")
    for i, name in enumerate(found.names):
        for j, point in enumerate(found.points):
            numbers = (found.values[i, j], found.standard_errors[i, j], found.residuals[i, j])
            table.add_row(name, f"{point}", *(f"{x:.4g}" for x in numbers), f"{found.episodes[i, j]:,}")
    console = make_console(output)
    console.print(table)
    if (absolute or wanted) and not found.precise.all():
        console.say(f"The precision was not reached everywhere within {max_episodes:,} episodes; increase --max-episodes.")
    if output is not None:
        write_json(output, found.to_json())
