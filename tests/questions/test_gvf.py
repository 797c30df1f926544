"""The question and the stacking of several, and every mistake named before the first step."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.worlds import golden

import gvfx
import gvfx_paper
from gvfx.questions.gvf import expand, question_names, stack

HALF = [0.5, 0.5]


def paid(asked, part, question):
    """A row table of the stack spread over outcomes, [state, action, successor]."""
    return np.append(part[:, question], 0.0)[asked.pays]


def test_plain_arrays_and_numbers_are_accepted():
    question = gvfx.GVF(HALF, 3, 0.9)
    assert question.policy == gvfx.constant_policy(HALF)
    assert question.cumulant == gvfx.Constant(3.0)
    assert (question.discount, question.weight, question.name) == (0.9, 1.0, "")


def test_equal_questions_hash_alike():
    assert hash(gvfx.GVF(HALF, 3, 0.9)) == hash(gvfx.GVF(HALF, 3, 0.9))
    assert gvfx.GVF(HALF, 3, 0.9) != gvfx.GVF(HALF, 3, 0.8)


@pytest.mark.parametrize("discount", [0, 1, 0.0, 1.0, 0.5, np.float64(0.5)])
def test_discounts_at_and_between_the_ends_are_accepted(discount):
    assert gvfx.GVF(HALF, 1.0, discount).discount == discount


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"discount": 1.1}, r"^discount: 1.1 lies outside \[0, 1\]"),
        ({"discount": -0.1}, r"^discount: -0.1 lies outside"),
        ({"discount": float("nan")}, r"^discount: nan lies outside"),
        ({"discount": "much"}, r"^discount: 'much'"),
        ({"weight": -1.0}, r"^weight: -1.0 must be a finite number of at least 0"),
        ({"weight": float("nan")}, r"^weight: nan"),
        ({"weight": float("inf")}, r"^weight: inf"),
        ({"cumulant": "reward"}, r"^cumulant: 'reward' is not a cumulant"),
        ({"cumulant": None}, r"^cumulant: None is not a cumulant"),
        ({"policy": [0.5, 0.4]}, r"^policy: row 0 .* sums to 0.9"),
        ({"policy": [1.5, -0.5]}, r"^policy: row 0 .* must not be negative"),
    ],
)
def test_mistakes_in_a_question_name_the_field(arguments, message):
    with pytest.raises(gvfx.InputError, match=message):
        gvfx.GVF(**{"policy": HALF, "cumulant": 1.0, **arguments})


def test_questions_without_a_name_are_numbered():
    questions = [gvfx.GVF(HALF, 1.0), gvfx.GVF(HALF, 1.0, name="mine"), gvfx.GVF(HALF, 1.0)]
    assert question_names(questions) == ("gvf1", "mine", "gvf3")


@pytest.mark.parametrize("names", [("a", "b", "a"), ("gvf2", "")])
def test_duplicate_names_are_refused(names):
    world, _ = golden()
    twice = "a" if "a" in names else "gvf2"
    with pytest.raises(gvfx.InputError, match=rf"^name: two questions are called '{twice}'"):
        stack([gvfx.GVF(HALF, 1.0, name=n) for n in names], world)


def test_no_questions_at_all():
    world, _ = golden()
    with pytest.raises(gvfx.InputError, match=r"^questions: the list is empty"):
        stack([], world)


def test_something_that_is_no_question():
    world, questions = golden()
    with pytest.raises(gvfx.InputError, match=r"^questions\[1\]: 0.5 is not a GVF"):
        stack([questions[0], 0.5], world)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (gvfx.GVF([0.2, 0.3, 0.5], 1.0, name="odd"), r"^odd.policy: expected 2 probabilities per row"),
        (gvfx.GVF([HALF] * 3, 1.0, name="odd"), r"^odd.policy: has 3 rows but the world has 2 states"),
        (gvfx.GVF(lambda s: [0.5, 0.1], 1.0, name="odd"), r"^odd.policy: row 0 .* sums to 0.6"),
        (gvfx.GVF(HALF, 1.0, lambda s, a, n: 2.0, name="odd"), r"^odd.discount\(0, 0, 0\): 2.0 lies outside"),
        (gvfx.GVF(HALF, gvfx.Constant(1, at="goal")), r"^at: the world has no place called 'goal'"),
        (gvfx.GVF(HALF, gvfx.Constant(1, at=9)), r"^at: state 9 does not exist"),
    ],
)
def test_mistakes_found_on_a_world_name_the_question_and_field(question, message):
    world, _ = golden()
    with pytest.raises(gvfx.InputError, match=message):
        stack([question], world)


def test_constant_policies_and_discounts_take_one_row():
    s = gvfx_paper.paper["distinct"]
    asked = stack(s.questions, s.world)
    assert asked.pi.shape == (1, 4, 2) and asked.pi_stride == 0
    assert asked.gamma.tolist() == [[0.99, 0.99]] and asked.gamma_stride == 0
    assert asked.pi[0, :, 0].tolist() == pytest.approx([0.175, 0.175, 0.25, 0.4])
    assert asked.pi[0, :, 1].tolist() == pytest.approx([0.25, 0.15, 0.25, 0.35])
    assert asked.names == ("left", "right")


def test_one_table_policy_gives_every_policy_a_row_per_state():
    world, questions = golden()
    asked = stack([questions[0], gvfx.GVF([0.1, 0.9], 1.0)], world)
    assert asked.pi.shape == (2, 2, 2) and asked.pi_stride == 1
    assert asked.pi[:, :, 0] == pytest.approx(np.array([[0.5, 0.5], [0.8, 0.2]]))
    assert asked.pi[:, :, 1] == pytest.approx(np.array([[0.1, 0.9], [0.1, 0.9]]))


def test_one_varying_discount_gives_every_discount_a_row_per_outcome():
    world, _ = golden()
    asked = stack([gvfx.GVF(HALF, 1.0, lambda s, a, n: 0.1 * s + 0.2 * a + 0.4 * n), gvfx.GVF(HALF, 1.0, 0.7)], world)
    assert asked.gamma.shape == (2 * 2 * 2, 2) and asked.gamma_stride == 1
    s, a, _ = np.indices(world.next.shape)
    assert asked.gamma[:, 0].reshape(2, 2, 2) == pytest.approx(0.1 * s + 0.2 * a + 0.4 * world.next)
    assert (asked.gamma[:, 1] == 0.7).all()


def test_paying_rows_reproduce_the_cumulants_and_are_few():
    s = gvfx_paper.paper["distinct"]
    asked = stack(s.questions, s.world)
    assert len(asked.mean) == 2, "two goals, two distinct rows"
    for i, question in enumerate(s.questions):
        expected = question.cumulant.tables(s.world)
        for part, table in zip((asked.mean, asked.sd, asked.carry), expected, strict=True):
            assert np.array_equal(paid(asked, part, i), np.broadcast_to(table, s.world.next.shape))


def test_questions_that_pay_nothing_have_no_rows():
    world, _ = golden()
    asked = stack([gvfx.GVF(HALF, 0.0, 0.9)], world)
    assert len(asked.mean) == 0 and (asked.pays == -1).all()


def test_weights_and_drifters():
    world = gvfx.gridworld(3, {"a": (0, 0), "b": (2, 2)})
    quarter = [0.25] * 4
    questions = [
        gvfx.GVF(quarter, gvfx.Drifter(0.5, 100, at="a"), weight=2.0),
        gvfx.GVF(quarter, gvfx.Constant(1, at="a"), weight=0.0),
        gvfx.GVF([0.1, 0.2, 0.3, 0.4], gvfx.Drifter(0.5, 100, at="a")),
        gvfx.GVF(quarter, gvfx.Drifter(0.5, 100, at="b")),
        gvfx.GVF(quarter, gvfx.Drifter(2.0, -3, at="b", advance="visit")),
    ]
    asked = stack(questions, world)
    assert asked.weights.tolist() == [2, 0, 1, 1, 1]
    assert asked.level.tolist() == [100, 0, 100, 100, -3]
    assert asked.drift_sd.tolist() == [0.5, 0, 0.5, 0.5, 2]
    assert asked.drift_on_visit.tolist() == [False, False, False, False, True]
    channel = asked.drift_channel
    assert channel[0] == channel[2], "an equal drifter at the same place is one path"
    assert len({channel[0], channel[3], channel[4]}) == 3, "another place or walk is another path"


def test_expanding_keeps_weights_and_policies():
    out = expand([gvfx.GVF(HALF, gvfx.Info("x", size=2), 0.3, weight=2.0, name="x")])
    assert [(q.name, q.weight, q.discount, q.cumulant.index) for q in out] == [("x[0]", 2, 0.3, 0), ("x[1]", 2, 0.3, 1)]
