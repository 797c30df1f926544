"""Settings and fixtures that several folders share."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gvfx.questions.target_policies import Target, write_target

pytest.register_assert_rewrite("helpers")
TOGETHER = ("reproduce/", "report/", "experiments/test_sweep.py", "running/streams/test_critics_gym.py", "test_claims.py")
ROOT = Path(__file__).parents[1]
os.environ.setdefault("GVFX_CACHE_DIR", str(ROOT / ".cache"))  # compiled code of tests, shared by their processes and runs
os.environ.setdefault("MUJOCO_GL", "egl")  # before MuJoCo is imported: pictures without a screen


@pytest.hookimpl(optionalhook=True)  # environments of their own, such as that of make test-sb3, have no pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    """Tests that share something expensive stay in one process; all others go to whichever process is free."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((part for part in TOGETHER if nodeid.startswith(f"tests/{part}")), nodeid)

    return Together(config, log)


def pytest_collection_finish():
    """Before the first test: JAX with the same settings in every process, so that each finds what another has compiled."""
    if "jax" in sys.modules:
        import_module("gvfx.running.streams.xla").start_jax()
    gc.freeze()  # modules stay: the garbage collector need not look at them again


@pytest.fixture(scope="session")
def targets(tmp_path_factory):
    """Two target policies for the cheetah with random weights."""
    generator, folder, made = np.random.default_rng(0), tmp_path_factory.mktemp("targets"), []
    for name, sigma in zip(("walk", "run"), np.float32([0.2, 0.3]), strict=True):
        sizes = (17, 8, 6)
        weights = [generator.normal(0, 0.3, (a, b)) for a, b in pairwise(sizes)]
        write_target(folder / f"{name}.safetensors", weights, [np.zeros(b) for b in sizes[1:]], {"task": name})
        made.append(Target.load(folder / f"{name}.safetensors", float(sigma)))
    return tuple(made)
