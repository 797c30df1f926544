"""The picture of the README and of the demo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from helpers.prose import RESULTS

from gvfx_paper.items import ITEMS, build, headline
from gvfx_paper.items.headline import GVFX, NAMES, TIMES
from gvfx_paper.settings.limit_continuous import grid_rollouts, limits
from gvfx_paper.truths.rollouts import rollout_error

# --- The picture of the README: five lines over the same steps, from stored runs, rollouts in closed form and the limit


def test_five_lines_over_the_same_steps(source):
    table, figure = build(ITEMS["headline"], source)
    assert figure.id == "headline" and list(figure.x) == list(TIMES) and figure.highlight == GVFX
    lines = {line.name: np.asarray(line.mean) for line in figure.series}
    assert tuple(lines) == NAMES and all(np.isfinite(mean).all() for mean in lines.values())
    np.testing.assert_allclose(lines[NAMES[0]], 1.0)  # of the made-up runs, outside the goals
    np.testing.assert_allclose(lines[GVFX], 1050 / np.array(TIMES))
    np.testing.assert_allclose(lines[NAMES[4]], limits(20).optimal / np.array(TIMES))
    np.testing.assert_allclose(lines[NAMES[2]], [rollout_error(grid_rollouts(20), n) for n in TIMES])
    assert [row[0] for row in table.rows] == list(NAMES) and "2 seeds" in figure.note


def test_rollouts_of_every_point_are_far_above_the_limit():
    errors = np.array([rollout_error(grid_rollouts(20), n) for n in TIMES])
    assert (np.diff(errors) < 0).all() and (errors * TIMES > 20 * limits(20).optimal).all()


def test_the_readme_shows_the_picture_of_the_results():
    assert (Path(RESULTS).parent / "images" / "headline.png").read_bytes() == (RESULTS / "headline.png").read_bytes()


# --- The picture of `gvfx demo`: stored errors are those of the published table, and runs made now stand beside them ---


RUNS = np.array([[0.5, 0.02, 0.006], [0.3, 0.04, 0.008]])


def test_stored_errors_are_those_of_the_published_table():
    printed = [line.strip("| ").split(" | ") for line in (RESULTS / "headline.md").read_text().splitlines() if line[:1] == "|"]
    assert printed[2:] == headline.stored_errors().rows()
    assert json.loads(headline.STORED.read_text())["times"] == list(TIMES)


def test_errors_are_written_and_read_again(tmp_path, monkeypatch):
    found = headline.stored_errors()._replace(limit=np.array([1 / 3, 2e-5]))
    monkeypatch.setattr(headline, "STORED", tmp_path / "errors.json")
    headline.write_errors(found, "gvfx 1", tmp_path / "errors.json")
    again = headline.stored_errors()
    assert again.limit.tolist() == [0.333333, 2e-5] and np.array_equal(again.paper, found.paper)


def test_runs_stand_beside_the_stored_errors_at_the_same_times():
    figure = headline.picture(RUNS)
    at = np.searchsorted(TIMES, headline.NOW)
    assert list(figure.x) == list(headline.NOW) and len(figure.series) == len(NAMES)
    ours, limit = figure.series[3], figure.series[4]
    assert ours.name == figure.highlight and "just now" in ours.name
    np.testing.assert_allclose([ours.mean, ours.low, ours.high], [RUNS.mean(axis=0), RUNS.min(axis=0), RUNS.max(axis=0)])
    np.testing.assert_allclose(limit.mean, headline.stored_errors().limit[at])
    assert headline.rows(RUNS)[3] == [ours.name, "0.4 [0.3, 0.5]", "0.03 [0.02, 0.04]", "0.007 [0.006, 0.008]"]
    assert "2 runs of this demo" in figure.note and "gvfx reproduce headline" in figure.note


def test_the_verdict_divides_by_the_error_of_gvfx():
    found = headline.stored_errors()
    at = TIMES.index(headline.NOW[-1])
    said = headline.verdict(np.full((2, 3), found.limit[at] * 2))
    assert "2.0 times the statistical limit" in said
    assert f"Monte Carlo {found.rollouts[at] / found.limit[at] / 2:,.0f} times" in said
