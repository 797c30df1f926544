"""The results pages say nothing that their tables do not hold: every number of the prose, and every "because"."""

from __future__ import annotations

import re

import pytest
from helpers.constants import constants
from helpers.prose import PAGES, RESULTS, TARGET, Claim, altered, cells_of, claims, numbers, paragraphs, table_cells

CAUSAL = re.compile(r"\b(?:because|due to|therefore|which is why|that is why|so that|since (?!then)|explains?|caused by)\b", re.I)


def found(page: str) -> list[Claim]:
    return list(claims(page, (RESULTS / page).read_text(), constants()))


@pytest.mark.parametrize("page", PAGES)
def test_every_number_is_in_a_table_that_is_linked_or_an_option_of_a_setting(page):
    lost = [str(claim) for claim in found(page) if not claim.is_held()]
    assert not lost, f"{len(lost)} numbers that no linked table holds:\n" + "\n".join(lost)


def test_a_changed_number_is_noticed():
    """Every number that is held, 5 % larger and smaller: most of these are in no table, or about something else."""
    checked = [(claim, other) for page in PAGES for claim in found(page) if claim.is_held() for other in altered(claim.shown)]
    noticed = sum(not claim.is_held(other) for claim, other in checked)
    assert len(checked) > 200 and noticed > 0.85 * len(checked), f"{noticed} of {len(checked)}"


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_that_says_why_stands_beside_the_run_that_shows_it(page):
    """Its paragraph links to a table, a figure or a page."""
    bare = [
        f"{page}:{paragraph.line}: {' '.join(sentence.split())}"
        for paragraph in paragraphs(page, (RESULTS / page).read_text())
        for _, sentence in paragraph.sentences()
        if CAUSAL.search(sentence) and not TARGET.search(paragraph.text)
    ]
    assert not bare, "reasons without a link:\n" + "\n".join(bare)


def test_every_table_that_is_made_can_be_read():
    made = [path.name for path in RESULTS.glob("*.md") if path.name not in PAGES]
    assert made and all(table_cells(name) for name in made)


# --- the reader itself -------------------------------------------------------------------------------------------

TABLE = """## Errors

| setting |  | Uniform | GVFExplorer | GVFExplorer against the best baseline |
| --- | --- | --- | --- | --- |
| same | ours | 0.861 [0.657, 1.1] | **0.22 [0.193, 0.248]** | holds: 38 % below Uniform [21, 52] |
| distinct | ours | 28.6 [25, 32] | 3.6e+08 [2.1e+08, 4.9e+08] | undecided |

Mean over 77 things.

`gvfx reproduce errors`, seeds 25 (0 to 24), gvfx 0.1.0, numpy 2.4.6
"""


@pytest.fixture
def page(monkeypatch):
    """A page about the table above; the lines that are not held."""
    monkeypatch.setattr("helpers.prose.table_cells", lambda name: cells_of(TABLE) if name == "errors.md" else ())

    def lost(text: str) -> list[str]:
        return [c.shown.text for c in claims("page.md", text, {"steps": frozenset({2e6})}) if not c.is_held()]

    return lost


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In `same` [Uniform](errors.md) has 0.86 and GVFExplorer 0.22, after 2 M steps with 25 seeds.", []),
        ("In `same` [Uniform](errors.md) has 0.87.", ["0.87"]),
        ("In `same` [Uniform](errors.md) has 0.22.", ["0.22"]),  # GVFExplorer's
        ("In `distinct` [Uniform](errors.md) has 0.86.", ["0.86"]),  # in the other setting
        ("In `same` it is 38 % [21, 52] ([table](errors.md)), not 21 %.", ["21"]),  # the end of an interval
        ("In `distinct` [Uniform](errors.md) has 29, GVFExplorer 10⁸.", []),
        ("In `distinct` [GVFExplorer](errors.md) has 10⁹.", ["10⁹"]),
        ("[Uniform](errors.md) after 2 M episodes. It makes 3 M steps, 77 times.", ["2 M", "3 M", "77"]),
        ("[See](errors.md) Theorem 4.2, Table 1, point 6 and Sutton (2018); `x = 99`.", []),
        ("In `same` ([table](errors.md)) Uniform has 0.86.\nIts interval is [0.66, 1.2].", ["1.2"]),  # still Uniform
        ("1. In `same` [Uniform](errors.md) has 0.86.\n2. Another has 0.22.\n\n```\n9 lines\n```\n\n| 9 |\n", []),
        ("Nothing is linked: 0.86.", ["0.86"]),
    ],
)
def test_numbers_are_held_by_the_cells_that_they_speak_of(page, text, expected):
    assert page(text) == expected


def test_numbers_are_read_as_they_are_shown():
    assert [(n.text, n.value) for n in numbers("1,031 and 2 M, 3.50 of 1/67, 10¹³, 16-fold (20x20)")] == [
        ("1,031", 1031),
        ("2 M", 2e6),
        ("3.50", 3.5),
        ("1", 1),
        ("67", 67),
        ("10¹³", 1e13),
        ("16", 16),
        ("20", 20),
    ]


def test_reasons_are_found():
    said = ("It fails because of noise.", "This is due to M.", "Since M is small, it waits.", "It has waited since then.")
    assert [bool(CAUSAL.search(sentence)) for sentence in said] == [True, True, True, False]
