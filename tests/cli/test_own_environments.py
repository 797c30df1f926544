"""The commands that take an environment and questions of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MADE = """
import gymnasium as gym
import gvfx

def lake():
    return gym.make("FrozenLake-v1"), [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="reward")]

def broken():
    return gym.make("FrozenLake-v1"), [gvfx.GVF([0.5, 0.5], gvfx.Info("p"), 0.9, name="p")]
"""


def cli(folder: Path, *arguments: str):
    (folder / "mine.py").write_text(MADE)
    command = [sys.executable, "-m", "gvfx", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ})


def test_the_command_prints_findings_and_exits_with_2_on_errors(tmp_path):
    done = cli(tmp_path, "check", "mine:broken")
    assert done.returncode == 2
    assert "error: p.policy: expected 4 probabilities" in done.stdout and "2 errors, 0 warnings" in done.stdout
    done = cli(tmp_path, "check", "mine:lake", "--steps", "4000")
    assert (done.returncode, done.stdout) == (0, "no mistakes found\n"), done.stderr
    done = cli(tmp_path, "check", "mine:pond")
    assert done.returncode == 2 and done.stderr == ("gvfx: target: mine has no 'pond'; its own functions are lake, broken.\n")


def test_the_command_prints_values_with_errors(tmp_path):
    done = cli(tmp_path, "truth", "mine:lake", "--max-episodes", "100", "--precision", "0.0001", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    assert "reward" in done.stdout and "not reached" in done.stdout and (tmp_path / "out.json").exists()
