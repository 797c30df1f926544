"""The demonstrations' notebooks run and say what they said; in an environment of their own: make test-demos."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "demos"
NUMBER = r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?"


def printed(notebook):
    """The text that every code cell printed."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(out.get("text", "") for out in cell.outputs if out.output_type == "stream") for cell in cells]


@pytest.mark.parametrize("name", ["objectives", "traffic", "driving"])
def test_notebook(name):
    committed = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    again = nbformat.from_dict(committed)
    NotebookClient(again, timeout=1800, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    for before, now in zip(printed(committed), printed(again), strict=True):
        assert re.sub(NUMBER, "#", now).split() == re.sub(NUMBER, "#", before).split()
