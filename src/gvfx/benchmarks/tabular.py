"""The tabular benchmark: the compiled loop against hand-written C, against NumPy and against itself.

Every comparison is measured side by side: the contenders take turns in one run and the best time of each counts, so a
busy machine slows both alike.  Only running is timed: each case first builds, compiles and warms up what it compares,
and returns a function that measures it.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.benchmarks.common import reference
from gvfx.benchmarks.common.c_loop import against_c, through_evaluate
from gvfx.benchmarks.common.rows import Row, as_table, at_least, at_most, machine
from gvfx.benchmarks.common.timing import FULL, QUICK, Case, Effort, Rows, Run, rates, side_by_side
from gvfx.experiments.settings.tabular import CARDINAL, DISCOUNT, paper
from gvfx.kernel import BehaviourRule, Sizes, Transition, whole
from gvfx.questions.cumulants import Constant
from gvfx.questions.gvf import GVF, stack
from gvfx.running.evaluate import evaluate
from gvfx.worlds.mdp import MDP

MEGABYTE = 1 << 20


# --- 2 to 5: against NumPy and against itself -------------------------------------------------------------------------


def against_numpy(effort: Effort) -> Callable[[], Rows]:
    """The explorer against the same step in NumPy."""
    ours = Run.of(paper["distinct"])
    theirs = reference.ExplorerLoop(reference.Problem(ours.world, ours.asked))
    theirs.run(600)

    def measure() -> Rows:
        seconds, in_numpy = side_by_side(effort, (ours, ours.steps_in(effort.seconds)), (theirs.run, 1_500))
        note = rates(compiled=seconds, NumPy=in_numpy)
        return [at_least("GVFExplorer, 2 GVFs, 20x20 : NumPy", in_numpy / seconds, 300, note)]

    return measure


def against_explorer(effort: Effort) -> Callable[[], Rows]:
    """The simpler behaviours' rates relative to the explorer's, all wrapped as the paper runs them."""
    names = ("RoundRobin", "Mixture", "Uniform")
    runs = [Run.of(paper["distinct"], name) for name in ("GVFExplorer", *names)]

    def measure() -> Rows:
        explorer, *others = side_by_side(effort, *[(run, run.steps_in(effort.seconds)) for run in runs])
        return [
            at_least(f"{name} : GVFExplorer", explorer / seconds, 1.2, rates(**{name: seconds, "GVFExplorer": explorer}))
            for name, seconds in zip(names, others)
        ]

    return measure


def forty(effort: Effort) -> Callable[[], Rows]:
    """What a step costs with 40 GVFs, relative to 2."""
    runs = Run.of(paper["distinct"]), Run.of(paper["forty"])

    def measure() -> Rows:
        few, many = side_by_side(effort, *[(run, run.steps_in(effort.seconds)) for run in runs])
        return [at_most("cost of a step, 40 GVFs : 2 GVFs", many / few, 5, "x", rates(forty=many, two=few))]

    return measure


def thousand_questions() -> tuple[MDP, list[GVF]]:
    """4 cardinal policies times 250 cumulants, each paid in its own cell of the 20x20 grid."""
    world = paper["forty"].world
    cells = np.linspace(0, 399, 250).astype(int).tolist()
    return world, [
        GVF(pi, Constant(1.0 + cell % 7, at=cell), DISCOUNT, name=f"{direction}-{cell}")
        for direction, pi in CARDINAL.items()
        for cell in cells
    ]


def thousand(effort: Effort) -> Callable[[], Rows]:
    """What a GVF costs per step when there are 1,000."""
    setting = paper["forty"]
    run = Run(*thousand_questions(), setting.behaviour("GVFExplorer"), setting.learner())

    def measure() -> Rows:
        (seconds,) = side_by_side(effort, (run, run.steps_in(2 * effort.seconds)))
        each = seconds / len(run.asked.names) * 1e9
        return [at_most("1,000 GVFs, per GVF and step", each, 6, " ns", rates(compiled=seconds))]

    return measure


# --- 6: the successor representation ----------------------------------------------------------------------------------


def make_replay(rule: BehaviourRule) -> Callable[..., None]:
    """A compiled loop that calls a behaviour's observe alone, over recorded transitions."""
    observe = rule.observe

    @whole
    def replay(state, x, action, next_x, alive, c, gamma, pi, stride):
        for n in range(x.shape[0]):
            row, next_row = x[n] * stride, next_x[n] * stride
            tr = Transition(row, x[n], action[n], 1.0, next_row, next_x[n], -1, 1.0, 0, alive[n])
            observe(state, n, tr, c[n], gamma, pi)

    return replay


def successor_update(effort: Effort) -> Callable[[], Rows]:
    """The representation's update alone against NumPy's, on the same recorded transitions."""
    setting = paper["distinct"]
    world, asked = setting.world, stack(setting.questions, setting.world)
    behaviour = SuccessorRepresentation(rate=setting.rate("SR"))
    state = behaviour.begin(asked, world)
    compiled = make_replay(behaviour.rule(Sizes(len(asked.names), world.actions)))
    problem = reference.Problem(world, asked)
    seen = reference.record(problem, 20_000)
    tables = reference.Successor.zeros(*problem.pi.shape)
    tables.temperature, tables.discount = behaviour.temperature, behaviour.discount

    def ours(steps: int) -> None:
        r = seen.first(steps)
        compiled(state, r.x, r.action, r.next_x, r.alive, r.c, asked.gamma, asked.pi, asked.pi_stride)

    def theirs(steps: int) -> None:
        reference.replay(tables, problem, seen.first(steps), setting.rate("SR"))

    ours(len(seen.x))
    theirs(100)

    def measure() -> Rows:
        seconds, in_numpy = side_by_side(effort, (ours, len(seen.x)), (theirs, 1_500))
        note = f"compiled {seconds * 1e9:.0f} ns, NumPy {in_numpy * 1e6:.1f} us per update"
        return [at_least("SR update alone, 400 states : NumPy", in_numpy / seconds, 12, note)]

    return measure


def successor_step(effort: Effort) -> Callable[[], Rows]:
    """The whole step of the successor-representation behaviour against NumPy's."""
    setting = paper["distinct"]
    ours = Run.of(setting, "SR")
    theirs = reference.SuccessorLoop(reference.Problem(ours.world, ours.asked), rate=setting.rate("SR"))
    theirs.run(600)

    def measure() -> Rows:
        seconds, in_numpy = side_by_side(effort, (ours, ours.steps_in(effort.seconds)), (theirs.run, 1_000))
        note = rates(compiled=seconds, NumPy=in_numpy)
        return [at_least("SR whole step, 400 states : NumPy", in_numpy / seconds, 25, note)]

    return measure


# --- 7: memory --------------------------------------------------------------------------------------------------------


def memory(effort: Effort) -> Callable[[], Rows]:
    """Growth of the resident set between a run of 1 M steps and one of 10 M."""
    case = "memory, 10 M steps over 1 M"
    if not Path("/proc/self/clear_refs").exists():
        return lambda: [Row(case, "skipped", "<= 5 MB", None, "needs Linux's /proc to measure the resident set")]
    peak_memory(1_000)  # compiles
    short, long = peak_memory(1_000_000), peak_memory(10_000_000)
    note = f"the shorter run's process holds {short / MEGABYTE:.0f} MB"
    return lambda: [at_most(case, max(long - short, 0) / MEGABYTE, 5, " MB", note)]


def peak_memory(steps: int) -> int:
    """The most bytes that this process holds while it runs `steps` steps and keeps the result."""
    setting = paper["distinct"]
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    result = evaluate(setting.world, setting.questions, setting.behaviour("GVFExplorer"), setting.learner(), steps=steps)
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    del result
    return int(held.split()[1]) * 1024


# --- 8: two processes -------------------------------------------------------------------------------------------------


@cache
def _own() -> Run:
    """The seed that this process runs."""
    return Run.of(paper["distinct"], seed=os.getpid())


def _steps_in(seconds: float) -> int:
    return _own().steps_in(seconds)


def _go_on(steps: int) -> float:
    """Run; returns the seconds of processor time it took."""
    begun = time.process_time()
    _own()(steps)
    return time.process_time() - begun


def two_processes(effort: Effort, workers: Sequence[ProcessPoolExecutor]) -> Rows:
    """Two seeds on two processes against one on one; both have compiled before."""
    case, bar = "two processes : one", 1.8
    steps = min(worker.submit(_steps_in, effort.process_seconds).result() for worker in workers)

    def together(count: int) -> tuple[float, float]:
        """Seconds until all are done, and the smallest share of a core that one of them got."""
        begun = time.perf_counter()
        busy = wait_for([worker.submit(_go_on, steps) for worker in workers[:count]])
        seconds = time.perf_counter() - begun
        return seconds, min(busy) / seconds

    turns = [[together(count) for count in (1, 2)] for _ in range(effort.process_repetitions)]
    (alone, _), (both, share) = (min(times) for times in zip(*turns))
    speed_up = 2 * alone / both
    note = f"{steps / 1e6:.0f} M steps each: one alone {alone:.2f} s, two together {both:.2f} s"
    if speed_up < bar and share < 0.9:  # the processes share nothing, so they waited for a core
        return [Row(case, f"{speed_up:.3g}x", f">= {bar:g}x", None, f"no two idle cores: one got {share:.0%} of its own; {note}")]
    return [at_least(case, speed_up, bar, note)]


def wait_for(futures: Sequence[Future]) -> list[Any]:
    """The results of all."""
    return [future.result() for future in futures]


# --- the table --------------------------------------------------------------------------------------------------------

# The cases of each of two processes: they prepare side by side (compiling is most of the work), then measure in turn.
SHARES: tuple[tuple[Case, ...], ...] = (
    (against_c, through_evaluate, against_numpy, against_explorer, successor_step),
    (memory, forty, thousand, successor_update),  # memory first: what others have freed would hide a growth
)
ORDER: tuple[Case, ...] = (
    against_c,
    through_evaluate,
    against_numpy,
    against_explorer,
    forty,
    thousand,
    successor_update,
    successor_step,
    memory,
)

_prepared: dict[str, Callable[[], Rows]] = {}  # in a worker: its cases, ready to be measured


def _prepare(cases: tuple[Case, ...], effort: Effort) -> None:
    _own()
    for case in cases:
        _prepared[case.__name__] = case(effort)


def _measure(case: Case) -> Rows:
    return _prepared[case.__name__]()


def run(console: Console, quick: bool = False) -> Rows:
    """Measure every case, print them with the machine they were measured on, and return them."""
    begun = time.perf_counter()
    effort = QUICK if quick else FULL
    console.print(machine(), highlight=False)
    rows: Rows = []
    with ExitStack() as open_pools, console.status("compiling") as status:
        context = multiprocessing.get_context("spawn")
        workers = [open_pools.enter_context(ProcessPoolExecutor(1, context)) for _ in SHARES]
        wait_for([worker.submit(_prepare, cases, effort) for worker, cases in zip(workers, SHARES)])
        home = {case: worker for worker, cases in zip(workers, SHARES) for case in cases}
        for case in ORDER:
            status.update(str(case.__doc__))
            rows += home[case].submit(_measure, case).result()
        status.update(str(two_processes.__doc__))
        rows += two_processes(effort, workers)
    console.print(as_table(rows))
    console.print(f"measured in {time.perf_counter() - begun:.0f} s", highlight=False)
    return rows
