"""Time from the start of Python to the first environment step, and from the import to the answers of the README's five lines.

First and second start stand side by side; the first one begins with an empty folder for compiled code.  Run it with
`gvfx bench start`.
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
FIVE_LINES = """
import gvfx
print(flush=True)
policies = {"random": gvfx.uniform_policy(), "eager": [0.05, 0.45, 0.45, 0.05]}
questions = [gvfx.GVF(p, gvfx.Reward(), 0.95, name=n) for n, p in policies.items()]
result = gvfx.evaluate("FrozenLake-v1", questions, steps=20_000, where="start")
result.compare()
"""  # of the README; it says when it has imported gvfx


def seconds(program: str, folder: Path, after_import: bool = False) -> float:
    """The time from starting Python (or from the line that a program prints after its import) to the end of a program."""
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", f"{program}\nprint('done', flush=True)"],
        env={**os.environ, "GVFX_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        if after_import:
            assert process.stdout.readline() == "\n"
            begun = time.perf_counter()
        assert process.stdout.readline() == "done\n"
        return time.perf_counter() - begun


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, best of several second starts; prints the table."""
    rows = []
    start = "second start to the first step"
    cases = {  # program, bar, whether from the import on
        f"table: {start}": (TABLE, 1.0, False),
        f"network: {start}": (NETWORK, 5.0, False),
        "the README's five lines: import to answers, second start": (FIVE_LINES, 5.0, True),
    }
    if importlib.util.find_spec("jax") is None:
        del cases[f"network: {start}"]
    with tempfile.TemporaryDirectory() as scratch, console.status("starting") as status:
        for name, (program, bar, after_import) in cases.items():
            status.update(f"starting: {name}")
            folder = Path(scratch) / name.split(":")[0]
            first = seconds(program, folder, after_import)
            second = min(seconds(program, folder, after_import) for _ in range(2 if quick else 5))
            rows.append(at_most(name, second, bar, " s", f"first start {first:.1f} s"))
    console.print(as_table(rows))
    console.print(machine())
    return rows
