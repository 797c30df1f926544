"""evaluate: answer questions about a world with a behaviour and a learner, and measure the error during the run."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from gvfx.behaviours.base import Behaviour
from gvfx.errors import GvfxError, InputError, RunError, Unsaved, error_text, printable
from gvfx.evidence.decisions import Decided, Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.evidence.unseen import endless, unending
from gvfx.learners.base import Learner
from gvfx.questions.gvf import GVF, Audit, comparable, expand, on_rewards
from gvfx.questions.where import EVERYWHERE, WhereLike
from gvfx.running.backends import as_world, open_backend
from gvfx.running.checkpoint import Checkpoints, locked, made_of, merged, of_questions
from gvfx.running.drive import Interrupted, Interruption, drive
from gvfx.running.log_table import LogLike
from gvfx.running.plan import Method, Options, Plan, checked_seeds, rule_for
from gvfx.running.result import Result, gather, seen_in
from gvfx.running.saved import keep
from gvfx.running.schema import Part, shortened
from gvfx.running.stepping import StepLimit
from gvfx.running.summary import decisions, undecided, unreached, unread
from gvfx.running.tracking import Listeners, Report, Tracked, Tracking, listener
from gvfx.threads import one_thread
from gvfx.types import Environment
from gvfx.worlds.mdp import World
from gvfx.worlds.spec import Uncountable, drifting, environment_name, is_environment


def evaluate(
    world: World | Environment | str,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: Learner | None = None,
    *,
    steps: float | Plan = 100_000,
    seeds: int | Iterable[int] = 1,
    seed: int | None = None,
    evaluate_every: float | None = None,
    snapshots: Iterable[int] = (),
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
    behaviour, learner: how to act and how to answer.  By default OptimalDesign with CertaintyEquivalence on tables;
                    whole episodes of the policies with LinearCertaintyEquivalence on up to 12 numbers; networks or critics for
                    all else that has numbers (docs/own.md), and rollouts where it has none (docs/when-does-it-pay.md).
    steps:          environment steps of each run; with `until` the most that it may take.  Or a `gvfx.running.plan.Plan`, which
                    has the times of measurements and snapshots too.
    seeds, seed:    the number of runs (seeds 0, 1, ...) or a list of seeds; `seed` runs a single seed.
    evaluate_every: steps between error measurements (default: twenty over the run).
    snapshots:      additional times at which to keep values, variances, visits and behaviour; the end is always kept.
    until:          a rule that ends a run before its `steps`, such as gvfx.error_below(0.05), or gvfx.decided() when it is sure
                    which policy is better; measurements scheduled after the end repeat the last one.  On tables and
                    linear features; networks and Box actions with where="start", by audits.
    calibrate:      divide each question's weight by its mean square value, so that errors count relative to its scale;
                    behaviours that plan (OptimalDesign) and those that read the variance (GVFExplorer) estimate the scales
                    from the data so far.
    where:          where errors count: by default in all states equally.  "start": the error is that of the value at the start,
                    `result.value()`; or states (observations, if they are continuous), or weights by state, or one weight per
                    state: the weighted mean of their squared errors.  OptimalDesign is then optimal for it, and `until` bounds
                    that error.
    audit:          the share of the steps in whole episodes of the target policies, which check the values at the start
                    (docs/audits.md): `result.audit()`.  By default 0.15 for networks and Box actions without where="start",
                    and 0 elsewhere.  gvfx.Audit(share, ranges) also says in which ranges cumulants lie.
    workers:        number of seeds run in parallel; results do not depend on it.
    progress:       True or False shows or hides the progress bar (default: shown in a terminal and a notebook); a function
                    is called as progress(seed, steps done, current error) after each measurement.
    save:           a file for the result; if a run fails or is interrupted, what was learned so far is written to it.  If that
                    fails at the end, gvfx.StoreError has the `result` and names a copy in the temporary folder.
    checkpoint:     a folder from which the same call continues a run that was interrupted, failed or killed.  In gvfx's own
                    worlds the result is the same but for its `seconds`; a Gymnasium environment begins a new episode.
    checkpoint_every: seconds between two checkpoints (default: 60), which is what a run that is killed repeats.
    track:          a file to which every measurement is appended as a JSON line, a tracker (`gvfx.running.tracking`), or a
                    list of them.
    log:            transitions of the same environment recorded earlier, in any form that `gvfx.evaluate_log` takes, from
                    which the run starts: answers rest on them too, and OptimalDesign chooses what to add.  They are not
                    counted as steps; visits include them.  Not for learners that weigh their behaviour's own actions.
    step_limit:     seconds that one reset or step of an environment may take; after them the run ends with EnvironmentFailed.
                    A step that hangs in compiled code, or outside the main thread, cannot be interrupted: a warning says so.

    Ctrl-C and SIGTERM raise gvfx.Interrupted, a failing environment gvfx.EnvironmentFailed, numbers that are no longer finite
    gvfx.RunError; each carries what was learned so far as `result`, as does any other error that ends a run.
    """
    given = as_world(world)
    questions = on_rewards(questions, given)
    options = Options(
        **rule_for(until, where, questions),
        plan=Plan.given(steps, evaluate_every, snapshots),
        seeds=checked_seeds(seeds, seed),
        calibrate=calibrate,
        audit=audit,
        log=log,
        workers=workers,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        save=save,
        step_limit=step_limit,
    ).with_places()
    tracking = Tracking(track)
    with closing(Listeners(listener(progress, options.plan.steps, options.seeds), tracking)) as listeners:
        run = _Run(given, questions, Method(behaviour, learner), options, listeners)
        try:
            parts = run.parts()
        except BaseException as error:
            run.keep_what_was_learned(error)
            raise
        result = run.result(parts)
        run.warn(parts, result)
        tracking.finish(result)
    if options.save is not None:
        keep(result, Path(options.save))
    return result


class _Run:
    """One call of `evaluate`: all of its seeds."""

    def __init__(self, world: Any, questions: Sequence[GVF], method: Method, options: Options, listeners: Listeners) -> None:
        self.world, self.questions, self.method, self.options, self.listeners = world, questions, method, options, listeners
        self.named = {"environment": environment_name(world)} if is_environment(world) else {}
        self.comparable = comparable(questions)
        self.content = of_questions(questions)  # before the first step, which may change what functions remember
        self._open(options)
        if self.backend.one_environment and options.workers != 1:
            raise InputError("workers: must be 1 for a single environment; give 1, or a vector environment.")
        if self.backend.left_out:
            warnings.warn(printable(unread(self.backend.left_out)), stacklevel=3)
        for name, effect in drifting(world).items() if self.named else ():
            warnings.warn(printable(f"world: {name}: {effect}."), stacklevel=3)

    def _open(self, options: Options) -> None:
        """Choose the method and prepare what the seeds share."""
        self.backend = open_backend(self.world, self.questions, *self.method, options=options)
        self.done: dict[int, Part] = {}
        if options.checkpoint is not None:
            self.identity = self._identity()  # long, if there are many questions
            parts = {"environment": self.world, "behaviour": self.backend.behaviour, "learner": self.backend.learner}
            self.made = merged(self.content, made_of((f"the {name}", part) for name, part in parts.items()))

    def parts(self) -> list[Part]:
        """One part per seed; a run with too many different observations for tables begins again with features or networks."""
        with Interruption() as interruption, StepLimit(self.options.step_limit):
            try:
                return self._all(interruption)
            except Uncountable as error:
                if self.method.learner is not None:
                    raise
                paid = self.backend.paid_for()  # type: ignore[attr-defined]
                self._open(replace(self.options, numbered=False))
                self.backend.paid = paid  # type: ignore[attr-defined]
                kept = f"; it learns from the {sum(map(len, paid.values())):,} transitions made so far, too"
                what = f"world: {error.what}, too many for tables; the run begins again with {self.backend.why}{kept}."
                warnings.warn(what, stacklevel=3)
                return self._all(interruption)

    def _all(self, interruption: Interruption) -> list[Part]:
        """One part per seed, run in `workers` threads."""
        seeds, workers = self.options.seeds, int(self.options.workers)
        if workers == 1 or len(seeds) == 1:
            return [self._one(seed, interruption) for seed in seeds]
        with ThreadPoolExecutor(workers) as pool:
            futures: list[Future[Part]] = [pool.submit(self._one, seed, interruption) for seed in seeds]
            return [future.result() for future in futures]

    def _one(self, seed: int, interruption: Interruption) -> Part:
        if self.options.checkpoint is None:
            return self._driven(seed, interruption, None)
        folder, name = Path(self.options.checkpoint), f"seed-{seed:04d}{self.backend.tag}"
        with locked(folder, name):
            checkpoints = Checkpoints(folder, name, f"{self.identity}/{seed}", self.made)
            return self._driven(seed, interruption, checkpoints)

    def _driven(self, seed: int, interruption: Interruption, checkpoints: Checkpoints | None) -> Part:
        try:
            (part,) = drive(
                self.backend,
                self.backend.begin(seed),
                until=self.options.until,
                listeners=self.listeners,
                checkpoints=checkpoints,
                checkpoint_every=self.options.checkpoint_every,
                interruption=interruption,
            )
        except BaseException as error:
            if parts := getattr(error, "parts", None):
                self.done[seed] = parts[0]
            raise
        self.done[seed] = part
        return part

    def _identity(self) -> str:
        """Identifies the run that a checkpoint belongs to: method, plan and questions (functions by name, not by address)."""
        backend = self.backend
        asked = [(q.name, q.weight, repr(q.policy), repr(q.cumulant), repr(q.discount)) for q in expand(self.questions)]
        text = repr((backend.described(), backend.names, backend.weights.tolist(), backend.plan, self.options.until, asked))
        text += "" if backend.log is None else backend.log.digest
        text += "" if backend.where == EVERYWHERE else repr((backend.where, backend.asked_at.tolist()))
        return hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", text).encode()).hexdigest()[:16]

    # --- results -----------------------------------------------------------------------------------------------------

    @one_thread()
    def result(self, parts: Sequence[Part], **notes: str) -> Result:
        """The result of the seeds that are done; notes: how the run ended, if it did not end by itself."""
        backend, until = self.backend, self.options.until
        seeds = tuple(seed for seed in self.options.seeds if seed in self.done)
        parts = backend.aligned(parts)
        weights = backend.weigh([(part.values[-1], part.visits[-1]) for part in parts])
        predictor = backend.predictor(parts) if backend.predictor is not None else None
        models = [part.model for part in parts if part.model is not None]
        described = self.named | backend.described() | notes
        described |= seen_in(models, int if predictor is None else predictor.label) | self.comparable.note
        if isinstance(until, Decision):
            described |= {"until": repr(until.rule), "decided": decisions(parts)}
        elif until is not None:
            described |= {"until": repr(until), "target": until.target}
        return gather(backend.names, weights, seeds, parts, described, predictor, self.content.plain)

    def keep_what_was_learned(self, error: BaseException) -> None:
        """Give the error of a failed run the result of what all seeds have learned so far, if there is any, and save it."""
        kept = None
        if self.done:
            parts = shortened([self.done[seed] for seed in self.options.seeds if seed in self.done])
            how = str(error) if isinstance(error, GvfxError | Interrupted) else error_text(error)
            kept = self.result(parts, **{"run" if isinstance(error, KeyboardInterrupt) else "failed": how})
        if kept is not None or isinstance(error, RunError | Interrupted):
            error.result = kept  # type: ignore[attr-defined]
        if self.options.save is not None and kept is not None:
            try:
                keep(kept, Path(self.options.save))
            except Unsaved as unsaved:  # what stopped the run is more important
                warnings.warn(str(unsaved), stacklevel=3)

    def warn(self, parts: Sequence[Part], result: Result) -> None:
        """Warn about a rule that did not end the run, and about answers that no number of steps would give."""
        until = self.options.until
        if until is not None and not all(part.reached for part in parts):
            sentence = undecided(parts) if isinstance(until, Decision) else unreached(until, parts)
            warnings.warn(printable(sentence), stacklevel=3)
        for data in result.details.models[:1]:
            if names := unending(data):
                what = f"discount: {printable(', '.join(names))} adds up without an end, because no episode terminated"
                warnings.warn(f"{what}; use less than 1.", stacklevel=3)
            if endless(data):
                warnings.warn(
                    "world: nearly every state was met only once, so tables cannot answer; leave counters and times out of the "
                    "observation, or give it as a Box and use a network.",
                    stacklevel=3,
                )
