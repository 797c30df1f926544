"""The tables of the statistical limit."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.results import ASKED

from gvfx_paper.items import ITEMS, build
from gvfx_paper.settings.limit_continuous import limits


def test_the_limit_tables_show_ratios_to_the_optimum_and_steps_to_a_common_error(source):
    ratios, steps, *curves = build(ITEMS["limit-behaviours"], source)
    cells = {tuple(row[:3]): row[3:] for row in ratios.rows}
    assert cells["same", "OptimalDesign", "CE"][2] == "1.05 [0.573, 1.93]" and cells["same", "OptimalDesign", "CE"][3] == "1"
    assert cells["forty", "Mixture", "CE"][2] == "4.2 [2.29, 7.72]" and cells["forty", "Mixture", "CE"][3] == "6.5"
    assert cells["average of 4", "GVFExplorer", "Expected Sarsa"][2] == "4.2 [2.29, 7.72]"
    reached = {tuple(row[:1] + row[2:4]): row[4:] for row in steps.rows}
    assert reached["distinct", "GVFExplorer", "Expected Sarsa"] == ["2,000,000", "1/1"]
    soon = reached["distinct", "OptimalDesign", "CE"]
    assert 1_300_000 < int(soon[0].replace(",", "")) < 1_400_000  # the made-up error falls from ten times to one in equal parts
    assert len(curves) == 5 and all(np.isfinite(s.mean).all() for c in curves for s in c.series)


def test_the_drift_table_counts_from_the_papers_best_method(source):
    table = build(ITEMS["limit-drift"], source)[0]
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["OptimalDesign", "CE"][2] == "100" and rows["GVFExplorer", "Expected Sarsa"][2] == "1"


def test_coverage_counts_the_intervals_that_hold_the_truth(source):
    (table,) = build(ITEMS["coverage"], source)
    rows = {(row[0], row[1]): row[3:] for row in table.rows}
    assert set(rows) == {(s, g) for s in ("same", "distinct", "semi-greedy") for g in ("all", *ASKED[s])}
    runs, inside, endless = rows["distinct", "all"]
    assert runs == "2" and 70 < float(inside.split()[0]) < 73  # (4 + 1) of the 7 eighths that are not sure; 401 states
    assert 12 < float(endless.split()[0]) < 15


def test_stops_count_the_errors_that_are_below_the_target(source):
    (table,) = build(ITEMS["stops"], source)
    assert [row[2] for row in table.rows] == ["2 of 2"] * 3  # the made-up visits are fewer than the steps
    assert {row[3].split()[0] for row in table.rows} == {"100"}


def test_the_continuous_limit_shows_errors_coverage_and_stops(source):
    errors, constants, stops = build(ITEMS["limit-continuous"], source)
    rows = {tuple(row[:2]): row[2:] for row in errors.rows}
    optimum = limits(20)
    seeds, outside, _, ratio, held = rows["OptimalDesign", "50k"]
    assert seeds == "2" and outside == "0.021 [0.0115, 0.0386]"
    assert float(ratio.split()[0]) == pytest.approx(1050 / optimum.optimal, rel=0.01)
    assert held.startswith("62.5")  # four eighths are wide enough, one is infinite
    assert rows["Uniform", "50k"][4] == "-"
    assert constants.rows == [["20 × 20", *(f"{value:,.0f}" for value in optimum)]]
    assert optimum.certified <= optimum.optimal < optimum.uniform < optimum.mixture
    assert stops.rows[0][1] == "2 of 2" and stops.rows[0][2].split()[0] == "50"  # the second run is a tenth above the target
