"""Checkpoints: a damaged one leaves the one before; states are flattened and restored exactly."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers.scanned import engine

import gvfx
from gvfx.running.checkpoint import Checkpoints, flatten, unflatten


def test_a_damaged_checkpoint_leaves_the_one_before(tmp_path):
    keeper = Checkpoints(tmp_path, "seed-0000", "me")
    for step in (1, 2, 3):
        keeper.save(step, {"x": np.array([step])})
    newest = keeper.paths[0]
    raw = bytearray(newest.read_bytes())
    raw[-1] ^= 1
    newest.write_bytes(raw)
    assert Checkpoints(tmp_path, "seed-0000", "me").load()["x"] == [2]
    newest.write_bytes(raw[:20])
    assert Checkpoints(tmp_path, "seed-0000", "me").load()["x"] == [2]
    with pytest.raises(gvfx.StoreError, match="another experiment"):
        Checkpoints(tmp_path, "seed-0000", "you").load()


@pytest.mark.full
def test_flatten_and_unflatten_are_inverse():
    e = engine()
    state = e.advance(e.begin(0), 6)
    arrays = flatten(state)
    again = unflatten(e.begin(1), arrays)
    for a, b in zip(jax.tree.leaves(arrays), jax.tree.leaves(flatten(again)), strict=True):
        np.testing.assert_array_equal(a, b)
    on, other = e.advance(again, 3), e.advance(state, 3)  # both states are given away here
    np.testing.assert_array_equal(on.replay.rows, other.replay.rows)
    arrays.pop(next(iter(arrays)))
    with pytest.raises(gvfx.StoreError, match="checkpoint"):
        unflatten(on, arrays)
