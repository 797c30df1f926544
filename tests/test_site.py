"""The built site, opened from disk: links, requests, errors, search and narrow windows.  `make test-docs` builds it first."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers.browser import Browser

SITE = Path(__file__).parents[1] / "site"
PAGES = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAGES, reason="the site is not built; make test-docs builds and checks it"),
]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}  # what a browser fetches by itself


class Page(HTMLParser):
    """The links of a page, its anchors and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def read():
    return {path: Page(path) for path in PAGES}


def test_links_lead_to_pages_and_anchors(read):
    broken = []
    for path, page in read.items():
        for target in page.links + page.loads:
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = unquote(target).partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.is_file() or (anchor and file in read and anchor not in read[file].anchors | {"__skip"}):
                broken.append(f"{path.relative_to(SITE)}: {target}")
    assert not broken, "\n".join(sorted(set(broken)))


def test_pages_load_nothing_from_elsewhere(read):
    outside = {f"{path.relative_to(SITE)}: {target}" for path, page in read.items() for target in page.loads if "//" in target}
    assert not outside


def test_formulas_are_drawn():
    assert not [path for path in PAGES if 'class="arithmatex"' in path.read_text("utf-8")]
    assert "<math" in (SITE / "which-policy.html").read_text("utf-8")


def test_pages_open_without_requests_errors_or_a_sideways_scroll():
    with Browser() as browser:
        for width in (1200, 400):
            browser.look(width=width, height=800, dark=width == 400)
            wide = []
            for path in PAGES:
                browser.open(path)
                if browser.run("document.documentElement.scrollWidth") > width:
                    wide.append(path.relative_to(SITE).as_posix())
            assert not wide, f"wider than {width} pixels: {wide}"
        assert not browser.errors
        assert not [request for request in browser.requests if not request.startswith(("file:", "data:", "blob:", "about:"))]


def test_the_search_finds_a_page():
    with Browser() as browser:
        browser.open(SITE / "results" / "limit.html")
        browser.run("document.querySelector('.md-search__button').click()")
        browser.settle()
        browser.call("Input.insertText", text="stop when accurate")
        end = time.monotonic() + 10
        found = ""
        while "stop-when-accurate.html" not in found and time.monotonic() < end:
            found = browser.run(DEEP_HTML)
            time.sleep(0.1)
        assert "stop-when-accurate.html" in found
        assert not browser.errors


DEEP_HTML = """(() => { const read = (node) => [...node.querySelectorAll("*")].map(
    (one) => (one.href || "") + (one.shadowRoot ? read(one.shadowRoot) : "")).join(" "); return read(document); })()"""
