"""gvfx log."""

from __future__ import annotations

import json

import pytest
from helpers.command_line import invoke

import gvfx

LOG = """observation,action,next_observation,terminated,reward
0,1,1,false,0.5
1,0,2,false,1
2,1,0,true,-0.2
"""
QUESTIONS = """discount = 0.9
[policies]
both = {probabilities = [0.5, 0.5, 0.0]}
never = {action = 2}
[signals]
gain = "reward"
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "questions.toml").write_text(QUESTIONS)
    return tmp_path


def test_a_file_is_answered(files):
    done = invoke(
        "log", "log.csv", "--questions", "questions.toml", "--json", "out.json", "--save", "a.gvfx", "--report", "a.html"
    )
    assert done.exit_code == 0
    assert "never: gain  not known: nothing was tried that its policy does" in done.output
    assert "collect next: action" in done.output
    told = json.loads((files / "out.json").read_text())
    expected = gvfx.load(files / "a.gvfx").value()["both: gain"].value
    assert told["start"]["both: gain"]["value"] == expected
    assert told["start"]["never: gain"]["value"] is None
    assert set(told["collect"][0]) == {"observation", "action", "seen", "gain"}
    assert (files / "a.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("absent.csv", "--questions", "questions.toml"), "cannot read absent.csv"),
        (("log.csv", "--questions", "absent.toml"), "cannot read absent.toml"),
        (("questions.toml", "--questions", "questions.toml"), "is neither a CSV nor a Parquet file"),
    ],
)
def test_mistakes_are_one_sentence(files, arguments, said):
    done = invoke("log", *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split()) + " ".join(str(done.exception).split())
