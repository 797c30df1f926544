"""The examples run as they are, and stay short."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
LONG = ("cartpole", "pendulum", "scales", "two_questions")  # learn on networks, or run long


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in LONG else []) for p in EXAMPLES]
)
def test_example(path, capsys):
    assert len(path.read_text().splitlines()) <= 60
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3
