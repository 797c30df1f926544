"""The demonstrations as committed: notebooks with outputs and small, pages that quote their measured tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("objectives", "traffic", "driving")


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_hold_their_outputs_and_are_small(name):
    path = ROOT / "examples" / "demos" / f"{name}.ipynb"
    assert path.stat().st_size <= 300_000
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    outputs = [out for cell in cells for out in cell["outputs"]]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not any(out["output_type"] == "error" or out.get("name") == "stderr" for out in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_pages_quote_the_measured_ratios(name):
    folder = ROOT / "docs" / "demos"
    page, measured = (folder / f"{name}.md").read_text(), (folder / f"{name}-measured.md").read_text()
    every, middle = re.search(r"\| median .*\*\*([\d.]+)\*\*.*\*\*([\d.]+)\*\*", measured).groups()
    holds = re.search(r"Intervals that hold: (\d+ % of \d+)", measured.replace("%", " %")).group(1)
    assert f"**{every}**" in page and middle in page and holds in page
    assert f"({name}.png)" in page and f"({name}-measured.md)" in page and (folder / f"{name}.png").stat().st_size <= 150_000


@pytest.mark.parametrize("name", NAMES)
def test_packages_are_pinned(name):
    lines = (ROOT / "examples" / "demos" / f"{name}.txt").read_text().splitlines()
    assert lines and all(re.fullmatch(r"[a-z-]+==[\d.]+", line) for line in lines)
