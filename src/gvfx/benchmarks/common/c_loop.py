"""GVFExplorer's step against the same step written in C by hand (explorer.c), alone and through gvfx.evaluate."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gvfx.benchmarks.common.rows import Row, at_least
from gvfx.benchmarks.common.timing import Effort, Rows, Run, rates, side_by_side
from gvfx.experiments.settings.tabular import Setting, paper
from gvfx.rng import seed_streams
from gvfx.running.evaluate import evaluate
from gvfx.running.streams.compiled_loop import cursor

# A library that is *linked* with -ffast-math makes the processor flush subnormal numbers in the whole process: only compiled so.
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fPIC")
CHECKED_STEPS = 20_000  # the C loop must agree with the compiled one for this long
BAR = 0.7
ONCE = Effort(seconds=0.0, repetitions=1, process_seconds=0.0, process_repetitions=1)

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
        part, source = library.with_suffix(".o"), Path(__file__).with_name("explorer.c")
        for command in ([*FLAGS, *defined, "-c", source, "-o", part], ["-shared", part, "-o", library, "-lm"]):
            done = subprocess.run([compiler, *map(str, command)], capture_output=True, text=True, check=False)
            if done.returncode:
                return f"{compiler} failed: {done.stderr.strip()[:200]}"
        return CRun(like, setting, library)


def check_same(ours: Run, theirs: CRun) -> None:
    """Both loops must have learned the same from the same seed, or a comparison of their speeds means nothing."""
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
        skipped = Row(case, "skipped", f">= {BAR}x", None, theirs)
        return lambda: [skipped]
    ours(CHECKED_STEPS)
    theirs(CHECKED_STEPS)
    check_same(ours, theirs)

    def measure() -> Rows:
        steps = ours.steps_in(effort.seconds)
        seconds, in_c = side_by_side(effort, (ours, steps), (theirs, steps))
        return [at_least(case, in_c / seconds, BAR, rates(compiled=seconds, C=in_c))]

    return measure


def through_evaluate(effort: Effort) -> Callable[[], Rows]:
    """The same through gvfx.evaluate: what its loop takes with twenty measurements on the way, from the first step on."""
    case = "GVFExplorer through gvfx.evaluate : C"
    setting = paper["distinct"]
    like = Run.of(setting)
    built = c_run(like, setting)
    if isinstance(built, str):
        skipped = Row(case, "skipped", f">= {BAR}x", None, built)
        return lambda: [skipped]

    def ours(steps: int) -> float:
        method = setting.behaviour("GVFExplorer"), setting.learner()
        result = evaluate(setting.world, setting.questions, *method, steps=steps, progress=False)
        return float(result.seconds[0])

    def measure() -> Rows:
        steps, best, in_c = 10 * like.steps_in(effort.seconds), float("inf"), float("inf")
        for _ in range(max(3, effort.repetitions // 4)):
            theirs = c_run(like, setting)
            assert not isinstance(theirs, str)
            in_c = min(in_c, side_by_side(ONCE, (theirs, steps))[0])
            best = min(best, ours(steps) / steps)
        return [at_least(case, in_c / best, BAR, rates(evaluate=best, C=in_c))]

    return measure
