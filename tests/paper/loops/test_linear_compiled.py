"""Linear learning on the continuous grid: the compiled loop equals plain Python and keeps the world's rules."""

from __future__ import annotations

import numpy as np
import pytest

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx.testing import in_plain_python
from gvfx_paper.settings.continuous import questions
from gvfx_paper.worlds.continuous_grid import authors_grid, paper_grid

LINEAR = gvfx.LinearCertaintyEquivalence()


@pytest.fixture(scope="module")
def run():
    return open_backend(
        paper_grid(), questions(), gvfx.OptimalDesign(first=600), LINEAR, options=Options(Plan.checked(1000, 1000, ()))
    )


def test_the_loop_equals_plain_python(run):
    one, other = run.begin(3), run.begin(3)
    one.advance(400)
    other.make_room(400)
    with np.errstate(over="ignore"):  # of the random generator's words
        in_plain_python(run.loop)(other.arrays, other.grid, 400)
    for name in ("observation", "following", "action", "discount", "episode", "first"):
        assert np.array_equal(getattr(one.arrays.kept, name), getattr(other.arrays.kept, name)), name
    assert np.allclose(one.arrays.kept.cumulant, other.arrays.kept.cumulant)


def test_the_rules_of_the_world(run):
    stream = run.begin(1)
    stream.advance(20_000)
    data, world = stream.agent.data, paper_grid()
    moved = data.following - data.observation - world.step * np.array([[-1, 0], [1, 0], [0, 1], [0, -1]])[data.action]
    free = ((data.following > 0) & (data.following < 1)).all(axis=1)
    assert np.abs(moved[free]).max() <= 0.01 + 1e-6
    assert moved[free].std(axis=0) == pytest.approx(0.01 / np.sqrt(3), rel=0.05)
    entered = world.inside(data.following)
    assert ((data.discount == 0).all(axis=1) == entered.any(axis=1)).mean() > 0.9999  # rounding at the rim
    assert ((data.cumulant != 0) == entered).mean() > 0.9999
    assert not world.inside(data.observation[data.first]).any()
    assert np.bincount(data.episode).max() <= 500


def test_timeouts_terminate_in_the_authors_grid():
    run = open_backend(authors_grid(), questions(), gvfx.Uniform(), LINEAR, options=Options(Plan.checked(1200, 1200, ())))
    stream = run.begin(0)
    stream.advance(1200)
    last = np.flatnonzero(np.diff(stream.agent.data.episode))
    assert (stream.agent.data.discount[last] == 0).all()


def test_a_run_continued_from_its_state_is_the_same(run):
    whole, half, rest = run.begin(5), run.begin(5), run.begin(5)
    for stream, stops in ((whole, (300, 600, 800, 1000)), (half, (300, 600, 800))):
        for stop in stops:
            stream.advance(stop)
            stream.agent.pause(stop)
    rest.restore({name: array.copy() for name, array in half.state().items()})
    rest.advance(1000)
    assert np.array_equal(rest.data.observation, whole.data.observation)
    assert np.array_equal(rest.data.cumulant, whole.data.cumulant)


def test_answers_improve_and_have_intervals():
    result = gvfx.evaluate(paper_grid(), questions(), gvfx.Uniform(), LINEAR, steps=12_000, evaluate_every=4000, seed=2)
    assert result.details.extra["mse_outside"][0, -1].mean() < 5  # a prediction of 0 has 12.96
    assert result.intervals().shape == (2, 400, 2)
    assert result.details.truth.shape == (1, 2, 400)


def test_a_search_on_cells_counts_them_from_the_first_plan_on():
    """What it counted itself since the last plan, on top of the plan's own counts, is what the transitions say."""
    behaviour = gvfx.OptimalDesign(first=600, search=0.5)
    assert behaviour.counts_cells and not gvfx.OptimalDesign().counts_cells
    run = open_backend(paper_grid(), questions(), behaviour, LINEAR, options=Options(Plan.checked(1500, 1500, ())))
    stream = run.begin(3)
    stream.advance(600)
    assert not (stream.arrays.behaviour.search.spent.any() or stream.arrays.behaviour.search.at[0].rows > 1)
    stream.agent.pause(600)
    stream.advance(850)
    search, data, cells = stream.arrays.behaviour.search, stream.agent.data, stream.arrays.cells
    here, after = cells(data.observation), cells(data.following)
    n = np.zeros_like(search.n)
    np.add.at(n, (here, data.action), 1)
    np.testing.assert_array_equal(search.n, n)
    assert set(search.met[: search.at[0].rows]) == {*here, *after[~data.terminated]}
    assert 0 < search.spent.sum() <= 250


def test_a_run_that_searches_on_cells_continues_from_its_state():
    behaviour = gvfx.Floor(gvfx.OptimalDesign(first=300, search=0.5), 0.01)
    run = open_backend(paper_grid(), questions(), behaviour, LINEAR, options=Options(Plan.checked(900, 900, ())))
    whole, half, rest = run.begin(5), run.begin(5), run.begin(5)
    for stream, stops in ((whole, (300, 450, 600, 800)), (half, (300, 450, 600))):
        for stop in stops:
            stream.advance(stop)
            stream.agent.pause(stop)
    rest.restore(half.state())
    rest.advance(800)
    rest.pause(800)
    assert whole.data.observation.tobytes() == rest.data.observation.tobytes()
    assert all(np.array_equal(array, rest.state()[name]) for name, array in whole.state().items())
