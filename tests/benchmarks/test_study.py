"""The harness: cases times methods times seeds, what is kept of them, tables as Markdown, and bars."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks import study as harness
from benchmarks.study import Kept, Recorder, Row, Study, at_least, at_most, markdown, of_rows, share_within, table


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """The cases, methods and seeds that were measured; what is kept goes to a new folder."""
    monkeypatch.setattr(harness, "FOLDER", tmp_path / "results")
    return []


def sums(calls, **options):
    def measure(case, method, seed):
        calls.append((case, method, seed))
        if calls[-1] == options.get("fails"):
            raise KeyboardInterrupt
        return {"sum": np.array([case + method + seed]), "name": "text"}

    def bars(found):
        for case, of in found.items():
            yield at_most(case, max(float(one["sum"][0]) for runs in of.values() for one in runs), 25, "", "")

    def shows(found):
        yield table(
            "sums", ("case", *next(iter(found.values()))), ([c, *(str(len(r)) for r in of.values())] for c, of in found.items())
        )

    kept = {"stays": options.get("stays", False)}
    return Study({"one": 1, "two": 2}, measure, bars, methods={"ten": 10, "twenty": 20}, seeds=(3, 4), shows=shows, **kept)


def run(study):
    console = Recorder(Console(file=io.StringIO(), width=200))
    return harness.run(console, "name", {"part": lambda quick: study}), console


def test_every_case_method_and_seed_is_measured_and_shown(calls):
    rows, console = run(sums(calls))
    assert calls == [(case, method, seed) for case in (1, 2) for method in (10, 20) for seed in (3, 4)]
    assert [(row.case, row.measured, row.passed) for row in rows] == [("one", "25", True), ("two", "26", False)]
    text = markdown(console.tables, "python -m benchmarks name")
    assert text.startswith("## sums\n\n| case | ten | twenty |\n| --- | --- | --- |\n| one | 2 | 2 |\n")
    assert "| two | 26 | <= 25 | FAIL |  |" in text and text.count("`python -m benchmarks name`, ") == 2


def test_a_benchmark_that_was_stopped_goes_on(calls):
    with pytest.raises(KeyboardInterrupt):
        run(sums(calls, fails=(2, 10, 4)))
    before, path = len(calls), harness.FOLDER / "bench-name.json"
    assert len(json.loads(path.read_text())["numbers"]) == before - 1
    rows, console = run(sums(calls))
    assert len(calls) == before + 3 and [row.measured for row in rows] == ["25", "26"]
    assert "5 measurements were made before" in console.file.getvalue()
    assert not path.exists()  # the next run is a new one


def test_measurements_that_stay_are_made_once(calls):
    run(sums(calls, stays=True))
    run(sums(calls, stays=True))
    assert len(calls) == 8


def test_another_version_measures_again(tmp_path):
    path = tmp_path / "new" / "kept.json"
    assert Kept(path, "gvfx 1").get("a", lambda: 1) == Kept(path, "gvfx 1").get("a", lambda: 2) == 1
    assert Kept(path, "gvfx 2").get("a", lambda: 2) == 2


@pytest.mark.parametrize(
    "given",
    [np.array([[1.0, 2.5]]), np.array([True, False]), {"a": [1, 2], "b": "x"}, [0.5, "text"], [], np.nan, np.inf],
    ids=str,
)
def test_what_is_read_is_what_was_measured(given):
    read = Study({"case": None}, lambda case: given, lambda found: ()).found()["case"]
    assert type(read) is type(given) or isinstance(read, np.ndarray)
    np.testing.assert_equal(read, given)


def test_rows_can_be_measured_at_once(calls):
    row = at_least("speed", 2.0, 3.0, "note")
    rows, _ = run(of_rows({"a": lambda: [row, row], "b": lambda: [Row("none", "", "", None)]}))
    assert rows == [row, row, Row("none", "", "", None)] and row.passed is False and row.bar == ">= 3x"


def test_measures_are_shown_by_case_and_method():
    def measure(case, method):
        return {"held %": case / 10, "width": method / 3, "runs": 1000, "errors": np.array([1.0, 3.0]), "_kept": 1, "said": "[b]"}

    study = Study({"a: b": 1, "c: d": 2}, measure, title="sums", names=("one", "two", "method"), methods={"x": 10})
    (shown,) = study.tables(study.found())
    heads = [str(column.header) for column in shown.columns]
    assert str(shown.title) == "sums" and heads == ["one", "two", "method", "held", "width", "runs", "errors", "said"]
    assert [list(column.cells)[1] for column in shown.columns] == ["c", "d", "x", "20.0%", "3.33", "1,000", "2 ± 1", "[b]"]
    median = dataclasses.replace(study, spread=harness.mean_and_median)
    assert list(next(median.tables(median.found())).columns[6].cells) == ["2 (2)"] * 2
    assert list(Study({}, measure, title="none").tables({})) == []


@pytest.mark.parametrize(
    "share, high, bar, passed", [(0.95, 0.97, "93% to 97%", True), (0.98, 0.97, "93% to 97%", False), (0.98, 1, ">= 93%", True)]
)
def test_shares_lie_between_bars(share, high, bar, passed):
    row = share_within("coverage", share, 0.93, high, "")
    assert (row.bar, row.passed, row.measured) == (bar, passed, f"{share:.1%}")
