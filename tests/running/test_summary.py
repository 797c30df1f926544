"""A result as a figure and in a notebook."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import gvfx
import gvfx_paper


@pytest.fixture(scope="module")
def result():
    questions = [
        gvfx.GVF(np.full(4, 0.25), gvfx.Reward(), 0.9, name="<b>even</b>"),
        gvfx.GVF([0.1, 0.4, 0.4, 0.1], gvfx.Reward(), 0.9, name="down"),
    ]
    return gvfx.evaluate(gym.make("FrozenLake-v1"), questions, steps=5000, where="start")


def test_values_and_differences_are_drawn_with_their_intervals(result, tmp_path):
    fig = result.plot()
    values, differences = fig.axes
    best = result.compare(simultaneous=True).ranking[0]
    assert values.get_yticklabels()[0].get_text() == best.policy
    np.testing.assert_allclose(values.lines[0].get_xdata(), [best.low, best.high])
    (away,) = result.compare(simultaneous=True).differences
    np.testing.assert_allclose(differences.lines[0].get_xdata(), [away.low, away.high])
    assert values.lines[2].get_xdata()[0] == pytest.approx(best.truth)
    fig.savefig(tmp_path / "answers.png")
    assert (tmp_path / "answers.png").stat().st_size > 5000


def test_a_notebook_shows_tables_with_names_as_text(result):
    shown = result._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;even&lt;/b&gt;" in shown
    assert f"{result.value()['down'].value:.4g}" in shown and "Summary" in shown


def test_a_result_without_starts_shows_its_predictions():
    world = gvfx_paper.paper["distinct"]
    result = gvfx.evaluate(world.world, world.questions, gvfx.Uniform(), gvfx.ExpectedSarsa(), steps=2000)
    object.__setattr__(result.details, "starts", None)
    assert len(result.plot().axes) == 2 and "interval" in result._repr_html_()


def test_names_in_a_figure_are_text(tmp_path):
    world = gvfx_paper.paper["distinct"]
    names = ("$\\frac{", "a\n\x1b[31m\ud800")
    questions = [gvfx.GVF(q.policy, q.cumulant, q.discount, name=name) for q, name in zip(world.questions, names, strict=True)]
    result = gvfx.evaluate(world.world, questions, gvfx.Uniform(), gvfx.ExpectedSarsa(), steps=2000)
    result.plot().savefig(tmp_path / "answers.png")
    object.__setattr__(result.details, "starts", None)
    result.plot().savefig(tmp_path / "answers.png")
