"""The report of all items, in a browser."""

from __future__ import annotations

from helpers.browser import Browser
from helpers.command_line import invoke
from helpers.results import SEEDS

from gvfx_paper.items import output as summary


def test_the_report_opens_and_works(results, built, tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    monkeypatch.setattr(summary, "available", lambda source: built)  # they take seconds to build
    done = invoke("report", results, "--seeds", SEEDS, "--out", page)
    assert done.exit_code == 0, done.output
    assert "left out" not in done.output
    with Browser() as browser:
        browser.open(page)
        text = browser.run("document.body.innerText")
        assert browser.errors == []
        assert "gvfx reproduce table1" in browser.run("document.body.textContent")
        assert "Theorem 4.2, for two or more GVFs" in text
        browser.run("window.dispatchEvent(new Event('beforeprint'))")  # builds the figures that are far away
        assert browser.run("document.querySelectorAll('svg path').length") > 50
        assert browser.run("document.querySelectorAll('canvas').length") >= 5


def test_the_report_of_an_empty_folder_says_what_is_missing(tmp_path):
    done = invoke("report", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "left out: table1" in done.stdout
    assert invoke("report", tmp_path / "nowhere").exit_code == 2
