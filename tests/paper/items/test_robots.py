"""The tables of Walker and Cheetah."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.results import rows_of
from PIL import Image

from gvfx.running.result import Result
from gvfx_paper.items import ITEMS, Source, build, robots
from gvfx_paper.items.robots import EXPLORERS, at_the_end, cross, noise_floor, over_training, own
from gvfx_paper.settings.domains import INTERVENTIONS, OPTIONS, PRINTED


def test_the_control_tables_compare_with_round_robin_and_name_the_truths_noise(source):
    table, each, *curves = build(ITEMS["mujoco-recommended"], source)
    rows = rows_of(table)
    assert rows["walker", "at the end"]["GVFExplorer"] == "1.05 [0.573, 1.93]"
    assert rows["cheetah", "mean over training"]["GVFExplorer below RoundRobin"] == "80 [80, 80] %"
    assert "cheetah 0.27" in table.note
    assert [c.reference[0][1] for c in curves] == pytest.approx([noise_floor("walker"), noise_floor("cheetah")])
    assert rows["cheetah", "at the end"]["Constant"] == "329" and rows["walker", "mean over training"]["Zero"] == "1,830"
    assert all([name for name, _ in c.reference][1:] == ["Constant, without learning", "Zero, without learning"] for c in curves)
    assert rows["walker", "at the end, own points"]["Uniform"] == "1 [1, 1]"  # all answers are 1, the truth is 0
    assert {row[2] for row in each.rows} == {"walk", "flip", "run"} and each.rows[0][-1] == "10 %"
    options = build(ITEMS["mujoco-options"], source)[0]
    assert [row[1] for row in options.rows] == ["recommended", *OPTIONS, "Constant", "Zero"]


def test_what_is_above_the_constant_is_not_ranked(source, monkeypatch):
    errors = {"Uniform": np.array([300.0, 310.0]), "GVFExplorer": np.array([270.0, np.nan]), "Constant": np.array([260.0])}
    assert robots.ranked(errors) is None and robots.ranked({**errors, "Constant": np.array([275.0])}) == "GVFExplorer"
    low = {name: SimpleNamespace(**{**vars(r), "error": 0 * r.error}) for name, r in robots.unlearned("walker").items()}
    monkeypatch.setattr(robots, "unlearned", lambda name: low)
    table = build(ITEMS["mujoco-stabilised"], source)[0]
    assert rows_of(table)["walker", "at the end"]["GVFExplorer below Uniform"] == "-"
    assert {r for r, _ in table.best} == {2, 3, 6, 7}  # at own and other points the constants are as they were


def test_own_and_cross_errors_and_the_first_measurement(source):
    """Each GVF at its own target's points (the first half are the first target's), and at the other's."""
    truth, values = np.zeros((1, 2, 4)), np.array([[[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 2.0, 2.0]]])
    r = SimpleNamespace(values=values, details=SimpleNamespace(truth=truth), error=np.array([[100.0, 4.0, 2.0]]))
    assert own(r) == (1 + 4) / 2 and cross(r) == (9 + 25) / 2
    assert over_training(r) == 3 and at_the_end(r) == 2


def test_the_interventions_say_which_runs_diverged_and_when(source, monkeypatch):
    table = build(ITEMS["mujoco-interventions"], source)[0]
    assert len(table.rows) == 2 * (len(INTERVENTIONS) + 2) and rows_of(table)["walker", PRINTED]["diverged"] == "0 of 2"
    assert rows_of(table)["cheetah", "layer normalisation"]["saturated"] == "0 %"


def test_points_lookahead_and_longer_runs_are_made_of_the_recommended_method(source):
    for figure in build(ITEMS["mujoco-points"], source):
        assert [s.name for s in figure.series] == ["truth", "GVFExplorer", "RoundRobin"] and len(figure.x) == 50
    assert [row[1] for row in build(ITEMS["mujoco-lookahead"], source)[0].rows][:2] == ["none", "5 steps"]
    longer = build(ITEMS["mujoco-longer"], source)[0]
    assert [row[1] for row in longer.rows] == ["100,000", "1,000,000", "Constant", "Zero"]


def test_the_stills_say_which_explorer_they_show(built, source, monkeypatch):
    """Both explorers have a row of their own, and all behaviours are in the film."""
    assert ITEMS["mujoco-stills"].seeds == 1
    walker, _ = built["mujoco-stills"]
    recommended, stable = EXPLORERS["recommended"], EXPLORERS["stabilised"]
    assert [name for name, _ in walker.rows] == [
        "RoundRobin: walk", "RoundRobin: flip", "Mixture", "Uniform", recommended, stable
    ]  # fmt: skip
    told = re.search(
        r"mixture actor: MSE 10 at the first measurement and 1 at the end; its .* near those of ([^.]*)\.", walker.note
    )
    assert len(told[1].split(", ")) == len(walker.columns) and set(told[1].split(", ")) <= {"walk", "flip"}
    with Image.open(io.BytesIO(walker.film)) as film:
        assert film.size == (3 * 200, 2 * 150) and film.n_frames > 20

    finished = Source.finished

    def without(runs, curve):
        result = finished(runs, curve)
        held = {name: array for name, array in result.details.held.items() if name != "actor"}
        older = Result(replace(result.details, held=held))
        return older if curve.preset == "recommended" else result

    monkeypatch.setattr(Source, "finished", without)
    monkeypatch.setattr(robots, "FILMED", (0, 1))
    monkeypatch.setattr(robots, "DOMAIN_SETTINGS", {"walker": robots.DOMAIN_SETTINGS["walker"]})
    (walker,) = build(ITEMS["mujoco-stills"], source)
    assert f"{recommended}: left out" in walker.note and walker.rows[-1][0] == stable
