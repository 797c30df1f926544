"""The tables in docs/behaviours.md say what the classes declare."""

from __future__ import annotations

import runpy
from pathlib import Path

import gvfx
from gvfx.names import public_classes

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_what_make_matrix_writes():
    page = (DOCS / "behaviours.md").read_text()
    make = runpy.run_path(str(DOCS / "make_matrix.py"))
    assert make["written"](page) == page, "docs/behaviours.md is out of date; run `python docs/make_matrix.py`."


def test_every_public_behaviour_and_learner_has_its_line():
    page = (DOCS / "behaviours.md").read_text()
    for name in [*public_classes(gvfx.Behaviour), *public_classes(gvfx.Learner)]:
        assert page.count(f"\n| `{name}` |") == 1
    assert "| `OptimalDesign` | yes | yes |  |  | evidence |" in page
    assert "| `GVFExplorer` | yes | yes | yes | yes | variance |" in page
    assert "| `TwinCritics` |  |  |  | yes |  |" in page
