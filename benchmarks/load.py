"""Load: commands that find 10,000 runs stored, long runs, many questions, long pages, and the start of Python.

Stored files are made up, of the sizes that the paper's runs have, and are read by the real command line in new processes.  Long
runs and many questions are measured in a process of their own, so that the peak of memory is theirs.  A second start finds
compiled code; the first one begins with an empty folder for it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import gvfx
from benchmarks.study import Part, Row, apart, at_most, peak_megabytes, sized_rows
from gvfx.experiments.store import Store
from gvfx.report.page import Curves, DataTable, Page, Provenance, Section, Series, Summary, render
from gvfx.report.result_page import write_answers
from gvfx.running.plan import Plan
from gvfx.running.saved import load
from gvfx.running.schema import Part as StoredPart
from gvfx.tensors import pack
from gvfx_paper.items import ITEMS
from gvfx_paper.items.curves import Curve, sweep_curves
from gvfx_paper.report.maps import Maps, Panel

# --- stored runs ------------------------------------------------------------------------------------------------------

FILES = 10_000  # of each command
TABLE = "table1"


def made_up(curve: Curve) -> StoredPart:
    """A part with the sizes of a tabular curve's runs."""
    e = curve.experiment
    plan = Plan.checked(e.steps, e.evaluate_every, e.snapshots)
    assert isinstance(e.world, gvfx.MDP)
    states, actions, rng = e.world.states, e.world.actions, np.random.default_rng(0)
    gvfs, k = len(e.questions), len(plan.snapshots)
    table = rng.random((k, gvfs, states))
    return StoredPart(
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


def command_seconds(*arguments: object) -> float:
    """The time of a command, from the start of Python to its end."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gvfx", *map(str, arguments)], check=True, capture_output=True)
    return time.perf_counter() - begun


def store_rows(quick: bool) -> list[Row]:
    """Commands that have nothing to run in stores of 10,000 files."""
    files, rows = FILES // 10 if quick else FILES, []
    with tempfile.TemporaryDirectory() as scratch:
        tuning, table = sweep_curves("same"), [c for c in ITEMS[TABLE].needs({}) if isinstance(c, Curve)]
        counts = [-(-files // len(curves)) for curves in (tuning, table)]
        swept, shown = Path(scratch) / "sweep", Path(scratch) / "table"
        made = [fill(folder, curves, n) for folder, curves, n in zip((swept, shown), (tuning, table), counts, strict=True)]
        time.sleep(3)  # files that have just been written are read once more
        cases: list[tuple[int, float, tuple[object, ...]]] = [
            (made[0], 5, ("sweep", "same", "--seeds", counts[0], "--results", swept, "--workers", 1)),
            (made[1], 5, ("reproduce", TABLE, "--seeds", counts[1], "--results", shown, "--workers", 1)),
            (made[1], 10, ("report", shown, "--seeds", counts[1])),
        ]
        for number, bar, command in cases:
            first, *again = (command_seconds(*command) for _ in range(3))
            case = f"gvfx {command[0]}, {number:,} stored runs"
            rows.append(at_most(case, min(again), bar, " s", f"first time {first:.1f} s"))
    return rows


# --- long runs and many questions -------------------------------------------------------------------------------------

FLAT = 10.0  # MB by which memory may grow after the first tenth of a run
MOST = 8 * 1024.0  # MB for a thousand questions in ten thousand states


class Line(gym.Env[Any, Any]):
    """A walk along a line of twenty states, in pure Python; seen as a number, or as a point."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, as_point: bool = False) -> None:
        self.as_point, self.place = as_point, 0
        box = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = box if as_point else gym.spaces.Discrete(20)

    def look(self) -> Any:
        return np.array([self.place / 10 - 1], np.float32) if self.as_point else self.place

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = max(0, self.place + (1 if action or self.np_random.random() < 0.3 else -1))
        return self.look(), 1.0, self.place == 19, False, {}


def long_run(kind: str, steps: int) -> dict[str, float]:
    """Steps of an environment of one's own: the peak of memory and the open files after a tenth of them, and after all.

    On networks after a half: JAX compiles what learns when the first batch is full.
    """
    learner = gvfx.Deep() if kind == "networks" else None
    questions = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.9, name=f"{p}") for p in (0.5, 0.2)]
    seen: list[tuple[float, int]] = []
    options: Any = {"steps": steps, "evaluate_every": steps // 20, "audit": 0.0}
    options["progress"] = lambda *_: seen.append((peak_megabytes(), _open_files()))
    begun = time.perf_counter()
    gvfx.evaluate(Line(kind != "tables"), questions, learner=learner, **options)
    seconds = time.perf_counter() - begun
    first, last = seen[9 if kind == "networks" else 1], (peak_megabytes(), _open_files())
    return {"first": first[0], "grown": last[0] - first[0], "files": last[1] - first[1], "speed": steps / seconds}


def _open_files() -> int:
    """How many files this process has open; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0


def many_questions(learner: str, side: int, policies: int, signals: int, steps: int) -> dict[str, float]:
    """Questions (policies times signals) about a torus of side * side states: the seconds of every part, the peak of memory."""
    world, questions = torus(side), questions_on(side * side, policies, signals)
    how = {"CertaintyEquivalence": gvfx.CertaintyEquivalence(), "ExpectedSarsa": gvfx.ExpectedSarsa()}[learner]
    spent: dict[str, float] = {}
    last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        spent[name] = time.perf_counter() - last
        last = time.perf_counter()

    result = gvfx.evaluate(world, questions, gvfx.Mixture(), how, steps=steps, evaluate_every=steps, progress=False)  # type: ignore[arg-type]
    lap("evaluate")
    result.summary()
    if result.details.has_intervals:
        result.intervals()
    lap("summary")
    with tempfile.TemporaryDirectory() as folder:
        kept, page = Path(folder) / "answers.gvfx", Path(folder) / "answers.html"
        result.save(kept)
        del result
        lap("save")
        result = load(kept)
        lap("load")
        write_answers(page, result, kept)
        lap("page")
        sizes = {"file": kept.stat().st_size / 2**20, "html": page.stat().st_size / 2**20}
    return {**spent, **sizes, "seconds": sum(spent.values()), "peak": peak_megabytes()}


def torus(side: int) -> gvfx.MDP:
    """A world of side * side states in which an action moves to one of four neighbours, mostly the one it means."""
    states = np.arange(side * side)
    row, column = np.divmod(states, side)
    moves = [((row + r) % side) * side + (column + c) % side for r, c in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    following = np.repeat(np.stack(moves, axis=1)[:, None], 4, axis=1)
    prob = np.broadcast_to(np.where(np.eye(4, dtype=bool), 0.85, 0.05), following.shape)
    start = np.full(len(states), 1 / len(states))
    return gvfx.MDP(following, prob, start, np.zeros(len(states), bool), horizon=200)


def questions_on(states: int, policies: int, signals: int) -> list[gvfx.GVF]:
    """A question for every pair of a random policy and a random signal."""
    random = np.random.default_rng(0)
    chosen = [random.dirichlet(np.ones(4), size=states) for _ in range(policies)]
    places = [random.integers(0, states, 5).tolist() for _ in range(signals)]
    return [
        gvfx.GVF(policy, gvfx.Distractor(float(k % 7 + 1), 1.0, at=place), 0.9, name=f"policy {i}, signal {k}")
        for i, policy in enumerate(chosen)
        for k, place in enumerate(places)
    ]


def memory_rows(quick: bool) -> list[Row]:
    """The growth of memory in long runs."""
    out = []
    kinds = {"tables": 500_000 if quick else 10_000_000, "networks": 20_000 if quick else 300_000}
    if importlib.util.find_spec("jax") is None:
        del kinds["networks"]
    for kind, steps in kinds.items():
        found = apart(long_run, kind, steps)
        note = f"{found['first']:.0f} MB after a tenth, {found['files']:+.0f} open files, {found['speed']:,.0f} steps/s"
        row = at_most(f"{steps:,} steps of an own environment on {kind}: growth of memory", found["grown"], FLAT, " MB", note)
        out.append(row if not found["files"] else Row(row.case, row.measured, row.bar, False, note))
    return out


def question_rows(quick: bool) -> list[Row]:
    """Memory and time of many questions in a large world."""
    side, policies, signals = (32, 5, 20) if quick else (100, 10, 100)
    out = []
    for learner in ("CertaintyEquivalence", "ExpectedSarsa"):
        found = apart(many_questions, learner, side, policies, signals, 50_000 if quick else 1_000_000)
        parts = ", ".join(f"{name} {found[name]:.1f} s" for name in ("evaluate", "summary", "save", "load", "page"))
        what = f"{policies * signals:,} questions, {side * side:,} states, {learner}: peak of memory"
        sizes = f"file {found['file']:.0f} MB, page {found['html']:.1f} MB"
        out.append(at_most(what, found["peak"], MOST, " MB", f"{parts}; {sizes}"))
    return out


# --- pages ------------------------------------------------------------------------------------------------------------

FIGURES, OPENED = 200, 2.0  # figures of a page, and seconds in which it opens
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MADE = Provenance("python -m benchmarks load", "0 to 24", "", "0")
COLOURS = ("#c2255c", "#1c7ed6", "#0ca678", "#868e96", "#f08c00", "#5f3dc4")
TIMER = """<script>addEventListener("load", () => requestAnimationFrame(() => setTimeout(() => {
const paint = performance.getEntriesByName("first-contentful-paint")[0];
console.log(`opened ${Math.max(performance.now(), paint ? paint.startTime : 0)}`); })));</script>"""


def page_of_figures(count: int) -> Page:
    """A page of `count` figures: curves, maps and tables in turn, in sections of twenty."""
    random = np.random.default_rng(0)
    x = np.arange(1, 101) * 20_000
    items: list[Curves | Maps | DataTable] = []
    for k in range(count):
        if k % 4 == 3:
            rows = [[f"method {r}", *(f"{v:.3g}" for v in random.random(4))] for r in range(12)]
            items.append(DataTable(f"item-{k}", f"Table {k}", "", ["method", *"abcd"], rows, provenance=MADE))
        elif k % 2:
            panels = [Panel(f"GVF {p}", [random.random(400) for _ in range(4)]) for p in range(2)]
            times = [1, 2, 3, 4]
            items.append(Maps(f"item-{k}", f"Maps {k}", "", 20, 20, [], [(0, 0)], times, panels, False, "error", MADE))
        else:
            means = [np.exp(-x / 5e5) * random.uniform(0.8, 1.2, len(x)) + 0.1 for _ in COLOURS]
            series = [Series(f"method {c}", m, 0.9 * m, 1.1 * m, colour) for c, (m, colour) in enumerate(zip(means, COLOURS))]
            items.append(Curves(f"item-{k}", f"Curves {k}", "", x, series, "error", MADE))
    sections = [Section(f"part-{k}", f"Part {k // 20}", "", tuple(items[k : k + 20])) for k in range(0, count, 20)]
    return Page(f"{count} figures", "", Summary("How long?", "See below."), tuple(sections))


def browser() -> str | None:
    """The path of Chromium, if there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def seconds_to_open(page: Page, program: str) -> float:
    """The time from the start of the navigation until the page is loaded and painted, in headless Chromium."""
    text = render(page).replace("<style>", f"{TIMER}<style>", 1)
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--enable-logging=stderr"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        call = [program, *flags, f"--user-data-dir={folder}/profile", f"--screenshot={folder}/page.png", path.as_uri()]
        done = subprocess.run(call, capture_output=True, text=True, errors="replace", timeout=120)
    found = re.search(r'"opened ([\d.]+)"', done.stderr)
    if found is None:
        raise RuntimeError(f"{program} did not open the page: {done.stderr[-300:]}")
    return float(found[1]) / 1000


def page_rows(quick: bool) -> list[Row]:
    """The time in which a page of many figures opens."""
    program, case = browser(), f"a report of {FIGURES} figures opens"
    if program is None:
        return [Row(case, "", f"<= {OPENED:g} s", None, "Chromium is not installed")]
    page = page_of_figures(FIGURES)
    seconds = min(seconds_to_open(page, program) for _ in range(1 if quick else 3))
    return [at_most(case, seconds, OPENED, " s", "until it is loaded and painted, in headless Chromium")]


# --- the start of Python ----------------------------------------------------------------------------------------------

FIRST_TABLE = """
import gvfx
world = gvfx.gridworld(20, goals={"left": (0, 0), "right": (0, 19)}, slip=0.1)
questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(100, 5, at=goal), 0.99) for goal in ("left", "right")]
gvfx.evaluate(world, questions, steps=1, progress=False)
"""
FIRST_NETWORK = """
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


def start_seconds(program: str, folder: Path, after_import: bool = False) -> float:
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


def start_rows(quick: bool) -> list[Row]:
    """From the start of Python to the first environment step, and from the import to the answers of the README's five lines."""
    start = "second start to the first step"
    cases = {  # program, bar, whether from the import on
        f"table: {start}": (FIRST_TABLE, 1.0, False),
        **({f"network: {start}": (FIRST_NETWORK, 5.0, False)} if importlib.util.find_spec("jax") else {}),
        "the README's five lines: import to answers, second start": (FIVE_LINES, 5.0, True),
    }
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, (program, bar, after_import) in cases.items():
            folder = Path(scratch) / name.split(":")[0]
            first = start_seconds(program, folder, after_import)
            second = min(start_seconds(program, folder, after_import) for _ in range(2 if quick else 5))
            rows.append(at_most(name, second, bar, " s", f"first start {first:.1f} s"))
    return rows


ROWS = {"stores": store_rows, "memory": memory_rows, "questions": question_rows, "pages": page_rows, "start": start_rows}
PARTS: dict[str, Part] = {name: sized_rows(rows, [False], [True]) for name, rows in ROWS.items()}
