"""Run many (experiment, seed) pairs in parallel: only what is missing, with recovery from crashes."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError, RunError, StoreError
from gvfx.experiments.executors import NoScheduler, Outcome, checkpoints_of, find_device, is_lost, run_task, run_together
from gvfx.experiments.executors import executor as default_executor
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Divergence, Store
from gvfx.files import append_line, open_lines
from gvfx.inputs import checked, is_finite, listed, shown, whole
from gvfx.learners.networks.learners import Deep
from gvfx.locks import Lock
from gvfx.questions.gvf import question_names
from gvfx.running.drive import NAMES, Interrupted, Interruption
from gvfx.running.plan import checked_seeds
from gvfx.running.result import Result, gather
from gvfx.running.schema import empty_part
from gvfx.tensors import misfit

ATTEMPTS = 4  # to go on with new workers when some die
AHEAD = 8  # runs that an executor of unknown size is given at once
LOOK_EVERY = 0.2  # seconds between two looks for a signal
SETTLED = 1.0  # seconds after which an executor that was stopped has reported how its runs ended


@dataclass(frozen=True)
class Tally:
    """The progress of a sweep; a run that diverged is finished."""

    done: int  # runs finished by this call
    found: int  # runs that were already stored
    total: int
    steps: int  # environment steps made by this call
    steps_left: int
    seconds: float
    diverged: tuple[Divergence, ...] = ()  # the runs that diverged, in this call and before it


STALLED = 60.0  # seconds of waiting for another process after which it is named
Report = Callable[[Tally], None]


@checked
def run_all(
    store: Store,
    runs: Iterable[tuple[Experiment, int | Iterable[int]]],
    *,
    workers: int = 1,
    cluster: str | None = None,
    executor: Executor | None = None,
    ahead: int | None = None,
    device: str | None = None,
    report: Report | None = None,
    patience: float = 0.2,
    steal: bool = False,
    verify: bool = False,
) -> Tally:
    """Make sure every seed of every (experiment, seeds) pair is in the store.

    executor: anything with the concurrent.futures.Executor interface (default: a Dask cluster, or `workers` processes).
    ahead:  how many runs an executor or a cluster is given at once: at least as many as it has workers (default: 8, and for a
            cluster twice the workers that it has at the beginning).
    device: the device of runs on networks ("gpu", "tpu"), which runs all missing seeds of an experiment in one loop.
    steal:  once nothing else is left, also make the runs that another process has begun; both store the same bytes.
    verify: read every stored file again, also those that were found whole before.

    A worker that dies is replaced and its runs are repeated; two processes on one store share the work.  A run that diverges
    is recorded, and made again only if its file seed-....diverged.json is deleted.
    """
    each = _pairs(runs)
    whole(workers, "workers", least=1)
    ahead = None if ahead is None else whole(ahead, "ahead", least=1)
    if patience < 0 or not is_finite(patience):
        raise InputError(f"patience: {shown(patience)} is not a number of seconds; give one of at least 0.")
    if report is not None and not callable(report):
        raise InputError(f"report: {shown(report)} is not a function; give one that takes a Tally.")
    if executor is not None and not hasattr(executor, "submit"):
        raise InputError(f"executor: {shown(executor)} has no method submit; give a concurrent.futures.Executor.")
    store.prepare((e for e, _ in each), verify)
    pairs = list({(e.hash, seed): (e, seed) for e, seeds in each for seed in seeds}.values())
    missing = [(e, seed) for e, seed in pairs if not store.has(e, seed)]
    store.warn()
    store.save_indices()
    work = _Work(store, missing, len(pairs), report, None if cluster else str(store.folder))
    work.steal = steal
    lost = [(e, seed) for e, seeds in each for seed in store.diverged(e, seeds)]
    work.diverged = {(e.hash, seed): found for e, seed in lost if (found := store.divergence(e, seed))}
    with Interruption() as work.interruption:
        if device is not None:
            work.run_on(device)
        broken, before = 0, 0
        while broken < ATTEMPTS:
            try:
                if executor is not None:
                    work.run(executor, ahead or AHEAD, patience)
                else:
                    with default_executor(workers, cluster) as (pool, window):
                        work.run(pool, ahead if ahead and cluster else window, patience)
                store.warn()
                break
            except BrokenExecutor:
                broken, before = 1 if work.done > before else broken + 1, work.done
                if broken == ATTEMPTS:
                    raise RunError(f"workers: processes keep dying (out of memory?); use fewer workers. {work.kept}") from None
            except NoScheduler:
                if not broken:
                    raise
                raise RunError(f"cluster: the scheduler at {cluster} is gone; start it again. {work.kept}") from None
            finally:
                work.release()
    return work.tally()


def _pairs(runs: Iterable[tuple[Experiment, int | Iterable[int]]]) -> list[tuple[Experiment, tuple[int, ...]]]:
    out = []
    for k, pair in enumerate(listed(runs, "runs", "(experiment, seeds) pairs")):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Experiment)):
            raise InputError(f"runs[{k}]: {shown(pair)} is not an experiment with its seeds; give pairs (experiment, seeds).")
        out.append((pair[0], checked_seeds(pair[1])))
    return out


class SweepInterrupted(Interrupted):
    """Runs stopped by Ctrl-C or SIGTERM; those that were finished are stored."""

    def __init__(self, signum: int, kept: str) -> None:
        KeyboardInterrupt.__init__(self, f"{NAMES[signal.Signals(signum)]}; {kept}")
        self.in_a_terminal, self.signum, self.exit_code = str(self), signum, 128 + signum


class _Work:
    """The runs to do, those in progress, and those that another process is doing."""

    def __init__(
        self, store: Store, missing: Sequence[tuple[Experiment, int]], total: int, report: Report | None, checkpoints: str | None
    ) -> None:
        self.store, self.total, self.report, self.checkpoints = store, total, report, checkpoints
        self.queue = deque(missing)
        self.found = total - len(missing)
        self.elsewhere: deque[tuple[Experiment, int]] = deque()
        self.under_way: dict[Future, tuple[Experiment, int, Lock]] = {}
        self.done = self.steps = 0
        self.diverged: dict[tuple[str, int], Divergence] = {}  # by experiment and seed
        self.interruption = Interruption()
        self.begun = self.last_event = time.perf_counter()  # last_event: when something last happened
        self.steal = self.stealing = False
        self.logs = True  # whether runs.jsonl can be written
        self.reported: set[tuple[str, int]] = set()  # runs of other processes that were reported

    def run(self, pool: Executor, window: int, patience: float) -> None:
        while self.queue or self.under_way or self.elsewhere:
            while self.queue and len(self.under_way) < window:
                self._stop_if_interrupted()
                self._start(pool, *self.queue.popleft())
            self._stop_if_interrupted()
            if self.report and not self.done:
                self.report(self.tally())
            if self.under_way:
                finished, _ = wait(self.under_way, LOOK_EVERY, return_when=FIRST_COMPLETED)
                for future in finished:
                    self._finish(future)
            elif self.elsewhere:
                self._wait(patience)

    def _wait(self, patience: float) -> None:
        """Wait for other processes, and take over the runs that they give up; with `steal`, all of them at once."""
        self.stealing = self.steal
        if not self.stealing:
            time.sleep(patience)
            new = [pair for pair in self.elsewhere if (pair[0].hash, pair[1]) not in self.reported]
            if new and time.perf_counter() - self.last_event > STALLED:
                self.reported |= {(e.hash, seed) for e, seed in self.elsewhere}
                warnings.warn(elsewhere(self.store, new), stacklevel=4)
        self.queue, self.elsewhere = self.elsewhere, deque()

    def run_on(self, device: str) -> None:
        """Make the runs on networks, one experiment at a time; runs claimed by another process stay in the queue."""
        find_device(device)
        groups: dict[str, list[tuple[Experiment, int, Lock]]] = {}
        for experiment, seed in [pair for pair in self.queue if isinstance(pair[0].learner, Deep)]:
            if claim := self.store.claim(experiment, seed):
                groups.setdefault(experiment.hash, []).append((experiment, seed, claim))
        try:
            for group in groups.values():
                experiment, seeds = group[0][0], [seed for _, seed, _ in group]
                together = run_together(experiment.json, seeds, device, self.checkpoints, experiment.own_parts)
                self._stop_if_interrupted()
                for seed, made in zip(seeds, together, strict=True):
                    self._keep(experiment, seed, made)
                    self.queue.remove((experiment, seed))
                if self.checkpoints:
                    checkpoints_of(Path(self.checkpoints), experiment.hash, seeds).clear()
        finally:
            for group in groups.values():
                for _, _, claim in group:
                    claim.release()

    def _start(self, pool: Executor, experiment: Experiment, seed: int) -> None:
        claim = self.store.claim(experiment, seed, self.stealing)
        if claim is None:
            self.elsewhere.append((experiment, seed))
            return
        self.last_event = time.perf_counter()
        if self.store.has(experiment, seed):
            claim.release()
            self.found += 1
            return
        try:
            future = pool.submit(run_task, experiment.json, seed, self.checkpoints, experiment.own_parts)
        except BaseException:
            self.queue.appendleft((experiment, seed))
            claim.release()
            raise
        self.under_way[future] = (experiment, seed, claim)

    def _stop_if_interrupted(self) -> None:
        if self.interruption.signum is not None:
            raise SweepInterrupted(self.interruption.signum, self.kept)

    @property
    def kept(self) -> str:
        return f"finished runs are stored in {self.store.folder}, and the same command continues from there."

    def _finish(self, future: Future) -> None:
        """Store a run that has ended.  A dead worker or a lost cluster raises here, and `release` queues the run again."""
        experiment, seed, claim = self.under_way[future]
        try:
            made = future.result()
        except Exception as error:
            if is_lost(error):
                raise BrokenExecutor("the cluster was lost") from None
            raise
        if not made.finished:
            self._stop_if_interrupted()
            raise BrokenExecutor("a signal ended a worker")
        self._keep(experiment, seed, made)
        del self.under_way[future]
        claim.release()

    def _keep(self, experiment: Experiment, seed: int, made: Outcome) -> None:
        """Store a result, after which its checkpoints are not needed; or how the run diverged, and leave its checkpoints."""
        if made.diverged is not None:
            self.store.save_divergence(experiment, made.diverged)
            self.diverged[experiment.hash, seed] = made.diverged
        else:
            self.store.save(experiment, seed, made.raw)
            if self.checkpoints:
                checkpoints_of(Path(self.checkpoints), experiment.hash, (seed,)).clear()
        self.done += 1
        self.last_event = time.perf_counter()
        self.steps += experiment.steps if made.diverged is None else made.diverged.step
        self._log(experiment, seed, made)
        if self.report:
            self.report(self.tally())

    def _log(self, experiment: Experiment, seed: int, made: Outcome) -> None:
        line = {"experiment": experiment.hash, "seed": seed, "steps": experiment.steps, "seconds": round(made.seconds, 4)}
        if made.diverged is not None:
            line |= {"steps": made.diverged.step, "diverged": True}
        try:
            handle = open_lines(self.store.folder / "runs.jsonl")
            try:
                append_line(handle, json.dumps(line))
            finally:
                os.close(handle)
        except OSError as error:  # a mere log
            if self.logs:
                what = f"results: cannot write {self.store.folder / 'runs.jsonl'} ({error.strerror}); the runs go on without it."
                warnings.warn(what, stacklevel=2)
            self.logs = False

    def release(self) -> None:
        """Store the runs that have ended meanwhile, queue the others again, and release their claims."""
        running = [future for future in self.under_way if not future.cancel()]
        for future in wait(running, SETTLED).done:
            if future.exception() is None and future.result().finished:
                with suppress(StoreError):  # of a full disk, which is reported already
                    self._finish(future)
        for experiment, seed, claim in self.under_way.values():
            claim.release()
            self.queue.appendleft((experiment, seed))
        self.under_way = {}

    def tally(self) -> Tally:
        left = [e.steps for e, _ in self.queue] + [e.steps for e, _, _ in self.under_way.values()]
        seconds, diverged = time.perf_counter() - self.begun, tuple(self.diverged.values())
        return Tally(self.done, self.found, self.total, self.steps, sum(left), seconds, diverged)


def elsewhere(store: Store, runs: Sequence[tuple[Experiment, int]]) -> str:
    """Who makes runs that this process waits for, in a sentence."""
    experiment, seed = runs[0]
    more = f" (and {len(runs) - 1} more)" if len(runs) > 1 else ""
    by = store.claimed_by(experiment, seed) or "another process"
    return (
        f"results: seed {seed} of {experiment.hash}{more} is being run by {by}; wait, or add --steal (in Python steal=True) to "
        "run it here."
    )


def stored_result(store: Store, experiment: Experiment, seeds: int | Iterable[int]) -> Result:
    """The stored result of an experiment, NaN for seeds that diverged; FileNotFoundError for a run that is missing."""
    listed = checked_seeds(seeds)
    good = finished_seeds(store, experiment, listed)
    loaded = {seed: store.load(experiment, seed) for seed in good}
    for seed, part in loaded.items():
        if not part.is_like(loaded[good[0]]):
            raise misfit(str(store.path(experiment, seed)), f"its arrays have other sizes than those of seed {good[0]}")
    described: dict[str, Any] = {"hash": experiment.hash}
    described |= {"behaviour": repr(experiment.behaviour), "learner": repr(experiment.learner)}
    if len(good) < len(listed):
        plan = experiment.plan
        like = loaded[good[0]] if good else empty_part(plan.evaluations, plan.snapshots, len(experiment.questions))
        loaded |= {seed: like.diverged() for seed in listed if seed not in loaded}
        described["diverged"] = [seed for seed in listed if seed not in good]
    weights = np.array([q.weight for q in experiment.questions])
    return gather(question_names(experiment.questions), weights, listed, [loaded[seed] for seed in listed], described)


def stored_error(store: Store, experiment: Experiment, seeds: int | Iterable[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The times [t], the errors [seed, t, gvf] and their weighted mean [seed, t] of a stored result; the rest is not read."""
    listed = checked_seeds(seeds)
    good = {*finished_seeds(store, experiment, listed)}
    times = experiment.plan.evaluations
    none = np.full((len(times), len(experiment.questions)), np.nan)
    mse = np.stack([store.mse(experiment, seed) if seed in good else none for seed in listed])
    weights = np.array([q.weight for q in experiment.questions])
    return np.array(times), mse, mse @ (weights / weights.sum())


def finished_seeds(store: Store, experiment: Experiment, seeds: int | Iterable[int]) -> tuple[int, ...]:
    """The seeds among these whose runs did not diverge."""
    listed = checked_seeds(seeds)
    lost = {*store.diverged(experiment, listed)}
    return tuple(seed for seed in listed if seed not in lost)
