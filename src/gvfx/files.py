"""Atomic writing of files."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from gvfx.errors import InputError
from gvfx.inputs import as_path

NO_FILE = "is a device, a pipe or a folder"


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file atomically: to a temporary name, flushed to disk, then renamed.  Creates the folder if needed.

    Where the path is a link, the file that it points to is written.  Devices and pipes are refused: they would be replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, NO_FILE, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = _scratch(path)
    try:
        with scratch.open("xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def check_writable(path: str | Path, field: str) -> Path:
    """The path, proven writable before any work is done; the file itself is not touched."""
    path = as_path(path, field)
    try:
        if path.is_dir():
            raise InputError(f"{field}: {path} is a folder; name a file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{field}: {path} {NO_FILE}; name a file.")
        if not path.parent.is_dir():
            raise InputError(
                f"{field}: cannot write {path}, because there is no folder {path.parent}; make it, or name another file."
            )
        scratch = _scratch(path)
        scratch.touch(exist_ok=False)
        scratch.unlink()
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"{field}: cannot write {path!s:.200} ({error.strerror}); name another file.") from None
    return path


def _scratch(path: Path) -> Path:
    """A name beside a file that nobody can guess and no other process uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
