"""The page of a saved result."""

from __future__ import annotations

import numpy as np
from helpers.environments import Sound
from typer.testing import CliRunner

import gvfx
from gvfx.cli import app
from gvfx.report.answers import page_of
from gvfx.report.page import to_json

QUESTIONS = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="<r>"), gvfx.GVF([0.2, 0.8], 1.0, 0.8, name="one")]


def test_a_saved_result_has_a_page(tmp_path, capsys):
    path = tmp_path / "answers.gvfx"
    result = gvfx.evaluate(Sound(), QUESTIONS, steps=200, seeds=2, evaluate_every=50, save=path)
    done = CliRunner().invoke(app, ["report", str(path)])
    assert done.exit_code == 0 and path.with_suffix(".html").stat().st_size > 20_000
    page = page_of(gvfx.load(path), path)
    tables = {item.id: item for section in page.sections for item in section.items}
    assert tables["asked"].rows[0][0] == "<r>" and "\\u003cr\\u003e" in to_json(page)
    row = next(row for row in tables["prediction-2"].rows if row[0] == "2")
    low, high = result.intervals(2)[1]
    assert row[1] == f"{result.predict(2)[1]:.4g}" and row[2] == f"{low:.4g} to {high:.4g}"
    assert sum(int(row[1].replace(",", "")) for row in tables["visits-table"].rows) == 400
    np.testing.assert_allclose(tables["error-curve"].series[1].mean, result.expected[:, :, 1].mean(axis=0))
    assert "the truth is not known" in page.summary.headline
