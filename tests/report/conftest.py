"""The page of the tests of this folder, written once, and one browser."""

from __future__ import annotations

import pytest
from helpers.browser import Browser
from helpers.pages import demo

from gvfx.report.page import write_page


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, demo())
    return path


@pytest.fixture(scope="module")
def browser(written):
    with Browser() as shared:
        yield shared


@pytest.fixture
def tab(browser, written):
    browser.errors.clear()
    browser.requests.clear()
    browser.open(written)
    yield browser
    browser.settle()
    assert browser.errors == []
