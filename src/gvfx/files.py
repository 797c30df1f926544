"""Files: read only if they are regular and of a sensible size, written whole or not at all, appended to by whole lines."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

from gvfx.errors import GvfxError, InputError, StoreError, unwritten
from gvfx.inputs import as_path

MARK = re.compile(r"([0-9a-f]{8})-(\d+)-(\d+)")

# --- Processes by number and start: whether one that left something behind has ended, known within one system that has /proc


def started(process: int) -> str:
    """When a process started, in ticks since the start of the system; empty where that cannot be known, or if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@cache
def namespace() -> str:
    """In which system, and which container of it, the numbers of processes are meant; empty where that cannot be known."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def own_mark() -> str:
    """A word for this process that no other has, SYSTEM-NUMBER-START; empty where that cannot be known."""
    process = os.getpid()
    since = started(process)
    return f"{_system()}-{process}-{since}" if since and namespace() else ""


def has_ended(mark: str) -> bool:
    """Whether the process of a mark is known to have ended; one of another system never is."""
    found = MARK.fullmatch(mark)
    return found is not None and bool(namespace()) and found[1] == _system() and started(int(found[2])) != found[3]


@cache
def _system() -> str:
    return hashlib.sha256(f"{socket.gethostname()} {namespace()}".encode()).hexdigest()[:8]


NO_FILE = "is a device, a pipe or a folder"
LARGEST = 16 * 2**30  # bytes; a larger file is not read
ABANDONED = 3600.0  # seconds after which a temporary file counts as left by a killed process, if its process is not known
SHOWN = 50  # letters of a file's name in that of its temporary file
SCRATCH = re.compile(r"\.(?P<name>.+)\.(?:(?P<mark>[0-9a-f]{8}-\d+-\d+)-)?[0-9a-f]+\.tmp")
UNABLE_TO_LINK = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
UNABLE_TO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)  # folders, on some file systems
BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # a pipe is opened without waiting for its other end


class Irregular(OSError):
    """Not a regular file, or one that is too large to be read."""


# --- reading ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(path: Path, most: int = LARGEST) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file of at most `most` bytes, open for reading, and its size; raises OSError, Irregular for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | BINARY | AT_ONCE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO) or path.is_dir():
            raise Irregular(error.errno, NO_FILE if error.errno != errno.ELOOP else error.strerror, str(path)) from None
        raise
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        with open(handle, "rb") as file:
            yield file, status.st_size
        return
    os.close(handle)
    if not stat.S_ISREG(status.st_mode):
        raise Irregular(errno.EINVAL, NO_FILE, str(path))
    raise Irregular(errno.EFBIG, f"has {status.st_size:,} bytes, more than the {most:,} that are read", str(path))


def read_whole(path: Path, most: int = LARGEST) -> bytes:
    """The bytes of a regular file of at most `most` bytes; raises OSError as `opened` does."""
    with opened(path, most) as (file, size):
        return file.read(size + 1)  # a file that grows meanwhile is noticed by whoever checks the size


def read_text(path: Path, most: int = 100_000_000) -> str:
    """The text of a regular file in UTF-8; raises OSError or UnicodeDecodeError."""
    return read_whole(path, most).decode("utf-8")


# --- writing ---------------------------------------------------------------------------------------------------------


def write_whole(path: Path, raw: bytes, sync: bool = True) -> None:
    """Write a file atomically, under a temporary name that is then changed; its folder is made.

    A link's target is written.  Devices and pipes are refused.  A file that is replaced passes on its owner and permissions.
    sync: whether to wait until file and folder are on disk, so that they survive a loss of power.
    """
    path, before = _place(path)
    made = _make_folder(path.parent)
    try:
        _write_over(path, raw, before, sync)
    except FileNotFoundError:  # the temporary file was swept up, because this process was stopped for an hour
        _write_over(path, raw, before, sync)
    if sync:
        for folder in (path.parent, *made):
            _sync_folder(folder)


def write_new(path: Path, raw: bytes) -> None:
    """Write a file that must not exist yet, whole or not at all; raises FileExistsError if it does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _scratch_file(path) as scratch:
        _write_scratch(scratch, raw, None, True)
        try:
            os.link(scratch, path)  # unlike a rename, it never replaces a file
        except OSError as error:
            if error.errno not in UNABLE_TO_LINK:
                raise
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY))
            try:
                scratch.replace(path)
            except OSError:
                path.unlink(missing_ok=True)
                raise


def _place(path: Path) -> tuple[Path, os.stat_result | None]:
    """Where to write: the end of a chain of links, and the file there, if any; raises OSError for anything but a file."""
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    try:
        before = path.stat()
    except FileNotFoundError:
        return path, None
    if not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EINVAL, NO_FILE, str(path))
    return path, before


def _write_over(path: Path, raw: bytes, before: os.stat_result | None, sync: bool) -> None:
    """Write a temporary file and give it the name of another, which it replaces."""
    with _scratch_file(path) as scratch:
        _write_scratch(scratch, raw, before, sync)
        scratch.replace(path)


@contextlib.contextmanager
def _scratch_file(path: Path) -> Iterator[Path]:
    """A name for a temporary file beside another, which is removed if it is still there at the end."""
    scratch = beside(path)
    try:
        yield scratch
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


def _write_scratch(scratch: Path, raw: bytes, like: os.stat_result | None, sync: bool) -> None:
    """Write a new file, never through a link, with the owner and permissions of an old one."""
    mode = 0o666 if like is None else stat.S_IMODE(like.st_mode)
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | BINARY, mode)
    with open(handle, "wb") as file:
        if like is not None and hasattr(os, "fchown"):
            with contextlib.suppress(OSError):  # only root may give files away
                if (like.st_uid, like.st_gid) != (os.fstat(handle).st_uid, os.fstat(handle).st_gid):
                    os.fchown(handle, like.st_uid, like.st_gid)
                os.fchmod(handle, mode)
        file.write(raw)
        file.flush()
        if sync:
            os.fsync(handle)


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it; returns the folders in which one was made."""
    missing = [each for each in (folder, *folder.parents) if not each.is_dir()]
    folder.mkdir(parents=True, exist_ok=True)
    return [each.parent for each in missing]


def _sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # Windows opens no folders; or there are no more handles
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNABLE_TO_SYNC:
            raise
    finally:
        os.close(handle)


# --- lines at the end of a file ----------------------------------------------------------------------------------------


def open_lines(path: Path) -> int:
    """A handle to which `append_line` adds lines; a pipe or a terminal will do too."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY, 0o666)


def append_line(handle: int, line: str) -> None:
    """Add one line to the end of a file, whole or not at all, also while other processes add theirs."""
    raw, status = (line + "\n").encode(), os.fstat(handle)
    regular = stat.S_ISREG(status.st_mode)
    if regular and status.st_size and hasattr(os, "pread") and os.pread(handle, 1, status.st_size - 1) != b"\n":
        raw = b"\n" + raw  # after half a line of a process that was killed
    done = 0
    try:
        while done < len(raw):
            done += os.write(handle, raw[done:])
    except OSError:
        if regular and os.fstat(handle).st_size == status.st_size + done:  # nobody else has written meanwhile
            with contextlib.suppress(OSError):
                os.ftruncate(handle, status.st_size)
        raise


def write_or_copy(path: Path, write: Callable[[Path], None], field: str) -> None:
    """Let a function write a file or, if that fails, a copy in the temporary folder: a StoreError says why and where it is."""
    try:
        write(path)
    except (OSError, GvfxError) as error:
        raise StoreError(f"{field}: {_why(path, error)} {_copied(path.name, write)}") from None


def _copied(name: str, write: Callable[[Path], None]) -> str:
    """Write a copy in a new folder of the temporary folder; returns the sentence about it."""
    try:
        copy = Path(tempfile.mkdtemp(prefix="gvfx-"), name[-SHOWN:])
    except OSError as error:
        return f"There is no copy either: the temporary folder cannot be used ({error.strerror})."
    try:
        write(copy)
    except (OSError, GvfxError) as error:
        with contextlib.suppress(OSError):
            copy.parent.rmdir()
        return f"There is no copy either: {_why(copy, error)}"
    return f"A copy is in {copy}."


def _why(path: Path, error: OSError | GvfxError) -> str:
    """Why a file was not written: a sentence without its field."""
    return unwritten(path, error) if isinstance(error, OSError) else str(error).partition(": ")[2]


# --- before and after --------------------------------------------------------------------------------------------------


def check_writable(path: str | Path, field: str) -> Path:
    """The path, proven writable before any work is done; its folder is made, and the file itself is not touched."""
    path = as_path(path, field)
    try:
        if path.is_dir():
            raise InputError(f"{field}: {path} is a folder; name a file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{field}: {path} {NO_FILE}; name a file.")
        place, _ = _place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = beside(place)
        scratch.touch(exist_ok=False)
        scratch.unlink()
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(f"{field}: {unwritten(path, error)}") from None
    sweep_up(place.parent, place.name)
    return path


def sweep_up(folder: Path, name: str | None = None) -> None:
    """Remove temporary files that killed processes left in a folder, of one file or of all; others' files are left alone.

    One counts as left once its process has ended or, if that is one of another system, after an hour without a change.
    """
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            found = SCRATCH.fullmatch(entry.name)
            if found is None or (name is not None and found["name"] != name[:SHOWN]):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    continue
                if status.st_mtime < time.time() - ABANDONED or (found["mark"] and has_ended(found["mark"])):
                    os.unlink(entry.path)


def beside(path: Path) -> Path:
    """A name for a temporary file beside a file that nobody can guess and no other process uses; it tells its process."""
    mark = own_mark()
    return path.with_name(f".{path.name[:SHOWN]}.{mark}{'-' * bool(mark)}{secrets.token_hex(8)}.tmp")
