"""A learner of your own: Expected Sarsa whose step size is one over the visits of the state and action."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

import gvfx
from gvfx.kernel import LearnerRule, learn_nothing_at_end, piece
from gvfx.theory.equations import m_target, q_target


class Averages(NamedTuple):
    q: np.ndarray  # [row, action, gvf]
    m: np.ndarray  # [row, action, gvf]
    visits: np.ndarray  # [row, action]
    slowest: float


@dataclass(frozen=True)
class AveragingSarsa(gvfx.Learner):
    """Eqs. 5 and 6 with a step size of 1 / visits, but at least `slowest`."""

    slowest: float = 0.01
    supports = frozenset({"tables"})

    def rule(self, sizes, variance):
        return compiled(*sizes)

    def begin(self, asked, world):
        shape = (world.rows, world.actions, len(asked.names))
        return Averages(np.zeros(shape), np.zeros(shape), np.zeros(shape[:2]), float(self.slowest))


@cache  # equal sizes are compiled once
def compiled(gvfs, actions):
    @piece
    def update(state, t, tr, c, gamma, pi):
        state.visits[tr.x, tr.action] += 1.0
        rate = max(1.0 / state.visits[tr.x, tr.action], state.slowest)
        for i in range(gvfs):
            v = v_m = 0.0  # of the target policy in the next state
            for a in range(actions):
                v += pi[tr.next_row, a, i] * state.q[tr.next_x, a, i]
                v_m += pi[tr.next_row, a, i] * state.m[tr.next_x, a, i]
            discount = tr.alive * gamma[tr.g, i]  # 0 where the episode terminated
            delta = q_target(c[i], discount, v) - state.q[tr.x, tr.action, i]
            state.m[tr.x, tr.action, i] += rate * (m_target(delta, discount, v_m) - state.m[tr.x, tr.action, i])
            state.q[tr.x, tr.action, i] += rate * delta

    return LearnerRule(update, learn_nothing_at_end)


gvfx.testing.check_learner(AveragingSarsa())
world = gvfx.gridworld(5, {"left": (0, 0)})
question = gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(100, 5, at="left"), 0.9)
for learner in (AveragingSarsa(), gvfx.ExpectedSarsa(), gvfx.CertaintyEquivalence()):
    result = gvfx.evaluate(world, [question], gvfx.Mixture(), learner, steps=100_000, seeds=3)
    print(f"{learner}: mean squared error {result.error[:, -1].mean():.3f}")
