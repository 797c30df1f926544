"""Load: commands that find all of 10,000 runs stored, long runs, many questions, long pages.  Run it with `gvfx bench load`.

The stored files are made up, of the sizes that the paper's runs have, and are read by the real command line in new processes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from gvfx.benchmarks.common.load_runs import memory_rows, page_rows, question_rows
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.experiments.store import Store
from gvfx.reproduce import ITEMS
from gvfx.reproduce.curves import Curve, sweep_curves
from gvfx.running.plan import Plan
from gvfx.running.record import Part
from gvfx.tensors import pack
from gvfx.worlds.mdp import MDP

FILES = 10_000  # of each command
TABLE = "table1"


def made_up(curve: Curve) -> Part:
    """A part with the sizes of a tabular curve's runs."""
    e = curve.experiment
    plan = Plan.checked(e.steps, e.evaluate_every, e.snapshots)
    assert isinstance(e.world, MDP)
    states, actions, rng = e.world.states, e.world.actions, np.random.default_rng(0)
    gvfs, k = len(e.questions), len(plan.snapshots)
    table = rng.random((k, gvfs, states))
    return Part(
        steps=np.array(plan.evaluations, np.int64),
        mse=1 + rng.random((len(plan.evaluations), gvfs)),
        levels=np.full((len(plan.evaluations), gvfs), 100.0),
        episodes=np.array(plan.evaluations, np.int64) // 500,
        snapshot_steps=np.array(plan.snapshots, np.int64),
        values=table,
        variances=table if e.behaviour.needs_variance else np.empty((k, 0)),
        visits=rng.integers(0, 1000, (k, states, actions)),
        behaviour=np.full((k, states, actions), 1 / actions),
        snapshot_levels=np.full((k, gvfs), 100.0),
        truth=rng.random((gvfs, states)),
    )


def fill(folder: Path, curves: Sequence[Curve], seeds: int) -> int:
    """Write the runs of curves; returns their number."""
    store = Store(folder)
    store.prepare(curve.experiment for curve in curves)
    for curve in curves:
        arrays = made_up(curve).arrays()
        for seed in range(seeds):
            arrays["mse"] = arrays["mse"] * (1 + 0.01 * (seed % 7))
            raw = pack(arrays, {"experiment": curve.experiment.hash, "seed": str(seed)})
            store.path(curve.experiment, seed).write_bytes(raw)
    return len(curves) * seeds


def seconds(*arguments: object) -> float:
    """The time of a command, from the start of Python to its end."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gvfx", *map(str, arguments)], check=True, capture_output=True)
    return time.perf_counter() - begun


def stores(quick: bool) -> list[Row]:
    """Commands that have nothing to run in stores of 10,000 files."""
    files, rows = FILES // 10 if quick else FILES, []
    with tempfile.TemporaryDirectory() as scratch:
        tuning, table = sweep_curves("same"), [c for c in ITEMS[TABLE].needs({}) if isinstance(c, Curve)]
        counts = [-(-files // len(curves)) for curves in (tuning, table)]
        swept, shown = Path(scratch) / "sweep", Path(scratch) / "table"
        made = [fill(folder, curves, n) for folder, curves, n in zip((swept, shown), (tuning, table), counts, strict=True)]
        time.sleep(3)  # files that have just been written are read once more
        cases: list[tuple[str, int, float, tuple[object, ...]]] = [
            ("sweep", made[0], 5, ("sweep", "same", "--seeds", counts[0], "--results", swept, "--workers", 1)),
            ("reproduce", made[1], 5, ("reproduce", TABLE, "--seeds", counts[1], "--results", shown, "--workers", 1)),
            ("report", made[1], 10, ("report", shown, "--seeds", counts[1])),
        ]
        for name, number, bar, command in cases:
            first = seconds(*command)
            again = min(seconds(*command) for _ in range(2))
            rows.append(at_most(f"gvfx {name}, {number:,} stored runs", again, bar, " s", f"first time {first:.1f} s"))
    return rows


CASES: dict[str, Callable[[bool], list[Row]]] = {
    "stores": stores,
    "memory": memory_rows,
    "questions": question_rows,
    "pages": page_rows,
}


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case; prints the table."""
    rows = []
    with console.status("loading") as status:
        for name, measure in CASES.items():
            status.update(name)
            rows += measure(quick)
    console.print(as_table(rows))
    console.print(machine())
    return rows
