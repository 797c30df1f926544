"""Commands whose outputs cannot be written at the end: the answers are printed, and copies are in the temporary folder."""

from __future__ import annotations

import errno
import json
import re
import tempfile

import pytest
from helpers.command_line import invoke

import gvfx
from gvfx import files

TOML = "discount = 0.9\n[policies]\nright = {action = 2}\n[signals]\ntime = 1\n"
LOG = "observation,action,next_observation,terminated,reward\n0,2,1,false,0.5\n1,2,0,true,1\n"
ASKED = ("--questions", "questions.toml")
LAKE = ("FrozenLake-v1", *ASKED)


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A folder `out` on a disk that is full once it was looked at, beside files to start from and the temporary folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.toml").write_text(TOML)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    real = files._write_scratch

    def write(scratch, *given):
        if "out" in scratch.parts:
            raise OSError(errno.ENOSPC, "No space left on device", str(scratch))
        real(scratch, *given)

    monkeypatch.setattr(files, "_write_scratch", write)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "outputs", "answer"),
    [
        (("evaluate", *LAKE, "--steps", 500), {"save": "a.gvfx", "report": "a.html", "json": "a.json"}, "right: time"),
        (("log", "log.csv", *ASKED), {"save": "a.gvfx", "report": "a.html", "json": "a.json"}, "right: time"),
        (("run", "same", "--steps", 500, "--seeds", 1), {"save": "a.gvfx", "json": "a.json"}, "average"),
        (("plan", *LAKE), {"json": "a.json"}, "No behaviour needs fewer"),
        (("truth", *LAKE, "--max-episodes", 2), {"json": "a.json"}, "right: time"),
        (("check", *LAKE, "--steps", 50), {"json": "a.json"}, "no mistakes"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_answers_are_printed_and_copies_named(full, command, outputs, answer):
    given = [text for option, name in outputs.items() for text in (f"--{option}", f"out/{name}")]
    done = invoke(*command, *given)
    assert done.exit_code == 1 and answer in done.stdout and "wrote" not in done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.count("(No space left on device); free some space") == len(outputs)
    copies = re.findall(r"A copy is in (\S+)\.(?:\s|$)", done.stderr)
    assert [copy.rpartition("/")[2] for copy in copies] == list(outputs.values())
    for copy in copies:
        assert copy.startswith(str(full / "temporary"))
        if copy.endswith(".gvfx"):
            assert gvfx.load(copy).names
        if copy.endswith(".json"):
            with open(copy) as file:
                assert json.load(file)


def test_other_outputs_are_written(full):
    done = invoke("evaluate", *LAKE, "--steps", 500, "--save", "out/a.gvfx", "--json", "-", "--report", "new/folder/a.html")
    assert done.exit_code == 1 and json.loads(done.stdout)["answers"] and "right: time" in done.stderr
    assert (full / "new" / "folder" / "a.html").is_file() and "wrote new/folder/a.html" in done.stderr


def test_without_a_temporary_folder_that_is_said_too(full, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(full / "nowhere"))
    done = invoke("log", "log.csv", *ASKED, "--save", "out/a.gvfx")
    assert done.exit_code == 1 and "right: time" in done.stdout
    assert "There is no copy either: the temporary folder cannot be used (No such file or directory)." in done.stderr
    (full / "out" / "more").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(full / "out" / "more"))
    done = invoke("log", "log.csv", *ASKED, "--save", "out/a.gvfx")
    assert done.exit_code == 1 and "right: time" in done.stdout and "There is no copy either: cannot write" in done.stderr
    assert not list((full / "out" / "more").iterdir())


def test_in_python_the_error_has_the_result_and_names_the_copy(full):
    log = {"observation": [0, 1], "action": [0, 0], "next_observation": [1, 0], "terminated": [False, True]}
    question = [gvfx.GVF(gvfx.uniform_policy(), 1.0, 0.9, name="steps")]
    with pytest.raises(gvfx.StoreError, match=r"^save: cannot write out/a.gvfx \(No space.*A copy is in .*a.gvfx\.$") as caught:
        gvfx.evaluate_log(log, question, save="out/a.gvfx")
    assert caught.value.result.names == ("steps",)
