"""Random streams: the generator itself, its names, and exact sampling from given probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gvfx.rng import NAMES, alias_draw, alias_tables, choose, normal, seed_streams, uniform

WORD = 2**64 - 1
BELOW_ONE = float(np.nextafter(1.0, 0.0))


@njit
def draw_uniform(rng, stream, out):
    for i in range(len(out)):
        out[i] = uniform(rng, stream)


@njit
def draw_normal(rng, stream, out):
    for i in range(len(out)):
        out[i] = normal(rng, stream)


@njit
def pick(mu, actions, u):
    return choose(mu, actions, u)


@njit
def draw_alias(threshold, other, row, size, u):
    return alias_draw(threshold, other, row, size, u)


def rotated(word, left):
    return ((word << left) | (word >> (64 - left))) & WORD


def xoroshiro128plus(x, y):
    """Blackman and Vigna's generator (24, 16, 37) in Python integers; yields its 64-bit outputs."""
    while True:
        yield (x + y) & WORD
        y ^= x
        x, y = rotated(x, 24) ^ y ^ ((y << 16) & WORD), rotated(y, 37)


def test_uniform_is_xoroshiro128_plus():
    rng = seed_streams(5)
    reference = xoroshiro128plus(*(int(word) for word in rng[2]))
    out = np.empty(200)
    draw_uniform(rng, 2, out)
    assert out.tolist() == [(next(reference) >> 11) / 2**53 for _ in range(200)]


def test_compiled_and_plain_python_uniform_agree():
    compiled, plain = seed_streams(7), seed_streams(7)
    out = np.empty(300)
    draw_uniform(compiled, 0, out)
    with np.errstate(over="ignore"):
        again = [float(uniform.py_func(plain, 0)) for _ in range(300)]
    assert out.tolist() == again
    assert np.array_equal(compiled, plain), "both leave the same state behind"


def test_uniform_lies_in_the_half_open_unit_interval_with_the_right_moments():
    out = np.empty(100_000)
    draw_uniform(seed_streams(3), 0, out)
    assert out.min() >= 0 and out.max() < 1
    error = np.sqrt(1 / 12 / len(out))
    assert abs(out.mean() - 0.5) < 4 * error
    assert abs(np.corrcoef(out[1:], out[:-1])[0, 1]) < 4 / np.sqrt(len(out))


def test_the_same_seed_gives_the_same_words():
    words = seed_streams(11)
    assert np.array_equal(words, seed_streams(11))
    assert words.shape == (len(NAMES), 2) and words.dtype == np.uint64


def test_streams_of_different_names_and_seeds_differ():
    words = [tuple(row) for seed in range(20) for row in seed_streams(seed).tolist()]
    assert len(set(words)) == 20 * len(NAMES)
    assert len({w for row in words for w in row}) == 2 * 20 * len(NAMES)


def test_drawing_from_one_stream_leaves_the_others_alone():
    rng = seed_streams(1)
    before = rng.copy()
    draw_uniform(rng, 1, np.empty(10))
    assert (rng[1] != before[1]).any()
    assert np.array_equal(np.delete(rng, 1, axis=0), np.delete(before, 1, axis=0))


def test_streams_are_not_correlated():
    rng = seed_streams(0)
    out = np.empty((len(NAMES), 20_000))
    for stream in range(len(NAMES)):
        draw_uniform(rng, stream, out[stream])
    correlations = np.corrcoef(out) - np.eye(len(NAMES))
    assert np.abs(correlations).max() < 4 / np.sqrt(20_000)


def test_normal_has_mean_zero_and_deviation_one():
    out = np.empty(100_000)
    draw_normal(seed_streams(2), 2, out)
    n = len(out)
    assert abs(out.mean()) < 4 / np.sqrt(n)
    assert abs(out.std() - 1) < 4 / np.sqrt(2 * n)
    assert abs((out**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((out**4).mean() - 3) < 4 * np.sqrt(96 / n)


@pytest.mark.parametrize(
    ("mu", "u", "expected"),
    [
        ([0.25, 0.25, 0.5], 0.0, 0),
        ([0.25, 0.25, 0.5], np.nextafter(0.25, 0), 0),
        ([0.25, 0.25, 0.5], 0.25, 1),
        ([0.25, 0.25, 0.5], np.nextafter(0.5, 0), 1),
        ([0.25, 0.25, 0.5], 0.5, 2),
        ([0.25, 0.25, 0.5], BELOW_ONE, 2),
        ([0.0, 1.0], 0.0, 1),
        ([1.0, 0.0], BELOW_ONE, 0),
        ([0.5, 0.0, 0.5], 0.5, 2),
        ([1.0], 0.7, 0),
    ],
)
def test_choose_at_the_boundaries(mu, u, expected):
    assert pick(np.array(mu), len(mu), float(u)) == expected
    assert choose.py_func(np.array(mu), len(mu), float(u)) == expected


def test_choose_looks_at_the_given_number_of_actions_only():
    assert pick(np.array([0.5, 0.5, 0.9]), 2, BELOW_ONE) == 1


@st.composite
def distributions(draw):
    weights = draw(st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1)), min_size=1, max_size=8).filter(any))
    return np.array(weights) / sum(weights)


def reconstructed(threshold, other):
    """The distribution that alias tables of one row draw from."""
    size = len(threshold)
    found = np.zeros(size)
    for j in range(size):
        found[j] += threshold[j] / size
        found[other[j]] += (1 - threshold[j]) / size
    return found


@settings(max_examples=200, deadline=None)
@given(distributions())
def test_alias_tables_reproduce_the_probabilities(prob):
    given_prob = prob.copy()
    threshold, other = alias_tables(prob[None])
    assert reconstructed(threshold[0], other[0]) == pytest.approx(given_prob, abs=1e-14)
    assert np.array_equal(prob, given_prob), "the input is left as it was"
    assert ((threshold >= 0) & (threshold <= 1)).all()


@settings(max_examples=200, deadline=None)
@given(distributions(), st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 0.5, BELOW_ONE])))
def test_alias_draw_follows_the_tables_and_never_draws_the_impossible(prob, u):
    threshold, other = alias_tables(prob[None])
    size = len(prob)
    cell = int(u * size)
    expected = cell if u * size - cell < threshold[0, cell] else other[0, cell]
    found = draw_alias(threshold, other, 0, size, u)
    assert found == expected
    assert prob[found] > 0


def test_alias_tables_treat_each_row_on_its_own():
    prob = np.array([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    threshold, other = alias_tables(prob)
    for row in range(3):
        assert reconstructed(threshold[row], other[row]) == pytest.approx(prob[row], abs=1e-15)
    assert {draw_alias(threshold, other, 1, 3, u) for u in np.linspace(0, BELOW_ONE, 50)} == {0}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100, 1000])
def test_alias_draw_stays_in_range_for_the_largest_uniform(size):
    threshold, other = alias_tables(np.full((1, size), 1 / size))
    assert draw_alias(threshold, other, 0, size, BELOW_ONE) == size - 1


def test_alias_draw_has_the_right_frequencies():
    prob = np.array([[0.05, 0.6, 0.35]])
    threshold, other = alias_tables(prob)
    out = np.empty(20_000)
    draw_uniform(seed_streams(9), 0, out)
    counts = np.bincount([draw_alias(threshold, other, 0, 3, u) for u in out], minlength=3)
    error = np.sqrt(prob[0] * (1 - prob[0]) / len(out))
    assert (np.abs(counts / len(out) - prob[0]) < 4 * error).all()
