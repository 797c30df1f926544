"""What commands print: names as text, on any terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings

import pytest
from helpers.command_line import invoke

import gvfx
from gvfx.cli.application import _one_line
from gvfx.cli.terminal import make_console, make_table

HOSTILE = "\x1b[31m\x07\u202e[bold]x[/] [/] :smile:\nnew"
SHOWN = r"\x1b[31m\x07\u202e[bold]x[/] [/] :smile:\nnew"
WORLD = """
    import gymnasium as gym
    import gvfx

    NAME = {name!r}

    def act(state):
        return [0.25, 0.25, 0.25, 0.25]

    def make():
        return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), 0.9, name=NAME), gvfx.GVF(act, 1.0, 0.9, name="b")]

    def twice():
        return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), 0.9, name=NAME)] * 2

    def endless():
        return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), 1.0, name=NAME)]

    def raising():
        raise RuntimeError(NAME)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "hostile.py").write_text(textwrap.dedent(WORLD).format(name=HOSTILE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def clean(text):
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "hostile.py:make", "--steps", 300, "--where", "start", "--save", "a.gvfx"],
        ["evaluate", "hostile.py:make", "--steps", 300, "--until", 1e-9],
        ["evaluate", "hostile.py:twice"],
        ["evaluate", "hostile.py:raising"],
        ["truth", "hostile.py:make", "--max-episodes", 20],
        ["plan", "hostile.py:make"],
        ["run", HOSTILE],
        ["evaluate", "hostile.py:make", "--steps", 50, "--json", f"{HOSTILE}/out.json"],
        [HOSTILE],
        ["run", "same", f"--{HOSTILE}"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[:36].encode("unicode_escape").decode(),
)
def test_no_name_is_obeyed(arguments, folder):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        done = invoke(*arguments)
    assert done.exit_code in (0, 2) and clean(done.output), repr(done.output)
    assert all(clean(str(each.message)) for each in warned)


def test_data_keep_the_name(folder):
    done = invoke("evaluate", "hostile.py:make", "--steps", 300, "--json", "-", "--save", "a.gvfx")
    assert json.loads(done.stdout)["names"][0] == HOSTILE
    result = gvfx.load("a.gvfx")
    assert result.names[0] == HOSTILE and SHOWN in result.summary() and clean(result.summary())
    lines = [line for line in result.summary().splitlines() if "mean over visits" in line]
    assert len(lines) == 2 and len({line.index("  mean over") for line in lines}) == 1  # still aligned


def test_a_warning_is_one_plain_line(capsys):
    _one_line("\x1b[33mWARN: over\nwritten \x1b]0;x\x07\x1b[0m")
    assert capsys.readouterr().err == "gvfx: warning: WARN: over written \\x1b]0;x\\x07\n"


def test_tables_and_lines_are_plain(capsys):
    table = make_table("name", "value")
    table.add_row(HOSTILE, "[red]1")
    console = make_console()
    console.print(table)
    console.say(HOSTILE, "b")
    console.say_titled(HOSTILE, ": 5")
    out = capsys.readouterr().out
    assert out.count(SHOWN) == 3 and "[red]1" in out and clean(out)


@pytest.mark.parametrize(
    ("shell", "code"),
    [(">&- 2>&- <&-", 0), (">/dev/full", 1), (">out.txt", 0)],
    ids=["closed", "full", "file"],
)
def test_any_output_will_do(shell, code, tmp_path):
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "²", "TERMINAL_WIDTH": "x", "LINES": "-1"}
    call = f'exec "$0" -m gvfx list {shell}'
    done = subprocess.run(["sh", "-c", call, sys.executable], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("gvfx: ") and "No space left on device" in done.stderr if code else not done.stderr
    assert done.stderr.count("\n") == code
    if shell == ">out.txt":
        assert "GVFExplorer" in (tmp_path / "out.txt").read_text(encoding="ascii")
