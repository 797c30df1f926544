"""Importing gvfx is cheap and changes nothing outside it."""

import subprocess
import sys

EXTRAS = ("jax", "mujoco", "torch", "stable_baselines3", "distributed", "tensorboardX", "wandb")


def test_importing_gvfx_sets_no_environment_variable_and_imports_no_extra():
    code = f"""
import os, sys
before = dict(os.environ)
import gvfx
assert dict(os.environ) == before
import gvfx.theory.design, gvfx.theory.monte_carlo, gvfx_paper.truths.lattice, gvfx_paper.truths.trajectories
import gvfx.evidence.uncertainty
import gvfx.questions.written, gvfx_paper.targets, gvfx_paper.worlds.mujoco, gvfx_paper.worlds.continuous_grid
assert dict(os.environ) == before
assert not set(sys.modules) & set({EXTRAS!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
