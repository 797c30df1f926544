"""python -m benchmarks: its help, its names and parts, its errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import chosen_parts
from gvfx.errors import UnknownName

ROOT = Path(__file__).parents[2]


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_help_names_every_benchmark():
    printed = command("--help").stdout
    assert benchmarks.names() and all(name in printed for name in benchmarks.names())


def test_an_unknown_benchmark_is_refused_in_one_sentence():
    refused = command("tabulr")
    assert refused.returncode == 2 and "tabular" in refused.stderr


def test_an_old_name_is_answered_by_the_new_one():
    refused = command("mrnas", "--quick")
    assert refused.returncode == 2
    assert refused.stderr == "benchmarks: mrnas: now measured by `python -m benchmarks exploring mrnas`.\n"


@pytest.mark.parametrize("old, new", benchmarks.MOVED.items())
def test_what_old_names_point_to_exists(old, new):
    which, *parts = new.split()
    assert old not in benchmarks.names() and list(chosen_parts(which, parts)) == parts


def test_an_unknown_part_is_refused_in_one_sentence():
    with pytest.raises(UnknownName, match="parts of exploring: 'mrnass' is unknown; did you mean 'mrnas'"):
        chosen_parts("exploring", ["mrnass"])
    assert list(chosen_parts("unseen", [])) == ["hard", "ordinary", "few_counts", "lake", "small_grid", "time"]
