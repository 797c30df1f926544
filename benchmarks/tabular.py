"""The tabular benchmark: the compiled loop against hand-written C, against NumPy and against itself.

Every comparison is measured side by side: the contenders take turns in one run and the best time of each counts, so a
busy machine slows both alike.  Only running is timed: each case first builds, compiles and warms up what it compares,
and returns a function that measures it.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import reference
from benchmarks.rows import Row, as_table, at_least, at_most, machine
from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.experiments.settings.tabular import CARDINAL, DISCOUNT, Setting, paper
from gvfx.kernel import BehaviourRule, Sizes, Transition, whole
from gvfx.learners.base import Learner
from gvfx.questions.cumulants import Constant
from gvfx.questions.gvf import GVF, stack
from gvfx.rng import seed_streams
from gvfx.running.evaluate import evaluate
from gvfx.running.streams.compiled_loop import Monitor, cursor, dynamics, make_loop
from gvfx.worlds.mdp import MDP

FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
CHECKED_STEPS = 20_000  # the C loop must agree with the compiled one so long
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    seconds: float  # of one timed call of a compiled loop
    repetitions: int
    process_seconds: float  # of one run in the two-process row
    process_repetitions: int


FULL = Effort(seconds=0.06, repetitions=25, process_seconds=3.0, process_repetitions=4)
QUICK = Effort(seconds=0.03, repetitions=6, process_seconds=0.3, process_repetitions=5)


class Run:
    """A compiled run that has been warmed up and can go on; `learning`, `acting` and `at` are its states."""

    def __init__(self, world: MDP, questions: Sequence[GVF], behaviour: Behaviour, learner: Learner, seed: int = 0) -> None:
        asked = stack(questions, world)
        sizes = Sizes(len(asked.names), world.actions)
        self.world, self.asked = world, asked
        self.loop = make_loop(
            sizes,
            world.successors,
            behaviour.rule(sizes),
            learner.rule(sizes, behaviour.needs_variance),
            learner.needs_next_action,
            world.features is not None,
            bool(asked.drift_sd.any() or asked.carry.any()),
        )
        self.dynamics = dynamics(world, asked)
        self.acting, self.learning = behaviour.begin(asked, world), learner.begin(asked, world)
        self.at = cursor(world, asked, seed_streams(seed))
        nothing = np.zeros((sizes.gvfs, 1))
        self.watch = Monitor(nothing, nothing, np.zeros(1, dtype=np.int64), nothing.T.copy())
        self(0)  # compiles

    @classmethod
    def of(cls, setting: Setting, behaviour: str = "GVFExplorer", seed: int = 0) -> Run:
        """A setting of the paper as the paper runs it: Floor(Epsilon(behaviour)) with Expected Sarsa."""
        return cls(setting.world, setting.questions, setting.behaviour(behaviour), setting.learner(), seed)

    def __call__(self, steps: int) -> None:
        self.loop(self.dynamics, self.acting, self.learning, self.at, self.watch, steps)

    def steps_in(self, seconds: float) -> int:
        """About how many steps take so long; warms up: of two calls the first may be the first to touch the tables."""
        steps = 1_000
        while (taken := min(timed(self, steps), timed(self, steps))) < 0.2 * seconds:
            steps *= 2
        return max(1, round(steps * seconds / taken))


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    """Seconds that a call takes."""
    begun = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begun


def side_by_side(effort: Effort, *contenders: tuple[Callable[[int], Any], int]) -> list[float]:
    """Best seconds per step of each (call, steps): they take turns, so that noise meets all of them."""
    best = [math.inf] * len(contenders)
    for _ in range(effort.repetitions):
        for n, (call, steps) in enumerate(contenders):
            best[n] = min(best[n], timed(call, steps) / steps)
    return best


def rates(**seconds: float) -> str:
    """Steps per second, spelt out."""
    return ", ".join(f"{name} {_rate(1 / s)}" for name, s in seconds.items())


def _rate(steps: float) -> str:
    return f"{steps / 1e6:.3g} M/s" if steps >= 1e5 else f"{steps / 1e3:.3g} k/s"


Rows = list[Row]
Case = Callable[[Effort], Callable[[], Rows]]  # prepares, and returns what measures


# --- 1: against C -----------------------------------------------------------------------------------------------------


C_TYPES = {  # of the arrays of explorer.c's struct `World`, by name
    **dict.fromkeys(("next", "other", "pays", "start_other"), "i4"),
    **dict.fromkeys(("threshold", "start_threshold", "pi", "gamma", "mean", "sd", "weights"), "f8"),
    "starts": "i8",
    "terminal": "?",
}


class CWorld(ctypes.Structure):
    """The struct `World` of explorer.c."""

    _fields_ = (
        *[(name, ctypes.c_void_p) for name in ("next", "other", "pays", "threshold")],
        *[(name, ctypes.c_void_p) for name in ("starts", "start_threshold", "start_other")],
        ("n_starts", ctypes.c_int64),
        ("terminal", ctypes.c_void_p),
        ("horizon", ctypes.c_int64),
        *[(name, ctypes.c_void_p) for name in ("pi", "gamma", "mean", "sd", "weights")],
        *[(name, ctypes.c_double) for name in ("min_q", "min_m", "epsilon_steps", "floor")],
    )


class CRun:
    """The hand-written C loop on the same arrays, from the same seed; same calls as Run."""

    def __init__(self, like: Run, setting: Setting, library: Path) -> None:
        d, asked = like.dynamics, like.asked
        if asked.pi_stride or asked.gamma_stride or like.world.features is not None or asked.drift_sd.any():
            raise ValueError("explorer.c takes policies and discounts that are the same in every state, and no drift")
        arrays = {**d._asdict(), "weights": asked.weights}
        self.arrays = {name: np.ascontiguousarray(arrays[name], dtype=kind) for name, kind in C_TYPES.items()}
        numbers = {
            "n_starts": len(d.starts),
            "horizon": d.horizon,
            "min_q": like.learning.rate_q.minimum,
            "min_m": like.learning.rate_m.minimum,
            "epsilon_steps": -1.0 / like.acting.inner.epsilon.slope,
            "floor": like.acting.floor,
        }
        self.world = CWorld(**numbers, **{name: a.ctypes.data for name, a in self.arrays.items()})
        self.learning = setting.learner().begin(asked, like.world)
        self.at = cursor(like.world, asked, seed_streams(0))
        changed = (self.learning.q, self.learning.m, self.at.visits, self.at.rng, self.at.at)
        self.changed = [ctypes.c_void_p(a.ctypes.data) for a in changed]
        self.run = ctypes.CDLL(str(library)).run
        self.run.restype = None

    def __call__(self, steps: int) -> None:
        self.run(ctypes.byref(self.world), *self.changed, ctypes.c_int64(steps))


def c_run(like: Run, setting: Setting) -> CRun | str:
    """explorer.c compiled for the setting's sizes, or a message that says why it could not be."""
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        return "no C compiler found (cc, gcc or clang)"
    sizes = {"GVFS": len(setting.questions), "ACTIONS": setting.world.actions, "SUCCESSORS": setting.world.successors}
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "explorer.so"
        defined = [f"-D{name}={size}" for name, size in sizes.items()]
        command = [compiler, *FLAGS, *defined, str(Path(__file__).with_name("explorer.c")), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{compiler} failed: {done.stderr.strip()[:200]}"
        return CRun(like, setting, library)


def check_same(ours: Run, theirs: CRun) -> None:
    """Both loops must have learnt the same from the same seed, or a comparison of their speeds means nothing."""
    for name, a, b in (
        ("q", ours.learning.q, theirs.learning.q),
        ("m", ours.learning.m, theirs.learning.m),
        ("visits", ours.at.visits, theirs.at.visits),
        ("position", ours.at.at[:4], theirs.at.at[:4]),
    ):
        if not np.allclose(a, b, rtol=1e-8, atol=1e-8):
            worst = np.abs(a - b).max()
            raise RuntimeError(f"explorer.c and the compiled loop disagree on {name} after {CHECKED_STEPS} steps, by {worst:g}")


def against_c(effort: Effort) -> Callable[[], Rows]:
    """The explorer with 2 GVFs on the 20x20 grid against the same step written in C."""
    case = "GVFExplorer, 2 GVFs, 20x20 : C"
    setting = paper["distinct"]
    ours = Run.of(setting)
    theirs = c_run(ours, setting)
    if isinstance(theirs, str):
        skipped = Row(case, "skipped", ">= 0.7x", None, theirs)
        return lambda: [skipped]
    ours(CHECKED_STEPS)
    theirs(CHECKED_STEPS)
    check_same(ours, theirs)

    def measure() -> Rows:
        steps = ours.steps_in(effort.seconds)
        seconds, in_c = side_by_side(effort, (ours, steps), (theirs, steps))
        return [at_least(case, in_c / seconds, 0.7, rates(compiled=seconds, C=in_c))]

    return measure


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
    """Bytes that this process holds at most while it runs so many steps and keeps the result."""
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
    (against_c, against_numpy, against_explorer, successor_step),
    (memory, forty, thousand, successor_update),  # memory first: what others have freed would hide a growth
)
ORDER: tuple[Case, ...] = (
    against_c,
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


def main() -> int:
    """Run the benchmark; 1 if a bar was missed.  `--quick` measures for a shorter time."""
    import sys

    rows = run(Console(), quick="--quick" in sys.argv[1:])
    return int(any(row.passed is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
