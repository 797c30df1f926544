"""Both MuJoCo domains for the tests that need MuJoCo; without it they are skipped."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx_paper.worlds.mujoco import CHEETAH, WALKER

mujoco = pytest.importorskip("mujoco")
BOTH = pytest.mark.parametrize("domain", [WALKER, CHEETAH], ids=lambda domain: domain.name)


def rng(seed=0):
    return np.random.default_rng(seed)
