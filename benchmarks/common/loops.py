"""A compiled run that can be timed, and the same step written in C by hand (explorer.c); contenders take turns.

The best time of each counts, so that noise meets all of them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.questions.gvf import GVF
from gvfx.rng import seed_streams
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx.running.streams.table_compiled import cursor
from gvfx_paper.settings.tabular import Setting

# A library that is *linked* with -ffast-math makes the processor flush subnormal numbers in the whole process: only compiled so.
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fPIC")
CHECKED_STEPS = 20_000  # the C loop must agree with the compiled one for this long
C_TYPES = {  # of the arrays of explorer.c's struct `World`, by name
    **dict.fromkeys(("next", "other", "pays", "start_other"), "i4"),
    **dict.fromkeys(("threshold", "start_threshold", "pi", "gamma", "mean", "sd", "weights"), "f8"),
    "starts": "i8",
    "terminal": "?",
}


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
    """One seed of a run that has compiled and can go on."""

    def __init__(self, world: Any, questions: Sequence[GVF], behaviour: Any = None, learner: Any = None, seed: int = 0) -> None:
        plan = Plan.checked(100_000, None, ())
        self.stream: Any = open_backend(world, questions, behaviour, learner, options=Options(plan)).begin(seed)
        self.stream.start()

    @classmethod
    def of(cls, setting: Setting, behaviour: str = "GVFExplorer", seed: int = 0) -> Run:
        """A setting of the paper as the paper runs it: Floor(Epsilon(behaviour)) with Expected Sarsa."""
        return cls(setting.world, setting.questions, setting.behaviour(behaviour), setting.learner(), seed)

    def __call__(self, steps: int) -> None:
        self.stream.advance(self.stream.t + steps)

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


def best_seconds(repetitions: int, *contenders: tuple[Callable[[int], Any], int]) -> np.ndarray:
    """The shortest seconds per step of each (call, steps), [contender, 2]: on the clock and of the processor; they take turns."""
    best = np.full((len(contenders), 2), np.inf)
    for _ in range(repetitions):
        for n, (call, steps) in enumerate(contenders):
            begun = time.perf_counter(), time.process_time()
            call(steps)
            best[n] = np.minimum(best[n], np.subtract((time.perf_counter(), time.process_time()), begun) / steps)
    return best


def side_by_side(effort: Effort, *contenders: tuple[Callable[[int], Any], int]) -> list[float]:
    """The shortest seconds per step of each (call, steps), on the clock."""
    return list(map(float, best_seconds(effort.repetitions, *contenders)[:, 0]))


def rates(**seconds: float) -> str:
    """Steps per second, spelt out."""
    speeds = {name: 1 / s for name, s in seconds.items()}
    return ", ".join(f"{name} {f'{v / 1e6:.3g} M/s' if v >= 1e5 else f'{v / 1e3:.3g} k/s'}" for name, v in speeds.items())


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
        stream = like.stream
        d, asked, world = stream.moving, stream.asked, stream.run.world
        if asked.pi_stride or asked.gamma_stride or world.features is not None or asked.drift_sd.any():
            raise ValueError("explorer.c takes policies and discounts that are the same in every state, and no drift")
        arrays = {**d._asdict(), "weights": asked.weights}
        self.arrays = {name: np.ascontiguousarray(arrays[name], dtype=kind) for name, kind in C_TYPES.items()}
        numbers = {
            "n_starts": len(d.starts),
            "horizon": d.horizon,
            "min_q": stream.learning.rate_q.minimum,
            "min_m": stream.learning.rate_m.minimum,
            "epsilon_steps": -1.0 / stream.acting.inner.epsilon.slope,
            "floor": stream.acting.floor,
        }
        self.world = CWorld(**numbers, **{name: a.ctypes.data for name, a in self.arrays.items()})
        self.learning = setting.learner().begin(asked, world)
        self.at = cursor(world, asked, seed_streams(0))
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
        ("q", ours.stream.learning.q, theirs.learning.q),
        ("m", ours.stream.learning.m, theirs.learning.m),
        ("visits", ours.stream.at.visits, theirs.at.visits),
        ("position", ours.stream.at.at[:4], theirs.at.at[:4]),
    ):
        if not np.allclose(a, b, rtol=1e-8, atol=1e-8):
            worst = np.abs(a - b).max()
            raise RuntimeError(f"explorer.c and the compiled loop disagree on {name} after {CHECKED_STEPS} steps, by {worst:g}")
