"""Load: long runs with flat memory, many questions in a large world, and pages of many figures.

Every measurement is made in a process of its own (`python -m gvfx.benchmarks.common.load_runs NAME NUMBERS`), so that the peak of
memory is its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from gvfx.behaviours.fixed import Mixture
from gvfx.benchmarks.common.load_pages import browser, page_of_figures, seconds_to_open
from gvfx.benchmarks.common.memory import check_memory_known, peak_megabytes
from gvfx.benchmarks.common.rows import Row, at_most
from gvfx.learners.base import Learner
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.learners.networks.deep import Deep
from gvfx.learners.tabular import ExpectedSarsa
from gvfx.questions.cumulants import Distractor
from gvfx.questions.gvf import GVF
from gvfx.questions.signals import Reward
from gvfx.report.answers import write_answers
from gvfx.running.evaluate import evaluate
from gvfx.running.saved import load
from gvfx.worlds.mdp import MDP

FLAT = 10.0  # MB by which memory may grow after the first tenth of a run
MOST = 8 * 1024.0  # MB for a thousand questions in ten thousand states
FIGURES, OPENED = 200, 2.0  # figures of a page, and seconds in which it opens


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
    learner: Learner[Any] | None = Deep() if kind == "networks" else None
    questions = [GVF([p, 1 - p], Reward(), 0.9, name=f"{p}") for p in (0.5, 0.2)]
    seen: list[tuple[float, int]] = []
    begun = time.perf_counter()
    evaluate(
        Line(kind != "tables"),
        questions,
        learner=learner,
        steps=steps,
        evaluate_every=steps // 20,
        audit=0.0,
        progress=lambda *_: seen.append((peak_megabytes(), _open_files())),
    )
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
    how = {"CertaintyEquivalence": CertaintyEquivalence(), "ExpectedSarsa": ExpectedSarsa()}[learner]
    spent: dict[str, float] = {}
    last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        spent[name] = time.perf_counter() - last
        last = time.perf_counter()

    result = evaluate(world, questions, Mixture(), how, steps=steps, evaluate_every=steps, progress=False)  # type: ignore[arg-type]
    lap("evaluate")
    result.summary()
    if result.has_intervals:
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


def torus(side: int) -> MDP:
    """A world of side * side states in which an action moves to one of four neighbours, mostly the one it means."""
    states = np.arange(side * side)
    row, column = np.divmod(states, side)
    moves = [((row + r) % side) * side + (column + c) % side for r, c in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    following = np.repeat(np.stack(moves, axis=1)[:, None], 4, axis=1)
    prob = np.broadcast_to(np.where(np.eye(4, dtype=bool), 0.85, 0.05), following.shape)
    start = np.full(len(states), 1 / len(states))
    return MDP(following, prob, start, np.zeros(len(states), bool), horizon=200)


def questions_on(states: int, policies: int, signals: int) -> list[GVF]:
    """A question for every pair of a random policy and a random signal."""
    random = np.random.default_rng(0)
    chosen = [random.dirichlet(np.ones(4), size=states) for _ in range(policies)]
    places = [random.integers(0, states, 5).tolist() for _ in range(signals)]
    return [
        GVF(policy, Distractor(float(k % 7 + 1), 1.0, at=place), 0.9, name=f"policy {i}, signal {k}")
        for i, policy in enumerate(chosen)
        for k, place in enumerate(places)
    ]


# --- rows ------------------------------------------------------------------------------------------------------------


def measured(name: str, *numbers: object) -> dict[str, float]:
    """What one of the functions above returns, in a process of its own."""
    call = [sys.executable, "-m", "gvfx.benchmarks.common.load_runs", name, *map(str, numbers)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-1000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def memory_rows(quick: bool) -> list[Row]:
    """The growth of memory in long runs."""
    check_memory_known()
    out = []
    kinds = {"tables": 500_000 if quick else 10_000_000, "networks": 20_000 if quick else 300_000}
    if importlib.util.find_spec("jax") is None:
        del kinds["networks"]
    for kind, steps in kinds.items():
        found = measured("long_run", kind, steps)
        note = f"{found['first']:.0f} MB after a tenth, {found['files']:+.0f} open files, {found['speed']:,.0f} steps/s"
        row = at_most(f"{steps:,} steps of an own environment on {kind}: growth of memory", found["grown"], FLAT, " MB", note)
        out.append(row if not found["files"] else Row(row.case, row.measured, row.bar, False, note))
    return out


def question_rows(quick: bool) -> list[Row]:
    """Memory and time of many questions in a large world."""
    check_memory_known()
    side, policies, signals = (32, 5, 20) if quick else (100, 10, 100)
    out = []
    for learner in ("CertaintyEquivalence", "ExpectedSarsa"):
        found = measured("many_questions", learner, side, policies, signals, 50_000 if quick else 1_000_000)
        parts = ", ".join(f"{name} {found[name]:.1f} s" for name in ("evaluate", "summary", "save", "load", "page"))
        what = f"{policies * signals:,} questions, {side * side:,} states, {learner}: peak of memory"
        out.append(
            at_most(what, found["peak"], MOST, " MB", f"{parts}; file {found['file']:.0f} MB, page {found['html']:.1f} MB")
        )
    return out


def page_rows(quick: bool) -> list[Row]:
    """The time in which a page of many figures opens."""
    program, case = browser(), f"a report of {FIGURES} figures opens"
    if program is None:
        return [Row(case, "", f"<= {OPENED:g} s", None, "Chromium is not installed")]
    page = page_of_figures(FIGURES)
    seconds = min(seconds_to_open(page, program) for _ in range(1 if quick else 3))
    return [at_most(case, seconds, OPENED, " s", "until it is loaded and painted, in headless Chromium")]


if __name__ == "__main__":
    function = {"long_run": long_run, "many_questions": many_questions}[sys.argv[1]]
    print(json.dumps(function(sys.argv[2], *map(int, sys.argv[3:]))))  # type: ignore[operator]
