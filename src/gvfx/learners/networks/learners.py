"""The learners of networks as options: Deep for Discrete actions, TwinCritics for Box actions.  Nothing here imports JAX."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from gvfx.errors import InputError
from gvfx.learners.base import Learner

# --- Deep: Q and M networks with one head per GVF, replay and target networks (paper, Algorithm 1) ------------------


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
    allowed: ClassVar = {
        "rate_q rate_m final_rate alpha": "(0, inf)",
        "batch capacity q_every m_every target_every": "[1, inf)",
        "waves heads": "[0, inf)",
        "beta": "[0, 1]",
        "beta_share": "(0, 1]",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity % self.block:
            raise InputError(f"capacity: {self.capacity} must be a multiple of {self.block}, the steps between M updates.")

    @property
    def block(self) -> int:
        """Environment steps that are made, stored and learned from together: lcm(q_every, m_every)."""
        return math.lcm(self.q_every, self.m_every)


# --- TwinCritics: twin Q and twin M critics with one head per GVF, for continuous actions (paper, Algorithm 2) ------
# docs/box-actions.md explains where Algorithm 2 leaves a choice and what each option does.


@dataclass(frozen=True)
class TwinCritics(Learner):
    """Twin critics with Retrace or one-step targets, implemented by `critics_lockstep` and `critics_gym`.

    hidden:            widths of the shared trunk.
    worlds, updates:   a vector step is one control step in each of `worlds` worlds (in a Gymnasium environment `worlds`
                       transitions from any lanes) and then `updates` updates of Q.
    m_every:           M is updated with every m_every-th update of Q, if the behaviour needs it.
    batch, capacity, learning_starts: options of the replay buffer, in transitions.
    rate_q, rate_m:    Adam's learning rates; they decrease linearly over the run to the fraction `final_rate`.
    target_every, tau: every target_every updates (l of Algorithm 2) the target networks move by the fraction tau.
    aggregate:         how the twins are combined in targets, in the TD error and as the prediction: "min" or "mean".
    entropy_in_target: whether the targets of Q and M contain -alpha log mu(a|s'), as printed (behaviours with an actor only).
    bounded:           targets are clipped to the range that the cumulants seen so far allow, which holds the true values.
    trace:             lambda of the multi-step Retrace targets (Munos et al. 2016).  They are stored with the transitions and
                       computed again every `refresh_every` vector steps, or when there are 2 % more, whichever is later.  0:
                       one-step targets, computed anew for every batch, as printed.
    scaled:            inputs and outputs of the networks are scaled by the first transitions (in a Gymnasium environment always).
    averaged:          answers come from the target networks, the average of the networks over about 1 / tau updates.
    layer_norm:        layer normalisation in the critics' hidden layers.
    lookahead:         answers take this many steps with a learned model of the dynamics before they ask Q (gvfx_paper's worlds).
    """

    hidden: tuple[int, ...] = (64, 64)
    worlds: int = 16
    updates: int = 8
    m_every: int = 1
    batch: int = 256
    capacity: int = 400_000
    learning_starts: int = 1_008
    rate_q: float = 1e-3
    rate_m: float = 1e-3
    final_rate: float = 0.1
    target_every: int = 1
    tau: float = 0.01
    aggregate: Literal["min", "mean"] = "mean"
    entropy_in_target: bool = False
    bounded: bool = True
    trace: float = field(default=0.95, metadata={"before": 0.0})
    refresh_every: int = field(default=32, metadata={"later": True})
    scaled: bool = field(default=True, metadata={"before": False})
    averaged: bool = field(default=True, metadata={"before": False})
    layer_norm: bool = field(default=False, metadata={"later": True})
    lookahead: int = field(default=0, metadata={"later": True})

    supports: ClassVar[frozenset[str]] = frozenset({"box_actions"})
    allowed: ClassVar = {
        "rate_q rate_m final_rate": "(0, inf)",
        "tau": "(0, 1]",
        "trace": "[0, 1]",
        "worlds updates m_every batch capacity target_every refresh_every": "[1, inf)",
        "lookahead": "[0, inf)",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trace and self.entropy_in_target:
            raise InputError("entropy_in_target: is part of the printed one-step targets; set trace=0 as well.")
        if self.lookahead and not self.trace:
            raise InputError(f"lookahead: {self.lookahead!r} needs a trace; give 0 with trace=0.")
        if self.capacity % self.worlds:
            raise InputError(f"capacity: {self.capacity} must be a multiple of {self.worlds}, the worlds of a vector step.")
        if self.updates % self.m_every:
            raise InputError(f"m_every: {self.m_every} must divide the {self.updates} updates of a vector step.")
