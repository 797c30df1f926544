"""Command for target policies of Walker and Cheetah: train-targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli import checks, completion
from gvfx.cli.terminal import make_console
from gvfx.errors import require


def train_targets(
    domain: Annotated[str, typer.Argument(help="walker or cheetah.", autocompletion=completion.domains)],
    task: Annotated[str, typer.Argument(help="walker: walk or flip; cheetah: walk or run.")],
    seed: Annotated[int, typer.Option("--seed", help="Random seed.", callback=checks.seed)] = 0,
    folder: Annotated[
        Path, typer.Option("--folder", help="Folder for the policy and its learning curve.", callback=checks.output_folder)
    ] = Path("targets"),
) -> None:
    """Train a target policy with TD3 until a mid-level one (return 300 to 600) is found."""
    from gvfx.worlds.mujoco import domain_named

    chosen = domain_named(domain)
    require("jax", "mujoco")
    from gvfx.experiments.train_targets import PolicySnapshot
    from gvfx.experiments.train_targets import train_targets as train

    console = make_console()

    def show(snapshot: PolicySnapshot) -> None:
        console.say(f"{snapshot.steps:>9,} steps   return {snapshot.mean:6.1f} ± {snapshot.spread:.1f}")

    console.say(f"wrote {train(chosen, task, seed, folder, show)}")
