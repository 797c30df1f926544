"""Tabular temporal-difference learners for Q and M."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gvfx import schedules
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.kernel import LearnerRule, Sizes, learn_nothing_at_end, piece
from gvfx.learners.base import Learner, NoValues
from gvfx.questions.gvf import Stacked
from gvfx.schedules import Schedule, ScheduleState, as_falling, growing
from gvfx.theory.equations import m_target, m_target_sampled, q_target, q_target_sampled
from gvfx.worlds.mdp import TableRows


class Tables(NamedTuple):
    """Action values q and variances m, both [row, action, gvf], and their learning rates."""

    q: np.ndarray
    m: np.ndarray
    rate_q: ScheduleState
    rate_m: ScheduleState
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True)
class ExpectedSarsa(Learner[Tables]):
    """Off-policy TD without importance weights: Eq. 5 for Q, Eq. 6 for M.

    rate_q, rate_m: a schedule, or the minimum of the paper's (linear from 1 over 500,000 steps).
    initial_q, initial_m: the initial values of the tables.
    """

    rate_q: float | Schedule = 0.1
    rate_m: float | Schedule = 0.8
    initial_q: float = 1.0
    initial_m: float = 5.0

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    allowed: ClassVar = {"initial_m": "[0, inf]"}

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        return _expected_sarsa(*sizes, variance)

    def begin(self, asked: Stacked, world: TableRows) -> Tables:
        shape = (world.rows, world.actions, len(asked.names))
        q, m = np.full(shape, float(self.initial_q)), np.full(shape, float(self.initial_m))
        ends = np.setdiff1d(world.feature[world.terminal], world.feature[~world.terminal])
        q[ends] = m[ends] = 0.0
        return Tables(q, m, as_falling(self.rate_q, "rate_q").state(), as_falling(self.rate_m, "rate_m").state(), 0.0, 1.0)


@dataclass(frozen=True)
class ImportanceSampling(ExpectedSarsa):
    """Off-policy TD with the ratio rho' = pi/mu of the next action, clipped to [ratio_low, ratio_high] (paper's ablation)."""

    ratio_low: float = 0.0
    ratio_high: float = 10.0

    needs_next_action: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.ratio_low <= self.ratio_high:
            raise InputError(f"ratio_low: {self.ratio_low} must lie between 0 and ratio_high, {self.ratio_high}.")

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        return _importance_sampling(*sizes, variance)

    def begin(self, asked: Stacked, world: TableRows) -> Tables:
        return super().begin(asked, world)._replace(ratio_low=self.ratio_low, ratio_high=self.ratio_high)


@cache
def _expected_sarsa(gvfs: int, actions: int, variance: bool) -> LearnerRule:
    @piece
    def update(state, t, tr, c, gamma, pi):
        q, m = state.q, state.m
        rate_q, rate_m = schedules.at(state.rate_q, t), schedules.at(state.rate_m, t)
        here_q = q[tr.x, tr.action]
        here_m = m[tr.x, tr.action]
        next_q = q[tr.next_x]
        next_m = m[tr.next_x]
        next_pi = pi[tr.next_row]
        for i in range(gvfs):
            v = 0.0
            for a in range(actions):
                v += next_pi[a, i] * next_q[a, i]
            discount = tr.alive * gamma[tr.g, i]
            delta = q_target(c[i], discount, v) - here_q[i]  # Eq. 5 (eq:sarsa-q-update)
            if variance:
                v_m = 0.0
                for a in range(actions):
                    v_m += next_pi[a, i] * next_m[a, i]
                target = m_target(delta, discount, v_m)  # Eq. 6 (eq:sarsa-m-update)
                here_m[i] += rate_m * (target - here_m[i])
            here_q[i] += rate_q * delta

    return LearnerRule(update, learn_nothing_at_end)


@cache
def _importance_sampling(gvfs: int, actions: int, variance: bool) -> LearnerRule:
    @piece
    def update(state, t, tr, c, gamma, pi):
        q, m = state.q, state.m
        rate_q, rate_m = schedules.at(state.rate_q, t), schedules.at(state.rate_m, t)
        for i in range(gvfs):
            ratio = min(max(pi[tr.next_row, tr.next_action, i] / tr.next_prob, state.ratio_low), state.ratio_high)
            discount = tr.alive * gamma[tr.g, i]
            target = q_target_sampled(c[i], discount, ratio, q[tr.next_x, tr.next_action, i])
            delta = target - q[tr.x, tr.action, i]  # Sec. 3, "Importance Sampling"
            if variance:
                target_m = m_target_sampled(delta, discount, ratio, m[tr.next_x, tr.next_action, i])  # Eq. 4 (eq:var_s_a)
                m[tr.x, tr.action, i] += rate_m * (target_m - m[tr.x, tr.action, i])
            q[tr.x, tr.action, i] += rate_q * delta

    return LearnerRule(update, learn_nothing_at_end)


# --- CertaintyEquivalence: estimate the world from counts, and solve every question exactly in the estimated world --


@piece
def _learn_nothing(state, t, tr, c, gamma, pi):
    """The loop has counted the transition."""


NOTHING_BETWEEN_STOPS = LearnerRule(_learn_nothing, learn_nothing_at_end)
AUTO = (0.0, 0.03, 0.1, 0.3, 1.0)  # the rates that "auto" chooses from


@dataclass(frozen=True)
class CertaintyEquivalence(Learner[NoValues]):
    """Values of all GVFs by linear solves in the model estimated from counts; asymptotically efficient (docs/limit.md).

    forgetting: for drifting cumulants, the smallest weight of a new value in the running mean of its outcome: 0 is the plain
                mean, 1 the last value, "auto" uses for each GVF the rate that has predicted its cumulants best.
    initial_m:  the variance M of pairs without data; elsewhere M is the model's (Eq. 6), each time the data grow by `growth`.
    """

    forgetting: float | Literal["auto"] = 0.0
    initial_m: float = 5.0
    growth: float = 1.3

    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    needs_evidence: ClassVar[bool] = True
    bounds_errors: ClassVar[bool] = True
    allowed: ClassVar = {"forgetting": "[0, 1]", "initial_m": "[0, inf]", "growth": "(1, inf]"}

    @property
    def forgetting_rates(self) -> tuple[float, ...]:  # type: ignore[override]
        if self.forgetting == "auto":
            return AUTO
        return (float(self.forgetting),) if self.forgetting else ()

    def rule(self, sizes: Sizes, variance: bool) -> LearnerRule:
        return NOTHING_BETWEEN_STOPS

    def begin(self, asked: Stacked, world: TableRows) -> NoValues:
        m = np.full((world.rows, world.actions, len(asked.names)), float(self.initial_m))
        return NoValues(np.zeros((0, world.actions, len(asked.names))), m)

    def stops(self, steps: int) -> Sequence[int]:
        return growing(100, self.growth, steps)

    def refresh(self, state: NoValues, model: Empirical) -> None:
        tried = model.tried
        state.m[model.world.feature[:, None], np.arange(model.world.actions)] = np.where(
            tried[:, :, None], model.variance(), self.initial_m
        )

    def improvements(self, steps: int) -> Sequence[int]:
        return self.stops(steps)

    def improved(self, state: NoValues, model: Empirical, tried: np.ndarray) -> np.ndarray:
        return model.converged_policies()

    def values(self, state: NoValues, model: Empirical) -> np.ndarray:
        return model.values
