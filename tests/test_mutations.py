"""The list of mutations: every text that it changes is there, once."""

from __future__ import annotations

import pytest
from mutation_list import MUTATIONS
from mutations import ROOT, changed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m.file}: {m.new}"[:80])
def test_the_text_occurs_exactly_once(mutation):
    changed((ROOT / "src" / mutation.file).read_text(), mutation)
    file, _, test = mutation.tests.partition("::")
    assert test.partition("[")[0] in (ROOT / file).read_text()
