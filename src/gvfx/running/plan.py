"""The schedule of a run: its length, the times of its measurements and snapshots, and its seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gvfx.errors import InputError
from gvfx.inputs import listed, whole

MOST = 1_000_000  # measurements, snapshots or seeds of a run


def checked_seeds(seeds: int | Iterable[int], seed: int | None = None) -> tuple[int, ...]:
    """The seeds of a run: a count or a list of distinct non-negative integers, or one seed alone."""
    if seed is not None:
        if not (isinstance(seeds, int) and seeds == 1):
            raise InputError("seed: give either seed=3 for one run or seeds=... for several, not both.")
        return (_seed(seed, "seed"),)
    if not isinstance(seeds, Iterable) and whole(seeds, "seeds") > MOST:
        raise InputError(f"seeds: {seeds} runs are more than {MOST:,}; to run one seed of that number, give seed={seeds}.")
    counted = range(whole(seeds, "seeds")) if not isinstance(seeds, Iterable) else listed(seeds, "seeds", "seeds")
    each = tuple(_seed(s, "seeds") for s in counted)
    if not each:
        raise InputError(f"seeds: {seeds!r} must be at least 1; give a count, or the seeds themselves.")
    if len(set(each)) < len(each):
        raise InputError("seeds: give distinct seeds of at least 0.")
    return each


def _seed(seed: int, field: str) -> int:
    if (number := whole(seed, field)) < 0:
        raise InputError(f"{field}: {number} is negative; give distinct seeds of at least 0.")
    return number


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
        if steps // every > MOST:
            raise InputError(f"evaluate_every: {every} means {steps // every:,} measurements; give at least {steps // MOST:,}.")
        wanted = sorted({whole(s, "snapshots") for s in listed(snapshots, "snapshots", "steps")})
        if wanted and not (wanted[0] >= 1 and wanted[-1] <= steps):
            raise InputError(f"snapshots: {wanted} must lie between 1 and the {steps} steps of the run.")
        average_episodes = whole(average_episodes, "average_episodes")
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
