"""Deep: bad options are named; options at their defaults do not change an experiment."""

from __future__ import annotations

import dataclasses

import pytest
from helpers.scanned import BEHAVIOUR, SMALL, questions

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.learners.networks.learners import Deep
from gvfx_paper.worlds.continuous_grid import paper_grid


def test_an_experiment_without_waves_is_written_as_before_there_were_any():
    parts = (paper_grid(), tuple(questions()), BEHAVIOUR)
    plain, waved = (Experiment(*parts, dataclasses.replace(SMALL, waves=k), 160, 80) for k in (0, 5))
    assert "waves" not in plain.json and '"waves":5' in waved.json.replace(" ", "")
    assert Experiment.from_json(waved.json) == waved and Experiment.from_json(plain.json) == plain


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"capacity": 25_001}, "capacity"),
        ({"batch": 0}, "batch"),
        ({"rate_q": -1.0}, "rate_q"),
        ({"replay": "lifo"}, r"learner: Deep\(replay="),
        ({"priority": "x"}, r"learner: Deep\(priority="),
        ({"beta": 2.0}, "beta"),
        ({"waves": -1}, "waves"),
    ],
)
def test_bad_options_are_named(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        Deep(**options)
