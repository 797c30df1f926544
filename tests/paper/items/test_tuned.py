"""tuned.json: every mistake in it is one sentence that names the file and the entry."""

from __future__ import annotations

import json
import os

import pytest

from gvfx.errors import InputError
from gvfx_paper.items.curves import load_tuned


def test_good_rates_come_back_and_no_file_means_none(tmp_path):
    assert load_tuned(tmp_path) == {}
    (tmp_path / "tuned.json").write_text(json.dumps({"same": {"Uniform": [0.1, 1]}, "continuous": {"SR": [0.001, 0.8]}}))
    assert load_tuned(tmp_path) == {"same": {"Uniform": (0.1, 1.0)}, "continuous": {"SR": (0.001, 0.8)}}


@pytest.mark.parametrize("rates", ["x", 5, None, [], [0.1], ["0.1", "0.8"], [-0.1, 0.8], [0, 0.8], [2, 0.8], [True, 0.8]])
def test_odd_rates_are_named(rates, tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps({"same": {"Uniform": rates}}))
    with pytest.raises(InputError, match=r"tuned.json: same, Uniform: .* are not two learning rates; give numbers above 0"):
        load_tuned(tmp_path)


WRONG = {
    "": "tuned.json: damaged, this is not JSON",
    '{"same": {"Uniform": [0.1, ': "tuned.json: damaged, this is not JSON",
    "[" * 100_000: "tuned.json: damaged, this is not JSON",
    '{"same": {"Uniform": [NaN, 0.8]}}': "same, Uniform: .* are not two learning rates",
    '{"same": {"Uniform": [0.1, Infinity]}}': "same, Uniform: .* are not two learning rates",
    "[]": "give the rates as",
    '{"same": []}': "give the rates as",
    '{"sane": {}}': "'sane' is not a setting; remove it, or use one of same",
    '{"forty": {"BPS": [0.1, 0.8]}}': "forty, 'BPS' is not a method; remove it, or use one of",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:30])
def test_odd_files_are_named(text, tmp_path):
    (tmp_path / "tuned.json").write_text(text)
    with pytest.raises(InputError, match=WRONG[text]):
        load_tuned(tmp_path)


def test_what_is_no_file_is_named(tmp_path):
    os.mkfifo(tmp_path / "tuned.json")
    with pytest.raises(InputError, match=r"tuned.json: cannot be read \(is a device, a pipe or a folder\)"):
        load_tuned(tmp_path)
