"""TwinCritics: twin Q and twin M critics with one head per GVF, for continuous actions (paper, Algorithm 2).

docs/box-actions.md explains where Algorithm 2 leaves a choice and what each option does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from gvfx.errors import InputError
from gvfx.inputs import check_fields
from gvfx.learners.base import Learner


@dataclass(frozen=True)
class TwinCritics(Learner):
    """Sampled-Sarsa targets on twin critics, implemented by `critics_lockstep` and `critics_gym`.

    hidden:            widths of the shared trunk.
    worlds, updates:   a vector step is one control step in each of `worlds` worlds and then `updates` updates of Q; in a
                       Gymnasium environment it is `worlds` transitions from any lanes.
    m_every:           M is updated with every m_every-th update of Q, if the behaviour needs it.
    batch, capacity, learning_starts: options of the replay buffer, in transitions.
    rate_q, rate_m:    Adam's learning rates; they decrease linearly over the run to the fraction `final_rate`.
    target_every, tau: every target_every updates (l of Algorithm 2) the target networks move by the fraction tau towards
                       the networks; tau = 1 copies them.
    aggregate:         how the twins are combined in targets, in the TD error and as the prediction: "min" or "mean".
    entropy_in_target: whether the targets of Q and M contain -alpha log mu(a|s'), a ~ mu, as printed (only behaviours
                       with an actor have a mu and an alpha).
    bounded:           targets are clipped to the range that the cumulants seen so far allow: Q to [least, most] /
                       (1 - gamma), M to the largest variance of numbers in that range.  The true values lie within it;
                       critics that extrapolate to actions never taken cannot diverge.
    """

    hidden: tuple[int, ...] = (64, 64)
    worlds: int = 16
    updates: int = 4
    m_every: int = 1
    batch: int = 256
    capacity: int = 400_000
    learning_starts: int = 4_000
    rate_q: float = 1e-3
    rate_m: float = 1e-3
    final_rate: float = 0.1
    target_every: int = 1
    tau: float = 0.05
    aggregate: Literal["min", "mean"] = "mean"
    entropy_in_target: bool = False
    bounded: bool = True

    supports: ClassVar[frozenset[str]] = frozenset({"box_actions"})

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        for name in ("rate_q", "rate_m", "final_rate", "tau"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name}: {getattr(self, name)!r} must be a positive number.")
        for name in ("worlds", "updates", "m_every", "batch", "capacity", "target_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)!r} must be at least 1.")
        if self.tau > 1:
            raise InputError(f"tau: {self.tau} is above 1; give at most 1, which copies the networks.")
        if self.aggregate not in ("min", "mean"):
            raise InputError(f"aggregate: {self.aggregate!r} is unknown; choose 'min' or 'mean'.")
        if self.capacity % self.worlds:
            raise InputError(f"capacity: {self.capacity} must be a multiple of {self.worlds}, the worlds of a vector step.")
        if self.updates % self.m_every:
            raise InputError(f"m_every: {self.m_every} must divide the {self.updates} updates of a vector step.")


PAPER = TwinCritics(
    aggregate="min", entropy_in_target=True, target_every=50, tau=1.0, rate_q=3e-4, rate_m=3e-4, final_rate=1.0, bounded=False
)
RECOMMENDED = TwinCritics()
PRESETS = {"paper": PAPER, "recommended": RECOMMENDED}
