"""Target policies: what each kind's table is, how functions are asked, and every mistake named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gvfx
from gvfx.questions.policies import CallablePolicy, ConstantPolicy, TablePolicy, as_policy

NAN = float("nan")


def test_constant_policy_has_one_row():
    assert gvfx.constant_policy([0.25, 0.75]).table(5, 2).tolist() == [[0.25, 0.75]]


def test_table_policy_has_a_row_per_state():
    rows = [[0.5, 0.5], [1.0, 0.0]]
    assert gvfx.table_policy(rows).table(2, 2).tolist() == rows


def test_callable_policy_is_asked_at_every_state():
    policy = gvfx.callable_policy(lambda s: [1.0, 0.0] if s == 0 else [0.25, 0.75])
    assert policy.table(3, 2).tolist() == [[1.0, 0.0], [0.25, 0.75], [0.25, 0.75]]


def test_uniform_policy_fits_any_number_of_actions():
    assert gvfx.uniform_policy().table(3, 4).tolist() == [[0.25] * 4]
    assert gvfx.uniform_policy().table(3, 2).tolist() == [[0.5] * 2]


def test_mixture_policy_averages_its_parts():
    equal = gvfx.mixture_policy([[1.0, 0.0], [0.5, 0.5]])
    assert equal.table(3, 2) == pytest.approx(np.array([[0.75, 0.25]]))
    unequal = gvfx.mixture_policy([[1.0, 0.0], [0.5, 0.5]], weights=[0.2, 0.8])
    assert unequal.table(3, 2) == pytest.approx(np.array([[0.6, 0.4]]))


def test_mixture_of_a_constant_and_a_table_has_a_row_per_state():
    mixed = gvfx.mixture_policy([[1.0, 0.0], [[0.0, 1.0], [0.5, 0.5]]])
    assert mixed.table(2, 2) == pytest.approx(np.array([[0.5, 0.5], [0.75, 0.25]]))


def test_arrays_and_functions_are_accepted_as_policies():
    assert isinstance(as_policy([0.5, 0.5]), ConstantPolicy)
    assert isinstance(as_policy(np.full((3, 2), 0.5)), TablePolicy)
    assert isinstance(as_policy(lambda s: [1.0]), CallablePolicy)
    policy = gvfx.uniform_policy()
    assert as_policy(policy) is policy


def test_equal_policies_are_equal_and_hash_alike():
    assert gvfx.constant_policy([0.5, 0.5]) == gvfx.constant_policy(np.array([0.5, 0.5]))
    assert hash(gvfx.table_policy([[0.5, 0.5]])) == hash(gvfx.table_policy(np.array([[0.5, 0.5]])))
    assert gvfx.constant_policy([0.5, 0.5]) != gvfx.constant_policy([0.4, 0.6])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.floats(-9e-7, 9e-7))
def test_rows_within_the_tolerance_are_accepted_and_normalised(weights, off):
    row = np.array(weights) / sum(weights) * (1 + off)
    table = gvfx.constant_policy(row).table(1, len(row))
    assert table.sum() == pytest.approx(1, abs=1e-14)
    assert table[0] == pytest.approx(row, rel=2e-6)


@pytest.mark.parametrize("off", [2e-6, -2e-6])
def test_rows_beyond_the_tolerance_are_refused(off):
    with pytest.raises(gvfx.InputError, match=r"^policy: row 0 .* sums to"):
        gvfx.constant_policy([0.5, 0.5 + off])


@pytest.mark.parametrize("make", [gvfx.constant_policy, as_policy, lambda p: gvfx.mixture_policy([p])])
@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 0.4], r"^policy: row 0 is \[0.5, 0.4\] and sums to 0.9"),
        ([1.5, -0.5], r"^policy: row 0 .* must not be negative"),
        ([NAN, 1.0], r"^policy: row 0 .* replace NaN"),
        ([float("inf"), 0.0], r"^policy: row 0 .* replace NaN and infinity"),
        ([], r"^policy: expected shape"),
        (0.5, r"^policy: expected shape"),
        (np.full((2, 2, 2), 0.5), r"^policy: expected shape"),
        (["left", "right"], r"^policy: expected numbers"),
        ([[0.5, 0.5], [1.0]], r"^policy: expected numbers"),
    ],
)
def test_mistakes_in_probabilities_name_the_policy(make, probabilities, message):
    with pytest.raises(gvfx.InputError, match=message):
        make(probabilities)


def test_the_first_bad_row_of_a_table_is_named():
    with pytest.raises(gvfx.InputError, match=r"^policy: row 1 is \[0.2, 0.2\]"):
        gvfx.table_policy([[0.5, 0.5], [0.2, 0.2], [0.1, 0.1]])


def test_table_policy_refuses_a_single_row():
    with pytest.raises(gvfx.InputError, match=r"^policy: expected shape \[states, actions\].* use constant_policy"):
        gvfx.table_policy([0.5, 0.5])


def test_wrong_number_of_states_or_actions_names_the_field():
    with pytest.raises(gvfx.InputError, match=r"^mine: has 2 rows but the world has 3 states"):
        gvfx.table_policy([[0.5, 0.5]] * 2).table(3, 2, "mine")
    with pytest.raises(gvfx.InputError, match=r"^mine: expected 4 probabilities per row, .* but got 2"):
        gvfx.constant_policy([0.5, 0.5]).table(3, 4, "mine")
    with pytest.raises(gvfx.InputError, match=r"^mine: expected 3 probabilities per row"):
        gvfx.table_policy([[0.5, 0.5]] * 3).table(3, 3, "mine")
    with pytest.raises(gvfx.InputError, match=r"^mine: expected 4 probabilities per row"):
        gvfx.mixture_policy([[0.5, 0.5]]).table(3, 4, "mine")
    with pytest.raises(gvfx.InputError, match=r"^mine: row 2 .* sums to 0.5"):
        gvfx.callable_policy(lambda s: [0.5, 0.5 if s < 2 else 0.0]).table(3, 2, "mine")


@pytest.mark.parametrize("weights", [[0.5, 0.4], [1.0], [1.5, -0.5], [NAN, 1.0]])
def test_mistakes_in_mixture_weights(weights):
    with pytest.raises(gvfx.InputError, match=r"^weights:"):
        gvfx.mixture_policy([[0.5, 0.5], [1.0, 0.0]], weights)


def test_an_empty_mixture_is_refused():
    with pytest.raises(gvfx.InputError, match=r"^policies: the list is empty; give a mixture at least one"):
        gvfx.mixture_policy([])


def softmax_rows(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_policies_of_one_observation_and_of_batches_agree():
    weights = np.random.default_rng(0).normal(size=(4, 3))
    observations = np.random.default_rng(1).normal(size=(6, 4))
    calls = []

    def single(o):
        assert o.ndim == 1
        return softmax_rows(o @ weights)

    def batched(o):
        calls.append(len(o))
        return softmax_rows(o @ weights)

    one = gvfx.callable_policy(single).at(observations, 3)
    assert gvfx.callable_policy(batched).at(observations, 3) == pytest.approx(one)
    assert calls == [5, 6]  # one try, one batch
    declared = gvfx.callable_policy(batched, batched=True)
    assert declared.at(observations, 3) == pytest.approx(one) and calls == [5, 6, 6]
    greedy = gvfx.deterministic_policy(lambda o: np.argmax(o @ weights, axis=-1), batched=True).at(observations, 3)
    assert greedy.argmax(axis=1).tolist() == one.argmax(axis=1).tolist() and greedy.sum() == 6
    mixed = gvfx.mixture_policy([single, gvfx.uniform_policy()]).at(observations, 3)
    assert mixed == pytest.approx(one / 2 + 1 / 6)


def test_jax_functions_are_policies():
    jax = pytest.importorskip("jax")
    policy = as_policy(jax.jit(lambda s: jax.nn.softmax(jax.numpy.stack([0.1 * s, 0 * s, -0.2 * s], axis=-1))))
    table = policy.table(6, 3)
    assert table.shape == (6, 3) and table[3] == pytest.approx(softmax_rows(np.array([0.3, 0, -0.6])), rel=1e-6)


@pytest.mark.parametrize("choice", [[0, 3], [0.5, 1], [[0], [1]], lambda s: 2, lambda s: [0, 1]])
def test_deterministic_policies_must_choose_an_action(choice):
    with pytest.raises(gvfx.InputError, match="deterministic policy"):
        gvfx.deterministic_policy(choice).table(2, 2)


def test_softmax_of_scores():
    scores = np.array([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0]])
    policy = gvfx.softmax_policy(lambda s: scores[s], temperature=0.5)
    expected = np.exp(2 * scores) / np.exp(2 * scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.table(2, 3), expected)
    np.testing.assert_allclose(policy.at(np.array([1, 0]), 3), expected[::-1])
    huge = gvfx.softmax_policy(lambda s: [1e4, 0.0, -1e4])
    np.testing.assert_allclose(huge.table(1, 3), [[1, 0, 0]])
    with pytest.raises(gvfx.InputError, match="^temperature: 0 must be a number above 0"):
        gvfx.softmax_policy(lambda s: scores[s], 0)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda s: 1, r"^policy: the function returns one number .*gvfx.deterministic_policy\(function\)"),
        (lambda s: [2.0, -1.0], r"must not be negative; for logits use gvfx.softmax_policy\(function\)"),
        (lambda s: [2.0, 3.0], r"sums to 5; .* for logits use gvfx.softmax_policy\(function\)"),
    ],
)
def test_actions_and_logits_are_sent_to_the_helper_for_them(function, words):
    with pytest.raises(gvfx.InputError, match=words):
        gvfx.callable_policy(function).at(np.arange(3), 2)


def test_equal_tables_are_one_object_while_one_is_in_use():
    rows = np.full((6, 2), 0.5)
    one, other = gvfx.GVF(rows, 1.0, 0.9).policy, gvfx.GVF(rows.tolist(), 2.0, 0.9).policy
    assert one is other and one is not gvfx.GVF(np.full((5, 2), 0.5), 1.0, 0.9).policy
    rows[0] = [1.0, 0.0]
    assert gvfx.GVF(rows, 1.0, 0.9).policy != one and one.table(6, 2)[0].tolist() == [0.5, 0.5]
