"""Time from the start of Python to the first environment step, first and second start side by side.

The first start of a pair begins with an empty folder for compiled code.  Run it with `gvfx bench start`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine

TABLE = """
import gvfx
world = gvfx.gridworld(20, goals={"left": (0, 0), "right": (0, 19)}, slip=0.1)
questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(100, 5, at=goal), 0.99) for goal in ("left", "right")]
gvfx.evaluate(world, questions, steps=1, progress=False)
"""
NETWORK = """
import gymnasium
import gvfx
env = gymnasium.make("CartPole-v1")
questions = [gvfx.GVF(gvfx.constant_policy(p), gvfx.Reward(), 0.9, name=str(p[0])) for p in ([0.5, 0.5], [0.3, 0.7])]
gvfx.evaluate(env, questions, steps=1, progress=False)
"""


def seconds(program: str, folder: Path) -> float:
    """The time from starting Python until a program has made its first environment step."""
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", f"{program}\nprint('stepped', flush=True)"],
        env={**os.environ, "GVFX_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "stepped\n"
        return time.perf_counter() - begun


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, best of several second starts; prints the table."""
    rows = []
    cases = {"table": (TABLE, 1.0), "network": (NETWORK, 5.0)}
    if importlib.util.find_spec("jax") is None:
        del cases["network"]
    with tempfile.TemporaryDirectory() as scratch, console.status("starting") as status:
        for name, (program, bar) in cases.items():
            status.update(f"starting with a {name}")
            folder = Path(scratch) / name
            first = seconds(program, folder)
            second = min(seconds(program, folder) for _ in range(2 if quick else 5))
            rows.append(at_most(f"{name}: second start to the first step", second, bar, " s", f"first start {first:.1f} s"))
    console.print(as_table(rows))
    console.print(machine())
    return rows
