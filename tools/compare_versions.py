"""Compare the speed of two versions of gvfx side by side, through the public API.

    python tools/compare_versions.py OLD/src NEW/src [--rounds 5] [--only NAME] [--bar 0.97]

Each version runs in a process of its own; they take turns, and the best times of each count: of the loop on the clock,
compilation excluded, and of the whole run in processor time, which a busy machine changes less.  A ratio above 1 means that
the new version is faster; exit code 1 if both ratios of a row are below the bar.  Rows with the defaults of an environment
compare what each version does by default.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

Times = tuple[float, float]  # seconds of the loop on the clock, and of the whole run of the processor


def seconds(*arguments: Any, **options: Any) -> Times:
    """What a run took."""
    import gvfx

    begun = time.process_time()
    result = gvfx.evaluate(*arguments, progress=False, **options)
    loop = float(getattr(result, "details", result).seconds.sum())  # 0.2 has no details
    return loop, time.process_time() - begun


def setting(name: str, steps: int, behaviour: str = "GVFExplorer", measurements: int = 20, **options: Any) -> Times:
    """A run of a setting of the paper, which 0.2 has in gvfx itself."""
    try:
        from gvfx_paper.settings.runs import find_setting
    except ImportError:
        from gvfx.experiments.compare import find_setting  # type: ignore[no-redef]
    e = find_setting(name).experiment(behaviour, steps=steps, measurements=measurements, **options)
    return seconds(e.world, e.questions, e.behaviour, e.learner, steps=steps, evaluate_every=steps // measurements)


def environment(name: str, actions: int, gvfs: int, steps: int, veiled: bool = False, learner: str | None = None) -> Times:
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


def pendulum(steps: int) -> Times:
    import gymnasium

    import gvfx

    asked = [gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), gvfx.Reward(), 0.9)]
    return seconds(gymnasium.make("Pendulum-v1"), asked, steps=steps)


CASES: dict[str, Callable[[], Times]] = {
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
        times: list[list[Times]] = [[], []]
        for _ in range(given.rounds + 1):  # the first round warms up
            for k, worker in enumerate(workers):
                worker.stdin.write(name + "\n")
                worker.stdin.flush()
                times[k].append(json.loads(worker.stdout.readline()))
        old, new = (tuple(map(min, zip(*each[1:], strict=True))) for each in times)
        loop, whole = (a / b for a, b in zip(old, new, strict=True))
        row = f"loop {old[0]:.3f}, {new[0]:.3f} s: {loop:.2f} x; processor {old[1]:.3f}, {new[1]:.3f} s: {whole:.2f} x"
        print(f"{name:24} {row}", flush=True)
        slower += [name] if max(loop, whole) < given.bar else []
    print(f"below {given.bar:g} x: {', '.join(slower) or 'none'}")
    sys.exit(bool(slower))


if __name__ == "__main__":
    work() if "--work" in sys.argv else main()
