"""The page of a saved result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers.environments import Sound
from typer.testing import CliRunner

import gvfx
from gvfx.cli import app
from gvfx.report.page import to_json
from gvfx.report.result_page import _truth, page_of

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
    np.testing.assert_allclose(tables["error-curve"].series[1].mean, result.details.expected[:, :, 1].mean(axis=0))
    assert page.title == "Answers: Sound" and page.summary.headline == f"<r>: {result.value()['<r>']} at the start."
    assert "the truth is not known" in page.summary.bullets[-1]
    assert tables["start-plot"].panels[0].rows[1].value == result.value()["one"].value


def test_the_command_of_a_page_names_any_file_safely(tmp_path):
    result = gvfx.evaluate(Sound(), QUESTIONS, steps=200)
    commands = {item.provenance.command for section in page_of(result, Path("a b;$(x).gvfx")).sections for item in section.items}
    assert commands == {"gvfx report 'a b;$(x).gvfx'"}


def test_policies_are_compared_first_and_misses_are_marked(tmp_path):
    questions = [gvfx.GVF(pi, gvfx.Reward(), 0.9, name=name) for pi, name in (([0.5, 0.5], "even"), ([0.1, 0.9], "up"))]
    result = gvfx.evaluate(Sound(), questions, steps=3000)
    page = page_of(result, tmp_path / "x.gvfx")
    assert [section.id for section in page.sections][:2] == ["compare", "start"]
    ranking = next(item for item in page.sections[0].items if item.id == "ranking-1")
    (first, _) = result.compare().ranking
    assert ranking.rows[0][:3] == ["1", first.policy, f"{first.value:.4g}"]
    assert page.summary.headline.startswith(f"reward: {first.policy} has the highest value (probability above 0.999)")
    assert _truth(2.0, 0.5, 1.0) == "2 (outside)" and _truth(0.7, 0.5, 1.0) == "0.7" and _truth(0.7, np.nan, np.nan) == "0.7"


def test_of_many_questions_the_first_have_tables_of_their_own(tmp_path):
    many = [gvfx.GVF([0.5, 0.5], float(k), 0.5, name=f"{k}") for k in range(203)]
    page = page_of(gvfx.evaluate(Sound(), many, learner=gvfx.ExpectedSarsa(), steps=50), tmp_path / "x.gvfx")
    (predictions,) = [section for section in page.sections if section.id == "predictions"]
    assert len(predictions.items) == 200 and predictions.items[-1].title == "199"
    assert predictions.text.endswith("Shown are the first 200 of 203 questions; the file has the others.")


def test_of_many_policies_the_first_are_compared_on_the_page(tmp_path):
    many = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.5, name=f"{p:.3f}") for p in np.linspace(0.1, 0.9, 21)]
    result = gvfx.evaluate(Sound(), many, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=2000, evaluate_every=2000)
    page = page_of(result, tmp_path / "x.gvfx")
    forest, ranking, differences = page.sections[0].items
    assert len(ranking.rows) == 21 and ranking.columns[-1] == "P(21)" and len(result.compare().differences) == 210
    assert len(differences.rows) == 200 and differences.title == "reward: differences, the first 200 of 210"
    assert [len(panel.rows) for panel in forest.panels] == [21, 200]
