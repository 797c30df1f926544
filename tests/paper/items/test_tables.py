"""Table 1, its verdicts, and the rates that the sweep chooses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.results import rows_of

from gvfx_paper.items import ITEMS, build
from gvfx_paper.items.measures import Outcome, Verdict, printed_row, ranking, verdict
from gvfx_paper.items.output import markdown
from gvfx_paper.items.tables import choose_rates, sweep_errors
from gvfx_paper.report.statistics import Estimate


def test_table_1_shows_the_papers_number_ours_and_a_verdict(source):
    table, verdicts, more = build(ITEMS["table1"], source)
    rows = rows_of(table)
    assert rows["same", "paper, as printed"]["GVFExplorer"] == "0.24"
    assert rows["same", "ours (paper)"]["GVFExplorer"].startswith("1.05 [")
    assert rows["same", "ours (paper)"]["GVFExplorer against the best baseline"].startswith("holds: 50 % below BPS")
    assert rows["same", "ours (paper, tuned)"]["GVFExplorer against the best baseline"].startswith("differs: Uniform is lower")
    assert rows["forty", "ours (authors)"]["BPS"] == "-"
    printed = {
        setting: row["GVFExplorer against the best baseline"] for (setting, name), row in rows.items() if "printed" in name
    }
    leads = {"same": 79, "distinct": 91, "fourrooms": 48, "fourrooms-visit": 48, "forty": 29}  # tab:summary_tabular_perf
    assert printed == {setting: f"{lead} % below" for setting, lead in leads.items()}
    assert rows_of(verdicts)["same", "ours (paper)"]["BPS"] == "better"
    assert rows_of(verdicts)["same", "ours (paper)"]["GVFExplorer"] == "worse"
    assert "**1.05 [0.573, 1.93]**" in markdown(table)
    assert any(row[:2] == ["distinct", "SR"] and row[2] == "3.15 ± 0.15" for row in more.rows)


def test_the_papers_row_has_what_it_prints_and_nothing_else(source):
    """tab:mse_in_cont_env prints 69 % and 66 %; a lead that the paper does not print is left out, not computed."""
    rows = rows_of(build(ITEMS["table3"], source)[0])
    printed = [rows[replay, "paper, as printed"] for replay in ("replay", "PER")]
    assert [row["GVFExplorer against the best baseline"] for row in printed] == ["69 % below", "66 % below"]
    assert [row["Uniform"] for row in printed] == ["-", "-"]
    row = printed_row("semi-greedy", {"GVFExplorer": 1.0, "SR": 4.0}, None, ["SR", "BPS", "GVFExplorer"])
    assert row == ["semi-greedy", "paper, as printed", "4", "-", "1", "-"]


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
    chosen = choose_rates(sweep_errors(source, "distinct"))
    assert chosen["GVFExplorer"] == (0.5, 0.9)
    assert chosen["RoundRobin"][0] == 0.5
