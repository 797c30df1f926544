"""The first page of results has a verdict on every table, figure and theorem of the paper, and only published numbers."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from helpers.paper_labels import PAPER, WHOLE
from helpers.prose import RESULTS

from gvfx_paper.items import ITEMS
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings.tabular import MAIN, paper

make = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "make_verdicts.py"))
PAGE = (RESULTS / "README.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in PAGE.splitlines() if line.startswith("| `")]
THEOREMS = {
    "thm:behavior_update",
    "thm:behavior_improvement",
    *(f"lem:{n}" for n in ("P_inverse_exists", "spectral_radius", "inverse_matrix_exists")),
}


def test_the_page_is_what_make_verdicts_writes():
    assert make["written"](PAGE) == PAGE, "docs/results/README.md is out of date; run `python docs/make_verdicts.py`."


def test_every_label_of_the_paper_has_a_row_with_a_verdict():
    labels = {row[0].strip("` ") for row in ROWS}
    assert {label for label, *_ in PAPER} | {*WHOLE} | THEOREMS | {"algo:behavior_update", "algo:sac_gvf"} <= labels
    assert all(len(row) == 6 and re.fullmatch(r"\*[^*]+\*", row[3]) for row in ROWS)


def test_every_printed_error_and_rate_has_rows():
    says = [row[1] for row in ROWS]
    for setting in MAIN:
        for method, value in paper[setting].published.items():
            assert any(s.startswith(setting.split("-")[0]) and f"{method}: {value:g}" in s for s in says)
    for replay, words in (("uniform", "replay"), ("prioritised", "PER")):
        assert {f"{words}, {m}: {v:g}" for m, v in grid.PUBLISHED[replay].items()} <= {*says}
    assert sum(row[0] == "`tab:summary_tabular_perf`" for row in ROWS) == 2 * sum(
        len(paper[s].published) + 1 for s in MAIN if paper[s].published
    )
    assert sum(row[0] == "`tab:mse_in_cont_env`" for row in ROWS) == 2 * (5 + 5 + 4)
    assert sum(row[0] == "`tab:hyperparameters`" for row in ROWS) == 4 * 6 - 1 + 4  # every cell of Table 2


def test_commands_and_links_exist():
    for row in ROWS:
        for item, page in re.findall(r"\[`([\w-]+)`\]\(([^)#]+)", row[5]):
            assert item in ITEMS and (RESULTS / page).exists()


@pytest.mark.parametrize(
    ("printed", "cell", "verdict"),
    [
        (0.24, (0.22, 0.19, 0.25), "inside"),
        (0.24, (0.21, 0.2, 0.22), "close"),
        (2.76, (1.16, 1.0, 1.3), "lower, × 0.42"),
        (1.0, (1.36, 1.3, 1.4), "higher, × 1.4"),
    ],
)
def test_the_criterion(printed, cell, verdict):
    assert make["beside"](printed, make["Number"](*cell, "")) == verdict


def test_claims_are_judged_by_intervals():
    low, middle, high = (make["Number"](v, v - 1, v + 1, "") for v in (1, 2.5, 4))
    assert [make["below"](low, high), make["below"](high, low), make["below"](low, middle)] == [
        "holds",
        "does not hold",
        "undecided",
    ]
    assert make["together"]("holds", "undecided") == "holds in part"


def test_every_figure_says_band_seeds_and_preset(built):
    for exhibits in built.values():
        for exhibit in exhibits:
            runs = type(exhibit).__name__ in ("Curves", "Maps", "Pictures") and exhibit.provenance.hash != "none"
            assert not runs or re.search(r"Preset.* Seeds: ", exhibit.note), exhibit.id
            assert type(exhibit).__name__ != "Curves" or not runs or "95 % interval" in exhibit.note, exhibit.id
            assert not exhibit.id.startswith("mujoco") or "Constant" in str(exhibit) or "stills" in exhibit.id, exhibit.id
