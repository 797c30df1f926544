"""Command that forecasts how many steps an error needs: plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gvfx.cli import checks, completion, options
from gvfx.cli.terminal import make_console, make_table, write_json

if TYPE_CHECKING:
    from gvfx.questions.gvf import GVF


def plan(
    target: Annotated[
        str,
        typer.Argument(
            help="A setting of `gvfx list`; or your own: module:make, path/to/file.py:make, or a name registered with Gymnasium.",
            autocompletion=completion.settings,
        ),
    ],
    questions: options.Questions = None,
    trust: options.Trust = False,
    error: Annotated[float, typer.Option("--error", help="The mean squared error to reach.", callback=checks.number())] = 0.05,
    pilot: Annotated[
        str,
        typer.Option(
            "--pilot",
            help="Treat the world as unknown and estimate it from a first run of N steps.",
            metavar="N",
            callback=checks.count(least=0),
        ),
    ] = "0",
    seed: Annotated[int, typer.Option("--seed", help="Random seed of the pilot run.", callback=checks.seed)] = 0,
    where: options.Where = None,
    output: options.JsonOrStdout = None,
) -> None:
    """Forecast how many steps each behaviour needs to reach an error, with CertaintyEquivalence as the learner."""
    from gvfx.running.planning import OPTIMUM
    from gvfx.running.planning import plan as make_plan

    first = checks.count_given(pilot, "--pilot", 0)
    title, world, asked, said = _asked_about(target, questions, trust)
    costs = make_plan(world, asked, error, pilot=first, seed=seed, where=options.where_given(where))
    best = costs[OPTIMUM].steps
    table = make_table("behaviour", "steps", "5% of runs by", "95% of runs by", "sure by", "times the optimum")
    for cost in costs.costs:
        numbers = [f"{n:,.0f}" if n < float("inf") else "never" for n in (cost.steps, cost.low, cost.high, cost.bounded)]
        table.add_row(cost.name, *numbers, f"{cost.steps / best:.3g}" if best else "-", style="bold" * (cost.name == OPTIMUM))
    console = make_console(output)
    source = f"world estimated from {first:,} steps of OptimalDesign" if first else "known world"
    console.say("")
    console.say_titled(title, f", {source}: steps to a mean squared error of {error:g}{f' ({where})' if where else ''}")
    console.print(table)
    console.say(f"No behaviour needs fewer than {costs.bound:,.0f} steps. The row Mixture is also the forecast for RoundRobin.")
    console.say("steps: the expected error is reached; sure by: until=error_below stops, whose bound on the error is larger.")
    if costs.unseen:
        console.say(f"The pilot never acted in {costs.unseen} of the evaluation states; a longer pilot would cover more.")
    if output is not None:
        write_json(output, {**said, **costs.to_json()})


def _asked_about(target: str, questions: Path | None, trust: bool) -> tuple[str, Any, Sequence[GVF], dict[str, str]]:
    """The title, world and questions of a setting of the paper or of one's own, and how its JSON file names it."""
    from gvfx.experiments.compare import SETTINGS, find_setting
    from gvfx.running.loading import is_own, load_asked

    if target in SETTINGS or not is_own(target):
        chosen = find_setting(target)
        return chosen.title, chosen.world, chosen.questions, {"setting": chosen.name}
    asked = load_asked(target, questions, trust)
    return asked.name, asked.make(), asked.required(), {"target": target}
