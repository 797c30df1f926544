"""A world of your own that brings its loop, compiled as a whole, and its true values: a walk around a ring."""

from dataclasses import dataclass

import numpy as np

import gvfx
from gvfx.kernel import whole
from gvfx.rng import BEHAVIOUR, seed_streams, uniform
from gvfx.running.drive import Backend, Loop
from gvfx.running.schema import Measurement
from gvfx.worlds.mdp import CompiledWorld


@whole
def walk(q, visits, at, rng, right, gamma, steps):
    """Steps to the left (0) or right (1) by chance, and Eq. 5 for every question; entering place 0 pays 1."""
    places = len(visits)
    for _ in range(steps):
        s, a = at[0], int(uniform(rng, BEHAVIOUR) < 0.5)
        s_next = (s + 2 * a - 1) % places
        visits[s, a] += 1
        for i in range(len(gamma)):
            v = right[i] * q[s_next, 1, i] + (1 - right[i]) * q[s_next, 0, i]
            q[s, a, i] += (1.0 * (s_next == 0) + gamma[i] * v - q[s, a, i]) / np.sqrt(visits[s, a])
        at[0] = s_next


@dataclass(frozen=True)
class Ring(CompiledWorld):
    places: int = 8

    def open(self, questions, method, options):
        return Walks(self, questions, gvfx.running.plan.Method(gvfx.Uniform(), gvfx.ExpectedSarsa()), options)


class Walks(Backend):
    """What the seeds share."""

    def __init__(self, world, questions, method, options):
        super().__init__(questions, method, options)
        self.names, self.weights = tuple(q.name for q in questions), np.ones(len(questions))
        self.right, self.gamma = (np.array(x) for x in zip(*((q.policy.probabilities[1], q.discount) for q in questions)))
        one = np.eye(world.places)
        ways = [p * np.roll(one, 1, axis=1) + (1 - p) * np.roll(one, -1, axis=1) for p in self.right]
        self.truth = np.array([np.linalg.solve(one - g * way, way[:, 0]) for g, way in zip(self.gamma, ways)])

    def begin(self, seed):
        return Walk(self, seed)


class Walk(Loop):
    """One seed."""

    kept = {"arrays": ""}  # what a checkpoint holds, with the beginning of its names

    def __init__(self, run, seed):
        self.run, self.seeds, (gvfs, places) = run, (seed,), run.truth.shape
        counts, at = np.zeros((places, 2), np.int64), np.zeros(1, np.int64)
        self.arrays = {"q": np.zeros((places, 2, gvfs)), "visits": counts, "at": at, "rng": seed_streams(seed)}

    def start(self): ...
    def check(self): ...
    def advance(self, to):
        walk(*self.arrays.values(), self.run.right, self.run.gamma, to - self.t)
        self.t = to

    def episodes(self):
        return [0]

    def measure(self, curve, tables):
        q, visits, right = self.arrays["q"], self.arrays["visits"], self.run.right
        values = (right * q[:, 1] + (1 - right) * q[:, 0]).T
        own = {"values": values, "visits": visits.copy(), "behaviour": np.full(visits.shape, 0.5)}
        return [Measurement(mse=((values - self.run.truth) ** 2).mean(axis=1), **own)]

    def outcome(self, k):
        return {"truth": self.run.truth}

    def restored(self):  # from a checkpoint
        self.t = int(self.arrays["visits"].sum())


questions = [gvfx.GVF([1 - p, p], gvfx.Reward(), 0.9, name=f"right with {p}") for p in (0.3, 0.9)]
result = gvfx.evaluate(Ring(), questions, steps=200_000, seeds=2, workers=2)
for name, found, true in zip(result.names, result.values.mean(axis=0), result.details.truth[0]):
    print(f"{name}: at place 0 {found[0]:.3f}, truth {true[0]:.3f}")
print(f"mean squared error {result.error[:, -1].mean():.1g}")
