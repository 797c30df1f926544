"""Signals, discounts and policies read at the transitions of an environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import gvfx
from gvfx.inputs import LARGE_IN_SINGLE
from gvfx.questions.reader import Reader, Targets
from gvfx.worlds.spec import DiscreteSpec, skeleton_mdp

HALF = [0.5, 0.5]
INFO = {"forces": np.array([1.0, 2.0, 3.0]), "speed": 4.0}


def test_signals_of_every_kind_are_read_from_a_transition():
    questions = [
        gvfx.GVF(HALF, gvfx.Reward(), 0.9),
        gvfx.GVF(HALF, gvfx.Info("speed"), 0.8),
        gvfx.GVF(HALF, gvfx.Info("forces", size=3), 0.7, name="force"),
        gvfx.GVF(HALF, lambda s, a, r, s2, info: 10 * s + a, 0.6),
        gvfx.GVF(HALF, lambda s, a, s2: s2, lambda s, a, s2: 0.5 if s2 == 7 else 0.0),
        gvfx.GVF(HALF, 2.5, 1.0),
        gvfx.GVF(HALF, gvfx.table_cumulant(np.arange(10.0)), 1.0),
    ]
    reader = Reader(questions, DiscreteSpec(None, "", 0, 0, 1, skeleton_mdp(10, 2)))
    assert reader.names == ("gvf1", "gvf2", "force[0]", "force[1]", "force[2]", "gvf4", "gvf5", "gvf6", "gvf7")
    c, gamma = reader.transition(3, 1, -1.0, 7, False, INFO)
    assert c.tolist() == [-1, 4, 1, 2, 3, 31, 7, 2.5, 3]
    assert gamma.tolist() == [0.9, 0.8, 0.7, 0.7, 0.7, 0.6, 0.5, 1, 1]
    c, gamma = reader.transition(3, 1, -1.0, 7, True, INFO)
    assert c.tolist() == [-1, 4, 1, 2, 3, 31, 7, 2.5, 3] and not gamma.any()


def test_what_questions_share_is_read_once():
    calls = []

    def pair(s, a, s2):
        calls.append(s)
        return [s, s2]

    def ends(s, a, s2):
        calls.append(-s)
        return 0.5

    questions = [gvfx.GVF(p, gvfx.Measure(pair, size=2), ends, name=str(k)) for k, p in enumerate([HALF, [1, 0]])]
    reader = Reader(questions)
    for _ in range(3):  # the discount is asked again at the first transitions
        calls.clear()
        c, _ = reader.transition(4, 0, 0.0, 5, False, {})
    assert c.tolist() == [4, 5, 4, 5] and calls == [4, -4]


def test_a_discount_with_a_memory_is_named_once():
    calls = []

    def turns(s, a, s2):
        calls.append(s)
        return 0.5 + 0.5 * (len(calls) % 2)

    reader = Reader([gvfx.GVF(HALF, gvfx.Reward(), turns, name="mine")])
    with pytest.warns(UserWarning, match="mine.discount: the function answers differently for the same transition"):
        reader.transition(4, 0, 0.0, 5, False, {})
    reader.transition(4, 0, 0.0, 5, False, {})
    reader.again()


@pytest.mark.parametrize(
    ("cumulant", "words"),
    [
        (gvfx.Info("sped"), r"info: has no 'sped'; its keys are 'forces', 'speed'"),
        (gvfx.Info("forces"), r"a.cumulant: is a vector of shape \[3\]; give size=3"),
        (gvfx.Info("forces", index=5), r"a.cumulant: is a vector of shape \[3\]"),
        (lambda s, a, s2: float("nan"), r"a.cumulant: is nan"),
        (lambda s, a, s2: "much", r"a.cumulant: 'much' is not a number"),
        (lambda s, a, s2: -1e160, r"a.cumulant: -1e\+160 is too large; divide the signal, so that it stays below 1e\+50"),
    ],
)
def test_signals_that_cannot_be_read_say_why(cumulant, words):
    with pytest.raises(gvfx.InputError, match=words):
        Reader([gvfx.GVF(HALF, cumulant, name="a")]).transition(0, 0, 0.0, 0, False, INFO)


def test_missing_entries_may_have_a_value():
    reader = Reader([gvfx.GVF(HALF, gvfx.Info("rare", size=2, missing=0.0))])
    assert reader.transition(0, 0, 0.0, 0, False, INFO)[0].tolist() == [0, 0]
    assert reader.transition(0, 0, 0.0, 0, False, {"rare": [1, 2]})[0].tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["cumulant", "discount"])
def test_functions_of_the_wrong_arguments_are_named(kind):
    with pytest.raises(gvfx.InputError, match=f"^{kind}: the function takes 2 arguments"):
        gvfx.GVF(**{"policy": HALF, "cumulant": 1.0, kind: lambda s, a: 0})
    with pytest.raises(gvfx.InputError, match=r"^Info.size"):
        gvfx.Info("x", index=1, size=2)


def test_equal_policies_are_asked_once_and_states_only_once():
    calls = []

    def policy(s):
        calls.append(s)
        return HALF

    questions = [gvfx.GVF(policy, float(k), name=str(k)) for k in range(5)]
    targets = Targets(questions, 2, states=4)
    before = len(calls)
    assert targets([1, 2, 1]).shape == (3, 2, 5) and targets([3]).shape == (1, 2, 5)
    assert len(calls) == before <= 5 + 16 * 6  # the table, and again to see whether it stays the same


def test_networks_take_smaller_signals():
    for question in (gvfx.GVF(HALF, 1e16, name="a"), gvfx.GVF(HALF, gvfx.Reward(), name="a")):
        with pytest.raises(gvfx.InputError, match=r"a.cumulant: 1e\+16 is too large; divide the signal.* below 1e\+15"):
            Reader([question], largest=LARGE_IN_SINGLE).transition(0, 0, 1e16, 0, False, INFO)
    env = gym.make("CartPole-v1")
    with pytest.raises(gvfx.InputError, match=r"a.cumulant: 1e\+16 is too large"):
        gvfx.evaluate(env, [gvfx.GVF(gvfx.uniform_policy(), 1e16, name="a")], learner=gvfx.Deep(), steps=100)
