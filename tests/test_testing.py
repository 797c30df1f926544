"""gvfx.testing: the public classes keep the contracts, and each way to break one is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

import gvfx
from gvfx.behaviours.fixed import FixedState
from gvfx.kernel import BehaviourRule, end_nothing, observe_nothing, piece
from gvfx.learners.base import NoValues
from gvfx.names import public_classes
from gvfx.testing import in_plain_python

NEED = {  # public classes that cannot be built without arguments, or are too large
    "Alternate": gvfx.Alternate(gvfx.GVFExplorer(), gvfx.Mixture()),
    "Blend": gvfx.Blend(gvfx.SuccessorRepresentation(0.3), gvfx.RoundRobin(), 0.4),
    "Epsilon": gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Linear(1.0, 0.1, 50)),
    "Floor": gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()), 0.01),
    "Follow": gvfx.Follow([0.1, 0.2, 0.3, 0.4]),
    "Hold": gvfx.Hold(gvfx.GVFExplorer(), 3),
    "OptimalDesign": gvfx.OptimalDesign(first=40),
    "SecondMoment": gvfx.SecondMoment(first=40),
    "CharacteristicTime": gvfx.CharacteristicTime(first=40),
    "Deep": gvfx.Deep(hidden=(8,), batch=16, learning_starts=32, capacity=128),
    "TwinCritics": gvfx.TwinCritics(hidden=(8,), batch=16, learning_starts=32, capacity=128, updates=1),
}
BEHAVIOURS = {name: NEED[name] if name in NEED else cls() for name, cls in public_classes(gvfx.Behaviour).items()}
LEARNERS = {name: NEED[name] if name in NEED else cls() for name, cls in public_classes(gvfx.Learner).items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_public_behaviour_keeps_the_contracts(name):
    gvfx.testing.check_behaviour(BEHAVIOURS[name])


@pytest.mark.compiled(2)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_public_behaviour_keeps_the_contracts_on_tables(name):
    """Compiled code does what plain Python does, from the same seed; other fast tests run it in plain Python."""
    gvfx.testing.check_behaviour(BEHAVIOURS[name], kinds=("tables",))


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_rule_in_jax_keeps_the_contracts(name):
    gvfx.testing.check_behaviour(BEHAVIOURS[name], kinds=("networks", "box_actions"), quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_every_public_learner_keeps_the_contracts(name):
    gvfx.testing.check_learner(LEARNERS[name])


@pytest.mark.compiled(2)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_public_learner_keeps_the_contracts_on_tables(name):
    gvfx.testing.check_learner(LEARNERS[name], kinds=("tables",))


def test_plain_python_calls_no_compiled_function():
    @njit
    def inner(x):
        return x.shape[0]

    @njit
    def outer(x):
        return inner(x) + gvfx.schedules.at(gvfx.Fixed(2.0).state(), 0)

    plain = in_plain_python(outer)

    class Shaped:
        shape = (3,)

    assert plain(Shaped()) == 5.0  # which numba could not have compiled
    assert not outer.signatures and not inner.signatures


# --- classes that break one contract each ---------------------------------------------------------------------------


class _Own(gvfx.Behaviour):
    """A uniform behaviour by a table, of which each class below changes one thing."""

    supports = frozenset({"tables"})

    def rule(self, sizes):
        return fixed_rule(0)

    def begin(self, asked, world):
        return FixedState(np.full((world.states, world.actions), 1 / world.actions), 1)


def fixed_rule(offset):
    if offset not in RULES:

        @piece
        def probabilities(state, t, s, x, pi, m, mu):
            for a in range(mu.shape[0]):
                mu[a] = state.table[s + offset, a]

        RULES[offset] = BehaviourRule(probabilities, observe_nothing, end_nothing)
    return RULES[offset]


RULES: dict[int, BehaviourRule] = {}


@dataclass
class Mutable(_Own):
    share: float = 0.5


@dataclass(frozen=True)
class Halves(_Own):
    def begin(self, asked, world):
        return FixedState(np.full((world.states, world.actions), 0.5 / world.actions), 1)


@dataclass(frozen=True)
class Negative(_Own):
    def begin(self, asked, world):
        return FixedState(np.tile([1.5, -0.5, 0.0, 0.0], (world.states, 1)), 1)


@dataclass(frozen=True)
class Lucky(_Own):
    """Draws its table from a generator that no seed controls."""

    def begin(self, asked, world):
        return FixedState(np.random.default_rng().dirichlet(np.ones(world.actions), world.states), 1)


class ListState(NamedTuple):
    table: list[float]


@dataclass(frozen=True)
class Listed(_Own):
    def begin(self, asked, world):
        return ListState([0.25] * world.actions)


@dataclass(frozen=True)
class Outside(_Own):
    """Reads its table one row too far."""

    def rule(self, sizes):
        return fixed_rule(1)


@dataclass(frozen=True)
class Forgetful(_Own):
    """Counts its plans in the description, which no checkpoint keeps."""

    def stops(self, steps, world):
        return range(50, steps, 50)

    def refresh(self, state, model):
        seen = vars(self).get("_plans", 0) + 1
        object.__setattr__(self, "_plans", seen % 5)
        state.table[:] = (np.arange(4) == seen % 4) * 0.6 + 0.1


@dataclass(frozen=True)
class Boasting(_Own):
    supports = frozenset({"tables", "networks"})


@dataclass(frozen=True)
class Misspelt(_Own):
    supports = frozenset({"table"})


@dataclass(frozen=True)
class Unstorable(_Own):
    function: Any = lambda: 0


@dataclass(frozen=True, eq=False)
class Identical(_Own):
    pass


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        (Mutable(), "Mutable: is not a frozen dataclass; write @dataclass(frozen=True) above the class."),
        (Identical(), "Identical: is not equal to a copy of itself; "),
        (Unstorable(), "Unstorable: storing it as data fails with InputError: function: a function inside"),
        (Misspelt(), "Misspelt: supports names ['table']; name some of tables, linear, networks, box_actions."),
        (Listed(), "Listed: the behaviour's state.table is a list; keep arrays and numbers in named tuples."),
        (Halves(), "Halves: its probabilities in state 0 at step 0 sum to 0.5; they must sum to 1."),
        (Negative(), "Negative: its probabilities in state 0 at step 0 are [1.5, -0.5, 0.0, 0.0]; none may be negative."),
        (Outside(), "Outside: running in plain Python fails with IndexError: index 17 is out of bounds"),
        (Lucky(), "Lucky: the same seed gave another behaviour's state.table; draw from the run's rng and keep"),
        (Forgetful(), "Forgetful: going on from copied arrays gave another behaviour's state.table; draw from"),
        (gvfx.ExpectedSarsa(), "ExpectedSarsa: is not a gvfx.Behaviour; write class ExpectedSarsa(gvfx.Behaviour)."),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, gvfx.Behaviour) else "",
)
def test_each_broken_contract_is_named(behaviour, sentence):
    with pytest.raises(AssertionError) as broken:
        gvfx.testing.check_behaviour(behaviour)
    assert str(broken.value).startswith(sentence) and "\n" not in str(broken.value)


def test_a_kind_that_does_not_run_is_named():
    with pytest.raises(AssertionError, match="^Boasting: calling network_rule fails with InputError: behaviour: Boasting runs"):
        gvfx.testing.check_behaviour(Boasting(), kinds=["networks"])


@dataclass(frozen=True)
class Flat(gvfx.CertaintyEquivalence):
    """Its m has no place for the actions."""

    def begin(self, asked, world):
        return NoValues(np.zeros((0, world.actions, 2)), np.zeros((world.rows, 2)))


@dataclass(frozen=True)
class Endless(gvfx.CertaintyEquivalence):
    def values(self, state, model):
        return np.full((2, model.world.states), np.inf)


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (Flat(), "Flat: its state's m has shape (17, 2); give (17, 4, 2)."),
        (Endless(), "Endless: values must be finite and have shape (2, 17)."),
    ],
)
def test_each_broken_contract_of_a_learner_is_named(learner, sentence):
    with pytest.raises(AssertionError) as broken:
        gvfx.testing.check_learner(learner)
    assert str(broken.value) == sentence
