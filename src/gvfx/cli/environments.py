"""Commands for your own environment and questions: check and truth."""

from __future__ import annotations

from typing import Annotated

import typer

from gvfx.cli import options
from gvfx.cli.terminal import check_output, make_console, make_table, write_json


def check(
    make: options.Make,
    steps: Annotated[int, typer.Option("--steps", help="Number of random steps to try.")] = 1000,
) -> None:
    """Find mistakes in your environment and questions before the first run; exit code 2 if there are errors."""
    from gvfx.running.check import check as find
    from gvfx.running.check import load_made

    env, questions = load_made(make)
    findings = find(env, questions, steps)
    for finding in findings:
        print(finding)
    errors = sum(finding.severity == "error" for finding in findings)
    print(f"{errors} errors, {len(findings) - errors} warnings" if findings else "no mistakes found")
    if errors:
        raise typer.Exit(2)


def truth(
    make: options.Make,
    points: Annotated[
        int | None,
        typer.Option("--points", help="Evaluate at N states sampled by random walks (default: the start state).", metavar="N"),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option("--precision", help="Add episodes until the standard error is below this share of the value, such as 0.01."),
    ] = None,
    absolute: Annotated[
        float | None, typer.Option("--absolute", help="Add episodes until the standard error itself is below this.")
    ] = None,
    relative: Annotated[float | None, typer.Option("--relative", hidden=True, help="Old name of --precision.")] = None,
    max_episodes: Annotated[
        int, typer.Option("--max-episodes", help="Maximum number of episodes per point and policy.")
    ] = 10_000,
    output: options.Json = None,
) -> None:
    """Estimate the true answers to your questions by Monte Carlo, with standard errors."""
    from gvfx.running.check import load_made
    from gvfx.truths.monte_carlo import truth_of

    check_output(output, "--json")
    env, questions = load_made(make)
    wanted = relative if precision is None else precision
    found = truth_of(env(), questions, points, precision=absolute, relative=wanted, max_episodes=max_episodes)
    table = make_table("GVF", "at", "value", "standard error", "truncation error, at most", "episodes")
    for i, name in enumerate(found.names):
        for j, point in enumerate(found.points):
            numbers = (found.values[i, j], found.standard_errors[i, j], found.residuals[i, j])
            table.add_row(name, f"{point}", *(f"{x:.4g}" for x in numbers), f"{found.episodes[i, j]:,}")
    make_console().print(table)
    if (absolute or wanted) and not found.precise.all():
        print(f"The precision was not reached everywhere within {max_episodes:,} episodes; increase --max-episodes.")
    if output is not None:
        write_json(output, found.to_json())
