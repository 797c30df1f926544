"""A world from outside gvfx that opens its own backend, and is stepped for audits."""

from dataclasses import dataclass, replace

import numpy as np

import gvfx
from gvfx.running.backends import FiniteWorld
from gvfx.worlds.conversion import SteppedMDP
from gvfx.worlds.mdp import CompiledWorld


@dataclass(frozen=True)
class Room(CompiledWorld):
    """A square room with a prize in a corner."""

    length: int

    @property
    def inside(self):
        return gvfx.gridworld(self.length, {"prize": (0, 0)})

    def open(self, questions, method, options):
        backend = FiniteWorld(self.inside).open(questions, method, options)
        backend.why = f"a room of {self.length} by {self.length}"
        return backend

    def stepped(self, questions):
        env = SteppedMDP(self.inside)
        return env, [replace(q, cumulant=gvfx.Reward(), name=f"{q.name}, stepped") for q in questions]


QUESTIONS = [gvfx.GVF([0.25] * 4, gvfx.Constant(1.0, at="prize"), 0.8, name="prize")]


def test_its_own_backend_runs_with_every_option():
    options = {"steps": 3000, "where": "start", "until": gvfx.error_below(1e-2), "seeds": 2}
    own, same = (gvfx.evaluate(world, QUESTIONS, **options) for world in (Room(3), Room(3).inside))
    assert np.array_equal(own.values, same.values) and np.array_equal(own.stopped, same.stopped)
    assert own.details.experiment["chosen"] == "a room of 3 by 3"


def test_audits_step_the_environment_that_it_names():
    result = gvfx.evaluate(Room(3), QUESTIONS, steps=600, audit=0.2)
    assert result.names == ("prize, stepped",) and result.audit()["prize, stepped"].rollouts > 0


def test_from_a_log_it_is_stepped_too():
    log = {"observation": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "next_observation": [1, 0], "terminated": [False, True]}
    result = gvfx.evaluate(Room(3), QUESTIONS, steps=100, log=log)
    assert result.names == ("prize, stepped",) and result.visits.sum() == 102
