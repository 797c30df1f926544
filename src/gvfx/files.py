"""Atomic writing of files."""

from __future__ import annotations

import os
from pathlib import Path

from gvfx.errors import InputError
from gvfx.inputs import as_path


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file atomically: to a temporary name, flushed to disk, then renamed.  Creates the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def check_writable(path: str | Path, field: str) -> Path:
    """The path, proven writable before any work is done; the file itself is not touched."""
    path = as_path(path, field)
    if path.is_dir():
        raise InputError(f"{field}: {path} is a folder; name a file.")
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    if not path.parent.is_dir():
        raise InputError(
            f"{field}: cannot write {path}, because there is no folder {path.parent}; make it, or name another file."
        )
    try:
        scratch.touch()
        scratch.unlink()
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"{field}: cannot write {path} ({error.strerror}); name another file.") from None
    return path
