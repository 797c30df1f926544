"""The grid worlds' dynamics, text maps, grouping, and every mistake a map can contain."""

import numpy as np
import pytest
from helpers.worlds import dense

import gvfx
import gvfx_paper

LEFT, RIGHT, UP, DOWN = range(4)


def onward(world, state, action):
    """{successor: probability}, without the padding."""
    row = {}
    for s_next, p in zip(world.next[state, action], world.prob[state, action], strict=True):
        if p > 0:
            row[int(s_next)] = row.get(int(s_next), 0.0) + float(p)
    return row


@pytest.fixture(scope="module")
def same():
    return gvfx_paper.paper["same"].world


def test_sizes_of_the_papers_grid(same):
    assert (same.states, same.actions, same.horizon) == (401, 4, 500)
    assert same.terminal.nonzero()[0].tolist() == [400]
    assert same.live.sum() == 400 and not same.live[400]


def test_interior_move_succeeds_with_nine_tenths_and_slips_to_the_other_three(same):
    s = 20 * 5 + 7
    ahead = {LEFT: s - 1, RIGHT: s + 1, UP: s - 20, DOWN: s + 20}
    for action in range(4):
        expected = {ahead[b]: 0.9 if b == action else 0.1 / 3 for b in range(4)}
        assert onward(same, s, action) == pytest.approx(expected)


def test_at_the_border_the_slip_goes_to_the_other_feasible_moves_only(same):
    s = 20 * 19 + 7  # bottom row: down is blocked
    assert onward(same, s, LEFT) == pytest.approx({s - 1: 0.9, s + 1: 0.05, s - 20: 0.05})
    assert onward(same, s, UP) == pytest.approx({s - 20: 0.9, s - 1: 0.05, s + 1: 0.05})


def test_a_blocked_chosen_move_stays_with_nine_tenths(same):
    s = 20 * 19 + 7
    assert onward(same, s, DOWN) == pytest.approx({s: 0.9, s - 1: 0.1 / 3, s + 1: 0.1 / 3, s - 20: 0.1 / 3})
    corner = 399
    assert onward(same, corner, RIGHT) == pytest.approx({corner: 0.9, corner - 1: 0.05, corner - 20: 0.05})
    assert onward(same, corner, LEFT) == pytest.approx({corner - 1: 0.9, corner - 20: 0.1})


@pytest.mark.parametrize("setting", ["same", "distinct", "forty", "fourrooms"])
def test_acting_in_a_goal_goes_to_the_absorbing_state_and_only_there_an_episode_ends(setting):
    world = gvfx_paper.paper[setting].world
    goals = [20 * r + c for r, c in world.layout.goals.values()]
    for s in range(400):
        for action in range(4):
            if s in goals:
                assert onward(world, s, action) == {400: 1.0}
            else:
                assert 400 not in onward(world, s, action)
    assert not world.terminal[goals].any(), "entering a goal does not end the episode"
    assert world.live[goals].all()


def test_goals_of_the_papers_settings():
    assert dict(gvfx_paper.paper["same"].world.layout.goals) == {"left": (0, 0)}
    assert dict(gvfx_paper.paper["distinct"].world.layout.goals) == {"left": (0, 0), "right": (0, 19)}
    cells = {20 * r + c for r, c in gvfx_paper.paper["forty"].world.layout.goals.values()}
    assert cells == {1, 24, 45, 130, 206, 287, 303, 378, 384, 399}


@pytest.mark.parametrize(("setting", "cells"), [("same", 399), ("distinct", 398), ("forty", 390), ("fourrooms", 363)])
def test_start_is_uniform_over_free_cells_that_are_no_goal(setting, cells):
    world = gvfx_paper.paper[setting].world
    goals = [20 * r + c for r, c in world.layout.goals.values()]
    starts = world.start > 0
    assert starts.sum() == cells
    assert world.start[starts] == pytest.approx(np.full(cells, 1 / cells))
    assert not starts[goals].any() and not starts[400]
    assert not starts[:400][world.layout.walls.ravel()].any()


def test_four_rooms_walls_and_doorways():
    world = gvfx_paper.paper["fourrooms"].world
    walls = world.layout.walls
    assert walls.sum() == 35  # row and column 10 cross once, four doorways: 20 + 20 - 1 - 4
    assert walls[10].nonzero()[0].tolist() == [c for c in range(20) if c not in (4, 15)]
    assert walls[:, 10].nonzero()[0].tolist() == [r for r in range(20) if r not in (4, 15)]
    assert not np.delete(np.delete(walls, 10, axis=0), 10, axis=1).any()
    assert world.live.sum() == 365
    assert not world.live[:400][walls.ravel()].any()
    assert onward(world, 20 * 4 + 9, RIGHT)[20 * 4 + 10] == pytest.approx(0.9), "through the doorway"


def test_a_wall_is_never_entered_and_takes_no_share_of_the_slip():
    world = gvfx_paper.paper["fourrooms"].world
    walls = set(world.layout.walls.ravel().nonzero()[0].tolist())
    s = 20 * 9 + 6  # the wall row lies below
    assert onward(world, s, DOWN) == pytest.approx({s: 0.9, s - 1: 0.1 / 3, s + 1: 0.1 / 3, s - 20: 0.1 / 3})
    assert onward(world, s, LEFT) == pytest.approx({s - 1: 0.9, s + 1: 0.05, s - 20: 0.05})
    for cell in world.live.nonzero()[0]:
        for action in range(4):
            assert not walls & onward(world, cell, action).keys()


def test_a_dead_end_has_nowhere_to_slip():
    """One feasible move: it succeeds always when chosen; the blocked ones stay with 0.9."""
    world = gvfx.gridworld("..G")
    assert onward(world, 0, RIGHT) == {1: 1.0}
    assert onward(world, 0, LEFT) == pytest.approx({0: 0.9, 1: 0.1})


def test_slip_can_be_chosen():
    world = gvfx.gridworld(3, {"G": (0, 0)}, slip=0.0)
    assert onward(world, 4, UP) == {1: 1.0}
    assert onward(world, 8, DOWN) == {8: 1.0}
    world = gvfx.gridworld(3, {"G": (0, 0)}, slip=0.4)
    assert onward(world, 4, UP) == pytest.approx({1: 0.6, 3: 0.4 / 3, 5: 0.4 / 3, 7: 0.4 / 3})


def test_a_text_map_equals_the_same_map_by_size_goals_and_walls():
    drawn = gvfx.gridworld("\n#..A\n....\nB.# \n")
    listed = gvfx.gridworld((3, 4), {"A": (0, 3), "B": (2, 0)}, walls=[(0, 0), (2, 2)])
    assert np.array_equal(dense(drawn), dense(listed))
    for name in ("start", "terminal", "live"):
        assert np.array_equal(getattr(drawn, name), getattr(listed, name)), name
    assert drawn.horizon == listed.horizon
    assert dict(drawn.layout.goals) == dict(listed.layout.goals)
    assert np.array_equal(drawn.layout.walls, listed.layout.walls)
    assert {k: v.tolist() for k, v in drawn.places.items()} == {k: v.tolist() for k, v in listed.places.items()}


def test_short_rows_of_a_text_map_are_filled_with_walls():
    world = gvfx.gridworld("..G\n.")
    assert world.layout.walls.tolist() == [[False, False, False], [False, True, True]]


def test_a_rectangular_size_is_height_then_width():
    world = gvfx.gridworld((2, 3), {"G": (1, 2)})
    assert world.states == 7
    assert onward(world, 5, LEFT) == {6: 1.0}
    assert onward(world, 0, DOWN)[3] == pytest.approx(0.9)


@pytest.mark.parametrize(("grouping", "rows"), [(1, 401), (2, 201), (4, 101)])
def test_grouping_joins_vertically_neighbouring_rows(grouping, rows):
    world = gvfx.gridworld(20, {"left": (0, 0)}, grouping=grouping)
    assert world.states == 401 and world.rows == rows
    assert world.feature.shape == (401,)
    cells = world.feature[:400].reshape(20, 20)
    assert world.feature[400] == rows - 1 and (cells < rows - 1).all()
    for r in range(20):
        first = r // grouping * grouping
        assert np.array_equal(cells[r], cells[first])
        assert len(set(cells[r])) == 20
    assert len(np.unique(world.feature)) == rows


def test_grouping_changes_what_is_seen_but_not_the_dynamics():
    plain = gvfx.gridworld(4, {"G": (0, 0)})
    grouped = gvfx.gridworld(4, {"G": (0, 0)}, grouping=2)
    assert np.array_equal(dense(plain), dense(grouped))
    assert np.array_equal(plain.start, grouped.start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 5, "goals": {"far": (5, 0)}}, r"^goals: 'far' at \(5, 0\) lies outside the 5x5 map"),
        ({"size": 5, "goals": {"far": (0, -1)}}, r"^goals: 'far' at \(0, -1\) lies outside"),
        ({"size": 5, "walls": [(0, 9)]}, r"^walls: at \(0, 9\) lies outside"),
        ({"size": 5, "goals": {"in": (1, 1)}, "walls": [(1, 1)]}, r"^goals: 'in' at \(1, 1\) lies inside a wall"),
        ({"size": "G#.\n##."}, r"^goals: 'G' at \(0, 0\) cannot be reached"),
        ({"size": "GH#.\n###."}, r"^goals: 'G' at \(0, 0\) cannot be reached"),
        ({"size": 2, "goals": {"G": (0, 0)}, "walls": [(0, 1), (1, 0), (1, 1)]}, r"^walls: no free cell is left to start in"),
        ({"size": 3, "goals": {"a": (0, 0), "b": (0, 0)}}, r"^goals: two goals share one cell"),
        ({"size": "G..\n..G"}, r"^size: goal 'G' is drawn twice"),
        ({"size": "..?"}, r"^size: row 0 of the text map has '\?'"),
        ({"size": ""}, r"^size: the text map is empty"),
        ({"size": 0}, r"^size: 0 is not a grid"),
        ({"size": (3, 0)}, r"^size: \(3, 0\) is not a grid"),
        ({"size": 5, "slip": 1.0}, r"^slip: 1.0 lies outside"),
        ({"size": 5, "slip": -0.1}, r"^slip: -0.1 lies outside"),
        ({"size": 5, "slip": float("nan")}, r"^slip: nan lies outside"),
        ({"size": 5, "horizon": 0}, r"^horizon: 0 steps"),
        ({"size": 5, "grouping": 2}, r"^grouping: 2 does not divide the 5 rows"),
        ({"size": 5, "grouping": 0}, r"^grouping: 0"),
    ],
)
def test_mistakes_in_a_map_name_the_field(arguments, message):
    with pytest.raises(gvfx.InputError, match=message):
        gvfx.gridworld(**arguments)
