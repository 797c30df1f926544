"""Numbers that change with the step count: learning rates and exploration rates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from gvfx.errors import InputError
from gvfx.inputs import check_fields, is_real
from gvfx.kernel import piece


class ScheduleState(NamedTuple):
    """start + slope * t, or start * decay^t, never below minimum."""

    start: float
    minimum: float
    slope: float
    decay: float


class Schedule(ABC):
    """A number that changes with the step count: a frozen dataclass."""

    def __post_init__(self) -> None:
        check_fields(self, "schedule")

    @abstractmethod
    def state(self) -> ScheduleState:
        """It as compiled functions read it; raises InputError for numbers that make no sense."""


@dataclass(frozen=True)
class Linear(Schedule):
    """Falls linearly from `start` to `end` over `steps`, then stays constant."""

    start: float
    end: float
    steps: int

    def state(self) -> ScheduleState:
        numbers = all(map(is_real, (self.start, self.end, self.steps)))
        if not numbers or self.end > self.start or self.steps < 1:
            raise InputError(
                f"schedule: Linear({self.start}, {self.end}, {self.steps}) must not rise; give end <= start and steps >= 1."
            )
        return ScheduleState(self.start, self.end, (self.end - self.start) / self.steps, 1.0)


@dataclass(frozen=True)
class Geometric(Schedule):
    """start * decay^t, never below `minimum` (the paper's Algorithm 1, epsilon)."""

    start: float = 1.0
    decay: float = 0.99
    minimum: float = 0.0

    def state(self) -> ScheduleState:
        if not (is_real(self.decay) and 0 < self.decay <= 1):
            raise InputError(f"schedule: Geometric.decay {self.decay} lies outside (0, 1]; give a number such as 0.99.")
        return ScheduleState(self.start, self.minimum, 0.0, self.decay)


@dataclass(frozen=True)
class Fixed(Schedule):
    """The same value at every step."""

    value: float

    def state(self) -> ScheduleState:
        if not is_real(self.value):
            raise InputError(f"schedule: {self.value!r:.40} is not a number; give one, or a schedule.")
        return ScheduleState(self.value, self.value, 0.0, 1.0)


def as_falling(rate: float | Schedule, field: str = "rate") -> Schedule:
    """The schedule of a learning rate: a given schedule, or for a number the paper's, linear from 1 to it over 500,000 steps."""
    if not isinstance(rate, int | float):
        return rate
    if not 0 < rate <= 1:
        raise InputError(f"{field}: {rate!r:.40} lies outside (0, 1]; give the minimum learning rate.")
    return Linear(1.0, float(rate), 500_000)  # App. B.3, "Hyperparameter Tuning"


@piece
def at(schedule, t):
    """The schedule's value at step t."""
    value = schedule.start + schedule.slope * t
    if schedule.decay != 1.0:
        value = schedule.start * schedule.decay**t
    return max(value, schedule.minimum)


def in_jax(schedule: ScheduleState, t: Any) -> Any:
    """The schedule's value at step t, for use inside JAX functions."""
    import jax.numpy as jnp

    value = schedule.start * schedule.decay**t if schedule.decay != 1.0 else schedule.start + schedule.slope * t
    return jnp.maximum(value, schedule.minimum)


def growing(first: int, factor: float, last: int) -> list[int]:
    """Increasing steps before `last`: `first`, then each larger by `factor` (and by at least one step)."""
    times, exact = [], float(first)
    while exact < last:
        times.append(round(exact))
        exact = max(exact * factor, times[-1] + 1.0)
    return times
