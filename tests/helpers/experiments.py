"""Small experiments for the store and the sweep."""

from __future__ import annotations

import gvfx
from gvfx.experiments.specification import Experiment


def named_discount(state, action, next_state):
    return 0.9


def small(**changes):
    world = gvfx.gridworld(4, {"left": (0, 0)}, horizon=30)
    parts = {
        "world": world,
        "questions": (gvfx.GVF([0.25] * 4, gvfx.Distractor(10, 1, at="left"), 0.9),),
        "behaviour": gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())),
        "learner": gvfx.ExpectedSarsa(),
        "steps": 1000,
        "evaluate_every": 100,
    }
    return Experiment(**{**parts, **changes})


EXPERIMENTS = [small(), small(behaviour=gvfx.Uniform())]
RUNS = [(e, 3) for e in EXPERIMENTS]
