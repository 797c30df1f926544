"""A Dask cluster that makes runs."""

from __future__ import annotations

import ipaddress
import logging
import warnings
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from typing import Any

from gvfx.errors import InputError, install

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
            told = client.scheduler_info()["address"]
            if is_open(address) or is_open(told):
                warnings.warn(OPEN.format(told), stacklevel=2)
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
    """Without these libraries' lines on stderr: what happens is said once, in a sentence."""
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
