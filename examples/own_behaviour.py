"""A behaviour of your own: checked, evaluated, stored and swept like those of gvfx."""

import tempfile
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all, stored_result
from gvfx.kernel import BehaviourRule, end_nothing, normalise, piece


class Tried(NamedTuple):
    counts: np.ndarray  # [row, action] how often each action was tried


@dataclass(frozen=True)
class LeastTried(gvfx.Behaviour):
    """Prefer the actions that were tried least in this state: mu(a|s) ~ (1 + n(s, a)) ** -power."""

    power: float = 1.0
    supports = frozenset({"tables"})

    def rule(self, sizes):
        return compiled(sizes.actions, self.power)

    def begin(self, asked, world):
        return Tried(np.zeros((world.rows, world.actions)))


@cache  # compiled once for equal arguments
def compiled(actions, power):
    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        for a in range(actions):
            mu[a] = (1.0 + state.counts[x, a]) ** -power
        normalise(mu, actions)

    @piece
    def observe(state, t, transition, c, gamma, pi):
        state.counts[transition.x, transition.action] += 1.0

    return BehaviourRule(probabilities, observe, end_nothing)


if __name__ == "__main__":  # worker processes read this file too
    gvfx.testing.check_behaviour(LeastTried())
    world = gvfx.gridworld(8, {"left": (0, 0)})
    question = gvfx.GVF(gvfx.constant_policy([0.4, 0.1, 0.4, 0.1]), gvfx.Distractor(100, 5, at="left"), 0.95)
    print(gvfx.evaluate(world, [question], LeastTried(), steps=20_000, seeds=3).summary())
    with tempfile.TemporaryDirectory() as folder:
        for behaviour in (LeastTried(), LeastTried(2.0), gvfx.Uniform()):
            experiment = Experiment(world, (question,), behaviour, gvfx.CertaintyEquivalence(), 20_000, 10_000)
            run_all(Store(folder), [(experiment, 3)])
            error = stored_result(Store(folder), experiment, 3).error[:, -1].mean()
            print(f"{behaviour}, stored as {experiment.hash}: {error:.3f}")
