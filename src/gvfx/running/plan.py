"""The schedule of a run: its length, the times of its measurements and snapshots, and its seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.errors import InputError


def whole(value: Any, field: str) -> int:
    """A count that may be given as a whole float, such as 1e5."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (is_number and np.isfinite(value) and value == int(value)):
        raise InputError(f"{field}: {value!r:.40} is not a whole number; give one, such as 100_000.")
    return int(value)


def checked_seeds(seeds: int | Iterable[int], seed: int | None = None) -> tuple[int, ...]:
    """The seeds of a run: a count or a list of distinct non-negative integers, or one seed alone."""
    if seed is not None:
        if seeds != 1:
            raise InputError("seed: give either seed=3 for one run or seeds=... for several, not both.")
        seeds = [seed]
    listed = tuple(whole(s, "seeds") for s in seeds) if isinstance(seeds, Iterable) else tuple(range(whole(seeds, "seeds")))
    if not listed:
        raise InputError(f"seeds: {seeds!r} must be at least 1; give a count, or the seeds themselves.")
    if min(listed) < 0 or len(set(listed)) < len(listed):
        raise InputError("seeds: give distinct seeds of at least 0.")
    return listed


@dataclass(frozen=True)
class Plan:
    """The length of a run and the times of its measurements and snapshots."""

    steps: int
    evaluations: tuple[int, ...]
    snapshots: tuple[int, ...]
    average_episodes: int = 0

    @classmethod
    def checked(cls, steps: float, every: float | None, snapshots: Iterable[float], average_episodes: int = 0) -> Plan:
        steps = whole(steps, "steps")
        if steps < 1:
            raise InputError(f"steps: {steps} is too few; give at least 1.")
        every = max(1, steps // 20) if every is None else whole(every, "evaluate_every")
        if every < 1:
            raise InputError(f"evaluate_every: {every} is too few; give at least 1 step between measurements.")
        wanted = sorted({whole(s, "snapshots") for s in snapshots})
        if wanted and not (wanted[0] >= 1 and wanted[-1] <= steps):
            raise InputError(f"snapshots: {wanted} must lie between 1 and the {steps} steps of the run.")
        if average_episodes < 0:
            raise InputError(
                f"average_episodes: {average_episodes} is negative; give 0 for the current error, or a number of episodes."
            )
        evaluations = tuple(sorted({*range(every, steps + 1, every), steps}))
        return cls(steps, evaluations, tuple(sorted({*wanted, steps})), average_episodes)

    @property
    def stops(self) -> list[int]:
        """The times of all measurements and snapshots."""
        return sorted({*self.evaluations, *self.snapshots})

    def onward(self, stop: int) -> list[int]:
        """The stops from a time on, for a run that ends there."""
        return [time for time in self.stops if time >= stop]
