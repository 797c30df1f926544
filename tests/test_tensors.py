"""Packed arrays: they come back, and any damage is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gvfx.tensors import CorruptFile, pack, unpack


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(position, bit):
    raw = bytearray(pack({"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], dtype=np.int32)}, {"seed": "3"}))
    raw[position % len(raw)] ^= 1 << bit
    with pytest.raises(CorruptFile, match="name.gvfx"):
        unpack(bytes(raw), "name.gvfx")


def test_pack_round_trip_and_truncation():
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "none": np.empty((0,)), "flag": np.array([True, False]), "number": np.array(3)}
    raw = pack(arrays, {"seed": "3"})
    again, metadata = unpack(raw)
    assert metadata == {"seed": "3"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].dtype == array.dtype and again[name].shape == array.shape
    for size in (0, 5, 20, len(raw) - 1):
        with pytest.raises(CorruptFile):
            unpack(raw[:size])
