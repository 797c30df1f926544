"""The picture of `gvfx demo`: stored errors are those of the published table, and runs made now stand beside them."""

from __future__ import annotations

import json

import numpy as np
from helpers.prose import RESULTS

from gvfx.reproduce import demo_picture
from gvfx.reproduce.headline import NAMES, TIMES

RUNS = np.array([[0.5, 0.02, 0.006], [0.3, 0.04, 0.008]])


def test_stored_errors_are_those_of_the_published_table():
    printed = [line.strip("| ").split(" | ") for line in (RESULTS / "headline.md").read_text().splitlines() if line[:1] == "|"]
    assert printed[2:] == demo_picture.stored_errors().rows()
    assert json.loads(demo_picture.STORED.read_text())["times"] == list(TIMES)


def test_errors_are_written_and_read_again(tmp_path, monkeypatch):
    found = demo_picture.stored_errors()._replace(limit=np.array([1 / 3, 2e-5]))
    monkeypatch.setattr(demo_picture, "STORED", tmp_path / "errors.json")
    demo_picture.write_errors(found, "gvfx 1", tmp_path / "errors.json")
    again = demo_picture.stored_errors()
    assert again.limit.tolist() == [0.333333, 2e-5] and np.array_equal(again.paper, found.paper)


def test_runs_stand_beside_the_stored_errors_at_the_same_times():
    figure = demo_picture.picture(RUNS)
    at = np.searchsorted(TIMES, demo_picture.NOW)
    assert list(figure.x) == list(demo_picture.NOW) and len(figure.series) == len(NAMES)
    ours, limit = figure.series[3], figure.series[4]
    assert ours.name == figure.highlight and "just now" in ours.name
    np.testing.assert_allclose([ours.mean, ours.low, ours.high], [RUNS.mean(axis=0), RUNS.min(axis=0), RUNS.max(axis=0)])
    np.testing.assert_allclose(limit.mean, demo_picture.stored_errors().limit[at])
    assert demo_picture.rows(RUNS)[3] == [ours.name, "0.4 [0.3, 0.5]", "0.03 [0.02, 0.04]", "0.007 [0.006, 0.008]"]
    assert "2 runs of this demo" in figure.note and "gvfx reproduce headline" in figure.note


def test_the_verdict_divides_by_the_error_of_gvfx():
    found = demo_picture.stored_errors()
    at = TIMES.index(demo_picture.NOW[-1])
    said = demo_picture.verdict(np.full((2, 3), found.limit[at] * 2))
    assert "2.0 times the statistical limit" in said
    assert f"Monte Carlo {found.rollouts[at] / found.limit[at] / 2:,.0f} times" in said
