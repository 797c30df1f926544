"""Checkpoints: a damaged one leaves the one before; states are flattened and restored exactly."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import numpy as np
import pytest
from helpers.scanned import engine

import gvfx
from gvfx.running.checkpoint import Checkpoints, Stored, flatten, unflatten


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


class Pair(NamedTuple):
    one: np.ndarray
    other: np.ndarray


class Inner(Stored):
    kept: ClassVar = {"count": "count"}

    def __init__(self):
        self.count = 0


class Held(Stored):
    """One attribute of every kind."""

    kept: ClassVar = {
        "pair": "",
        "array": "own",
        "inner": "inner:",
        ("count", "inner.count"): "counts",
        "generator": "chance",
        "by_name": "by ",
        "rows": "rows",
        "nothing": "nothing",
    }

    def __init__(self):
        self.pair, self.array, self.inner, self.count = Pair(np.zeros(2), np.ones(1, int)), np.zeros((2, 2)), Inner(), 1
        self.generator, self.by_name, self.nothing = np.random.default_rng(3), {"a": np.zeros(3)}, None
        self.made = [1.0]

    @property
    def rows(self):
        return np.array(self.made)

    @rows.setter
    def rows(self, rows):
        self.made = rows.tolist()


def test_what_is_kept_is_restored_in_place():
    one, other = Held(), Held()
    one.pair.one[:], one.array[:], one.inner.count, one.count, one.made = (1, 2), 5.0, 7, 9, [4.0, 5.0]
    one.by_name["a"][:] = 6.0
    one.generator.random(5)
    state = {name: array.copy() for name, array in one.state().items()}
    assert sorted(state) == ["by a", "chance", "counts", "inner:count", "one", "other", "own", "rows"]
    array, named = other.array, other.by_name["a"]
    other.restore(state)
    assert other.array is array and array.max() == 5 and other.by_name["a"] is named and named.tolist() == [6.0] * 3
    assert (other.inner.count, other.count, other.made) == (7, 9, [4.0, 5.0]) and other.pair.one.tolist() == [1.0, 2.0]
    assert other.generator.random() == one.generator.random()
    with pytest.raises(gvfx.StoreError, match="own does not fit this run"):
        Held().restore(state | {"own": np.zeros(3)})


def test_audits_of_older_versions_begin_anew(tmp_path):
    keeper = Checkpoints(tmp_path, "seed-0000", "me")
    keeper.save(1, {"stream:x": np.ones(2), "stream:audits:gain": np.ones(3), "stream:whole:done": np.ones(4)})
    taken = {}
    assert keeper.restore(taken.update, lambda: {"stream:x": taken["stream:x"], "stream:whole:done": np.ones(0)})
    assert sorted(taken) == ["stream:whole:done", "stream:x"]
    with pytest.raises(gvfx.StoreError, match="does not fit this run"):
        keeper.restore(taken.update, lambda: {"stream:x": np.ones(3)})
