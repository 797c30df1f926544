"""Table 1, its verdicts, and the rates that the sweep chooses."""

from __future__ import annotations

import numpy as np
from helpers.results import rows_of

from gvfx.report.statistics import Estimate
from gvfx.reproduce.items import ITEMS
from gvfx.reproduce.output import markdown
from gvfx.reproduce.tables import choose_rates, ranking, sweep_errors, verdict
from gvfx.reproduce.tabular import build


def test_table_1_shows_the_papers_number_ours_and_a_verdict(source):
    table, verdicts, more = build(ITEMS["table1"], source)
    rows = rows_of(table)
    assert rows["same", "paper, as printed"]["GVFExplorer"] == "0.24"
    assert rows["same", "ours (paper)"]["GVFExplorer"].startswith("1.05 [")
    assert rows["same", "ours (paper)"]["GVFExplorer against the best baseline"].startswith("holds: 50 % below BPS")
    assert rows["same", "ours (paper, tuned)"]["GVFExplorer against the best baseline"].startswith("differs: Uniform is lower")
    assert rows["forty", "ours (authors)"]["BPS"] == "-"
    assert rows_of(verdicts)["same", "ours (paper)"]["BPS"] == "better"
    assert rows_of(verdicts)["same", "ours (paper)"]["GVFExplorer"] == "worse"
    assert "**1.05 [1, 1.1]**" in markdown(table)
    assert any(row[:2] == ["distinct", "SR"] and row[2] == "3.15 ± 0.15" for row in more.rows)


def test_verdicts():
    ours = Estimate(1.0, 0.8, 1.2)
    assert [verdict(p, ours) for p in (0.5, 1.1, 2.0)] == ["worse", "inside CI", "better"]
    even = {"GVFExplorer": np.array([1.0, 3.0, 2.0]), "Uniform": np.array([2.0, 1.0, 3.0])}
    assert ranking(even)[0].startswith("undecided")


def test_the_sweep_chooses_the_lowest_error(source):
    chosen = choose_rates(sweep_errors(source, "distinct", ITEMS["table2"]))
    assert chosen["GVFExplorer"] == (0.5, 0.9)
    assert chosen["RoundRobin"][0] == 0.5
