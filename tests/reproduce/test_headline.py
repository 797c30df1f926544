"""The picture of the README: five lines over the same steps, from stored runs, rollouts in closed form and the limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers.prose import RESULTS

from gvfx.experiments.settings.limit_continuous import grid_rollouts, limits
from gvfx.reproduce import ITEMS, build
from gvfx.reproduce.headline import GVFX, NAMES, TIMES
from gvfx.theory.rollouts import rollout_error


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
