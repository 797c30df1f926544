"""Executors of runs: this process, local processes, a Dask cluster, or any concurrent.futures executor."""

from __future__ import annotations

import ipaddress
import logging
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

from gvfx.errors import Diverged, InputError, install
from gvfx.experiments.specification import Experiment, content_of, imported
from gvfx.experiments.store import Divergence
from gvfx.running.backends import open_backend
from gvfx.running.checkpoint import KEPT, Checkpoints, Made
from gvfx.running.drive import Backend, Interrupted, Interruption, drive
from gvfx.running.plan import Options
from gvfx.tensors import pack
from gvfx.threads import one_thread

# --- A Dask cluster that makes runs ---------------------------------------------------------------------------------


PATIENCE = "10s"  # how long a Dask scheduler may take to respond
ENCRYPTED = ("tls", "wss", "inproc")  # the last one stays in this process
OPEN = (
    "cluster: the scheduler at {} is reached without encryption, and whoever can connect to it can run code on its workers; see "
    "docs/reproduce.md for TLS and for a scheduler that listens on this machine alone."
)


class NoScheduler(InputError):
    """No scheduler responds at an address."""


def is_lost(error: BaseException) -> bool:
    """Whether an error of a task is about the cluster, not about the run: its scheduler or its workers are gone."""
    return isinstance(error, CancelledError) or type(error).__module__.split(".")[0] in ("distributed", "tornado")


@contextmanager
def connected(address: str) -> Iterator[tuple[Executor, int]]:
    """An executor on the cluster of a scheduler, and its number of workers.  TLS is configured as in every Dask program."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError(f"cluster: Dask is not installed; run {install('cluster')}.") from None
    with _quiet("distributed", "tornado", "asyncio"):
        try:
            client = Client(address, timeout=PATIENCE)
        except Exception as error:  # a wrong address, no answer, another version, TLS that is not configured
            raise NoScheduler(
                f"cluster: no Dask scheduler responds at {address} ({_first_line(error)}); give its address, tcp://host:port."
            ) from None
        try:
            reached = client.scheduler_info()["address"]
            if is_open(address) or is_open(reached):
                warnings.warn(OPEN.format(reached), stacklevel=2)
            yield Cluster(client), max(1, len(client.nthreads()))  # some versions of scheduler_info list five workers only
        finally:
            client.close(timeout=2)


class Cluster(Executor):
    """A Dask client as an executor; a task whose worker dies is repeated."""

    def __init__(self, client: Any) -> None:
        self.client, self._tasks = client, client.get_executor(retries=3)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        try:
            return self._tasks.submit(fn, *args, **kwargs)
        except Exception as error:  # whatever a client raises that is closed or not connected
            raise BrokenExecutor(_first_line(error)) from None


def is_open(address: str) -> bool:
    """Whether an address is unencrypted and beyond this machine."""
    scheme, _, rest = address.partition("://") if "://" in address else ("tcp", "", address)
    host = rest.rpartition(":")[0].strip("[]") if ":" in rest else rest
    if scheme in ENCRYPTED or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Without these libraries' lines on stderr: what happens is reported once, in a sentence."""
    known = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in names]
    loggers = [logging.getLogger(name) for name in {*names, *known}]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


GRACE = 3.0  # seconds that worker processes have to end
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Outcome(NamedTuple):
    """What a run came to."""

    raw: bytes  # the packed result; empty if the run diverged or was interrupted
    seconds: float  # without compilation
    diverged: Divergence | None = None
    finished: bool = True  # False: a signal interrupted it


def run_task(specification: str, seed: int, checkpoints: str | None = None, own_parts: tuple[str, ...] = ()) -> Outcome:
    """One run to its end, or until it diverges or a signal interrupts it.

    checkpoints: a folder from which an unfinished run continues;  own_parts: those of the experiment, the only ones imported.
    """
    return _run(specification, (seed,), checkpoints, own_parts)[0]


def run_together(
    specification: str, seeds: Sequence[int], device: str, checkpoints: str | None = None, own_parts: tuple[str, ...] = ()
) -> list[Outcome]:
    """Several seeds of one experiment on networks in one compiled loop on a device; if one diverges, each runs by itself."""
    import jax

    with jax.default_device(find_device(device)):
        made = _run(specification, seeds, checkpoints, own_parts)
        if not made[0].finished:
            return made * len(seeds)
        if len(made) < len(seeds):
            made = [_run(specification, (seed,), checkpoints, own_parts)[0] for seed in seeds]
        return made


@one_thread()
def _run(specification: str, seeds: Sequence[int], folder: str | None, own_parts: tuple[str, ...]) -> list[Outcome]:
    """Run seeds of one experiment in one stream; if one diverges, all of them stop and only that one is returned."""
    with Interruption() as interruption:
        if interruption.signum is not None:
            return [Outcome(b"", 0.0, finished=False)]
        named = content_of(own_parts)
        experiment, backend = _loaded(specification, own_parts, "" if named is None else named.text)
        made = experiment.made_of
        keep = checkpoints_of(Path(folder), experiment.hash, seeds, made) if folder else None
        begun = time.perf_counter()
        stream = backend.begin(*seeds)
        try:
            parts = drive(backend, stream, until=experiment.until, checkpoints=keep, keep_last=False, interruption=interruption)
        except Diverged as error:
            return [Outcome(b"", time.perf_counter() - begun, Divergence.of(experiment.hash, error, made))]
        except Interrupted:
            return [Outcome(b"", time.perf_counter() - begun, finished=False)]
    kept = {} if made is None else {KEPT: made.text}
    return [
        Outcome(pack(part.arrays(), {"experiment": experiment.hash, "seed": str(seed), **kept}), part.seconds)
        for seed, part in zip(seeds, parts, strict=True)
    ]


def checkpoints_of(folder: Path, experiment: str, seeds: Sequence[int], made: Made | None = None) -> Checkpoints:
    """The checkpoints of seeds that run together; made: the content of the caller's own parts."""
    name = f"seed-{seeds[0]:04d}" if len(seeds) == 1 else f"seeds-{'-'.join(map(str, seeds))}"
    return Checkpoints(folder / experiment, name, f"{experiment}/{','.join(map(str, seeds))}", made, anew=True)


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
def _loaded(specification: str, own_parts: tuple[str, ...], made: str) -> tuple[Experiment, Backend]:
    """An experiment and its backend, cached for the next seed; made: the content of its own parts, which may be edited."""
    e = Experiment.from_json(specification, imported(own_parts))
    return e, open_backend(e.world, e.questions, e.behaviour, e.learner, options=Options(e.plan, e.until))


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
    """An executor and the number of tasks to submit ahead: a Dask cluster, local processes (`GRACE` to end), or this process."""
    if cluster is not None:
        with connected(cluster) as (pool, size):
            yield pool, 2 * size
    elif workers == 1:
        yield Serial(), 1
    else:
        _start_tracker()
        processes = _Processes(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker)
        try:
            yield processes, workers + 1
            processes.shutdown()
        finally:
            processes.end()


class _Processes(ProcessPoolExecutor):
    """Local processes that hear of Ctrl-C from this one alone, and end with it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        """Tasks are submitted with the signals blocked: a process that this starts keeps them so, and is not torn down by a
        signal to the whole group while it imports."""
        if not hasattr(signal, "pthread_sigmask"):
            return super().submit(fn, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Stop what is still running: ask first, and kill what has not ended after `GRACE` seconds."""
        processes = list((getattr(self, "_processes", None) or {}).values())
        manager = getattr(self, "_executor_manager_thread", None)
        self.shutdown(wait=False, cancel_futures=True)
        try:
            for process in processes:
                process.terminate()
            with Interruption() as interruption:
                deadline = time.monotonic() + (0.0 if interruption.insisted else GRACE)
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
            if manager is not None:
                manager.join(0.5)  # it removes the semaphores


def _start_tracker() -> None:
    """Start multiprocessing's process that removes semaphores: quiet about those of a process that was stopped, before signals
    are blocked, because it unblocks them."""
    if os.name != "posix":
        return
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore::UserWarning:multiprocessing.resource_tracker"]))
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def _prepare_worker() -> None:
    """Let a signal end this worker's run between two steps, and end the worker itself with the process that started it."""
    Interruption(insist=False).__enter__()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # SIGINT stays blocked: the parent decides
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
