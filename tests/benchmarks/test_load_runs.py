"""Load: what the measurements of long runs, many questions and long pages say."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx.benchmarks.common import load_runs
from gvfx.benchmarks.common.load_pages import page_of_figures


def test_a_long_run_tells_how_its_memory_grew():
    found = load_runs.long_run("tables", 400)
    assert set(found) == {"first", "grown", "files", "speed"} and found["first"] > 10 and found["speed"] > 0


def test_rows_hold_the_bars(monkeypatch):
    flat = {"first": 100.0, "grown": 1.0, "files": 0.0, "speed": 9.0}
    monkeypatch.setattr(load_runs, "measured", lambda *_: flat)
    assert all(row.passed for row in load_runs.memory_rows(quick=True))
    for worse in ({"grown": 11.0}, {"files": 1.0}):
        monkeypatch.setattr(load_runs, "measured", lambda *_, worse=worse: flat | worse)
        assert not any(row.passed for row in load_runs.memory_rows(quick=True))
    monkeypatch.setattr(load_runs, "browser", lambda: None)
    assert [row.passed for row in load_runs.page_rows(quick=True)] == [None]


def test_many_questions_are_asked_about_a_torus():
    world = load_runs.torus(5)
    assert world.states == 25 and world.next[0, 0].tolist() == [20, 5, 4, 1] and np.allclose(world.prob.sum(axis=2), 1)
    assert len({q.name for q in load_runs.questions_on(25, 2, 3)}) == 6
    found = load_runs.many_questions("ExpectedSarsa", 4, 1, 2, 100)
    assert (
        found["peak"] > 10
        and found["html"] > 0.01
        and found["seconds"] == pytest.approx(sum(found[part] for part in ("evaluate", "summary", "save", "load", "page")))
    )


def test_a_page_has_as_many_figures_as_asked_for():
    assert sum(len(section.items) for section in page_of_figures(45).sections) == 45
