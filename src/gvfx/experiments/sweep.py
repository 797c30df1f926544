"""Run many (experiment, seed) pairs in parallel: only what is missing, with recovery from crashes."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gvfx.errors import InputError
from gvfx.experiments.executors import checkpoints_of, find_device, run_task, run_together
from gvfx.experiments.executors import executor as default_executor
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Claim, Store
from gvfx.learners.networks.deep import Deep
from gvfx.questions.gvf import question_names
from gvfx.running.plan import checked_seeds
from gvfx.running.result import Result, gather


@dataclass(frozen=True)
class Tally:
    """The progress of a sweep."""

    done: int  # runs finished by this call
    found: int  # runs that were already stored
    total: int
    steps: int  # environment steps made by this call
    steps_left: int
    seconds: float


Report = Callable[[Tally], None]


def run_all(
    store: Store,
    runs: Iterable[tuple[Experiment, int | Iterable[int]]],
    *,
    workers: int = 1,
    cluster: str | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    report: Report | None = None,
    patience: float = 0.2,
) -> Tally:
    """Make sure every seed of every (experiment, seeds) pair is in the store.

    executor: anything with the concurrent.futures.Executor interface (default: a Dask cluster, or `workers` processes).
    device: the device of runs on networks ("gpu", "tpu"), which runs all missing seeds of an experiment in one loop.
    A worker that dies is replaced and its runs are repeated; two processes on one store share the work.
    """
    listed = list(runs)
    store.prepare(e for e, _ in listed)
    pairs = list({(e.hash, seed): (e, seed) for e, seeds in listed for seed in checked_seeds(seeds)}.values())
    missing = [(e, seed) for e, seed in pairs if not store.has(e, seed)]
    work = _Work(store, missing, len(pairs), report, None if cluster else str(store.folder))
    if device is not None:
        work.run_on(device)
    for attempt in range(4):
        try:
            if executor is not None:
                work.run(executor, 8, patience)
            else:
                with default_executor(workers, cluster) as (pool, window):
                    work.run(pool, window, patience)
            break
        except BrokenExecutor:
            if attempt == 3:
                raise InputError("workers: processes keep dying (out of memory?); use fewer workers.") from None
        finally:
            work.release()
    return work.tally()


class _Work:
    """The runs to do, those in progress, and those that another process is doing."""

    def __init__(
        self, store: Store, missing: Sequence[tuple[Experiment, int]], total: int, report: Report | None, checkpoints: str | None
    ) -> None:
        self.store, self.total, self.report, self.checkpoints = store, total, report, checkpoints
        self.queue = deque(missing)
        self.found = total - len(missing)
        self.elsewhere: deque[tuple[Experiment, int]] = deque()
        self.under_way: dict[Future, tuple[Experiment, int, Claim]] = {}
        self.done = self.steps = 0
        self.begun = time.perf_counter()

    def run(self, pool: Executor, window: int, patience: float) -> None:
        while self.queue or self.under_way or self.elsewhere:
            while self.queue and len(self.under_way) < window:
                self._start(pool, *self.queue.popleft())
            if self.report and not self.done:
                self.report(self.tally())
            if self.under_way:
                finished, _ = wait(self.under_way, return_when=FIRST_COMPLETED)
                for future in finished:
                    self._finish(future)
            elif self.elsewhere:  # wait for the other process, and take over runs that it gives up
                time.sleep(patience)
                self.queue, self.elsewhere = self.elsewhere, deque()

    def run_on(self, device: str) -> None:
        """Make the runs on networks, one experiment at a time; runs claimed by another process stay in the queue."""
        find_device(device)
        groups: dict[str, list[tuple[Experiment, int, Claim]]] = {}
        for experiment, seed in [pair for pair in self.queue if isinstance(pair[0].learner, Deep)]:
            if claim := self.store.claim(experiment, seed):
                groups.setdefault(experiment.hash, []).append((experiment, seed, claim))
        try:
            for group in groups.values():
                experiment, seeds = group[0][0], [seed for _, seed, _ in group]
                for seed, (raw, seconds) in zip(
                    seeds, run_together(experiment.json, seeds, device, self.checkpoints, experiment.own_parts), strict=True
                ):
                    self._keep(experiment, seed, raw, seconds)
                    self.queue.remove((experiment, seed))
                if self.checkpoints:
                    checkpoints_of(Path(self.checkpoints), experiment.hash, seeds).clear()
        finally:
            for group in groups.values():
                for _, _, claim in group:
                    claim.release()

    def _start(self, pool: Executor, experiment: Experiment, seed: int) -> None:
        claim = self.store.claim(experiment, seed)
        if claim is None:
            self.elsewhere.append((experiment, seed))
            return
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

    def _finish(self, future: Future) -> None:
        experiment, seed, claim = self.under_way[future]
        raw, seconds = future.result()  # a dead worker raises here and the run is queued again by release()
        self._keep(experiment, seed, raw, seconds)
        del self.under_way[future]
        claim.release()

    def _keep(self, experiment: Experiment, seed: int, raw: bytes, seconds: float) -> None:
        self.store.save(experiment, seed, raw)
        if self.checkpoints:
            checkpoints_of(Path(self.checkpoints), experiment.hash, (seed,)).clear()
        self.done += 1
        self.steps += experiment.steps
        self._log(experiment, seed, seconds)
        if self.report:
            self.report(self.tally())

    def _log(self, experiment: Experiment, seed: int, seconds: float) -> None:
        line = json.dumps({"experiment": experiment.hash, "seed": seed, "steps": experiment.steps, "seconds": round(seconds, 4)})
        with (self.store.folder / "runs.jsonl").open("a") as file:
            file.write(line + "\n")

    def release(self) -> None:
        """Queue the runs in progress again and release their claims."""
        for future, (experiment, seed, claim) in self.under_way.items():
            future.cancel()
            claim.release()
            self.queue.appendleft((experiment, seed))
        self.under_way = {}

    def tally(self) -> Tally:
        left = [e.steps for e, _ in self.queue] + [e.steps for e, _, _ in self.under_way.values()]
        return Tally(self.done, self.found, self.total, self.steps, sum(left), time.perf_counter() - self.begun)


def stored_result(store: Store, experiment: Experiment, seeds: int | Iterable[int]) -> Result:
    """The stored result of an experiment; raises FileNotFoundError for a run that is missing."""
    listed = checked_seeds(seeds)
    parts = [store.load(experiment, seed) for seed in listed]
    weights = np.array([q.weight for q in experiment.questions])
    described = {"hash": experiment.hash, "behaviour": repr(experiment.behaviour), "learner": repr(experiment.learner)}
    return gather(question_names(experiment.questions), weights, listed, parts, described)
