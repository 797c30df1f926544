"""The command line in a process of its own."""

from __future__ import annotations

import subprocess
import sys


def cli(*arguments, cwd=None):
    return subprocess.run([sys.executable, "-m", "gvfx.cli", *map(str, arguments)], capture_output=True, text=True, cwd=cwd)
