"""Compare the speed of two versions of gvfx side by side, through the public API.

    python tools/compare_versions.py OLD/src NEW/src [--rounds 5] [--only NAME]

Each version runs in a process of its own; they take turns, and the best time of each counts (compilation excluded), so
that a busy machine slows both equally.  A ratio above 1 means that the new version is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

CASES: dict[str, Callable[[], float]] = {}


def case(function: Callable[[], float]) -> Callable[[], float]:
    CASES[function.__name__] = function
    return function


def on_paper(setting: str, behaviour: str, steps: int, learner: str | None = None) -> float:
    import gvfx_paper

    e = gvfx_paper.paper[setting].experiment(behaviour, learner=learner, steps=steps)
    return seconds(e.world, e.questions, e.behaviour, e.learner, steps=steps)


def seconds(*arguments: Any, **options: Any) -> float:
    import gvfx

    return float(gvfx.evaluate(*arguments, **options).details.seconds.sum())


@case
def table_explorer() -> float:
    return on_paper("distinct", "GVFExplorer", 3_000_000)


@case
def table_round_robin() -> float:
    return on_paper("distinct", "RoundRobin", 3_000_000)


@case
def table_forty_gvfs() -> float:
    return on_paper("forty", "GVFExplorer", 1_000_000)


@case
def table_successor() -> float:
    return on_paper("distinct", "SR", 200_000)


@case
def table_optimal_design() -> float:
    return on_paper("distinct", "OptimalDesign", 500_000, "CertaintyEquivalence")


def rewards(count: int, actions: int) -> list[Any]:
    import numpy as np

    import gvfx

    rows = np.random.default_rng(0).dirichlet(np.ones(actions), count)
    return [gvfx.GVF(row, gvfx.Reward(), 0.9 + 0.001 * k, name=f"q{k}") for k, row in enumerate(rows)]


@case
def gym_tables_taxi() -> float:
    import gymnasium

    class Veiled(gymnasium.Wrapper):
        """The same environment without its table."""

    return seconds(Veiled(gymnasium.make("Taxi-v4")), rewards(5, 6), steps=20_000)


@case
def gym_tables_frozen_lake() -> float:
    import gymnasium

    class Veiled(gymnasium.Wrapper):
        """The same environment without its table."""

    return seconds(Veiled(gymnasium.make("FrozenLake-v1")), rewards(5, 4), steps=50_000)


@case
def gym_networks_cartpole() -> float:
    import gymnasium

    return seconds(gymnasium.make("CartPole-v1"), rewards(6, 2), steps=6_000)


@case
def networks_on_the_grid() -> float:
    from gvfx_paper.settings.runs import find_setting

    e = find_setting("continuous").experiment("GVFExplorer", "paper", None, None, None, 40_000, measurements=4)
    return seconds(e.world, e.questions, e.behaviour, e.learner, steps=40_000, evaluate_every=10_000)


@case
def critics_in_mujoco() -> float:
    from gvfx_paper.settings.runs import find_setting

    e = find_setting("cheetah").experiment("GVFExplorer", "recommended", None, None, None, 8_000, measurements=2)
    return seconds(e.world, e.questions, e.behaviour, e.learner, steps=8_000, evaluate_every=4_000)


@case
def critics_in_pendulum() -> float:
    import gymnasium

    import gvfx

    questions = [gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), gvfx.Reward(), 0.9)]
    return seconds(gymnasium.make("Pendulum-v1"), questions, steps=2_400)


def work() -> None:
    """Answer names of cases with the seconds they take."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(CASES[line.strip()]()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, __file__, "--work"]
    workers = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": p}, **pipes) for p in (given.old, given.new)]
    for name in [n for n in CASES if given.only in n]:
        best = [float("inf")] * 2
        for _ in range(given.rounds + 1):  # the first round warms up
            for k, worker in enumerate(workers):
                worker.stdin.write(name + "\n")
                worker.stdin.flush()
                best[k] = min(best[k], json.loads(worker.stdout.readline()))
        print(f"{name:24} old {best[0]:.3f} s, new {best[1]:.3f} s: {best[0] / best[1]:.2f} x", flush=True)


if __name__ == "__main__":
    work() if "--work" in sys.argv else main()
