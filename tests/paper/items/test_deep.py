"""The maps of the continuous grid: goals, trajectories, and errors cell by cell."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.results import rows_of

from gvfx_paper.items import ITEMS, Build
from gvfx_paper.items.deep import SIDE, cell_by_cell, trajectory, upright
from gvfx_paper.report.figures import draw, plt
from gvfx_paper.report.maps import Maps
from gvfx_paper.truths.lattice import lattice_points
from gvfx_paper.worlds.continuous_grid import paper_grid

ITEM = "value-error-continuous"


def test_a_sampled_trajectory_stays_on_the_map_and_goes_where_the_behaviour_says():
    up = np.zeros((SIDE * SIDE, 4))
    up[:, 2] = 1.0
    path = trajectory(up, seed=1)
    assert path.min() >= 0 and path.max() <= SIDE
    assert path[-1, 1] < 1.0 and np.all(np.diff(path[:, 1])[:-1] <= 0.2 + 1e-6)  # upwards on the map is towards row 0
    assert np.array_equal(path, trajectory(up, seed=1))


def test_the_goals_are_drawn_at_their_centres_with_their_discs(built):
    """(0.05, 0.95) and (0.95, 0.95) in the unit square are corners that four cells share; a disc's radius is one cell."""
    inside = upright(paper_grid().inside(lattice_points()).any(axis=1))
    for name in (ITEM, "variance-continuous", "behaviour-continuous"):
        for exhibit in (e for e in built[name] if isinstance(e, Maps)):
            assert np.array(exhibit.goals) == pytest.approx(np.array([(0.5, 0.5), (0.5, SIDE - 1.5)]))
            assert exhibit.radius == pytest.approx(1.0)
            assert np.array_equal(exhibit.goal_cells(), inside) and inside.sum() == 8
    fig = draw(built["variance-continuous"][0])
    discs = [(*p.center, p.radius) for p in fig.axes[0].patches]
    plt.close(fig)
    assert np.array(discs) == pytest.approx(np.array([(0.5, 0.5, 1.0), (SIDE - 1.5, 0.5, 1.0)]))


def test_there_is_one_trajectory_in_each_of_four_panels_and_its_start_is_red(built):
    sampled = next(e for e in built["behaviour-continuous"] if e.id == "trajectories-continuous")
    assert [p.title for p in sampled.panels] == ["RoundRobin τ1", "RoundRobin τ2", "GVFExplorer τ1", "GVFExplorer τ2"]
    paths = [p.paths[-1] for p in sampled.panels]
    assert all(len(path) == 1 for path in paths)
    for p in sampled.panels:
        assert np.sum(p.frames[-1]) == len(p.paths[-1][0])
    assert np.array_equal(paths[0][0][0], paths[2][0][0]) and np.array_equal(paths[1][0][0], paths[3][0][0])  # same starts
    fig = draw(sampled)
    for ax, (path,) in zip(fig.axes, paths):
        (red,) = [line for line in ax.lines if line.get_color() == "#fa5252"]
        assert np.array([*red.get_xdata(), *red.get_ydata()]) == pytest.approx(path[0] - 0.5)
    plt.close(fig)


def test_value_errors_are_the_papers_two_figures(built):
    """fig:val_error_cont_base and _ours: the mean over GVFs; fig:cont_value_error: a row per method, mean and both GVFs."""
    mean, each = (e for e in built[ITEM] if isinstance(e, Maps))
    assert [p.title for p in mean.panels] == ["RoundRobin", "GVFExplorer"] and mean.times == each.times == [900_000]
    assert each.columns == 3 and [p.title.split(":")[0] for p in each.panels] == ["RoundRobin"] * 3 + ["GVFExplorer"] * 3
    assert mean.log and each.log


def test_errors_are_compared_cell_by_cell(source):
    """GVFExplorer errs by 1 everywhere; RoundRobin by 4 inside the discs and in 98 other cells, by 0.5 in the other 294."""
    inside = paper_grid().inside(lattice_points()).any(axis=1)
    robin = np.full(400, 0.5)
    robin[inside], robin[np.flatnonzero(~inside)[:98]] = 4.0, 4.0

    def result(errors):
        values = np.broadcast_to(errors, (2, 2, 400)) * np.array([-1, 1])[:, None, None]  # one seed too low, one too high
        snapshots = [SimpleNamespace(step=900_000, values=values)]
        return SimpleNamespace(details=SimpleNamespace(snapshots=snapshots, truth=np.zeros((2, 2, 400))))

    table = cell_by_cell(Build(source, ITEMS[ITEM]), {"RoundRobin": result(robin), "GVFExplorer": result(np.ones(400))}, 0)
    rows = rows_of(table)
    everywhere, inside, outside = (rows["mean over GVFs", w] for w in ("everywhere", "in the goals' discs", "outside the discs"))
    assert [row["cells"] for row in (everywhere, inside, outside)] == ["400", "8", "392"]
    lower = "GVFExplorer is lower in"
    assert [row[lower] for row in (everywhere, inside, outside)] == ["26 %", "100 %", "25 %"]  # 106 of 400, 8 of 8, 98 of 392
    assert everywhere["median cell, RoundRobin"] == "0.5" and everywhere["mean cell, RoundRobin"] == "1.43"
    assert inside["share of the squared error, RoundRobin"] == "7 %"  # 8 * 16 / (106 * 16 + 294 / 4)
    assert inside["share of the squared error, GVFExplorer"] == "2 %"
    assert inside["share of the absolute error, RoundRobin"] == "6 %"  # 8 * 4 / (106 * 4 + 294 / 2)
    assert rows["GVF 2 (right goal)", "outside the discs"] == {**outside, "absolute error": "GVF 2 (right goal)"}
    assert "step 900,000" in table.note
