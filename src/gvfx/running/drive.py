"""The one outer loop: every kind of run is driven by it.

A *backend* holds what the seeds of a run share (questions, behaviour, learner, compiled functions, true values); its
`begin(seed)` returns a *stream*, one seed's experience and what is learned from it.  `drive` advances a stream from stop to
stop and does what is due at each: behaviours replan, the stopping rule is evaluated, measurements and snapshots are taken,
checkpoints are written, listeners are notified.  When an environment fails, a number diverges or the user interrupts, the
exception carries what was learned so far.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.wrappers import Calibrated
from gvfx.errors import Diverged, RunError
from gvfx.evidence.decisions import Decision, Groups, Joint
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.questions.gvf import GVF, answered_weights
from gvfx.questions.where import EVERYWHERE, Where
from gvfx.running.checkpoint import Checkpoints, Stored
from gvfx.running.earlier import Earlier
from gvfx.running.plan import Method, Options, Plan
from gvfx.running.schema import Measurement, Part, Record
from gvfx.running.tracking import Listeners
from gvfx.theory.design import LOOK_GROWTH
from gvfx.threads import one_thread

if TYPE_CHECKING:
    from gvfx.running.result import Result


class Progress(Stored):
    """What a run has made so far: what it has found, and what a checkpoint keeps of it."""

    bound: Callable[[ErrorBelow, int], tuple[float, bool]]  # with learners that bound their errors: as `ErrorBelow.bound`
    joint: Callable[[Groups], Joint]  # and the values at the start, with the errors of differences within each group

    @abstractmethod
    def outcome(self, k: int) -> dict[str, Any]:
        """Additional fields of the k-th seed's part at the end: truth, model, what answers, other arrays."""


class Agent(Progress):
    """What learns and answers, of one seed or of several advanced together; it may also act in an environment (`Actor`)."""

    stops: frozenset[int] = frozenset()  # times at which it must pause
    plans: frozenset[int] = frozenset()  # those at which its behaviour plans
    pause: Callable[[int], None]  # does what is due at a stop: plan, refresh tables, improve policies
    weigh: Callable[[np.ndarray], None]  # weighs the questions [gvf] anew in plans from now on

    @abstractmethod
    def check(self) -> None:
        """Raise Diverged if a number is no longer finite."""

    @abstractmethod
    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        """Measure each seed: the error for the curve, the tables of a snapshot, or both."""


class Stream(Progress):
    """The experience of one seed (or of several advanced together): what makes it, and the agent that learns from it."""

    seeds: tuple[int, ...]
    agent: Agent
    t: int = 0  # environment steps done
    grain: int = 1  # `advance` makes steps in multiples of this
    resumed: str = ""  # what a user must know about continuing from a checkpoint; empty if the result is the same

    @abstractmethod
    def start(self) -> None:
        """Prepare for the first step, or for the next one after `restore`; slow work that is not learning belongs here."""

    @abstractmethod
    def advance(self, to: int) -> None:
        """Step and learn until at least `to` steps are done."""

    @abstractmethod
    def episodes(self) -> list[int]:
        """Finished episodes of each seed."""


class Loop(Stream, Agent):
    """A loop that is compiled as a whole: what moves is also what learns."""

    @property
    def agent(self) -> Agent:  # type: ignore[override]
        return self


class Backend(ABC):
    """What the seeds of a run share."""

    names: tuple[str, ...]
    weights: np.ndarray  # [gvf]
    behaviour: Behaviour
    learner: Any
    plan: Plan
    why: str = ""  # why its method was chosen, if it was not given
    pairs: int = 0  # states times actions, of tables
    look_growth: float = LOOK_GROWTH  # of the data between two checks of a stopping rule
    one_environment: bool = False  # seeds cannot run in parallel, because they step the caller's environment
    knows_truth: bool = True
    calibrated: bool = False  # whether each weight is divided by the GVF's mean square value
    where: Where = EVERYWHERE  # where errors count
    audit: float = 0.0  # the share of steps for audits
    audit_ranges: np.ndarray = np.empty((0, 2))  # [gvf, 2] of cumulants, where they are known
    acts: str = ""  # who acts, in words, if not the behaviour alone
    tag: str = ""  # in the names of its checkpoints
    environment: str = ""  # its name
    notes: dict[str, Any]  # in the description of its result, by the seeds, at their end
    left_out: tuple[str, ...] = ()  # entries of the environment's observations that are not read
    log: Earlier | None = None  # the transitions from which it starts
    asked_at: np.ndarray = np.empty(0)  # [point, o] the observations at which errors count, if they were given
    aligned: Callable[[Sequence[Part]], list[Part]] = list  # the seeds' parts with the same states in the same order
    predictor: Callable[[list[Part]], Any] | None = None  # makes that of the result, if it is not the result's tables alone

    def __init__(self, questions: Sequence[GVF], method: Method, options: Options) -> None:
        self.questions, (self.behaviour, self.learner), self.options = questions, method, options
        self.notes: dict[str, Any] = {}
        self.plan, self.calibrated = options.plan, options.calibrate

    @property
    def logged(self) -> int:
        """The number of transitions of the log from which it starts."""
        return 0 if self.log is None else len(self.log)

    @abstractmethod
    def begin(self, seed: int) -> Stream:
        """The stream of a seed, before its first step."""

    def described(self) -> dict[str, Any]:
        """The description of the run in its result."""
        behaviour = self.behaviour.behaviour if isinstance(self.behaviour, Calibrated) else self.behaviour
        out: dict[str, Any] = {"environment": self.environment} if self.environment else {}
        out |= {"behaviour": self.acts or repr(behaviour), "learner": repr(self.learner), "steps": self.plan.steps}
        out |= {"calibrate": True} if self.calibrated else {}
        out |= {} if self.where == EVERYWHERE else {"where": str(self.where)}
        out |= {"audit": self.audit} if self.audit else {}
        out |= {} if self.log is None else {"log": len(self.log)}
        return out | ({"chosen": self.why} if self.why else {}) | getattr(self, "notes", {})

    def weigh(self, answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The GVFs' weights in reported errors [gvf]; `answers` as in `answered_weights`, read if the truth is not known."""
        return self.weights if self.knows_truth or not self.calibrated else answered_weights(self.weights, answers)


# --- The stopping rule of a run: when it is looked at, and what it has found ----------------------------------------


class Watch:
    """The stopping rule of one run, and what it has found so far."""

    def __init__(self, until: ErrorBelow | Decision | None, steps: int, backend: Backend) -> None:
        self.until = until
        self.times = frozenset(until.looks(steps, backend.pairs, backend.look_growth) if until else ())
        self.looks, self.bound, self.reached = 0, np.inf, False

    def weigh(self, stop: int, stream: Stream) -> None:
        """Before a plan, give all weight to the questions that are not decided yet."""
        if isinstance(self.until, Decision) and stop in stream.agent.plans:
            stream.agent.weigh(self.until.weights(stream.joint(self.until.groups)))

    def look(self, stop: int, stream: Stream) -> bool:
        """Evaluate the rule if it is due; whether the run may end here."""
        if self.until and stop in self.times:
            if isinstance(self.until, Decision):
                self.bound, counts = self.until.bound(stream.joint(self.until.groups), self.looks)
            else:
                self.bound, counts = stream.bound(self.until, self.looks)
            self.reached = bool(self.bound < self.until.target)
            self.looks += counts
        return self.reached

    def outcome(self, stream: Stream) -> dict[str, Any]:
        """The rule's fields of a part, at the end of a run."""
        if self.until is None:
            return {}
        out: dict[str, Any] = {"stopped": stream.t, "bound": self.bound, "reached": self.reached}
        if isinstance(self.until, Decision):
            out["verdicts"] = self.until.verdicts(stream.joint(self.until.groups), max(0, self.looks - 1))
        return out


# --- Ctrl-C and SIGTERM: a run ends between two steps and returns what it has learned -------------------------------


NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
ADVICE = "with --checkpoint FOLDER the same command could continue it."
AT_ONCE = 0.25  # seconds: a second signal within them is the same one, sent to the process and to its group


class Interrupted(KeyboardInterrupt):
    """A run stopped by Ctrl-C or SIGTERM; `result` is what was learned so far (None before any step).

    `exit_code` is the conventional exit code of a program that ends because of it: 130 or 143.
    """

    result: Result | None = None
    parts: Sequence[Part] | None = None

    def __init__(self, signum: int, step: int, checkpoint: Path | None = None) -> None:
        """checkpoint: the folder of the run's checkpoints, if it has one."""
        when = f"{NAMES[signal.Signals(signum)]} at step {step:,}"
        kept = f"{when}; the run is kept in {checkpoint}; "
        lost = "what was learned so far is in the exception's `result`; with checkpoint='folder' a run can be continued."
        super().__init__(f"{kept}start it again with the same arguments to continue." if checkpoint else f"{when}; {lost}")
        self.in_a_terminal = f"{kept}the same command continues it." if checkpoint else f"{when}; {ADVICE}"
        self.signum, self.step, self.checkpoint, self.exit_code = signum, step, checkpoint, 128 + signum


class Interruption:
    """Records Ctrl-C and SIGTERM during runs (`with Interruption() as interruption`), so that they can end between steps.

    `interruption.signum` is set by the first signal; a second one raises KeyboardInterrupt immediately.  Handlers that the
    program has installed itself are left in place; outside the main thread nothing is installed.  Inside another one, in any
    thread, the `with` statement returns that other one.
    """

    def __init__(self, insist: bool = True) -> None:
        """insist: whether a second signal raises; otherwise it is ignored, too."""
        self.signum: int | None = None
        self.insisted = False  # whether there was a second signal
        self._insist, self._first = insist, 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        handlers = {signum: signal.getsignal(signum) for signum in DEFAULTS}
        for handler in handlers.values():
            if isinstance(under_way := getattr(handler, "__self__", None), Interruption):
                return under_way
        if threading.current_thread() is threading.main_thread():
            for signum, handler in handlers.items():
                if handler == DEFAULTS[signum] or getattr(handler, "yields_to_runs", False):
                    self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum, self._first = signum, time.monotonic()
        elif self._insist and time.monotonic() - self._first > AT_ONCE:
            self.insisted = True
            raise KeyboardInterrupt(signum)


PACE = 0.2  # target seconds between two checks for interruptions
CHECKPOINT_EVERY = 60.0  # seconds


@one_thread()
def drive(
    backend: Backend,
    stream: Stream,
    *,
    until: ErrorBelow | Decision | None = None,
    listeners: Listeners | None = None,
    checkpoints: Checkpoints | None = None,
    checkpoint_every: float | None = None,
    keep_last: bool = True,
    interruption: Interruption | None = None,
) -> list[Part]:
    """Run a stream to the end of the backend's plan, or until `until` lets it end; one part per seed.

    checkpoints: the run continues from the newest one; they are written every `checkpoint_every` seconds (60), when the run
                 fails or is interrupted and, with `keep_last`, at its end (a finished run that is driven again returns its
                 parts at once).
    interruption: checked several times a second.
    """
    every = CHECKPOINT_EVERY if checkpoint_every is None else checkpoint_every
    run = _Drive(
        backend, stream, Watch(until, backend.plan.steps, backend), listeners or Listeners(), checkpoints, every, interruption
    )
    parts = run.to_the_end()
    if keep_last:
        run.save()
    return parts


@dataclass(eq=False)
class _Drive:
    """One run in progress."""

    backend: Backend
    stream: Stream
    watch: Watch
    listeners: Listeners
    checkpoints: Checkpoints | None
    checkpoint_every: float  # seconds
    interruption: Interruption | None
    passed: int = 0  # the last stop
    seconds: float = 0.0  # spent
    chunk: int = 16  # steps per call of advance
    kept: int | None = None  # the step of the newest checkpoint
    saved: float = 0.0  # when it was written

    def __post_init__(self) -> None:
        self.plan = self.backend.plan
        self.records = [Record(len(self.backend.names)) for _ in self.stream.seeds]
        self.saved = time.monotonic()

    def to_the_end(self) -> list[Part]:
        self._restore()
        stops = sorted({*self.plan.stops, *self.stream.agent.stops, *self.watch.times})
        left = [stop for stop in stops if stop > self.passed and not self.watch.reached]
        try:
            if left:
                self.stream.start()
                for seed in self.stream.seeds:
                    self.listeners.began(seed)
            self.saved = time.monotonic()
            for stop in left:
                self._advance(stop)
                self._look(stop)
                self.passed = stop
                if self.watch.reached:
                    break
                self._save_if_due()
        except (RunError, Interrupted) as error:
            error.parts = self._partial()
            if isinstance(error, Diverged):
                error.checkpoint = self.kept
            elif isinstance(error, RunError) and self._finite():
                self.save()
            raise
        except BaseException as error:
            with suppress(Exception):  # the state may be that of half a step
                error.parts = self._partial()  # type: ignore[attr-defined]
            raise
        return self._parts()

    def _advance(self, stop: int) -> None:
        """Advance to a stop, in pieces short enough to be interrupted."""
        stream = self.stream
        while stream.t < stop:
            begun, before = time.perf_counter(), stream.t
            stream.advance(min(stop, before + -(-self.chunk // stream.grain) * stream.grain))
            spent = time.perf_counter() - begun
            self.seconds += spent
            wanted = (stream.t - before) * PACE / max(spent, 1e-9)
            self.chunk = int(max(1, min(8 * self.chunk, wanted)))
            for seed in stream.seeds:
                self.listeners.stepped(seed, stream.t)
            if stream.t < stop:
                self._save_if_due()
            if self.interruption is not None and self.interruption.signum is not None:
                if self._finite():
                    self.save()
                raise Interrupted(self.interruption.signum, stream.t, self.checkpoints.folder if self.checkpoints else None)

    def _look(self, stop: int) -> None:
        """Do everything that is due at a stop."""
        begun = time.perf_counter()
        self.watch.weigh(stop, self.stream)
        if stop in self.stream.agent.stops:
            self.stream.agent.pause(stop)
        reached = self.watch.look(stop, self.stream)
        self.seconds += time.perf_counter() - begun
        self.stream.agent.check()
        times = self.plan.from_on(stop) if reached else [stop] if stop in self.plan.stops else []
        curve = [t for t in times if t in self.plan.evaluations]
        shown = [t for t in times if t in self.plan.snapshots]
        if times:
            self._measure(curve, shown)

    def _measure(self, curve: list[int], shown: list[int]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # checked next
            measurements = self.stream.agent.measure(bool(curve), bool(shown))
        for seed, m in zip(self.stream.seeds, measurements, strict=True):
            self._check_error(seed, m.mse)
        for seed, record, episodes, m in zip(self.stream.seeds, self.records, self.stream.episodes(), measurements, strict=True):
            record.measured(curve, episodes, m)
            record.shown(shown, m)
            error = self._error(m) if curve else np.nan
            for t in curve:
                self.listeners.measured(seed, t, error)

    def _error(self, m: Measurement) -> float:
        """The weighted mean of the GVFs' errors, or of their estimates."""
        weights = self.backend.weigh([(m.values, m.visits)])
        return float((m.mse if m.mse.size else m.expected) @ (weights / weights.sum()))

    def _check_error(self, seed: int, mse: np.ndarray) -> None:
        """Stop a run whose error is not finite, although its tables are: the square of a large number."""
        bad = np.flatnonzero(~np.isfinite(mse))
        if bad.size:
            gvf = self.backend.names[bad[0]]
            raise Diverged("mean squared error", float(mse[bad[0]]), self.stream.t, seed, gvf, when="before")

    # --- ends --------------------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        outcome = self.watch.outcome(self.stream)
        seconds = self.seconds / len(self.records)
        return [
            record.part(seconds=seconds, **outcome, **({"truth": None} | self.stream.outcome(k)))
            for k, record in enumerate(self.records)
        ]

    def _partial(self) -> list[Part] | None:
        """The parts so far, with a snapshot of the current state; None before the first step."""
        if not self.stream.t:
            return None
        if self.records[0].last_shown < self.stream.t:
            self._measure([], [self.stream.t])
        return self._parts()

    def _finite(self) -> bool:
        """Whether the state may be stored: one that is not finite would take the place of a good checkpoint."""
        try:
            self.stream.agent.check()
        except RunError:
            return False
        return bool(self.stream.t)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def _save_if_due(self) -> None:
        """Write a checkpoint if the last one is old, unless the run has ended or its numbers are no longer finite."""
        if self.checkpoints is None or self.stream.t >= self.plan.steps or time.monotonic() - self.saved < self.checkpoint_every:
            return
        if self._finite():
            self.save()
        self.saved = time.monotonic()

    def save(self) -> None:
        """Write a checkpoint, if checkpoints are enabled and a step was made."""
        if self.checkpoints is None or not self.stream.t:
            return
        if self.checkpoints.keep(self.stream.t, self._state()):
            self.kept = self.stream.t

    def _state(self) -> dict[str, np.ndarray]:
        """All that a checkpoint holds."""
        arrays = {f"stream:{name}": array for name, array in self.stream.state().items()}
        for k, record in enumerate(self.records):
            arrays |= {f"record:{k}:{name}": array for name, array in record.arrays().items()}
        watch = self.watch
        arrays["drive"] = np.array([self.passed, self.stream.t, watch.looks, watch.reached], np.int64)
        arrays["measures"] = np.array([self.seconds, watch.bound])
        return arrays

    def _restore(self) -> None:
        if self.checkpoints is None or not self.checkpoints.restore(self._take, self._state):
            return
        if self.passed < self.plan.steps and not self.watch.reached and (note := self.stream.resumed):
            seeds = ", ".join(map(str, self.stream.seeds))
            warnings.warn(f"checkpoint: seed {seeds} continues at step {self.stream.t:,}; {note}", stacklevel=2)

    def _take(self, stored: Mapping[str, np.ndarray]) -> None:
        """Continue from what `_state` returned."""
        self.stream.restore({name[7:]: array for name, array in stored.items() if name.startswith("stream:")})
        for k, record in enumerate(self.records):
            own = f"record:{k}:"
            record.restore({name[len(own) :]: array for name, array in stored.items() if name.startswith(own)})
        self.passed, self.kept, self.watch.looks, reached = (int(n) for n in stored["drive"])
        self.watch.reached = bool(reached)
        self.seconds, self.watch.bound = (float(x) for x in stored["measures"])
