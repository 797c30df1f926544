"""A learner of your own with intervals of its own, which stopping rules, decisions and comparisons rest on."""

from dataclasses import dataclass

import numpy as np

import gvfx


@dataclass(frozen=True)
class Careful(gvfx.Learner):
    """Values in the world as it was counted; errors by the width of the range in which all values lie."""

    width: float = 10.0
    supports = frozenset({"tables"})
    needs_evidence = True  # outcomes are counted for it
    bounds_errors = True  # its errors are never too small

    def rule(self, sizes, variance):
        return gvfx.CertaintyEquivalence().rule(sizes, variance)

    def begin(self, asked, world):
        return gvfx.CertaintyEquivalence().begin(asked, world)

    def values(self, state, model):
        return model.values

    def standard_errors(self, state, model):
        """e(s) = sum_a pi(a|s) [width / (2 sqrt(n)) + discount sum_s' P(s'|s,a) e(s')]: a mean of n numbers is off by at most
        that standard error, and errors add up along the way."""
        tries, states = model.visits, model.world.states
        once = np.where(tries > 0, self.width / (2 * np.sqrt(np.maximum(tries, 1))), 1e9)
        share = model.counts / np.maximum(tries, 1)[:, :, None] * ~model.world.terminal[model.world.next]
        out = []
        for i in range(len(model.asked.names)):
            pi = np.broadcast_to(model.asked.pi[:, :, i], tries.shape)
            onward = np.zeros((states, states))
            np.add.at(onward, (np.arange(states)[:, None, None], model.world.next), pi[:, :, None] * share)
            out.append(np.linalg.solve(np.eye(states) - model.asked.gamma[:, i].max() * onward, (pi * once).sum(axis=1)))
        return np.where(np.array(out) < 1e6, out, np.inf)


world = gvfx.gridworld(3, {"prize": (0, 0)})
policies = {"towards": [0.4, 0.1, 0.4, 0.1], "away": [0.1, 0.4, 0.1, 0.4]}
questions = [gvfx.GVF(pi, gvfx.Constant(10, at="prize"), 0.6, name=name) for name, pi in policies.items()]

result = gvfx.evaluate(world, questions, learner=Careful(), steps=1_000_000, where="start", until=gvfx.error_below(0.3))
print(f"sure of an error below 0.3 after {result.stopped[0]:,} steps: {result.error[0, -1]:.1g}")
for name, value in result.value().items():
    print(f"{name}: {value}, truth {value.truth:.4g}")
result = gvfx.evaluate(world, questions, learner=Careful(), steps=1_000_000, until=gvfx.decided())
print(f"decided after {result.stopped[0]:,} steps")
print(result.compare())
