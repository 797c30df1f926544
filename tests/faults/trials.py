"""What a group of trials has found: how many passed, and how each failure can be repeated."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Trials:
    """The trials of one group, counted by kind."""

    def __init__(self, wanted: int, seed: int, folder: Path, seconds: float = float("inf")) -> None:
        """wanted: how many trials; folder: for files; seconds: after which no new trial should begin."""
        self.wanted, self.folder, self.random = wanted, folder, random.Random(seed)
        self.deadline = time.monotonic() + seconds
        self.tried: Counter[str] = Counter()
        self.failures: list[tuple[str, str]] = []
        self.notes: list[str] = []

    @property
    def count(self) -> int:
        return sum(self.tried.values())

    @property
    def done(self) -> bool:
        """Whether enough was tried, or the time is over."""
        return self.count >= self.wanted or time.monotonic() > self.deadline

    def passed(self, kind: str, times: int = 1) -> None:
        self.tried[kind] += times

    def failed(self, kind: str, detail: str) -> None:
        """detail: what was done and what happened, enough to repeat it."""
        self.tried[kind] += 1
        self.failures.append((kind, detail))

    def check(self, kind: str, good: bool, detail: str) -> None:
        """A trial that passed, or failed with this detail."""
        if good:
            self.passed(kind)
        else:
            self.failed(kind, detail)

    def note(self, text: str) -> None:
        """Something measured that belongs in the report."""
        self.notes.append(text)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new empty folder, removed afterwards."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def as_json(self) -> dict[str, object]:
        return {"tried": dict(self.tried), "failures": self.failures, "notes": self.notes, "wanted": self.wanted}
