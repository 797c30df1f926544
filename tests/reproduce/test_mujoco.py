"""The tables of Walker and Cheetah."""

from __future__ import annotations

import pytest
from helpers.results import rows_of

from gvfx.reproduce import ITEMS, build
from gvfx.reproduce.mujoco import noise_floor


def test_the_control_tables_compare_with_round_robin_and_name_the_truths_noise(source):
    table, *curves = build(ITEMS["mujoco-recommended"], source)
    rows = rows_of(table)
    assert rows["walker", "at the end"]["GVFExplorer"] == "1.05 [1, 1.1]"
    assert rows["cheetah", "mean over training"]["GVFExplorer below RoundRobin"] == "80 [80, 80] %"
    assert "cheetah 0.27" in table.note
    assert [c.reference[0][1] for c in curves] == pytest.approx([noise_floor("walker"), noise_floor("cheetah")])
    trials = build(ITEMS["mujoco-trials"], source)[0]
    assert trials.best == [(3, 1), (3, 2)]  # the first trial has the smallest made-up error; three others stand above it
