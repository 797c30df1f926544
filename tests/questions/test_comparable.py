"""Which questions can be compared, and what their policies and signals are called."""

from __future__ import annotations

import pytest

import gvfx
from gvfx.questions.gvf import comparable

A, B = [0.1, 0.9], [0.9, 0.1]


def goal(state, action, following):
    return float(following == 3)


def asked(*questions):
    return comparable([gvfx.GVF(pi, paid, 0.9, name=name) for pi, paid, name in questions])


def test_names_of_policies_and_signals_are_what_questions_share():
    both = asked((A, goal, "careful: goal"), (B, goal, "eager: goal"), (A, 1.0, "careful: steps"), (B, 1.0, "eager: steps"))
    assert both.policies == ("careful", "eager") * 2 and both.signals == ("goal", "goal", "steps", "steps")
    assert [c.members for c in both.contests] == [(0, 1), (2, 3)]
    behind = asked((A, goal, "goal_a"), (B, goal, "goal_b"), (A, 1.0, "fall_a"), (B, 1.0, "fall_b"))
    assert behind.policies == ("a", "b", "a", "b") and behind.signals == ("goal", "goal", "fall", "fall")
    one = asked((A, gvfx.Reward(), "old"), (B, gvfx.Reward(), "new"))
    assert one.policies == ("old", "new") and one.signals == ("reward", "reward")
    alone = asked((A, goal, "keeps right: fall"), (B, goal, "reckless: fall"))
    assert alone.policies == ("keeps right", "reckless") and alone.signals == ("fall", "fall")
    kept = asked((A, goal, "old-one"), (B, goal, "new-one, later"))
    assert kept.policies == ("old-one", "new-one, later") and kept.signals == ("measure", "measure")
    plain = asked((A, gvfx.Reward(), ""), (B, gvfx.Reward(), ""), (A, 1.0, ""), (B, 1.0, ""))
    assert plain.policies == ("gvf1", "gvf2") * 2 and plain.signals == ("reward", "reward", "constant", "constant")


def test_the_same_signal_discount_and_another_policy():
    kept = asked((A, 1.0, "a"), (B, 1.0, "b"), (A, 1.0, "a again"), (B, 2.0, "twice"), (gvfx.own_greedy(), 1.0, "own"))
    assert [c.members for c in kept.contests] == [(0, 1)] and kept.signals[2:] == ("", "", "")
    other = comparable([gvfx.GVF(A, 1.0, 0.9, name="a"), gvfx.GVF(B, 1.0, 0.8, name="b")])
    assert other.contests == ()
    with pytest.raises(gvfx.InputError, match="^compare: no two questions"):
        other.chosen()


def test_names_can_be_chosen():
    both = asked((A, goal, "a goal"), (B, goal, "b goal"), ([0.5, 0.5], goal, "c goal"), (A, 1.0, "a steps"), (B, 1.0, "b steps"))
    assert [c.signal for c in both.chosen(["a", "b"])] == ["goal", "steps"]
    (only,) = both.chosen(["c goal", "b"], "b goal")
    assert only.members == (1, 2) and only.policies == ("b", "c")
    for bad, said in (
        ({"policies": ["a", "z"]}, "^policies: 'z' is unknown; choose from a, b, c.$"),
        ({"signal": "height"}, "^signal: 'height' is unknown; choose from goal, steps.$"),
        ({"policies": "ab"}, "^policies: 'ab' is not a list of names"),
        ({"policies": ["a"]}, "^policies: .* leaves nothing to compare; give two of a, b, c"),
    ):
        with pytest.raises(gvfx.InputError, match=said):
            both.chosen(**bad)


def test_functions_made_by_the_same_lines_are_the_same():
    def made(level):
        return lambda state, action, following: float(following == level)

    each = asked(*((pi, lambda state, action, following: 1.0, name) for pi, name in ((A, "a"), (B, "b"))))
    assert [c.members for c in each.contests] == [(0, 1)]
    held = asked((A, made(3), "a: 3"), (B, made(3), "b: 3"), (A, made(4), "a: 4"), (B, made(4), "b: 4"))
    assert [c.members for c in held.contests] == [(0, 1), (2, 3)] and held.signals == ("3", "3", "4", "4")
    defaults = asked(*((pi, lambda state, action, following, k=k: float(k), f"{k}{pi[0]}") for pi in (A, B) for k in (1, 2)))
    assert [c.members for c in defaults.contests] == [(0, 2), (1, 3)]
