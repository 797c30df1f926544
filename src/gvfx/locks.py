"""Exclusive locks on files that end with the process that holds them, on POSIX and on Windows.

Where a file system has no locks, as some networks', the lock is a second file, `NAME.held`.  Its owner touches it every few
seconds; it counts as abandoned if its process is known to be dead, or if it has not been touched for two minutes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from gvfx.files import beside, has_ended, own_mark, read_whole

fcntl: ModuleType | None
msvcrt: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:  # POSIX
    msvcrt = None

HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # how systems say that another process has the lock
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # and that they have none
BEYOND = 2**30  # the byte that is locked on Windows, where locked bytes cannot be read
BEAT = 10.0  # seconds between two signs of life of a lock without the system's help
GRACE = 120.0  # seconds without one after which it is abandoned


@dataclass(frozen=True)
class Owner:
    host: str
    process: int
    since: float  # seconds since the epoch
    mark: str = ""  # of the process (`gvfx.files.own_mark`); empty where that cannot be known

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.since))}"


class Lock:
    """A locked file; `release` removes it."""

    def __init__(self, path: Path, handle: int | None) -> None:
        """handle: None: nothing is held, and nothing is released."""
        self.path, self._handle = path, handle

    def release(self) -> None:
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        if fcntl is None:  # Windows removes no file that is open
            os.close(handle)
        with contextlib.suppress(OSError):  # on Windows another process may have opened it; the folder may be gone
            self.path.unlink()
        if fcntl is not None:
            os.close(handle)


class _Beating(Lock):
    """A file that only its owner can have made, and that a thread touches."""

    def release(self) -> None:
        if self._handle is None:
            return
        with _beating:
            _alive.discard(self)
            handle, self._handle = self._handle, None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), self.path.stat()):  # not taken over by another process
                self.path.unlink()
        os.close(handle)

    def beat(self) -> None:
        with contextlib.suppress(OSError):
            if self._handle is not None:
                os.utime(self._handle if os.utime in os.supports_fd else self.path)


def lock(path: Path) -> Lock | None:
    """Lock a file, which is made if necessary; None while another process has it.  Raises OSError if it cannot be made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    try:
        _lock(handle)
        if os.fstat(handle).st_nlink == 0:  # released by another process between our open and our lock
            raise BlockingIOError(errno.EAGAIN, "released")
    except OSError as error:
        os.close(handle)
        if error.errno in HELD:
            return None
        if error.errno not in NO_LOCKS:
            raise
        with contextlib.suppress(OSError):
            if not path.stat().st_size:  # made by this attempt, or a similar one
                path.unlink()
        return _made(_held(path))
    with contextlib.suppress(OSError):  # who holds it is good to know, no more
        os.ftruncate(handle, 0)
        os.write(handle, _as_json(_myself()))
    return Lock(path, handle)


def owner(path: Path) -> Owner | None:
    """Who holds the lock on a file; None if nobody does or it is not known."""
    return _owner(path) or _owner(_held(path))


def remove_unheld(path: Path) -> None:
    """Remove the file of a lock that nobody holds; path: of the lock, or the file that stands for it."""
    with contextlib.suppress(OSError):
        if path.suffix == ".held":
            _remove_abandoned(path)
        elif (taken := lock(path)) is not None:
            taken.release()


def _lock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        os.lseek(handle, BEYOND, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        raise OSError(errno.ENOSYS, "this system has neither fcntl nor msvcrt")


# --- without the system's help ---------------------------------------------------------------------------------------

_alive: set[_Beating] = set()  # of this process
_beating = threading.Lock()
_beater: list[int] = []  # the process in which the thread runs: not the copy that a fork makes


def _held(path: Path) -> Path:
    return path.with_name(f"{path.name}.held")


def _made(path: Path) -> Lock | None:
    """Make a file that must not exist, and keep it alive; None if another process has made it and lives."""
    for _ in range(2):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if not _remove_abandoned(path):
                return None
            continue
        with contextlib.suppress(OSError):  # a full disk: then only its age tells whether it is abandoned
            os.write(handle, _as_json(_myself()))
        mine = _Beating(path, handle)
        with _beating:
            if _beater != [os.getpid()]:
                _alive.clear()
                _beater[:] = [os.getpid()]
                threading.Thread(target=_beat, name="gvfx locks", daemon=True).start()
            _alive.add(mine)
        return mine
    return None


def _beat() -> None:
    """Touch the files of all locks of this process, until there are none."""
    while True:
        time.sleep(BEAT)
        with _beating:
            if not _alive:
                _beater.clear()
                return
            for each in _alive:
                each.beat()


def _remove_abandoned(path: Path) -> bool:
    """Remove the file of a lock whose owner is dead; whether another attempt to make it is worthwhile."""
    try:
        found = path.stat()
        who = _owner(path)
        is_dead = who is not None and has_ended(str(who.mark))
        if not is_dead and _now(path.parent) - found.st_mtime < GRACE:
            return False
        aside = beside(path)
        path.rename(aside)  # only one process succeeds
        if not os.path.samestat(aside.stat(), found):  # another one was faster, and has made it anew
            with contextlib.suppress(OSError):
                os.link(aside, path)
            aside.unlink()
            return False
        aside.unlink()
    except FileNotFoundError:
        return True
    return True


def _now(folder: Path) -> float:
    """The time by the clock that stamps files in a folder, which may be a server's."""
    probe = beside(folder / "now")
    try:
        probe.touch(exist_ok=False)
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _owner(path: Path) -> Owner | None:
    try:
        return Owner(**json.loads(read_whole(path, 10_000)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _as_json(who: Owner) -> bytes:
    return (json.dumps(asdict(who)) + "\n").encode()


def _myself() -> Owner:
    return Owner(socket.gethostname(), os.getpid(), round(time.time(), 3), own_mark())
