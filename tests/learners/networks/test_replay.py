"""Replay against a plain reference: what is stored, how often it is drawn, and with what weight."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gvfx.learners.networks import deep_updates as memory

write, set_priorities = jax.jit(memory.write), jax.jit(memory.set_priorities)
draw_by_priority = jax.jit(memory.sample_prioritised)


def filled(capacity, blocks, prioritised=True, block=4):
    """A replay to which `blocks` numbered blocks were written, and the reference list of rows."""
    replay = memory.empty(capacity, 2, prioritised)
    rows = []
    for k in range(blocks):
        new = np.arange(k * block, (k + 1) * block, dtype=np.float32)
        replay = write(replay, np.stack([new, -new], axis=1))
        rows += [[x, -x] for x in new]
    return replay, np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("blocks", [1, 3, 5, 6, 11])
def test_write_keeps_the_newest(blocks):
    replay, rows = filled(20, blocks)
    expected = np.zeros((20, 2), np.float32)
    for k, row in enumerate(rows):
        expected[k % 20] = row
    np.testing.assert_array_equal(replay.rows, expected)
    stored = min(len(rows), 20)
    assert (np.asarray(replay.priorities)[:stored] == 1).all()
    assert (np.asarray(replay.priorities)[stored:] == 0).all()


def test_uniform_sampling_reaches_every_stored_row_and_no_other():
    replay, _ = filled(20, 3, prioritised=False)
    index = np.asarray(memory.sample_uniform(replay, jnp.linspace(0, 0.999999, 1200)))
    assert np.bincount(index, minlength=20).tolist() == [100] * 12 + [0] * 8


@pytest.mark.parametrize("capacity", [20, 100])
def test_prioritised_frequencies_and_weights_equal_the_reference(capacity):
    replay, _ = filled(capacity, 5)
    rng = np.random.default_rng(0)
    errors = rng.exponential(size=20)
    replay = set_priorities(replay, np.arange(20), np.float32(errors), 0.6)
    p = (errors + 1e-6) ** 0.6
    p /= p.sum()
    index, weight = draw_by_priority(replay, np.float32(rng.random(40_000)), 0.4)
    counts = np.bincount(index, minlength=20)
    assert counts[20:].sum() == 0
    np.testing.assert_allclose(counts / 40_000, p, atol=4 * np.sqrt(p.max() / 40_000))
    expected = (20 * p[np.asarray(index)]) ** -0.4
    np.testing.assert_allclose(weight, expected / expected.max(), rtol=2e-5)


def test_prioritised_draws_invert_the_cumulative_sum():
    """Index by index: the same u gives what a search in the full cumulative sum gives."""
    replay, _ = filled(60, 15)
    rng = np.random.default_rng(1)
    replay = set_priorities(replay, np.arange(60), np.float32(rng.exponential(size=60)), 1.0)
    cumulative = np.cumsum(np.asarray(replay.priorities, dtype=np.float64)[:60])
    u = (rng.random(5000) * 0.9999 + 1e-5).astype(np.float32)
    expected = np.searchsorted(cumulative, u.astype(float) * cumulative[-1], side="right")
    index, _ = draw_by_priority(replay, u, 0.5)
    assert (np.asarray(index) != expected).mean() < 0.002  # float32 sums may differ at the edges
    assert np.abs(np.asarray(index) - expected).max() <= 1


def test_new_transitions_get_the_largest_priority():
    replay, _ = filled(20, 2)
    replay = set_priorities(replay, np.array([3]), np.float32([9.0]), 1.0)
    replay = write(replay, np.zeros((4, 2), np.float32))
    np.testing.assert_allclose(np.asarray(replay.priorities)[8:12], 9.0, rtol=1e-6)
    assert np.asarray(replay.priorities)[3] == pytest.approx(9.0)


def test_priorities_do_not_drift():
    """A million updates later the priorities are those of the last errors, and draws follow them."""
    replay, _ = filled(20, 5)

    def body(k, r):
        return memory.set_priorities(r, jnp.array([k % 20]), jnp.array([(k * 7 % 13) * 100.0]), 0.6)

    replay = jax.lax.fori_loop(0, 1_000_000, body, replay)
    index, _ = draw_by_priority(replay, np.linspace(0.001, 0.999, 999, dtype=np.float32), 0.4)
    p = np.asarray(replay.priorities[:20], dtype=float)
    last = np.arange(999_980, 1_000_000)  # the update that each index saw last
    np.testing.assert_allclose(p[last % 20], ((last * 7 % 13) * 100.0 + 1e-6) ** 0.6, rtol=1e-5)
    counts = np.bincount(index, minlength=20) / 999
    np.testing.assert_allclose(counts, p / p.sum(), atol=0.003)
