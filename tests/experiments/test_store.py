"""The store: claims, and folders that cannot be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.experiments import EXPERIMENTS, RUNS

from gvfx.errors import StoreError
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all

TESTS = str(Path(__file__).parents[1])


def test_a_claim_keeps_others_away_and_ends_with_its_process(tmp_path):
    store = Store(tmp_path)
    claim = store.claim(EXPERIMENTS[0], 0)
    assert claim is not None and store.claim(EXPERIMENTS[0], 0) is None
    claim.release()
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[2])\n"
        "from helpers.experiments import small\nfrom gvfx.experiments.store import Store\n"
        "assert Store(sys.argv[1]).claim(small(), 0)\nprint('claimed', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), TESTS], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "claimed\n"
    assert store.claim(EXPERIMENTS[0], 0) is None
    child.kill()
    child.wait()
    child.stdout.close()
    assert store.claim(EXPERIMENTS[0], 0) is not None


def test_a_folder_that_cannot_be_made_is_named():
    with pytest.raises(StoreError, match="/proc/nowhere"):
        run_all(Store("/proc/nowhere"), RUNS, workers=1)
