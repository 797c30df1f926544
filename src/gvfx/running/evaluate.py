"""evaluate: answer questions about a world with a behaviour and a learner, and measure the error during the run."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gvfx.behaviours.base import Behaviour
from gvfx.errors import GvfxError, InputError, RunError, Unsaved, said_by
from gvfx.evidence.counts import Empirical
from gvfx.evidence.decisions import WHERE, Decided, Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.files import check_writable
from gvfx.inputs import is_real, whole
from gvfx.learners.base import Learner
from gvfx.questions.audit import Audit
from gvfx.questions.comparable import comparable
from gvfx.questions.gvf import GVF, expand
from gvfx.questions.vector_rewards import on_rewards
from gvfx.questions.where import EVERYWHERE, WhereLike
from gvfx.running.backends import as_world, open_backend
from gvfx.running.checkpoint import Checkpoints, folder_for
from gvfx.running.comparing import told_of
from gvfx.running.drive import Backend, drive
from gvfx.running.gathering import gather
from gvfx.running.interrupt import Interrupted, Interruption
from gvfx.running.log_table import LogLike
from gvfx.running.plan import Plan, checked_seeds
from gvfx.running.progress import Listeners, Report, listener
from gvfx.running.record import Part, alike
from gvfx.running.result import Result
from gvfx.running.step_limit import StepLimit
from gvfx.running.story import decisions, endless, seen_in, undecided, unending, unreached, unread
from gvfx.running.tracking import Tracked, Tracking
from gvfx.text import printable
from gvfx.threads import one_thread
from gvfx.types import Environment
from gvfx.worlds.numbering import Uncountable
from gvfx.worlds.spec import environment_name, is_environment
from gvfx.worlds.world import World
from gvfx.worlds.wrappers import drifting


def evaluate(
    world: World | Environment | str,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: Learner | None = None,
    *,
    steps: float = 100_000,
    seeds: int | Iterable[int] = 1,
    seed: int | None = None,
    evaluate_every: float | None = None,
    snapshots: Iterable[int] = (),
    average_episodes: int = 0,
    until: ErrorBelow | Decided | None = None,
    calibrate: bool = False,
    where: WhereLike = None,
    audit: float | Audit | None = None,
    workers: int = 1,
    progress: bool | Report | None = None,
    save: str | Path | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    track: Tracked | Sequence[Tracked] | None = None,
    log: LogLike | None = None,
    step_limit: float | None = None,
) -> Result:
    """Learn the answers to all questions from one stream of experience per seed.

    world:          an MDP, the continuous grid, a MuJoCo domain, or a Gymnasium environment (vector environments too) or its
                    registered name.  A log of transitions has its own function, `gvfx.evaluate_log`.
    questions:      a list of gvfx.GVF; a signal of several numbers becomes one question per number.
    behaviour, learner: how to act and how to answer.  By default OptimalDesign with CertaintyEquivalence on tables or
                    LinearCertaintyEquivalence on up to 12 numbers, and networks or critics for all else (docs/own.md).
    steps:          environment steps of each run; with `until` the most that it may take.
    seeds, seed:    the number of runs (seeds 0, 1, ...) or a list of seeds; `seed` runs a single seed.
    evaluate_every: steps between error measurements (default: twenty over the run).
    snapshots:      additional times at which to keep values, variances, visits and behaviour; the end is always kept.
    average_episodes: 0 measures the error of the current estimates; k averages the squared error over the estimates
                    at the end of the last k episodes (what the authors' code reports, with k = 500).
    until:          a rule that ends a run before its `steps`, such as gvfx.error_below(0.05), or gvfx.decided() when it is sure
                    which policy is better; measurements scheduled after the end repeat the last one.  On tables and
                    linear features; networks and Box actions with where="start", by audits.
    calibrate:      divide each question's weight by its mean square value, so that errors count relative to its scale;
                    behaviours that plan (OptimalDesign) and those that read the variance (GVFExplorer) estimate the scales
                    from the data so far.  Not for Box actions.
    where:          where errors count: by default in all states equally.  "start": the error is that of the value at the start,
                    `result.value()`; or states (observations, if they are continuous), or weights by state, or one weight per
                    state: the weighted mean of their squared errors.  OptimalDesign is then optimal for it, and `until` bounds
                    that error.
    audit:          the share of the steps that follow the target policies from resets and check the values at the start
                    (docs/audits.md): `result.audit()`.  By default 0.15 for networks and Box actions, whose intervals have no
                    other ground, and 0 elsewhere.  gvfx.Audit(share, ranges) also says in which ranges cumulants lie.
    workers:        number of seeds run in parallel; results do not depend on it.
    progress:       True or False shows or hides the progress bar (default: shown in a terminal and a notebook); a function
                    is called as progress(seed, steps done, current error) after each measurement.
    save:           a file for the result; if a run fails or is interrupted, what was learned so far is written to it.
    checkpoint:     a folder from which the same call continues a run that was interrupted, failed or killed.  In gvfx's own
                    worlds the result is the same to the byte; a Gymnasium environment begins a new episode.
    checkpoint_every: seconds between two checkpoints (default: 60), which is what a run that is killed repeats.
    track:          a file to which every measurement is appended as a JSON line, a tracker (`gvfx.running.tracking`), or a
                    list of them.
    log:            transitions of the same environment recorded earlier, in any form that `gvfx.evaluate_log` takes, from
                    which the run starts: answers rest on them too, and OptimalDesign chooses what to add.  They are not
                    counted as steps; visits include them.  On tables and linear features.
    step_limit:     seconds that one reset or step of an environment may take; after them the run ends with EnvironmentFailed.
                    A step that hangs in compiled code, or outside the main thread, cannot be interrupted: a warning says so.

    Ctrl-C and SIGTERM raise gvfx.Interrupted, a failing environment gvfx.EnvironmentFailed, numbers that are no longer finite
    gvfx.RunError; each carries what was learned so far as `result`, as does any other error that ends a run.
    """
    world = as_world(world)
    questions = on_rewards(questions, world)
    rule = until.on(questions) if isinstance(until, Decided) else until
    if isinstance(rule, Decision):
        if not (where is None or (isinstance(where, str) and where == "start")):
            raise InputError(WHERE)
        where = "start"
    plan, listed = Plan.checked(steps, evaluate_every, snapshots, average_episodes), checked_seeds(seeds, seed)
    whole(workers, "workers", least=1)
    if not isinstance(calibrate, bool):
        raise InputError(f"calibrate: {calibrate!r:.40} is neither True nor False; give one of them.")
    seconds = _seconds(checkpoint_every, checkpoint)
    folder = folder_for(checkpoint) if checkpoint is not None else None
    if save is not None:
        save = check_writable(save, "save")
    limit = StepLimit(step_limit)
    tracking = Tracking(track)
    listeners = Listeners(listener(progress, plan.steps, listed), tracking)
    try:
        options: dict[str, Any] = {"plan": plan, "until": rule, "calibrate": calibrate, "where": where, "audit": audit}
        options |= {} if log is None else {"log": log}
        backend = open_backend(world, questions, behaviour, learner, **options)
        if backend.one_environment and workers != 1:
            raise InputError("workers: must be 1 for a single environment; give 1, or a vector environment.")
        if backend.left_out:
            warnings.warn(printable(unread(backend.left_out)), stacklevel=2)
        for name, effect in drifting(world).items() if is_environment(world) else ():
            warnings.warn(printable(f"world: {name}: {effect}."), stacklevel=2)
        seeds_to_run = _Seeds(backend, listed, rule, listeners, folder, seconds, questions, world)
        try:
            with Interruption() as interruption, limit:
                try:
                    parts = seeds_to_run.run(int(workers), interruption)
                except Uncountable as error:
                    if learner is not None:
                        raise
                    backend = open_backend(world, questions, behaviour, None, **options, numbered=False)
                    warnings.warn(
                        f"world: {error.what}, too many for tables; the run begins again with {backend.why}.", stacklevel=2
                    )
                    seeds_to_run = _Seeds(backend, listed, rule, listeners, folder, seconds, questions, world)
                    parts = seeds_to_run.run(int(workers), interruption)
        except BaseException as error:
            kept = seeds_to_run.partial(error)
            if kept is not None or isinstance(error, RunError | Interrupted):
                error.result = kept  # type: ignore[attr-defined]
            if save is not None and kept is not None:
                try:
                    kept.save(save)
                except GvfxError as unsaved:  # what stopped the run is more important
                    warnings.warn(f"save: the result is not saved: {unsaved}", stacklevel=2)
            raise
        result = seeds_to_run.result(parts)
        if rule is not None and not all(part.reached for part in parts):
            said = undecided(parts) if isinstance(rule, Decision) else unreached(rule, parts)
            warnings.warn(printable(said), stacklevel=2)
        for model in result.models[:1]:
            _warn(model)
        tracking.finish(result)
    finally:
        listeners.close()
    if save is not None:
        try:
            result.save(save)
        except GvfxError as error:  # the disk is full, the folder was deleted
            raise Unsaved(f"save: the result is not saved: {error}", result) from None
    return result


def _seconds(checkpoint_every: Any, checkpoint: Any) -> float | None:
    """The seconds between two checkpoints, checked."""
    if checkpoint_every is None:
        return None
    if not (is_real(checkpoint_every) and checkpoint_every >= 0):
        raise InputError(f"checkpoint_every: {checkpoint_every!r:.40} is not a number of seconds; give one, such as 60.")
    if checkpoint is None:
        raise InputError("checkpoint_every: there are no checkpoints; give their folder with checkpoint=.")
    return float(checkpoint_every)


def _warn(data: Empirical) -> None:
    """Warn about answers that no number of steps would give."""
    if names := unending(data):
        warnings.warn(
            f"discount: {printable(', '.join(names))} adds up without an end, because no episode terminated; use less than 1.",
            stacklevel=3,
        )
    if endless(data):
        warnings.warn(
            "world: nearly every state was met only once, so tables cannot answer; leave counters and times out of the "
            "observation, or give it as a Box and use a network.",
            stacklevel=3,
        )


class _Seeds:
    """The seeds of one call."""

    def __init__(
        self,
        backend: Backend,
        seeds: tuple[int, ...],
        until: ErrorBelow | Decision | None,
        listeners: Listeners,
        folder: Path | None,
        seconds: float | None,
        questions: Sequence[GVF],
        world: object,
    ) -> None:
        self.backend, self.seeds, self.until, self.listeners = backend, seeds, until, listeners
        self.folder, self.seconds = folder, seconds
        self.identity = _identity(backend, questions, until) if folder else ""  # long, if there are many questions
        self.comparable = comparable(questions)
        self.named = {"environment": environment_name(world)} if is_environment(world) else {}
        self.done: dict[int, Part] = {}

    def run(self, workers: int, interruption: Interruption) -> list[Part]:
        """One part per seed, run in `workers` threads."""
        if workers == 1 or len(self.seeds) == 1:
            return [self._one(seed, interruption) for seed in self.seeds]
        with ThreadPoolExecutor(workers) as pool:
            futures: list[Future[Part]] = [pool.submit(self._one, seed, interruption) for seed in self.seeds]
            return [future.result() for future in futures]

    def _one(self, seed: int, interruption: Interruption) -> Part:
        keep = Checkpoints(self.folder, f"seed-{seed:04d}{self.backend.tag}", f"{self.identity}/{seed}") if self.folder else None
        stream = self.backend.begin(seed)
        try:
            (part,) = drive(
                self.backend,
                stream,
                until=self.until,
                listeners=self.listeners,
                checkpoints=keep,
                checkpoint_every=self.seconds,
                interruption=interruption,
            )
        except BaseException as error:
            if parts := getattr(error, "parts", None):
                self.done[seed] = parts[0]
            raise
        self.done[seed] = part
        return part

    @one_thread()
    def result(self, parts: Sequence[Part], **said: str) -> Result:
        backend, seeds = self.backend, tuple(seed for seed in self.seeds if seed in self.done)
        parts = backend.aligned(parts)
        weights = backend.weigh([(part.values[-1], part.visits[-1]) for part in parts])
        predictor = backend.predictor(parts)
        models = [part.model for part in parts if part.model is not None]
        told = self.named | backend.described() | said | seen_in(models, int if predictor is None else predictor.label)
        told |= told_of(self.comparable)
        if isinstance(self.until, Decision):
            told |= {"until": repr(self.until.rule), "decided": decisions(parts)}
        elif self.until is not None:
            told |= {"until": repr(self.until), "target": self.until.target}
        return gather(backend.names, weights, seeds, parts, told, predictor)

    def partial(self, error: BaseException) -> Result | None:
        """The result of what all seeds have learned so far; None before the first step."""
        if not self.done:
            return None
        parts = alike([self.done[seed] for seed in self.seeds if seed in self.done])
        said = str(error) if isinstance(error, GvfxError | Interrupted) else said_by(error)
        return self.result(parts, **{"run" if isinstance(error, KeyboardInterrupt) else "failed": said})


def _identity(backend: Backend, questions: Sequence[GVF], until: ErrorBelow | Decision | None) -> str:
    """Identifies the run that a checkpoint belongs to: method, plan and questions (functions by name, not by address)."""
    asked = [(q.name, q.weight, repr(q.policy), repr(q.cumulant), repr(q.discount)) for q in expand(questions)]
    text = repr((backend.described(), backend.names, backend.weights.tolist(), backend.plan, until, asked))
    text += "" if backend.log is None else backend.log.digest
    text += "" if backend.where == EVERYWHERE else repr((backend.where, backend.asked_at.tolist()))
    return hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", text).encode()).hexdigest()[:16]
