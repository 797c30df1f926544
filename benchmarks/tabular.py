"""The tabular benchmark: the compiled loop against hand-written C, against NumPy and against itself.

Every comparison is measured side by side: the contenders take turns in one run and the best time of each counts, so a
busy machine slows both alike.  Only running is timed; building arrays, compiling and warming up come before.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from benchmarks import reference
from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.cumulants import Constant
from gvfx.experiments.paper import CARDINAL, DISCOUNT, FORTY_GOALS, Setting, paper
from gvfx.gvf import GVF, stack
from gvfx.kernel import FAST, BehaviourRule, Sizes, Transition
from gvfx.learners.base import Learner
from gvfx.running.compiled import cursor, dynamics, make_loop
from gvfx.running.evaluate import evaluate
from gvfx.streams import seed_streams
from gvfx.worlds.gridworld import gridworld
from gvfx.worlds.mdp import MDP

FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
CHECKED_STEPS = 20_000  # the C loop must agree with the compiled one so long
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Row:
    """One measurement; passed is None when it could not be made here."""

    case: str
    measured: str
    bar: str
    passed: bool | None
    note: str = ""


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    seconds: float  # of one timed call of a compiled loop
    repetitions: int
    process_seconds: float  # of one run in the two-process row
    process_repetitions: int


FULL = Effort(seconds=0.06, repetitions=25, process_seconds=3.0, process_repetitions=4)
QUICK = Effort(seconds=0.03, repetitions=7, process_seconds=0.6, process_repetitions=2)


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
        self(0)  # compiles

    @classmethod
    def of(cls, setting: Setting, behaviour: str = "GVFExplorer", seed: int = 0) -> Run:
        """A setting of the paper as the paper runs it: Floor(Epsilon(behaviour)) with Expected Sarsa."""
        return cls(setting.world, setting.questions, setting.behaviour(behaviour), setting.learner(), seed)

    def __call__(self, steps: int) -> None:
        self.loop(self.dynamics, self.acting, self.learning, self.at, steps)

    def steps_in(self, seconds: float) -> int:
        """About how many steps take so long; warms the tables up."""
        steps = 1_000
        while (taken := timed(self, steps)) < 0.2 * seconds:
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


def at_least(case: str, value: float, bar: float, note: str) -> Row:
    """A ratio that should reach a bar."""
    return Row(case, f"{value:.3g}x", f">= {bar:g}x", value >= bar, note)


def at_most(case: str, value: float, bar: float, unit: str, note: str) -> Row:
    """A cost that should stay below a bar."""
    return Row(case, f"{value:.3g}{unit}", f"<= {bar:g}{unit}", value <= bar, note)


def rates(**seconds: float) -> str:
    """Steps per second, spelt out."""
    return ", ".join(f"{name} {_rate(1 / s)}" for name, s in seconds.items())


def _rate(steps: float) -> str:
    return f"{steps / 1e6:.3g} M/s" if steps >= 1e5 else f"{steps / 1e3:.3g} k/s"


# --- 1: against C -----------------------------------------------------------------------------------------------------


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


C_TYPES = {"next": "i4", "other": "i4", "pays": "i4", "starts": "i8", "start_other": "i4", "terminal": "?"}  # others: f8


class CRun:
    """The hand-written C loop on the same arrays, from the same seed; same calls as Run."""

    def __init__(self, like: Run, setting: Setting, library: Path) -> None:
        d, asked = like.dynamics, like.asked
        if asked.pi_stride or asked.gamma_stride or like.world.features is not None or asked.drift_sd.any():
            raise ValueError("explorer.c takes policies and discounts that are the same in every state, and no drift")
        arrays = {name: getattr(d, name) for name, kind in CWorld._fields_ if kind is ctypes.c_void_p and name != "weights"}
        arrays["weights"] = asked.weights
        self.arrays = {name: np.ascontiguousarray(a, dtype=C_TYPES.get(name, "f8")) for name, a in arrays.items()}
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


@contextmanager
def c_library(gvfs: int, actions: int, successors: int) -> Iterator[Path | str]:
    """explorer.c compiled for these sizes into a temporary folder, or a message that says why it could not be."""
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        yield "no C compiler found (cc, gcc or clang)"
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "explorer.so"
        sizes = (f"-DGVFS={gvfs}", f"-DACTIONS={actions}", f"-DSUCCESSORS={successors}")
        source = Path(__file__).with_name("explorer.c")
        command = [compiler, *FLAGS, *sizes, str(source), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        yield library if done.returncode == 0 else f"{compiler} failed: {done.stderr.strip()[:200]}"


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


def against_c(effort: Effort) -> Row:
    """The explorer with 2 GVFs on the 20x20 grid against the same step written in C."""
    case = "GVFExplorer, 2 GVFs, 20x20 : C"
    setting = paper["distinct"]
    ours = Run.of(setting)
    with c_library(len(setting.questions), setting.world.actions, setting.world.successors) as library:
        if isinstance(library, str):
            return Row(case, "skipped", ">= 0.7x", None, library)
        theirs = CRun(ours, setting, library)
        ours(CHECKED_STEPS)
        theirs(CHECKED_STEPS)
        check_same(ours, theirs)
        steps = ours.steps_in(effort.seconds)
        seconds, in_c = side_by_side(effort, (ours, steps), (theirs, steps))
    return at_least(case, in_c / seconds, 0.7, rates(compiled=seconds, C=in_c))


# --- 2 to 5: against NumPy and against itself -------------------------------------------------------------------------


def against_numpy(effort: Effort) -> Row:
    """The explorer against the same step in NumPy."""
    ours = Run.of(paper["distinct"])
    theirs = reference.ExplorerLoop(reference.Problem(ours.world, ours.asked))
    theirs.run(600)
    seconds, in_numpy = side_by_side(effort, (ours, ours.steps_in(effort.seconds)), (theirs.run, 1_500))
    return at_least("GVFExplorer, 2 GVFs, 20x20 : NumPy", in_numpy / seconds, 300, rates(compiled=seconds, NumPy=in_numpy))


def against_explorer(effort: Effort) -> list[Row]:
    """The simpler behaviours' rates relative to the explorer's, all wrapped as the paper runs them."""
    names = ("GVFExplorer", "RoundRobin", "Mixture", "Uniform")
    runs = [Run.of(paper["distinct"], name) for name in names]
    explorer, *others = side_by_side(effort, *[(run, run.steps_in(effort.seconds)) for run in runs])
    return [
        at_least(f"{name} : GVFExplorer", explorer / seconds, 1.2, rates(**{name: seconds, "GVFExplorer": explorer}))
        for name, seconds in zip(names[1:], others)
    ]


def forty(effort: Effort) -> Row:
    """What a step costs with 40 GVFs, relative to 2."""
    few, many = Run.of(paper["distinct"]), Run.of(paper["forty"])
    two, forty = side_by_side(effort, *[(run, run.steps_in(effort.seconds)) for run in (few, many)])
    return at_most("cost of a step, 40 GVFs : 2 GVFs", forty / two, 5, "x", rates(forty=forty, two=two))


def thousand_questions() -> tuple[MDP, list[GVF]]:
    """4 cardinal policies times 250 cumulants, each paid in its own cell of the 20x20 grid."""
    world = gridworld(20, {f"goal{s}": divmod(s, 20) for s in FORTY_GOALS})
    cells = np.linspace(0, 399, 250).astype(int).tolist()
    return world, [
        GVF(pi, Constant(1.0 + cell % 7, at=cell), DISCOUNT, name=f"{direction}-{cell}")
        for direction, pi in CARDINAL.items()
        for cell in cells
    ]


def thousand(effort: Effort) -> Row:
    """What a GVF costs per step when there are 1,000."""
    setting = paper["forty"]
    run = Run(*thousand_questions(), setting.behaviour("GVFExplorer"), setting.learner())
    (seconds,) = side_by_side(effort, (run, run.steps_in(2 * effort.seconds)))
    gvfs = len(run.asked.names)
    return at_most("1,000 GVFs, per GVF and step", seconds / gvfs * 1e9, 6, " ns", rates(compiled=seconds))


# --- 6: the successor representation ----------------------------------------------------------------------------------


def make_replay(rule: BehaviourRule) -> Callable[..., None]:
    """A compiled loop that calls a behaviour's observe alone, over recorded transitions."""
    observe = rule.observe

    @njit(fastmath=FAST, _nrt=False)
    def replay(state, x, action, next_x, alive, c, gamma, pi, stride):
        for n in range(x.shape[0]):
            row, next_row = x[n] * stride, next_x[n] * stride
            tr = Transition(row, x[n], action[n], 1.0, next_row, next_x[n], -1, 1.0, 0, alive[n])
            observe(state, n, tr, c[n], gamma, pi)

    return replay


def successor_update(effort: Effort) -> Row:
    """The representation's update alone against NumPy's, on the same recorded transitions."""
    setting = paper["distinct"]
    world, asked = setting.world, stack(setting.questions, setting.world)
    behaviour = SuccessorRepresentation(rate=setting.rate("SR"))
    state = behaviour.begin(asked, world)
    compiled = make_replay(behaviour.rule(Sizes(len(asked.names), world.actions)))
    problem = reference.Problem(world, asked)
    seen = reference.record(problem, 30_000)
    tables = reference.Successor.zeros(*problem.pi.shape)

    def first(steps: int) -> reference.Record:
        return reference.Record(seen.x[:steps], seen.action[:steps], seen.next_x[:steps], seen.alive[:steps], seen.c[:steps])

    def ours(steps: int) -> None:
        r = first(steps)
        compiled(state, r.x, r.action, r.next_x, r.alive, r.c, asked.gamma, asked.pi, asked.pi_stride)

    def theirs(steps: int) -> None:
        reference.replay(tables, problem, first(steps), setting.rate("SR"))

    ours(len(seen.x))
    theirs(100)
    seconds, in_numpy = side_by_side(effort, (ours, len(seen.x)), (theirs, 1_500))
    note = f"compiled {seconds * 1e9:.0f} ns, NumPy {in_numpy * 1e6:.1f} us per update"
    return at_least("SR update alone, 400 states : NumPy", in_numpy / seconds, 12, note)


def successor_step(effort: Effort) -> Row:
    """The whole step of the successor-representation behaviour against NumPy's."""
    setting = paper["distinct"]
    ours = Run.of(setting, "SR")
    theirs = reference.SuccessorLoop(reference.Problem(ours.world, ours.asked), rate=setting.rate("SR"))
    theirs.run(600)
    seconds, in_numpy = side_by_side(effort, (ours, ours.steps_in(effort.seconds)), (theirs.run, 1_000))
    return at_least("SR whole step, 400 states : NumPy", in_numpy / seconds, 25, rates(compiled=seconds, NumPy=in_numpy))


# --- 7 and 8: processes and memory ------------------------------------------------------------------------------------

_ready: dict[str, Any] = {}  # in a worker: its compiled run and the barrier where workers meet


def _join(barrier: Any) -> None:
    """Begin a worker: compile its run."""
    _ready["run"], _ready["barrier"] = Run.of(paper["distinct"], seed=os.getpid()), barrier


def _meet() -> None:
    """Wait for the other worker, so that both have come up, and warm up together."""
    _ready["barrier"].wait(timeout=120)
    _ready["run"](1_000_000)


def _steps_in(seconds: float) -> int:
    return _ready["run"].steps_in(seconds)


def _go_on(steps: int) -> None:
    _ready["run"](steps)


def _peak(steps: int) -> int:
    """Bytes that this process holds at most while it runs so many steps and keeps the result."""
    setting = paper["distinct"]
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    result = evaluate(setting.world, setting.questions, setting.behaviour("GVFExplorer"), setting.learner(), steps=steps)
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    del result
    return int(held.split()[1]) * 1024


def _growth(steps: int) -> tuple[int, int]:
    """Peak memory of a run of `steps`, compiled before, and how much higher that of one ten times as long is."""
    _peak(1_000)
    short = _peak(steps)
    return short, _peak(10 * steps) - short


def processes(effort: Effort) -> list[Row]:
    """Two seeds on two processes against one on one, and what ten times the steps add to a process's memory."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, initializer=_join, initargs=(context.Barrier(2),)) as pool:
        for met in [pool.submit(_meet) for _ in range(2)]:
            met.result()
        return [two_processes(effort, pool), memory(pool)]


def two_processes(effort: Effort, pool: ProcessPoolExecutor) -> Row:
    """Twice the steps in how much less than twice the time; the workers have compiled and run before."""
    case = "two processes : one"
    if (os.cpu_count() or 1) < 2:
        return Row(case, "skipped", ">= 1.8x", None, "this machine has one core")

    steps = pool.submit(_steps_in, effort.process_seconds).result()

    def seeds(count: int) -> None:
        list(pool.map(_go_on, [steps] * count))

    best = {1: math.inf, 2: math.inf}
    for _ in range(effort.process_repetitions):
        for count in best:
            best[count] = min(best[count], timed(seeds, count))
    note = f"{steps / 1e6:.0f} M steps each: one alone {best[1]:.2f} s, two together {best[2]:.2f} s"
    return at_least(case, 2 * best[1] / best[2], 1.8, note)


def memory(pool: ProcessPoolExecutor) -> Row:
    """Growth of the resident set between a run of 1 M steps and one of 10 M."""
    case = "memory, 10 M steps over 1 M"
    if not Path("/proc/self/clear_refs").exists():
        return Row(case, "skipped", "<= 5 MB", None, "needs Linux's /proc to measure the resident set")
    held, growth = pool.submit(_growth, 1_000_000).result()
    return at_most(case, max(growth, 0) / MEGABYTE, 5, " MB", f"the shorter run's process holds {held / MEGABYTE:.0f} MB")


# --- the table --------------------------------------------------------------------------------------------------------

CASES: tuple[Callable[[Effort], Row | list[Row]], ...] = (
    against_c,
    against_numpy,
    against_explorer,
    forty,
    thousand,
    successor_update,
    successor_step,
    processes,
)


def machine() -> str:
    """Processor, cores and versions, in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}"
    )


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure every case, print them with the machine they were measured on, and return them."""
    begun = time.perf_counter()
    console.print(machine(), highlight=False)
    rows: list[Row] = []
    for case in CASES:
        with console.status(str(case.__doc__)):
            measured = case(QUICK if quick else FULL)
        rows += measured if isinstance(measured, list) else [measured]
    console.print(as_table(rows))
    console.print(f"measured in {time.perf_counter() - begun:.0f} s", highlight=False)
    return rows


def as_table(rows: Sequence[Row]) -> Table:
    """The rows for a terminal."""
    marks = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: "[yellow]skipped[/yellow]"}
    table = Table("case", "measured", "bar", "", "note")
    for row in rows:
        table.add_row(row.case, row.measured, row.bar, marks[row.passed], row.note)
    return table


def main() -> int:
    """Run the benchmark; 1 if a bar was missed.  `--quick` measures for a shorter time."""
    import sys

    rows = run(Console(), quick="--quick" in sys.argv[1:])
    return int(any(row.passed is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
