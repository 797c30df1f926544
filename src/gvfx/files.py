"""Atomic writing of files."""

from __future__ import annotations

import os
from pathlib import Path


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
