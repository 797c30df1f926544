"""Executors of runs: this process, local processes, a Dask cluster, or any concurrent.futures executor."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gvfx.errors import Diverged, InputError, install
from gvfx.experiments.divergence import Divergence
from gvfx.experiments.own_parts import imported
from gvfx.experiments.specification import Experiment
from gvfx.running.backends import open_backend
from gvfx.running.checkpoint import Checkpoints
from gvfx.running.drive import Backend, drive
from gvfx.running.plan import Plan
from gvfx.tensors import pack

PATIENCE = "10s"  # how long a Dask scheduler may take to respond


class Made(NamedTuple):
    """A finished run."""

    raw: bytes  # the packed result; empty if the run diverged
    seconds: float  # without compilation
    diverged: Divergence | None = None


def run_task(specification: str, seed: int, checkpoints: str | None = None, own_parts: tuple[str, ...] = ()) -> Made:
    """One run to its end, or until it diverges.

    checkpoints: a folder from which an unfinished run continues.
    own_parts:   the experiment's own_parts; a worker imports only these classes and functions.
    """
    return _run(specification, (seed,), checkpoints, own_parts)[0]


def run_together(
    specification: str, seeds: Sequence[int], device: str, checkpoints: str | None = None, own_parts: tuple[str, ...] = ()
) -> list[Made]:
    """Several seeds of one experiment on networks in one compiled loop on a device; if one diverges, each runs by itself."""
    import jax

    with jax.default_device(find_device(device)):
        made = _run(specification, seeds, checkpoints, own_parts)
        if len(made) < len(seeds):
            made = [_run(specification, (seed,), checkpoints, own_parts)[0] for seed in seeds]
        return made


def _run(specification: str, seeds: Sequence[int], folder: str | None, own_parts: tuple[str, ...]) -> list[Made]:
    """Run seeds of one experiment in one stream; if one diverges, all of them stop and only that one is returned."""
    experiment, backend = _loaded(specification, own_parts)
    keep = checkpoints_of(Path(folder), experiment.hash, seeds) if folder else None
    begun = time.perf_counter()
    try:
        parts = drive(backend, backend.begin(*seeds), until=experiment.until, checkpoints=keep, keep_last=False)
    except Diverged as error:
        return [Made(b"", time.perf_counter() - begun, Divergence.of(experiment.hash, error))]
    return [
        Made(pack(part.arrays(), {"experiment": experiment.hash, "seed": str(seed)}), part.seconds)
        for seed, part in zip(seeds, parts, strict=True)
    ]


def checkpoints_of(folder: Path, experiment: str, seeds: Sequence[int]) -> Checkpoints:
    """The checkpoints of seeds that run together."""
    name = f"seed-{seeds[0]:04d}" if len(seeds) == 1 else f"seeds-{'-'.join(map(str, seeds))}"
    return Checkpoints(folder / experiment, name, f"{experiment}/{','.join(map(str, seeds))}")


def find_device(name: str) -> Any:
    """JAX's first device of a kind: cpu, gpu, tpu."""
    try:
        import jax
    except ImportError:
        raise InputError(f"device: networks need JAX; run {install('deep')}.") from None
    try:
        return jax.devices(name)[0]
    except RuntimeError:
        found = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise InputError(
            f"device: JAX has no {name!r} device, only {found}; install JAX for it or leave the option out."
        ) from None


@lru_cache(maxsize=4)
def _loaded(specification: str, own_parts: tuple[str, ...]) -> tuple[Experiment, Backend]:
    """An experiment and its backend, cached for the next seed."""
    e = Experiment.from_json(specification, imported(own_parts))
    plan = Plan.checked(e.steps, e.evaluate_every, e.snapshots, e.average_episodes)
    return e, open_backend(e.world, e.questions, e.behaviour, e.learner, plan=plan, until=e.until)


class Serial(Executor):
    """Runs each task immediately in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def executor(workers: int, cluster: str | None = None) -> Iterator[tuple[Executor, int]]:
    """An executor and the number of tasks to submit ahead: a Dask cluster, local processes, or this process."""
    if cluster is not None:
        with _dask(cluster) as (pool, size):
            yield pool, 2 * size
    elif workers == 1:
        yield Serial(), 1
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_leave_with_parent) as pool:
            yield pool, workers + 1


def _leave_with_parent() -> None:
    """End this worker when the process that started it has ended, for whatever reason."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client
    except ImportError:
        raise InputError(f"cluster: Dask is not installed; run {install('cluster')}.") from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"cluster: no Dask scheduler responds at {address} ({error}); give its address, tcp://host:port."
        ) from None
    with client:
        yield client.get_executor(retries=3), max(1, len(client.scheduler_info()["workers"]))
