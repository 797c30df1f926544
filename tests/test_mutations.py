"""The list of mutations: every text that it changes is there, once."""

from __future__ import annotations

from mutation_list import MUTATIONS
from mutations import ROOT


def test_every_text_occurs_exactly_once():
    texts = {file: (ROOT / "src" / file).read_text() for file in {mutation.file for mutation in MUTATIONS}}
    assert not [f"{m.file}: {m.old!r}" for m in MUTATIONS if texts[m.file].count(m.old) != 1]


def test_every_test_that_must_notice_a_mutation_is_there():
    for mutation in MUTATIONS:
        file, _, test = mutation.tests.partition("::")
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), mutation.tests
