"""Measurements that are kept in a file as soon as they are made, so that a benchmark that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from gvfx.files import write_whole
from gvfx.types import Described


class Kept:
    """Numbers by the names of what they measure, in one JSON file that belongs to certain versions (`made_by`)."""

    def __init__(self, path: Path, made_by: str) -> None:
        self.path, self.made_by, self.found = path, made_by, 0
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.numbers: dict[str, Mapping[str, object]] = before.get("numbers", {}) if before.get("made_by") == made_by else {}

    def get(self, name: str, measure: Callable[[], Described]) -> Mapping[str, object]:
        """What was measured under this name before, or else now."""
        if name in self.numbers:
            self.found += 1
        else:
            self.numbers[name] = measure()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps({"made_by": self.made_by, "numbers": self.numbers}, indent=1).encode())
        return self.numbers[name]
