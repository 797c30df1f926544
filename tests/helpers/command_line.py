"""The command line for tests: as a process of its own, or in this process."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from gvfx.cli import app


def cli(*arguments, cwd=None):
    """A finished process, with .returncode, .stdout and .stderr."""
    return subprocess.run([sys.executable, "-m", "gvfx", *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def invoke(*arguments):
    """A finished command that was run in this process, with .exit_code, .stdout, .stderr and .output (both)."""
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
