"""The figures of the tabular settings show the paper's quantities, and the numbers that prose quotes are in tables."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.results import rows_of

from gvfx.report.page import Curves
from gvfx_paper.items.gridworlds import by_distance
from gvfx_paper.report.figures import draw, plt
from gvfx_paper.settings.tabular import FORTY_GOALS, RATES, paper


def exhibit(built, item, key):
    return next(e for e in built[item] if e.id == key)


def test_sensitivity_is_over_rates_with_a_line_for_each_rate_of_m(built):
    figure, table = built["sensitivity"]
    assert figure.x_label == "minimum learning rate of Q" and tuple(figure.x) == tuple(figure.x_ticks) == RATES
    baselines = ["BPS", "SR", "Uniform", "RoundRobin", "Mixture"]
    assert [s.name for s in figure.series] == [*baselines, *(f"GVFExplorer, M at {m:g}" for m in RATES)]
    assert len({s.colour for s in figure.series}) == 11
    lines = {s.name: np.asarray(s.mean) for s in figure.series}
    assert lines["GVFExplorer, M at 0.1"] == pytest.approx(1.05 * (1 + 0.8 + np.abs(np.array(RATES) - 0.5)))  # as made up
    assert [row[0] for row in table.rows] == list(lines)
    fig = draw(figure)
    (ax,) = fig.axes
    assert ax.get_xlabel() == "minimum learning rate of Q" and ax.get_xticks() == pytest.approx(RATES)
    fig.canvas.draw()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0.1", "0.25", "0.5", "0.8", "0.9", "0.95"]
    plt.close(fig)


def test_the_variance_in_fourrooms_is_shown_early_and_late(built):
    (maps,) = built["fourrooms-variance"]
    fig = draw(maps)
    assert [ax.get_title() for ax in fig.axes[:2]] == ["mean over GVFs, step 500,000", "mean over GVFs, step 4,000,000"]
    plt.close(fig)


def test_the_forty_goals_have_their_values_in_their_cells_and_no_dots(built):
    (maps,) = built["forty-goals"]
    fig = draw(maps)
    ax = fig.axes[0]
    written = {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in ax.texts}
    assert written == {divmod(state, 20): str(value) for state, value in FORTY_GOALS.items()}
    assert not ax.lines
    plt.close(fig)


def test_value_errors_of_distinct_are_compared_by_their_distance_to_the_goals(built):
    """The made-up errors of both methods are equal: 1 at the end, twice as large at first."""
    parts = by_distance(paper["distinct"].world)
    assert [cells.sum() for cells in parts.values()] == [400, 20, 110, 270]  # goals in two corners of 20 x 20
    assert np.array_equal(np.sum(list(parts.values())[1:], axis=0), np.ones(400))  # each cell is in one of them
    rows = rows_of(exhibit(built, "value-error", "value-error-parts"))
    near = rows["mean over GVFs", "up to 3 moves"]
    assert near["cells"] == "20" and near["GVFExplorer is lower in"] == "0 %" and near["mean cell, GVFExplorer"] == "1"
    assert near["share of the absolute error, GVFExplorer"] == near["share of the squared error, RoundRobin"] == "5 %"
    over_time = exhibit(built, "value-error", "value-error-times").rows
    assert [row[0] for row in over_time] == [f"{250_000 * k:,}" for k in range(1, 9)]
    assert over_time[0][-1] == "2" and over_time[-1][-1] == "1"


def test_semi_greedy_policies_have_a_table_at_published_and_tuned_rates(built):
    rows = rows_of(exhibit(built, "semi-greedy", "semi-greedy-errors"))
    assert rows["semi-greedy", "ours (paper)"]["GVFExplorer"] == "1.05 [0.573, 1.93]"
    assert rows["semi-greedy", "ours (paper, tuned)"]["Uniform"] == "0.525 [0.287, 0.965]"
    assert rows["semi-greedy", "ours (paper, tuned)"]["SR"] == "-"
    assert len(rows) == 2  # the paper prints none


@pytest.mark.parametrize(("item", "names"), [("drift", 4), ("importance-sampling", 2)])
def test_errors_at_the_end_of_an_ablation_are_in_a_table(built, item, names):
    table = exhibit(built, item, f"{item}-errors")
    assert len(table.rows) == names and all(row[1:] == ["1.05 [0.573, 1.93]", "1.05"] for row in table.rows)
    assert [row[0] for row in table.rows] == [s.name for s in exhibit(built, item, item).series]
    assert "4,000,000 steps" in table.note


def test_sr_boltzmann_stands_beside_greedy_in_a_table_and_in_figures(built):
    table, *figures = built["successor"]
    assert [f.id for f in figures] == ["successor-same", "successor-distinct"]
    assert [[s.name for s in f.series] for f in figures] == [["Boltzmann", "greedy"]] * 2
    assert [row[-1] for row in table.rows] == ["2.76", "4.1"] and table.rows[0][1:3] == ["3.15 [1.72, 5.79]"] * 2


def test_the_authors_sr_stands_beside_the_printed_number(built):
    (table,) = built["successor-authors"]
    assert [row[0] for row in table.rows] == ["same", "distinct", "semi-greedy", "fourrooms-visit", "forty"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    for name in ("SR, as launched", "SR, epsilon to 0", "SR, Boltzmann"):
        assert row[name] == "3.15 [1.72, 5.79]" and row[f"{name}: times printed"] == "1.1"  # over 2.76
    assert table.rows[2][1] == "-" and table.rows[2][3] == "-"  # no number is printed for semi-greedy policies


def test_of_lines_that_coincide_the_later_one_is_dashed_and_the_note_says_so(built):
    """In the made-up results of the drift all lines are the same."""
    figure = exhibit(built, "drift", "drift")
    assert [s.dashed for s in figure.series] == [False, True, True, True]
    assert "σ = 0.5 lies exactly on σ = 0.1" in figure.note and "(dashed)" in figure.note
    same = exhibit(built, "same", "same")
    assert not any(s.dashed for s in same.series) and "lies" not in same.note


@pytest.mark.parametrize("item", ["same", "sensitivity", "continuous", "mujoco-recommended", "limit-behaviours", "cumulants"])
def test_no_legend_lies_on_the_axes(built, item):
    figure = next(e for e in built[item] if isinstance(e, Curves))
    fig = draw(figure)
    fig.canvas.draw()
    (legend,) = fig.legends
    (ax,) = fig.axes
    below = ax.xaxis.get_tightbbox(fig.canvas.get_renderer())  # ticks and label of the axis
    box = legend.get_window_extent()
    assert ax.get_legend() is None and box.y1 <= below.y0 + 1 and box.x0 >= 0 and box.x1 <= fig.bbox.width
    assert ax.bbox.height > 0.5 * fig.bbox.height
    assert len(legend.get_texts()) == len(figure.series) + len(figure.reference)
    plt.close(fig)


def test_the_lemma_fails_under_the_explorers_fixed_point(built):
    """On none of the paper's settings does its condition hold there, and M of Eq. 4 is missing for at least one GVF in each."""
    table = exhibit(built, "lemma", "lemma")
    explorer = [row for row in table.rows if row[1] == "GVFExplorer"]
    assert [row[0] for row in explorer] == ["same", "distinct", "semi-greedy", "fourrooms", "forty"]
    assert {row[3] for row in explorer} == {"0"} and all(int(row[4]) < int(row[2]) for row in explorer)
