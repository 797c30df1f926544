"""Settings and fixtures that several folders share."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gvfx.questions.target_policies import Target, write_target

pytest.register_assert_rewrite("helpers")
ROOT = Path(__file__).parents[1]
os.environ.setdefault("GVFX_CACHE_DIR", str(ROOT / ".cache"))  # compiled code of tests, shared by their processes and runs
os.environ.setdefault("MUJOCO_GL", "egl")  # before MuJoCo is imported: pictures without a screen


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
