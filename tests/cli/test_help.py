"""Help of every command: complete, in step with the library, and instant."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import typer
from helpers.command_line import invoke

from gvfx.cli import app
from gvfx_paper.settings.tabular import MAIN

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
HEAVY = "{'numba', 'jax', 'numpy', 'scipy', 'matplotlib', 'mujoco'}"
HELP_ONLY = """
import sys
import gvfx, gvfx_paper
before = set(sys.modules)
from gvfx.cli import main
for arguments in {}:
    sys.argv = ["gvfx", *arguments, "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
print("HEAVY", sorted({} & (set(sys.modules) - before)))
print("COMPILERS", sorted({{"numba", "jax", "scipy", "matplotlib"}} & set(sys.modules)))
"""


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_help_imports_nothing_heavy():
    """Nothing beyond what `import gvfx, gvfx_paper` imports, in particular no compiler."""
    code = HELP_ONLY.format([[], *([name] for name in COMMANDS)], HEAVY)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "HEAVY []" in out
    assert "COMPILERS []" in out
    assert all(name in out for name in ("demo", "list", "run", "check"))


def test_all_commands_are_there():
    expected = "list init evaluate log plan check truth report run demo sweep reproduce train-targets cache"
    assert list(COMMANDS) == expected.split()
    done = invoke("--help")
    assert done.exit_code == 0 and all(f" {name} " in without_colours(done.output) for name in COMMANDS)
    assert "Show the version and exit." in done.output


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_explains_every_option(name):
    done = invoke(name, "--help")
    assert done.exit_code == 0
    printed = without_colours(done.output)
    command = COMMANDS[name]
    assert command.help.endswith((".", ")."))
    for parameter in command.params:
        assert parameter.help and parameter.help.endswith("."), parameter.name
        if not parameter.hidden:
            assert all(spelling in printed for spelling in parameter.opts), parameter.name
    if command.params:
        assert "Example" in printed and f"gvfx {name}" in printed


def test_the_old_name_of_evaluate_every_is_hidden():
    printed = without_colours(invoke("run", "--help").output)
    assert "--evaluate-every" in printed and "--every" not in printed


def test_help_names_what_the_library_has():
    printed = without_colours(invoke("sweep", "--help").output)
    words = printed.replace(",", " ").replace(")", " ").split()
    assert all(name in words for name in MAIN)
