"""Load: what the measurements of long runs, many questions and long pages say; times from the start of Python."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.blocks import blocks

from benchmarks import load


def test_a_long_run_tells_how_its_memory_grew():
    found = load.long_run("tables", 400)
    assert set(found) == {"first", "grown", "files", "speed"} and found["first"] > 10 and found["speed"] > 0


def test_rows_hold_the_bars(monkeypatch):
    flat = {"first": 100.0, "grown": 1.0, "files": 0.0, "speed": 9.0}
    monkeypatch.setattr(load, "apart", lambda *_: flat)
    assert all(row.passed for row in load.memory_rows(quick=True))
    for worse in ({"grown": 11.0}, {"files": 1.0}):
        monkeypatch.setattr(load, "apart", lambda *_, worse=worse: flat | worse)
        assert not any(row.passed for row in load.memory_rows(quick=True))
    monkeypatch.setattr(load, "browser", lambda: None)
    assert [row.passed for row in load.page_rows(quick=True)] == [None]


def test_many_questions_are_asked_about_a_torus():
    world = load.torus(5)
    assert world.states == 25 and world.next[0, 0].tolist() == [20, 5, 4, 1] and np.allclose(world.prob.sum(axis=2), 1)
    assert len({q.name for q in load.questions_on(25, 2, 3)}) == 6
    found = load.many_questions("ExpectedSarsa", 4, 1, 2, 100)
    assert (
        found["peak"] > 10
        and found["html"] > 0.01
        and found["seconds"] == pytest.approx(sum(found[part] for part in ("evaluate", "summary", "save", "load", "page")))
    )


def test_a_page_has_as_many_figures_as_asked_for():
    assert sum(len(section.items) for section in load.page_of_figures(45).sections) == 45


def test_the_five_lines_are_those_of_the_readme():
    (block,) = (b for b in blocks("README.md") if b.language == "python")
    shown = [line for line in block.code.splitlines() if line]
    assert shown[-1] == "print(result.compare())"
    timed = [line for line in load.FIVE_LINES.splitlines() if line and line != "print(flush=True)"]
    assert timed == [*shown[:-1], "result.compare()"]


def test_time_before_the_import_ends_does_not_count(tmp_path):
    slow = "import time\ntime.sleep(2)\n"
    assert load.start_seconds(slow, tmp_path) >= 2
    assert 0.2 <= load.start_seconds(slow + "print(flush=True)\ntime.sleep(0.2)", tmp_path, after_import=True) < 2
