"""The HTML report: one file, safe with any name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.pages import AWKWARD, MADE, demo

from gvfx.report import page
from gvfx.report.page import Curves, DataTable, Page, Section, Series, Summary, write_page
from gvfx_paper.report.maps import Maps, Panel


def test_one_file_that_asks_for_nothing_else(written):
    text = written.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<)]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\s(src|href)\s*=\s*[\"']?", text.split('<script type="application/json"')[0])
    assert not re.search(r"<link|@import|url\((?!#)|fetch\(|XMLHttpRequest|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text)
    assert list(written.parent.iterdir()) == [written]


def test_no_name_breaks_out_of_the_data(written):
    text = written.read_text(encoding="utf-8")
    assert text.count("</script") == 2 and "<b>" not in text and "\u2028" not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1)
    assert not set(data) & set("<>&\n")
    assert json.loads(data)["sections"][-1]["title"] == AWKWARD


def test_every_script_is_joined_into_the_page(written):
    text = written.read_text(encoding="utf-8")
    scripts = sorted((Path(page.__file__).parent / "assets").glob("*.js"))
    assert sorted(page.SCRIPTS) == [path.stem for path in scripts]
    assert all(path.read_text(encoding="utf-8") in text for path in scripts)


def test_the_title_is_escaped():
    text = page.render(Page(AWKWARD, "", Summary("", ""), ()))
    assert "<title>&lt;/script&gt;&lt;b&gt;x" in text and "<b>" not in text


def test_half_a_character_is_written_too(tmp_path):
    write_page(tmp_path / "half.html", Page("half \ud800", "\udfff", Summary("", ""), ()))
    assert "half &#55296;</title>" in (tmp_path / "half.html").read_text(encoding="utf-8")


def test_gaps_are_null_and_numbers_are_kept():
    data = json.loads(page.to_json(demo()), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    curves = data["sections"][0]["items"][0]
    assert curves["series"][5]["mean"][3] is None and curves["series"][5]["low"][0] is None
    assert curves["x"][-1] == 2_000_000
    assert page.plain([float("nan"), float("inf"), np.float32(0.5), np.int64(3), 1 / 3]) == [None, None, 0.5, 3, 0.3333333]
    arrows = data["sections"][1]["items"][1]["panels"][0]["arrows"][0]
    assert len(arrows) == 2 * 400 and arrows[:2] == [-9.5, -19]


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    write_page(path, demo())
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_page(path, demo())
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Series("a", [1], [1], [1], "red; x"), "colour"),
        (lambda: Curves("c", "", "", [1, 2], [Series("a", [1], [1], [1], "red")], "", MADE), "length 1, but 2"),
        (lambda: Maps("m", "", "", 2, 2, [], [], [1], [Panel("p", [[1, 2, 3]])], False, "", MADE), "length 3, but 4"),
        (lambda: Maps("m", "", "", 1, 1, [], [], [1, 2], [Panel("p", [[1]])], False, "", MADE), "length 1, but 2"),
        (lambda: Maps("m", "", "", 1, 1, [], [], [1], [Panel("p", [[1]], [[1]])], False, "", MADE), "length 1, but 2"),
        (lambda: Maps("m", "", "", 1, 1, [], [], [1], [Panel("p", [[1]], paths=[])], False, "", MADE), "length 0, but 1"),
        (lambda: DataTable("t", "", "", ["a", "b"], [["1"]], None, MADE), "length 1, but 2"),
        (lambda: DataTable("t", "", "", ["a"], [["1"]]), "provenance"),
        (lambda: Page("", "", Summary("", ""), (Section("a", "", ""), Section("a", "", ""))), "already taken"),
    ],
)
def test_what_cannot_be_drawn_is_refused(build, complaint):
    with pytest.raises(ValueError, match=complaint):
        build()
