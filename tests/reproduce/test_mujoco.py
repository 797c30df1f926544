"""The tables of Walker and Cheetah."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from helpers.results import rows_of

from gvfx.experiments.settings.mujoco import MujocoCurve
from gvfx.reproduce import ITEMS, Build, build
from gvfx.reproduce.mujoco import EXPLORERS, noise_floor


def test_the_control_tables_compare_with_round_robin_and_name_the_truths_noise(source):
    table, *curves = build(ITEMS["mujoco-recommended"], source)
    rows = rows_of(table)
    assert rows["walker", "at the end"]["GVFExplorer"] == "1.05 [1, 1.1]"
    assert rows["cheetah", "mean over training"]["GVFExplorer below RoundRobin"] == "80 [80, 80] %"
    assert "cheetah 0.27" in table.note
    assert [c.reference[0][1] for c in curves] == pytest.approx([noise_floor("walker"), noise_floor("cheetah")])
    trials = build(ITEMS["mujoco-trials"], source)[0]
    assert trials.best == [(3, 1), (3, 2)]  # the first trial has the smallest made-up error; three others stand above it


def test_the_stills_say_which_explorer_they_show(built, source, monkeypatch):
    """Both explorers have a row of their own; the printed one is called diverged only if its error has grown."""
    assert ITEMS["mujoco-stills"].seeds == 1
    walker, _ = built["mujoco-stills"]
    recommended, printed = EXPLORERS["recommended"], EXPLORERS["paper"]
    assert [name for name, _ in walker.rows] == [
        "RoundRobin: walk", "RoundRobin: flip", "Mixture", "Uniform", recommended, printed
    ]  # fmt: skip
    told = re.search(r"chosen by M: MSE 10 at the first measurement and 1 at the end; its actions .* of ([^.]*)\.", walker.note)
    assert len(told[1].split(", ")) == len(walker.columns) and set(told[1].split(", ")) <= {"walk", "flip"}

    def grown(b, curve):
        result = b.source.finished(curve, 1)
        old = curve == MujocoCurve("walker", "GVFExplorer")  # a run of 0.1.0 has no critics
        return replace(result, mse=result.mse[:, ::-1], critics=None if old else result.critics)

    monkeypatch.setattr(Build, "finished", grown)
    walker, cheetah = build(ITEMS["mujoco-stills"], source)
    assert [name for name, _ in walker.rows][-2:] == ["Uniform", f"{printed} (diverged)"]
    assert f"{recommended}: left out" in walker.note and cheetah.rows[-2][0].startswith(recommended)
