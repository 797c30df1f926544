"""Deep: Q and M networks with one head per GVF, replay and target networks (paper, Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from gvfx.errors import InputError
from gvfx.inputs import check_fields
from gvfx.learners.base import Learner


@dataclass(frozen=True)
class Deep(Learner):
    """Expected-Sarsa targets (Eqs. 5, 6) on networks, implemented by `network_scanned` and `network_gym`.

    hidden:          widths of the shared trunk.
    rate_q, rate_m:  Adam's learning rates; they decrease linearly over the run to the fraction `final_rate`.
    batch, capacity, learning_starts: options of the replay buffer.
    q_every, m_every, target_every: the update frequencies p, m, l of Algorithm 1, in environment steps.
    replay:          "uniform" or "prioritised"; `priority` is the TD error that it uses: "q", "m" or "sr".
    alpha, beta:     exponents of prioritised replay; beta grows linearly to 1 within `beta_share` of the run.
    waves:           random waves of the observation added to the networks' inputs (0: the observation alone).
    heads:           bootstrapped heads per GVF in addition to the main head; their spread is a rough idea of the error (0: none).
    m_output:        "softplus" of the network, learned by squared errors (Algorithm 1), or "exp": the network gives log M, and
                     errors count relative to M (`relative_loss`), so that small variances are learned too.
    """

    rate_q: float = 5e-3
    rate_m: float = 5e-3
    hidden: tuple[int, ...] = (64, 64)
    batch: int = 64
    capacity: int = 25_000
    learning_starts: int = 200
    q_every: int = 4
    m_every: int = 8
    target_every: int = 100
    final_rate: float = 1.0
    replay: Literal["uniform", "prioritised"] = "uniform"
    priority: Literal["q", "m", "sr"] = "q"
    alpha: float = 0.6
    beta: float = 0.4
    waves: int = field(default=0, metadata={"later": True})
    heads: int = field(default=0, metadata={"later": True})
    beta_share: float = field(default=1.0, metadata={"later": True})
    m_output: Literal["softplus", "exp"] = field(default="softplus", metadata={"later": True})

    supports: ClassVar[frozenset[str]] = frozenset({"networks"})

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        for name in ("rate_q", "rate_m", "final_rate", "alpha"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name}: {getattr(self, name)!r} must be a positive number.")
        for name in ("batch", "capacity", "q_every", "m_every", "target_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)!r} must be at least 1.")
        for name in ("waves", "heads"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}: {getattr(self, name)!r} must be at least 0.")
        if self.capacity % self.block:
            raise InputError(f"capacity: {self.capacity} must be a multiple of {self.block}, the steps between M updates.")
        if not 0 <= self.beta <= 1:
            raise InputError(f"beta: {self.beta} lies outside [0, 1].")
        if not 0 < self.beta_share <= 1:
            raise InputError(f"beta_share: {self.beta_share} lies outside (0, 1]; give a share of the run.")

    @property
    def block(self) -> int:
        """Environment steps that are made, stored and learned from together: lcm(q_every, m_every)."""
        return math.lcm(self.q_every, self.m_every)
