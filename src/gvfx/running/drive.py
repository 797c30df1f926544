"""The one outer loop: every kind of run is driven by it.

A *backend* holds what the seeds of a run share (questions, behaviour, learner, compiled functions, true values); its
`begin(seed)` returns a *stream*, one seed's experience and what is learned from it.  `drive` advances a stream from stop to
stop and does what is due at each: behaviours replan, the stopping rule is evaluated, measurements and snapshots are taken,
checkpoints are written, listeners are notified.  When an environment fails, a number diverges or the user interrupts, the
exception carries what was learned so far.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from gvfx.errors import Diverged, RunError
from gvfx.evidence.decisions import Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.running.checkpoint import Checkpoints
from gvfx.running.interrupt import Interrupted, Interruption
from gvfx.running.progress import Listeners
from gvfx.running.record import Measurement, Part, Record
from gvfx.running.stream import Backend as Backend
from gvfx.running.stream import Stream as Stream
from gvfx.running.watch import Watch
from gvfx.threads import one_thread

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
    run = _Drive(backend, stream, until, listeners or Listeners(), checkpoints, interruption)
    run.checkpoint_every = CHECKPOINT_EVERY if checkpoint_every is None else checkpoint_every
    parts = run.to_the_end()
    if keep_last:
        run.save()
    return parts


class _Drive:
    """One run in progress."""

    def __init__(
        self,
        backend: Backend,
        stream: Stream,
        until: ErrorBelow | Decision | None,
        listeners: Listeners,
        checkpoints: Checkpoints | None,
        interruption: Interruption | None,
    ) -> None:
        self.backend, self.stream, self.plan, self.listeners = backend, stream, backend.plan, listeners
        self.checkpoints, self.interruption, self.checkpoint_every = checkpoints, interruption, CHECKPOINT_EVERY
        self.watch = Watch(until, self.plan.steps, backend)
        self.records = [Record(len(backend.names)) for _ in stream.seeds]
        self.passed, self.seconds, self.chunk = 0, 0.0, 16  # the last stop, seconds spent, steps per call of advance
        self.kept: int | None = None  # the step of the newest checkpoint
        self.saved = time.monotonic()  # when it was written

    def to_the_end(self) -> list[Part]:
        self._restore()
        stops = sorted({*self.plan.stops, *self.stream.stops, *self.watch.times})
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
        self.stream.pause(stop)
        reached = self.watch.look(stop, self.stream)
        self.seconds += time.perf_counter() - begun
        self.stream.check()
        times = self.plan.onward(stop) if reached else [stop] if stop in self.plan.stops else []
        curve = [t for t in times if t in self.plan.evaluations]
        shown = [t for t in times if t in self.plan.snapshots]
        if times:
            self._measure(curve, shown)

    def _measure(self, curve: list[int], shown: list[int]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # checked next
            measurements = self.stream.measure(bool(curve), bool(shown))
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
        if not any(t >= self.stream.t for t in self.records[0].tables["steps"]):
            self._measure([], [self.stream.t])
        return self._parts()

    def _finite(self) -> bool:
        """Whether the state may be stored: one that is not finite would take the place of a good checkpoint."""
        try:
            self.stream.check()
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
        if self.passed < self.plan.steps and not self.watch.reached and (said := self.stream.resumed()):
            seeds = ", ".join(map(str, self.stream.seeds))
            warnings.warn(f"checkpoint: seed {seeds} continues at step {self.stream.t:,}; {said}", stacklevel=2)

    def _take(self, stored: Mapping[str, np.ndarray]) -> None:
        """Continue from what `_state` returned."""
        self.stream.restore({name[7:]: array for name, array in stored.items() if name.startswith("stream:")})
        for k, record in enumerate(self.records):
            own = f"record:{k}:"
            record.restore({name[len(own) :]: array for name, array in stored.items() if name.startswith(own)})
        self.passed, self.kept, self.watch.looks, reached = (int(n) for n in stored["drive"])
        self.watch.reached = bool(reached)
        self.seconds, self.watch.bound = (float(x) for x in stored["measures"])
