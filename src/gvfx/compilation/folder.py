"""The folder in which compiled code is kept: private to its user, limited in size, and safe when processes race or are killed.

An entry is a file named by its key, renamed into place, with a checksum of key and content.  Nothing is read that another user
could have written.  If the folder cannot be used, one line in the log says why, and compiled code stays in memory.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# --- Which files of compiled code may be run: those that nobody but this user and root could have written or replaced


MOST_LINKS = 40  # on the way to a folder
OTHERS = stat.S_IWGRP | stat.S_IWOTH
NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # a pipe is opened without waiting for its other end


class Untrusted(Exception):
    """A file that another user may have written; says why."""


def read_trusted(path: Path) -> bytes:
    """The bytes of a file of this user in a safe folder.  Raises Untrusted, or OSError if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | NOT_FOLLOWED | AT_ONCE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a socket
            raise Untrusted("it is a link or no file") from None
        raise
    with open(handle, "rb") as file:
        if reason := _foreign(os.fstat(handle)) or unsafe(path.parent):
            raise Untrusted(reason)
        return file.read()


def unsafe(path: Path) -> str:
    """Why others could put code into this folder or read it; empty if they cannot."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is a link or a file, not a folder"
    if not hasattr(os, "geteuid"):  # Windows: who may enter is not in the mode, but a user's own folders are private
        return "" if path.is_relative_to(Path.home()) else "it is outside your own folders"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return "other users may enter it"
    reasons = ((place, _changeable(status)) for place, status in _way(path.absolute()))
    return next((f"other users may replace it, because {place} {reason}" for place, reason in reasons if reason), "")


def _foreign(status: os.stat_result) -> str:
    """Why an open file may hold what another user wrote; empty if it does not."""
    if not stat.S_ISREG(status.st_mode):
        return "it is no file"
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & OTHERS:
        return "other users may write it"
    return "it has another name elsewhere" if status.st_nlink != 1 else ""


def _changeable(status: os.stat_result) -> str:
    """Why others could change what is in a folder, or where a link leads; in a sticky folder everybody has their own files."""
    if status.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    is_shared = status.st_mode & OTHERS and not status.st_mode & stat.S_ISVTX
    return "can be written by others" if is_shared and not stat.S_ISLNK(status.st_mode) else ""


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every folder and every link that the system passes on its way to an absolute path, with its status."""
    at, rest, links = Path(path.anchor), [*reversed(path.parts[1:])], 0
    yield at, at.lstat()
    while rest:
        part = rest.pop()
        if part == "..":
            at = at.parent
            continue
        status = (at / part).lstat()
        yield at / part, status
        if not stat.S_ISLNK(status.st_mode):
            at /= part
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(at / part))
        rest += [each for each in reversed(target.parts) if each != target.anchor]
        at = Path(target.anchor) if target.is_absolute() else at


HEADER = b"gvfx compiled 3\n"
LIMIT = 500_000_000  # bytes; the entries used least recently are removed first
ABANDONED = 3600.0  # seconds after which a temporary file belongs to a process that was killed
ADVICE = "set GVFX_CACHE_DIR to a new folder of yours"
KINDS = {"loop": "loops on tables", "network": "networks"}  # an entry's suffix, and what it holds

log = logging.getLogger("gvfx")


@dataclass(frozen=True)
class Entry:
    path: Path
    size: int
    used: float  # time of the last use, seconds since the epoch


@dataclass(eq=False)
class Folder:
    """A folder that has been checked: it exists, belongs to this user, and nobody else can read or write it."""

    path: Path
    limit: int = LIMIT
    written: float = math.inf  # bytes since this process last looked at the size of the folder; infinite before the first look

    def read(self, key: str, kind: str) -> bytes | None:
        """The content stored under a key, or None; marks the entry as used."""
        path = self._file(key, kind)
        try:
            raw = read_trusted(path)
        except OSError:
            return None
        except Untrusted as reason:
            _say(f"compiled code in {self.path} is not used, because others may have written it ({reason}); {ADVICE}.")
            return None
        content = _unsealed(key, raw)
        with suppress(OSError):  # a read-only folder can still be read
            if content is None:
                path.unlink(missing_ok=True)
            else:
                os.utime(path)
        return content

    def write(self, key: str, kind: str, content: bytes) -> None:
        """Store a content under its key; the size of the folder is looked at after every hundredth of the limit."""
        path = self._file(key, kind)
        scratch = path.with_name(f".{key}.{secrets.token_hex(8)}.tmp")
        try:
            try:
                with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(_sealed(key, content))
                scratch.replace(path)
            finally:
                scratch.unlink(missing_ok=True)
            self.written += len(content)
            if self.written > self.limit / 100:
                self._trim()
        except OSError as error:
            _say(f"compiled code is not kept: cannot write to {self.path} ({error.strerror}).")

    def drop(self, key: str, kind: str) -> None:
        with suppress(OSError):
            self._file(key, kind).unlink(missing_ok=True)

    def entries(self) -> list[Entry]:
        """All entries, the least recently used first."""
        return sorted(self._files(*(f".{kind}" for kind in KINDS)), key=lambda entry: entry.used)

    def clear(self) -> int:
        """Remove all entries and what killed processes left behind; returns the number of entries."""
        entries = self.entries()
        for entry in [*entries, *self._files(".tmp")]:
            entry.path.unlink(missing_ok=True)
        return len(entries)

    def _file(self, key: str, kind: str) -> Path:
        return self.path / f"{key}.{kind}"

    def _files(self, *suffixes: str) -> Iterator[Entry]:
        for file in os.scandir(self.path):
            if file.name.endswith(suffixes):
                try:
                    status = file.stat(follow_symlinks=False)
                except FileNotFoundError:  # another process has just removed it
                    continue
                yield Entry(Path(file.path), status.st_size, status.st_mtime)

    def _trim(self) -> None:
        """Remove the entries used least recently, if the folder is too large, and what killed processes left behind."""
        self.written = 0
        entries = self.entries()
        excess = sum(entry.size for entry in entries) - self.limit
        abandoned = [entry for entry in self._files(".tmp") if entry.used < time.time() - ABANDONED]
        for entry in entries:
            if excess <= 0:
                break
            abandoned.append(entry)
            excess -= entry.size
        for entry in abandoned:
            entry.path.unlink(missing_ok=True)


def chosen() -> Path:
    """The folder asked for: GVFX_CACHE_DIR, or gvfx in the user's cache folder.  Raises RuntimeError without a home."""
    folder = os.environ.get("GVFX_CACHE_DIR")
    if folder:
        return Path(folder).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache") / "gvfx"


def current() -> Folder | None:
    """The folder for compiled code, made if necessary; None if it cannot be used, which is logged once."""
    try:
        return _opened(chosen())
    except RuntimeError as error:
        _say(f"compiled code is kept in memory only: {error}; {ADVICE}.")
        return None


@cache
def _opened(path: Path) -> Folder | None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = unsafe(path)
        if not reason and not os.access(path, os.W_OK | os.X_OK):
            reason = "it cannot be written"
    except OSError as error:
        reason = error.strerror or str(error)
    if not reason:
        return Folder(path)
    _say(f"compiled code is kept in memory only: {path}: {reason}; {ADVICE}.")
    return None


@cache
def _say(line: str) -> None:
    log.warning("gvfx: %s", line)


def _sealed(key: str, content: bytes) -> bytes:
    return HEADER + hashlib.sha256(key.encode() + content).digest() + content


def _unsealed(key: str, raw: bytes) -> bytes | None:
    """The content of a file, or None if it is damaged, of another key or of another format."""
    content = raw[len(HEADER) + 32 :]
    return content if raw == _sealed(key, content) else None
