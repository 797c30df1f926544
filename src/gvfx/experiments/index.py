"""Which files of an experiment's folder were found whole, so that they need not be read again: `index.json` in that folder.

A file is known by its size, its inode and the times of its last changes; one for which any of them differs is read again.  A
missing, damaged or foreign index knows nothing.  What no change of these shows, such as a bit that the disk has lost, is noticed
when the file is used, because its checksum is compared then, or with `gvfx reproduce --verify`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from gvfx.files import read_whole, write_whole

NAME = "index.json"
LARGEST = 100_000_000  # bytes
RECENT = 2.0  # seconds; a file could change again without a new time, where clocks of file systems are coarse

Seen = tuple[int, int, int, int]  # size, times of the last changes of contents and of status in nanoseconds, inode


def seen(status: os.stat_result) -> Seen:
    """How a file looks without reading it."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class Index:
    """The files of one experiment that were found whole."""

    def __init__(self, folder: Path, experiment: str) -> None:
        """experiment: its hash; the index of another one, in a folder that was renamed, knows nothing."""
        self.path, self.experiment = folder / NAME, experiment
        self._whole, self._changed = self._read(), False

    def knows(self, name: str, status: os.stat_result) -> bool:
        """Whether a file was found whole and looks as it did then."""
        return self._whole.get(name) == seen(status)

    def add(self, name: str, status: os.stat_result) -> None:
        """Note that a file was found whole; status: from before it was read.  One that has just changed is left out."""
        changed = max(status.st_mtime_ns, status.st_ctime_ns) / 1e9
        if changed < time.time() - RECENT:
            self._whole[name], self._changed = seen(status), True

    def forget(self, name: str) -> None:
        """Have a file read again."""
        if self._whole.pop(name, None) is not None:
            self._changed = True
            self.save(frozenset({name}))

    def clear(self) -> None:
        """Have all files read again."""
        self._whole, self._changed = {}, True

    def save(self, without: Set[str] = frozenset()) -> None:
        """Write what is new, beside what other processes have written meanwhile, if the folder can be written."""
        if not self._changed:
            return
        self._whole = {name: each for name, each in self._read().items() if name not in without} | self._whole
        files = {name: list(each) for name, each in sorted(self._whole.items())}
        with suppress(OSError):
            write_whole(self.path, (json.dumps(self._sealed(files)) + "\n").encode(), sync=False)
        self._changed = False

    def _sealed(self, files: dict[str, list[int]]) -> dict[str, object]:
        text = json.dumps([self.experiment, files], sort_keys=True)
        return {"experiment": self.experiment, "files": files, "sha256": hashlib.sha256(text.encode()).hexdigest()}

    def _read(self) -> dict[str, Seen]:
        try:
            told = json.loads(read_whole(self.path, LARGEST))
            if told != self._sealed(told["files"]):
                return {}
            return {name: (each[0], each[1], each[2], each[3]) for name, each in told["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return {}
