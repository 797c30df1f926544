"""Table 1, its verdicts, and the rates that the sweep chooses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.results import rows_of

from gvfx.report.statistics import Estimate
from gvfx.reproduce import ITEMS, build
from gvfx.reproduce.measures import Outcome, Verdict, ranking, verdict
from gvfx.reproduce.output import markdown
from gvfx.reproduce.tables import choose_rates, sweep_errors


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
    assert str(ranking(even)).startswith("undecided") and ranking(even).outcome is Outcome.UNDECIDED
    assert verdict(0.5, ours) is Verdict.WORSE


@pytest.mark.parametrize(
    ("explorer", "uniform", "outcome", "cell", "clause"),
    [
        (1.0, 4.0, Outcome.HOLDS, "holds: 75 % below Uniform [75, 75]", "GVFExplorer is 75 % below Uniform [75, 75]"),
        (4.0, 1.0, Outcome.DIFFERS, "differs: Uniform is lower, by 75 %", "Uniform is lower, by 75 %"),
        (1.0, 1.0, Outcome.UNDECIDED, "undecided: 0 % against Uniform [0, 0]", "undecided (0 % against Uniform [0, 0])"),
    ],
)
def test_a_ranking_is_told_in_a_table_and_in_a_sentence(explorer, uniform, outcome, cell, clause):
    ranked = ranking({"GVFExplorer": np.full(3, explorer), "Uniform": np.full(3, uniform), "SR": np.full(3, 9.0)})
    assert (ranked.baseline, ranked.outcome, str(ranked), ranked.clause) == ("Uniform", outcome, cell, clause)


def test_the_sweep_chooses_the_lowest_error(source):
    chosen = choose_rates(sweep_errors(source, "distinct", ITEMS["table2"].seeds))
    assert chosen["GVFExplorer"] == (0.5, 0.9)
    assert chosen["RoundRobin"][0] == 0.5
