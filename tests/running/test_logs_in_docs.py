"""The examples of docs/logs.md run, and say what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()


def test_the_examples_about_logs_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    told: dict = {}
    for block in blocks:
        exec(block, told)
    assert (tmp_path / "answers.gvfx").exists()
    assert told["added"].sum() == 500 and (told["added"] >= 0).all()
    before, after = (result.value()["goal"] for result in (told["before"], told["result"]))
    said = capsys.readouterr().out.strip()
    assert said == f"{before} -> {after}" and f"# {said}\n" in PAGE
    assert np.isinf(before.half) and np.isfinite(after.half)
