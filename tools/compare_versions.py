"""Compare the speed of two versions of gvfx side by side, through the public API.

    python tools/compare_versions.py OLD/src NEW/src [--rounds 5] [--only NAME] [--bar 0.97]

Each version runs in a process of its own; they take turns, and the best time of each counts (compilation excluded), so
that a busy machine slows both equally.  A ratio above 1 means that the new version is faster; exit code 1 if one is below the
bar.  Rows with the defaults of an environment compare what each version does by default.
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


def seconds(*arguments: Any, **options: Any) -> float:
    """What the loop of a run took."""
    import gvfx

    result = gvfx.evaluate(*arguments, progress=False, **options)
    return float(getattr(result, "details", result).seconds.sum())  # 0.2 has no details


def setting(name: str, steps: int, behaviour: str = "GVFExplorer", measurements: int = 20, **options: Any) -> float:
    """A run of a setting of the paper, which 0.2 has in gvfx itself."""
    try:
        from gvfx_paper.settings.runs import find_setting
    except ImportError:
        from gvfx.experiments.compare import find_setting  # type: ignore[no-redef]
    e = find_setting(name).experiment(behaviour, steps=steps, measurements=measurements, **options)
    return seconds(e.world, e.questions, e.behaviour, e.learner, steps=steps, evaluate_every=steps // measurements)


def environment(name: str, actions: int, gvfs: int, steps: int, veiled: bool = False, learner: str | None = None) -> float:
    """The reward of an environment under random policies; veiled: without the table that some environments show."""
    import gymnasium
    import numpy as np

    import gvfx

    class Veiled(gymnasium.Wrapper):
        """The same environment without its table."""

    rows = np.random.default_rng(0).dirichlet(np.ones(actions), gvfs)
    asked = [gvfx.GVF(row, gvfx.Reward(), 0.9 + 0.001 * k, name=f"q{k}") for k, row in enumerate(rows)]
    env = gymnasium.make(name)
    return seconds(Veiled(env) if veiled else env, asked, None, getattr(gvfx, learner)() if learner else None, steps=steps)


def pendulum(steps: int) -> float:
    import gymnasium

    import gvfx

    asked = [gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), gvfx.Reward(), 0.9)]
    return seconds(gymnasium.make("Pendulum-v1"), asked, steps=steps)


CASES: dict[str, Callable[[], float]] = {
    "table_explorer": lambda: setting("distinct", 3_000_000),
    "table_round_robin": lambda: setting("distinct", 3_000_000, "RoundRobin"),
    "table_forty_gvfs": lambda: setting("forty", 1_000_000),
    "table_successor": lambda: setting("distinct", 200_000, "SR"),
    "table_optimal_design": lambda: setting("distinct", 500_000, "OptimalDesign", learner="CertaintyEquivalence"),
    "gym_tables_taxi": lambda: environment("Taxi-v4", 6, 5, 20_000, veiled=True),
    "gym_tables_frozen_lake": lambda: environment("FrozenLake-v1", 4, 5, 50_000, veiled=True),
    "gym_features_cartpole": lambda: environment("CartPole-v1", 2, 6, 6_000),
    "gym_networks_cartpole": lambda: environment("CartPole-v1", 2, 6, 6_000, learner="Deep"),
    "gym_critics_pendulum": lambda: pendulum(2_400),
    "grid_networks": lambda: setting("continuous", 40_000, measurements=4),
    "grid_features": lambda: setting("continuous", 100_000, measurements=4, learner="LinearCertaintyEquivalence"),
    "mujoco_critics": lambda: setting("cheetah", 8_000, measurements=2, preset="recommended"),
}


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
    parser.add_argument("--bar", type=float, default=0.97)
    given = parser.parse_args()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, __file__, "--work"]
    workers = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": p}, **pipes) for p in (given.old, given.new)]
    slower = []
    for name in [n for n in CASES if given.only in n]:
        best = [float("inf")] * 2
        for _ in range(given.rounds + 1):  # the first round warms up
            for k, worker in enumerate(workers):
                worker.stdin.write(name + "\n")
                worker.stdin.flush()
                best[k] = min(best[k], json.loads(worker.stdout.readline()))
        print(f"{name:24} old {best[0]:.3f} s, new {best[1]:.3f} s: {best[0] / best[1]:.2f} x", flush=True)
        slower += [name] if best[0] / best[1] < given.bar else []
    print(f"below {given.bar:g} x: {', '.join(slower) or 'none'}")
    sys.exit(bool(slower))


if __name__ == "__main__":
    work() if "--work" in sys.argv else main()
