"""The page of one saved result: warnings and what to collect are data, not lines of a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gvfx
import gvfx_paper
from gvfx.report.result_page import page_of
from gvfx.running.summary import collect_next, untried_shares


@pytest.fixture(scope="module")
def result():
    """Of a log in which one action of state 2 is missing."""
    rng = np.random.default_rng(5)
    s, a = rng.integers(0, 5, 60), rng.integers(0, 2, 60)
    a = np.where(s == 2, 0, a)
    s2 = np.clip(s + np.where(rng.random(60) < 0.8, 2 * a - 1, 0), 0, 4)
    log = {"observation": s, "action": a, "next_observation": s2, "terminated": s2 == 4, "reward": 1.0 * s2}
    questions = [
        gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="both,  ways: even"),  # what a parser would split at
        gvfx.GVF([1.0, 0.0], gvfx.Reward(), 0.9, name="covered"),
    ]
    return gvfx.evaluate_log(log, questions)


def test_warnings_name_the_question_and_the_share(result):
    share = 1 - result.details.experiment["support"]["both,  ways: even"]
    assert untried_shares(result.details) == {"both,  ways: even": share} and 0.05 < share < 0.1
    assert page_of(result, Path("x.gvfx")).summary.failed == (
        f"both,  ways: even: {share:.0%} of its choices were never tried.",
        "Not sure yet at the start: both,  ways: even, covered.",
    )


def test_what_to_collect_comes_first_in_the_summary(result):
    wanted = collect_next(result.details)
    assert "action 1 in 2 (seen 0 times)" in wanted
    summary = page_of(result, Path("x.gvfx")).summary
    assert summary.bullets[0] == f"Collect next: {', '.join(wanted)}."
    assert "action 1 in 2 (seen 0 times)" in summary.bullets[0]
    assert summary.failed_title == "Warnings"


def test_the_answers_come_before_what_is_known_of_the_error(result):
    summary = page_of(result, Path("x.gvfx")).summary
    assert "not sure yet which policy has the highest value" in summary.headline and "intervals below" in summary.bullets[-1]
    world = gvfx_paper.paper["distinct"]
    known = gvfx.evaluate(world.world, world.questions, gvfx.Uniform(), steps=2000, seeds=1)
    summary = page_of(known, Path("y.gvfx")).summary
    values = known.value()
    assert summary.headline == f"{known.names[0]}: {values[known.names[0]]} at the start."
    assert "against the exact truth" in summary.bullets[-1]
