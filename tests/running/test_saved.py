"""Saved results come back; damaged, foreign and missing files are refused."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.environments import Sound

import gvfx
from gvfx.tensors import pack

HALF = [0.5, 0.5]


@pytest.fixture(scope="module")
def result():
    return gvfx.evaluate(Sound(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="r")], steps=400, seeds=2)


def test_results_come_back_from_a_file(result, tmp_path):
    path = tmp_path / "answers.gvfx"
    result.save(path)
    back = gvfx.load(path)
    assert (back.names, back.seeds, back.details.experiment) == (result.names, result.seeds, result.details.experiment)
    for name in ("values", "visits", "behaviour", "steps", "mse", "truth", "episodes"):
        np.testing.assert_array_equal(getattr(back.details, name), getattr(result.details, name))
    np.testing.assert_array_equal(back.intervals(2), result.intervals(2))
    assert back.summary() == result.summary()


def test_damaged_foreign_and_missing_files_are_refused(result, tmp_path):
    path = tmp_path / "answers.gvfx"
    result.save(path)
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(gvfx.StoreError, match="damaged"):
        gvfx.load(path)
    path.write_bytes(pack({}, {"format": "other"}))
    with pytest.raises(gvfx.InputError, match="not a result of gvfx"):
        gvfx.load(path)
    path.write_bytes(pack({}, {"format": "gvfx result", "version": "9"}))
    with pytest.raises(gvfx.InputError, match="has version 9"):
        gvfx.load(path)
    with pytest.raises(gvfx.InputError, match="cannot read"):
        gvfx.load(tmp_path / "none.gvfx")
