"""Options are checked before a command begins: one sentence that names them, and nothing is left behind."""

from __future__ import annotations

import pytest
from helpers.command_line import invoke

from gvfx.cli import options as checks
from gvfx.errors import InputError

HUGE = str(10**400)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sweep", "same", "--workers", "0"], "--workers: 0 is too few"),
        (["reproduce", "table1", "--workers", "-1"], "--workers: -1 is too few"),
        (["run", "same", "--workers", "1000000"], "--workers: 1000000 is too many"),
        (["reproduce", "table1", "--results", ""], "--results: the text is empty"),
        (["reproduce", "table1", "--results=  "], "--results: the text is empty"),
        (["sweep", "--seeds", "99999999999999999999"], "--seeds: 99999999999999999999 is too many"),
        (["report", "results", "--seeds", "0"], "--seeds: 0 is too few"),
        (["train-targets", "walker", "walk", "--seed", "-1"], "--seed: -1 is too few"),
        (["evaluate", "x:y", "--seed", str(2**63)], "--seed: 9223372036854775808 is too many"),
        (["check", "x:y", "--steps", "0"], "--steps: 0 is too few"),
        (["check", "x:y", "--steps", HUGE], "--steps: 1000"),
        (["evaluate", "x:y", "--steps", "nan"], "--steps: 'nan' is not a whole number"),
        (["evaluate", "x:y", "--steps", "1e400"], "--steps: 1e400 is too many"),
        (["evaluate", "x:y", "--audit", "nan"], "--audit: nan is not a share"),
        (["evaluate", "x:y", "--track", "tensorboard:"], "--track: 'tensorboard:' does not say where to"),
        (["evaluate", "FrozenLake-v1", "--questions", "q.toml", "--track", "new/a.jsonl", "--where", "99"], "where: state 99"),
        (["evaluate", "x:y", "--until", "inf"], "until: inf cannot be reached"),
        (["evaluate", "x:y", "--until", "decided:-1"], "until: -1.0 is not a difference"),
        (["plan", "same", "--error", "inf"], "--error: inf does not fit"),
        (["truth", "x:y", "--absolute", "-1"], "--absolute: -1 does not fit"),
        (["truth", "x:y", "--points", "0"], "--points: 0 is too few"),
        (["evaluate", "x:y", "--save", "loop"], "--save: loop cannot be used"),
        (["evaluate", "x:y", "--questions", "/dev/zero"], "--questions: /dev/zero is a device, a pipe or a folder"),
        (["log", "/dev/zero", "--questions", "file"], "file: /dev/zero is a device, a pipe or a folder"),
        (["evaluate", "x:y", "--report", "n" * 5000], "--report: nnn"),
        (["evaluate", "x:y", "--checkpoint", "file"], "--checkpoint: file is not a folder"),
        (["reproduce", "table1", "--results", "file/below"], "--results: file is not a folder"),
        (["reproduce", "table1", "--device", "abacus"], "--device: 'abacus' is unknown"),
        (["reproduce", "table1", "--cluster", "nosuch"], "--cluster: 'nosuch' is not an address"),
        (["reproduce", "table1", "--cluster", "tcp://localhost:99999"], "--cluster: 'tcp://localhost:99999' is not an address"),
        (["run", "n" * 5000], "setting: 'nnn"),
        (["run", "same", "--where", "²", "--steps", "5"], "where: '²' is unknown"),
    ],
    ids=lambda given: " ".join(given)[:40] if isinstance(given, list) else "",
)
def test_a_bad_value_is_named(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "q.toml").write_text("[policies]\nu = 'uniform'\n[signals]\nr = 'reward'\n")
    (tmp_path / "loop").symlink_to("loop")
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(f"gvfx: {sentence}") and done.stderr.count("\n") == 1 and len(done.stderr) < 600, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop", "q.toml"]


@pytest.mark.parametrize("option", ["--json", "--save", "--report", "--checkpoint", "--track"])
def test_folders_of_a_refused_command_are_removed(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("evaluate", "nosuch:make", option, "new/deep/file")
    assert done.exit_code == 2 and list(tmp_path.iterdir()) == [], done.output
    (tmp_path / "old").mkdir()
    assert invoke("evaluate", "nosuch:make", option, "old/new/file").exit_code == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), (" 7 ", 7), ("1e6", 1_000_000), ("+3", 3), ("10.0", 10), (str(10**15 - 1), 10**15 - 1)]
)
def test_counts(text, value):
    assert checks.count_given(text, "--steps") == value


def test_the_largest_seed_is_exact():
    assert checks.count_given(str(2**63 - 1), "--seed", 0, checks.LARGEST_SEED) == 2**63 - 1
    with pytest.raises(InputError, match="is too many"):
        checks.count_given(2**63, "--seed", 0, checks.LARGEST_SEED)


def test_a_count_may_be_zero_where_that_says_something():
    assert checks.count_given("0", "--pilot", 0) == 0
    with pytest.raises(InputError, match="--pilot: -1 is too few; give at least 0"):
        checks.count_given("-1", "--pilot", 0)
