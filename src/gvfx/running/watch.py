"""The stopping rule of a run: when it is looked at, and what it has found."""

from __future__ import annotations

from typing import Any

import numpy as np

from gvfx.evidence.decisions import Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.running.stream import Backend, Stream


class Watch:
    """The stopping rule of one run, and what it has found so far."""

    def __init__(self, until: ErrorBelow | Decision | None, steps: int, backend: Backend) -> None:
        self.until = until
        self.times = frozenset(until.looks(steps, backend.pairs, backend.look_growth) if until else ())
        self.looks, self.bound, self.reached = 0, np.inf, False

    def weigh(self, stop: int, stream: Stream) -> None:
        """Before a plan, give all weight to the questions that are not decided yet."""
        if isinstance(self.until, Decision) and stop in stream.plans:
            stream.weigh(self.until.weights(stream.joint(self.until.groups)))

    def look(self, stop: int, stream: Stream) -> bool:
        """Evaluate the rule if it is due; whether the run may end here."""
        if self.until and stop in self.times:
            if isinstance(self.until, Decision):
                self.bound, counts = self.until.bound(stream.joint(self.until.groups), self.looks)
            else:
                self.bound, counts = stream.bound(self.until, self.looks)
            self.reached = bool(self.bound < self.until.target)
            self.looks += counts
        return self.reached

    def outcome(self, stream: Stream) -> dict[str, Any]:
        """The rule's fields of a part, at the end of a run."""
        out: dict[str, Any] = {"stopped": stream.t if self.until else 0, "bound": self.bound, "reached": self.reached}
        if isinstance(self.until, Decision):
            out["verdicts"] = self.until.verdicts(stream.joint(self.until.groups), max(0, self.looks - 1))
        return out
