"""Speed on tables: the compiled loop against hand-written C, against NumPy and against itself.

Every comparison is measured side by side: the contenders take turns in one run and the best time of each counts, so a
busy machine slows both alike.  Only running is timed: each case first builds, compiles and warms up what it compares.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np

import gvfx
from benchmarks.common import loops, reference
from benchmarks.common.loops import FULL, QUICK, Effort, Run, rates, side_by_side
from benchmarks.study import Part, Row, at_least, at_most, sized_rows
from gvfx_paper.settings.tabular import CARDINAL, DISCOUNT, paper

MEGABYTE = 1 << 20
C_BAR = 0.7
Rows = list[Row]


# --- against C -------------------------------------------------------------------------------------------------------


def against_c(effort: Effort) -> Rows:
    """The explorer with 2 GVFs on the 20x20 grid against the same step written in C."""
    case, setting = "GVFExplorer, 2 GVFs, 20x20 : C", paper["distinct"]
    ours = Run.of(setting)
    theirs = loops.c_run(ours, setting)
    if isinstance(theirs, str):
        return [Row(case, "skipped", f">= {C_BAR}x", None, theirs)]
    ours(loops.CHECKED_STEPS)
    theirs(loops.CHECKED_STEPS)
    loops.check_same(ours, theirs)
    steps = ours.steps_in(effort.seconds)
    seconds, in_c = side_by_side(effort, (ours, steps), (theirs, steps))
    return [at_least(case, in_c / seconds, C_BAR, rates(compiled=seconds, C=in_c))]


def through_evaluate(effort: Effort) -> Rows:
    """The same through gvfx.evaluate: what its loop takes with twenty measurements on the way, from the first step on."""
    case, setting = "GVFExplorer through gvfx.evaluate : C", paper["distinct"]
    like = Run.of(setting)
    steps, best, in_c = 10 * like.steps_in(effort.seconds), float("inf"), float("inf")
    for _ in range(max(3, effort.repetitions // 4)):
        theirs = loops.c_run(like, setting)
        if isinstance(theirs, str):
            return [Row(case, "skipped", f">= {C_BAR}x", None, theirs)]
        in_c = min(in_c, loops.timed(theirs, steps) / steps)
        method = setting.behaviour("GVFExplorer"), setting.learner()
        result = gvfx.evaluate(setting.world, setting.questions, *method, steps=steps, progress=False)
        best = min(best, float(result.details.seconds[0]) / steps)
    return [at_least(case, in_c / best, C_BAR, rates(evaluate=best, C=in_c))]


# --- against NumPy and against itself --------------------------------------------------------------------------------


def against_numpy(effort: Effort) -> Rows:
    """The explorer against the same step in NumPy."""
    ours = Run.of(paper["distinct"])
    theirs = reference.ExplorerLoop(reference.Problem.of(ours))
    theirs.run(600)
    seconds, in_numpy = side_by_side(effort, (ours, ours.steps_in(effort.seconds)), (theirs.run, 1_500))
    return [at_least("GVFExplorer, 2 GVFs, 20x20 : NumPy", in_numpy / seconds, 300, rates(compiled=seconds, NumPy=in_numpy))]


def against_explorer(effort: Effort) -> Rows:
    """The simpler behaviours' rates relative to the explorer's, all wrapped as the paper runs them."""
    names = ("RoundRobin", "Mixture", "Uniform")
    runs = [Run.of(paper["distinct"], name) for name in ("GVFExplorer", *names)]
    explorer, *others = side_by_side(effort, *[(run, run.steps_in(effort.seconds)) for run in runs])
    return [
        at_least(f"{name} : GVFExplorer", explorer / seconds, 1.2, rates(**{name: seconds, "GVFExplorer": explorer}))
        for name, seconds in zip(names, others)
    ]


def forty(effort: Effort) -> Rows:
    """What a step costs with 40 GVFs, relative to 2."""
    runs = Run.of(paper["distinct"]), Run.of(paper["forty"])
    few, many = side_by_side(effort, *[(run, run.steps_in(effort.seconds)) for run in runs])
    return [at_most("cost of a step, 40 GVFs : 2 GVFs", many / few, 5, "x", rates(forty=many, two=few))]


def thousand(effort: Effort) -> Rows:
    """What a GVF costs per step when there are 1,000: 4 policies times 250 cumulants, each paid in its own cell."""
    setting = paper["forty"]
    questions = [
        gvfx.GVF(pi, gvfx.Constant(1.0 + cell % 7, at=cell), DISCOUNT, name=f"{direction}-{cell}")
        for direction, pi in CARDINAL.items()
        for cell in np.linspace(0, 399, 250).astype(int).tolist()
    ]
    run = Run(setting.world, questions, setting.behaviour("GVFExplorer"), setting.learner())
    (seconds,) = side_by_side(effort, (run, run.steps_in(2 * effort.seconds)))
    each = seconds / len(questions) * 1e9
    return [at_most("1,000 GVFs, per GVF and step", each, 6, " ns", rates(compiled=seconds))]


# --- the successor representation ------------------------------------------------------------------------------------


def successor_step(effort: Effort) -> Rows:
    """The whole step of the successor-representation behaviour against NumPy's."""
    setting = paper["distinct"]
    ours = Run.of(setting, "SR")
    theirs = reference.SuccessorLoop(reference.Problem.of(ours), rate=setting.rate("SR"))
    theirs.run(600)
    seconds, in_numpy = side_by_side(effort, (ours, ours.steps_in(effort.seconds)), (theirs.run, 1_000))
    return [at_least("SR whole step, 400 states : NumPy", in_numpy / seconds, 25, rates(compiled=seconds, NumPy=in_numpy))]


# --- memory, and two processes ---------------------------------------------------------------------------------------


def memory(effort: Effort) -> Rows:
    """Growth of the resident set between a run of 1 M steps and one of 10 M; first of all: what others freed would hide it."""
    case = "memory, 10 M steps over 1 M"
    if not Path("/proc/self/clear_refs").exists():
        return [Row(case, "skipped", "<= 5 MB", None, "needs Linux's /proc to measure the resident set")]
    peak_memory(1_000)  # compiles
    short, long = peak_memory(1_000_000), peak_memory(10_000_000)
    note = f"the shorter run's process holds {short / MEGABYTE:.0f} MB"
    return [at_most(case, max(long - short, 0) / MEGABYTE, 5, " MB", note)]


def peak_memory(steps: int) -> int:
    """The most bytes that this process holds while it runs `steps` steps and keeps the result."""
    setting = paper["distinct"]
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    method = setting.behaviour("GVFExplorer"), setting.learner()
    result = gvfx.evaluate(setting.world, setting.questions, *method, steps=steps, progress=False)
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    del result
    return int(held.split()[1]) * 1024


@cache
def _own() -> Run:
    """The seed that this process runs."""
    return Run.of(paper["distinct"], seed=os.getpid())


def _go_on(steps: int) -> float:
    """Run; returns the seconds of processor time it took."""
    begun = time.process_time()
    _own()(steps)
    return time.process_time() - begun


def _steps_in(seconds: float) -> int:
    return _own().steps_in(seconds)


def two_processes(effort: Effort) -> Rows:
    """Two seeds on two processes against one on one; both have compiled before."""
    case, bar, context = "two processes : one", 1.8, multiprocessing.get_context("spawn")
    with ExitStack() as pools:
        workers = [pools.enter_context(ProcessPoolExecutor(1, context)) for _ in range(2)]
        steps = min(worker.submit(_steps_in, effort.process_seconds).result() for worker in workers)

        def together(count: int) -> tuple[float, float]:
            """Seconds until all are done, and the smallest share of a core that one of them got."""
            begun = time.perf_counter()
            busy = [future.result() for future in [worker.submit(_go_on, steps) for worker in workers[:count]]]
            seconds = time.perf_counter() - begun
            return seconds, min(busy) / seconds

        turns = [[together(count) for count in (1, 2)] for _ in range(effort.process_repetitions)]
    (alone, _), (both, share) = (min(times) for times in zip(*turns))
    speed_up = 2 * alone / both
    note = f"{steps / 1e6:.0f} M steps each: one alone {alone:.2f} s, two together {both:.2f} s"
    if speed_up < bar and share < 0.9:  # the processes share nothing, so they waited for a core
        return [Row(case, f"{speed_up:.3g}x", f">= {bar:g}x", None, f"no two idle cores: one got {share:.0%} of its own; {note}")]
    return [at_least(case, speed_up, bar, note)]


CASES = {
    **{"memory": memory, "C": against_c, "evaluate": through_evaluate, "NumPy": against_numpy},
    **{"behaviours": against_explorer, "forty": forty, "thousand": thousand, "successor": successor_step},
    "processes": two_processes,
}
PARTS: dict[str, Part] = {name: sized_rows(measure, [FULL], [QUICK]) for name, measure in CASES.items()}
