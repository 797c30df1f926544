"""Every figure and table of the paper has an item that makes it, a published file and a place on a results page."""

from __future__ import annotations

import re

import pytest
from helpers.paper_labels import PAPER, WHOLE
from helpers.prose import PAGES, RESULTS, TARGET

from gvfx.report.page import DataTable
from gvfx_paper.items import ITEMS

EACH = pytest.mark.parametrize(
    ("label", "item", "files"),
    [pytest.param(label, item, files.split(), id=f"{label} {panel} {item}") for label, panel, item, files in PAPER],
)


def labels(item):
    return set(re.findall(r"(?:fig|tab):\w+", ITEMS[item].label))


def files_of(item, exhibits):
    """The names of the files that `write_exhibits` writes."""
    tables = {f"{item}.md" for e in exhibits if isinstance(e, DataTable)}
    return tables | {f"{e.id}.png" for e in exhibits if not isinstance(e, DataTable)}


def shown():
    """The files of the folder that the pages written by hand link to or embed."""
    return {name for page in PAGES for name in TARGET.findall((RESULTS / page).read_text())}


def refuse(what, names):
    assert not names, f"{what}: {', '.join(sorted(names))}"


@EACH
def test_a_label_of_the_paper_has_an_item_that_makes_its_files(label, item, files, built):
    whole = {figure for figure, panels in WHOLE.items() if label in panels}
    assert labels(item) & {label, *whole}
    assert set(files) <= files_of(item, built[item])


@EACH
def test_a_label_of_the_paper_is_published_and_shown(label, item, files):
    refuse("not in docs/results", [name for name in files if not (RESULTS / name).exists()])
    refuse("on no page", {*files} - shown())


def test_the_list_holds_every_label():
    """All 36 of the paper, and no item has a label that the paper does not have."""
    listed = {label for label, *_ in PAPER} | {*WHOLE}
    assert {panel for panels in WHOLE.values() for panel in panels} <= listed
    assert len(listed) == 36 and sum(label.startswith("tab:") for label in listed) == 3
    assert {label for item in ITEMS for label in labels(item)} <= listed


@pytest.mark.parametrize("item", list(ITEMS))
def test_everything_that_an_item_makes_is_published_and_shown(item, built):
    names = files_of(item, built[item])
    refuse("not in docs/results", {name for name in names if not (RESULTS / name).exists()})
    refuse("on no page", names - shown())


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_links_to_exists(page):
    names = {name.partition("#")[0] for name in TARGET.findall((RESULTS / page).read_text()) if not name.startswith("http")}
    refuse("not in docs/results", {name for name in names if not (RESULTS / name).exists()})


def test_every_file_of_the_folder_is_on_a_page():
    files = {path.name for path in RESULTS.iterdir() if path.suffix in (".md", ".png")} - {*PAGES}
    refuse("on no page", files - shown())
