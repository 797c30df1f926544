"""The long commands of the documentation, run in short: benchmarks with --quick, the paper's items on made-up runs.

make test-slow, or pytest -m slow tests/test_docs_commands.py
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from helpers.command_line import invoke
from helpers.results import SEEDS, TUNED, made_up_part
from helpers.shell_blocks import SHELL, commands, is_short, make_what_is_named

from gvfx.experiments.store import Store
from gvfx.tensors import pack
from gvfx_paper.cli import stored
from gvfx_paper.items import ITEMS, curves_with_seeds
from gvfx_paper.items.tables import protocol
from gvfx_paper.settings.tabular import MAIN

SHORT = {  # command: options that make it short; they are appended, and the last one counts
    "demo": "--steps 2000 --seeds 1 --workers 1",
    "plan": "",
    "reproduce": f"--seeds {SEEDS}",
    "report": "",
    "run": "--steps 2000 --seeds 1 --workers 1",
    "sweep": f"--seeds {SEEDS}",
}
NEVER = ("train-targets", "log")  # trains for minutes and has no short form; needs a package that reads Parquet
pytestmark = pytest.mark.slow


def long_commands() -> list[str]:
    """Every command of gvfx that tests/test_docs.py only lets the parser read, once."""
    found: dict[str, None] = {}
    for line in (line for block in SHELL for line in commands(block)):
        program, *arguments = shlex.split(line)
        named = Path(program).name == "gvfx" and not arguments[0].startswith("-") and arguments[0] not in NEVER
        if named and not is_short(arguments):
            found[shlex.join(arguments)] = None
    return list(found)


@pytest.fixture(scope="module")
def curves():
    """What every experiment of an item or a sweep belongs to, by its hash."""
    known = [curve for curve, _ in curves_with_seeds(list(ITEMS.values()), TUNED, SEEDS)]
    for setting in (*MAIN, "continuous"):
        known += protocol(setting).curves
    return {curve.experiment.hash: curve for curve in known}


@pytest.fixture
def made_up_runs(monkeypatch, curves):
    """Runs are not made but made up; what the commands do with them is real."""

    def run_missing(store: Store, runs, *arguments, **options) -> None:
        for experiment, seeds in runs:
            for seed in store.unfinished(experiment, seeds):
                arrays = made_up_part(curves[experiment.hash], seed).arrays()
                store.save(experiment, seed, pack(arrays, {"experiment": experiment.hash, "seed": str(seed)}))

    monkeypatch.setattr(stored, "run_missing", run_missing)


@pytest.mark.parametrize("line", long_commands())
def test_a_long_command_runs_in_short(line, tmp_path, monkeypatch, made_up_runs):
    monkeypatch.chdir(tmp_path)
    command, *arguments = [word for word in shlex.split(line) if not word.startswith("--cluster") and "://" not in word]
    make_what_is_named(line)
    if command == "report":
        assert invoke("reproduce", "table1", "--seeds", SEEDS).exit_code == 0
    done = invoke(command, *arguments, *SHORT[command].split())
    assert done.exit_code == 0, f"gvfx {line}: {done.output}"
