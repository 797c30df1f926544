"""The fault campaign with a few trials of each group; `make test-faults` runs it at full size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.__main__ import group_named, names

TESTS = Path(__file__).parent


@pytest.mark.parametrize("group", [name for name in names() if group_named(name).FAST])
def test_a_few_trials(group):
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "faults", group, "--fast"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
