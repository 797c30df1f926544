"""Calibrated: a behaviour that reads each GVF's variance in units of the GVF's mean square value (`calibrate=True`).

The scale of GVF i is a running mean of Q_i(s, a)^2 over the pairs that the run visits.  The wrapped behaviour gets M_i / scale_i
instead of M_i, so that each weight in Eq. 3 is divided by the scale: mu(a|s) ~ sqrt(sum_i (w_i / scale_i) pi_i(a|s)^2 M_i(s, a)).
A GVF whose values are still 0 has the smallest scale of the others, so that it is not neglected before its first cumulant is
seen; while no scale is known, M is read as it is.

The scales are kept in two forms, which a test holds equal: `_calibrated` for compiled loops and `noted` over arrays (NumPy, JAX).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour, NetworkRule
from gvfx.behaviours.wrappers import Wrapper, passing_on
from gvfx.evidence.counts import Empirical
from gvfx.kernel import BehaviourRule, Sizes, piece
from gvfx.questions.gvf import Stacked
from gvfx.worlds.mdp import MDP

NOTHING = 1e-30  # a mean square value up to this is not a scale


class Scales(NamedTuple):
    """The scales of all GVFs."""

    square: Any  # [gvf] mean square values
    steps: Any  # [1] number of steps in them
    factor: Any  # [gvf] M is multiplied by this


class CalibratedState(NamedTuple):
    inner: Any
    scales: Scales
    q: np.ndarray  # [row, action, gvf] the learner's own array, read after each of its updates; no rows: nothing is tracked
    m: np.ndarray  # [action, gvf] M in units of the scales, at one state


@dataclass(frozen=True)
class Calibrated(Wrapper[CalibratedState]):
    """A behaviour that reads M_i divided by the running mean of Q_i^2.

    rate: smallest weight of a new step in the running mean: about the last 1 / rate steps count.
    """

    behaviour: Behaviour
    rate: float = 1e-4

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return _calibrated(self.behaviour.rule(sizes), *sizes, float(self.rate))

    def begin(self, asked: Stacked, world: MDP) -> CalibratedState:
        gvfs = len(asked.weights)
        tracked, scaled = np.zeros((0, world.actions, gvfs)), np.zeros((world.actions, gvfs))
        return CalibratedState(self.behaviour.begin(asked, world), no_scales(gvfs, np), tracked, scaled)

    def network_rule(self) -> NetworkRule:
        import jax.numpy as jnp

        inner = self.behaviour.network_rule()

        def probabilities(state, t, pi, m, value):
            return inner.probabilities(state[0], t, pi, m * state[1].factor, value)

        return NetworkRule(
            begin=lambda weights: (inner.begin(weights), no_scales(len(weights), jnp)),
            probabilities=probabilities,
            episode_end=lambda state: (inner.episode_end(state[0]), state[1]),
        )

    def noted(self, state: Any, squares: Any, steps: int) -> Any:
        """The state of the network rule after `steps` steps with these mean square values [gvf]; pure, in JAX."""
        import jax.numpy as jnp

        return state[0], noted(state[1], squares, steps, self.rate, jnp)

    def note(self, state: CalibratedState, squares: np.ndarray, steps: int) -> None:
        """The same in place, for the state of `rule`."""
        _set(state.scales, noted(state.scales, squares, steps, self.rate, np))


def calibrated(behaviour: Behaviour) -> Behaviour:
    """The behaviour as `calibrate=True` runs it: unchanged if it does not read M."""
    return Calibrated(behaviour) if behaviour.needs_variance else behaviour


def watching(behaviour: Behaviour, state: Any, q: np.ndarray) -> Any:
    """The state of a behaviour, which tracks the scales of the learner's table q [row, action, gvf] if it is calibrated."""
    return state._replace(q=q) if isinstance(behaviour, Calibrated) else state


def rescale(behaviour: Behaviour, state: Any, model: Empirical) -> None:
    """Set the scales of a calibrated behaviour to those of the estimated model: for learners that keep no table q."""
    if isinstance(behaviour, Calibrated):
        square = model.evaluation.squares(model.values)
        _set(state.scales, Scales(square, state.scales.steps, factors(square, np)))


def no_scales(gvfs: int, xp: Any) -> Scales:
    """The scales before the first step; xp: numpy or jax.numpy."""
    return Scales(xp.zeros(gvfs), xp.zeros(1), xp.ones(gvfs))


def noted(scales: Scales, squares: Any, steps: int, rate: float, xp: Any) -> Scales:
    """The scales after `steps` further steps with mean square values `squares` [gvf]."""
    total = scales.steps + steps
    square = scales.square + xp.maximum(steps / total, min(steps * rate, 1.0)) * (squares - scales.square)
    return Scales(square, total, factors(square, xp))


def factors(square: Any, xp: Any) -> Any:
    """1 / scale [gvf]; the smallest known scale where none is known, and 1 everywhere before the first."""
    known = square > NOTHING
    smallest = xp.where(known, square, xp.inf).min()
    return xp.where(known.any(), 1 / xp.where(known, square, smallest), 1.0)


def _set(scales: Scales, new: Scales) -> None:
    for array, values in zip(scales, new, strict=True):
        array[:] = values


@cache
def _calibrated(inner: BehaviourRule, gvfs: int, actions: int, rate: float) -> BehaviourRule:
    inner_probabilities, inner_observe = inner.probabilities, inner.observe

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            for i in range(gvfs):
                state.m[a, i] = m[a, i] * state.scales.factor[i]
        inner_probabilities(state.inner, t, s, x, pi, state.m, mu)

    @piece
    def note(scales, q):
        scales.steps[0] += 1.0
        share = max(1.0 / scales.steps[0], rate)
        smallest = np.inf
        for i in range(gvfs):
            scales.square[i] += share * (q[i] * q[i] - scales.square[i])
            if scales.square[i] > NOTHING:
                smallest = min(smallest, scales.square[i])
        for i in range(gvfs):
            scale = scales.square[i] if scales.square[i] > NOTHING else smallest
            scales.factor[i] = 1.0 / scale if scale < np.inf else 1.0

    @piece
    def observe(state, t, tr, c, gamma, pi):
        inner_observe(state.inner, t, tr, c, gamma, pi)
        if state.q.shape[0] > 0:
            note(state.scales, state.q[tr.x, tr.action])

    return replace(passing_on(inner, probabilities), observe=observe)
