"""Completion in bash: commands, options and the names that commands take."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gvfx.behaviours.base import Behaviour
from gvfx.cli import options as completion
from gvfx.learners.base import Learner
from gvfx.names import public_classes
from gvfx_paper.cli import options as paper_names
from gvfx_paper.items import ITEMS
from gvfx_paper.settings.continuous import CONTINUOUS

START = "import sys; sys.argv = ['gvfx']; from gvfx.cli import main; main()"


def bash(*words):
    """What bash would offer for the last of these words."""
    asked = {"_GVFX_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["gvfx", *words]), "COMP_CWORD": str(len(words))}
    command = [sys.executable, "-c", START]
    return subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True).stdout.split()


def test_commands_and_options():
    assert bash("re") == ["report", "reproduce"]
    assert bash("reproduce", "--ver") == ["--verify"]


def test_names_are_offered_where_a_command_takes_them():
    assert bash("run", "dis") == ["distinct", "distinct-x2", "distinct-x4"]
    assert bash("run", "same", "--behaviour", "GVFE") == ["GVFExplorer"]


def test_a_script_for_bash_is_shown():
    command = [sys.executable, "-c", START.replace("['gvfx']", "['gvfx', '--show-completion', 'bash']")]
    env = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # whichever shell the tests run in
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "complete -o default" in shown and "gvfx" in shown


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (completion.behaviours, {*public_classes(Behaviour), "SR", "BPS"}),
        (completion.learners, {*public_classes(Learner)}),
        (paper_names.items, {*ITEMS, "tabular", "deep", "mujoco", "limit"}),
        (paper_names.presets, {"paper", "authors", "stabilised", "recommended"}),
        (paper_names.domains, {"walker", "cheetah"}),
    ],
)
def test_all_names_are_offered(offered, expected):
    assert expected <= set(offered("")) and len(offered("")) == len(set(offered("")))
    if offered is paper_names.presets:
        for name in offered(""):
            CONTINUOUS.experiment("RoundRobin", name)  # an unknown preset is refused
