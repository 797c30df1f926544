"""Exclusive locks on files that end with the process that holds them, on POSIX and on Windows."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from types import ModuleType

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


class Lock:
    """A locked file; `release` removes it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self._handle = path, handle

    def release(self) -> None:
        if fcntl is None:  # Windows removes no file that is open
            os.close(self._handle)
        with contextlib.suppress(FileNotFoundError, PermissionError):  # on Windows another process may have opened it
            self.path.unlink()
        if fcntl is not None:
            os.close(self._handle)


def lock(path: Path) -> Lock | None:
    """Lock a file, which is made if necessary; None while another process has it.

    Raises OSError if the file cannot be made, or if its file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        _lock(handle)
        if os.fstat(handle).st_nlink == 0:  # released by another process between our open and our lock
            raise BlockingIOError(errno.EAGAIN, "released")
    except OSError as error:
        os.close(handle)
        if error.errno in HELD:
            return None
        raise OSError(error.errno, f"files cannot be locked there, {error.strerror}") from None
    return Lock(path, handle)


def _lock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # the first byte
    else:
        raise OSError(errno.ENOSYS, "this system has neither fcntl nor msvcrt")
