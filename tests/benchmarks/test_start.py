"""Times from the start of Python: measured from where they should be, on the README's own lines."""

from __future__ import annotations

from helpers.blocks import blocks

from gvfx.benchmarks import start


def test_the_five_lines_are_those_of_the_readme():
    (block,) = (b for b in blocks("README.md") if b.language == "python")
    shown = [line for line in block.code.splitlines() if line]
    assert shown[-1] == "print(result.compare())"
    timed = [line for line in start.FIVE_LINES.splitlines() if line and line != "print(flush=True)"]
    assert timed == [*shown[:-1], "result.compare()"]


def test_time_before_the_import_ends_does_not_count(tmp_path):
    slow = "import time\ntime.sleep(2)\n"
    assert start.seconds(slow, tmp_path) >= 2
    assert 0.2 <= start.seconds(slow + "print(flush=True)\ntime.sleep(0.2)", tmp_path, after_import=True) < 2
