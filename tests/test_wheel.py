"""The package as it is installed: the wheel far from any checkout, with its own dependencies in a slow test."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import numpy as np
import pytest

import gvfx
from gvfx_paper.worlds.mujoco import MUJOCO_VERSION

ROOT = Path(__file__).parents[1]
EVALUATE = """
import sys
from pathlib import Path

import gvfx
from gvfx_paper.targets import SHIPPED
from gvfx_paper.truths import lattice

assert Path(gvfx.__file__).is_relative_to(sys.prefix), gvfx.__file__
world = gvfx.gridworld(3, goals={"goal": (0, 2)})
questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Constant(1.0, at="goal"), 0.9)]
result = gvfx.evaluate(world, questions, steps=2_000, progress=False)
assert abs(result.predict(0) - gvfx.exact.values(world, questions)[:, 0]).max() < 0.1
result.save("answers.gvfx")
assert len(list(SHIPPED.glob("*.safetensors"))) == 4 and len(list(lattice.SHIPPED.glob("*.safetensors"))) == 4
"""


def finished(command, folder, code=0):
    """A command's output in a folder, in an environment without Python's variables; it must end with this exit code."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=env | {"COLUMNS": "200"}, capture_output=True, text=True)
    assert done.returncode == code, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def environment(folder, package, dependencies):
    """The bin folder of a new virtual environment with a package.

    Its dependencies are installed, or if they are None borrowed from this environment, in which gvfx itself is a link to the
    checkout that the new environment does not follow.
    """
    finished([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-compile"]
    constraints = ["--constraint", ROOT / "constraints.txt"]
    finished([*pip, *(constraints if dependencies else ["--no-deps"]), package], folder.parent)
    if not dependencies:
        (site,) = folder.glob("lib/python3*/site-packages")
        (site / "borrowed.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    return folder / "bin"


@pytest.mark.parametrize(
    "dependencies", [pytest.param(True, marks=pytest.mark.slow), False], ids=["installed", "dependencies borrowed"]
)
def test_the_built_package_works_outside_a_checkout(dependencies, tmp_path):
    finished([sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"], ROOT)
    (wheel,), (sdist,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")
    assert gvfx.__version__ in wheel.name
    with tarfile.open(sdist) as archive:
        names = [Path(*Path(name).parts[1:]) for name in archive.getnames()]
    assert not [name for name in names if name.suffix == ".png"]
    kept = {Path("tests/test_wheel.py"), Path("constraints.txt"), Path("CITATION.cff"), Path("docs/own.md"), Path("Makefile")}
    assert kept <= set(names) and sdist.stat().st_size < 2_000_000

    commands, away = environment(tmp_path / "installed", wheel, dependencies), tmp_path / "away"
    away.mkdir()
    finished([commands / "python", "-c", EVALUATE], away)
    assert "Usage: gvfx" in finished([commands / "gvfx", "--help"], away)
    assert finished([commands / "python", "-m", "gvfx", "--version"], away).strip() == f"gvfx {gvfx.__version__}"
    finished([commands / "gvfx", "report", "answers.gvfx", "--out", "answers.html"], away)
    assert (away / "answers.html").read_text().count("<script") > 0
    out = finished([commands / "gvfx", "run", "same", "--behaviour", "Uniform", "--steps", "2000", "--seeds", "1"], away)
    assert "average" in out
    if dependencies:  # and nothing else
        refused = finished([commands / "gvfx", "run", "grid-same", "--steps", "10"], away, code=2)
        assert "pip install 'gvfx[deep]'" in refused and refused.count("\n") == 1
        inside = {path.stem for path in commands.parent.glob("lib/python3*/site-packages/*")}
        assert not {"pytest", "jax", "mypy"} & inside


def test_versions_that_are_written_twice_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project  # only in gvfx/__init__.py
    assert f"\nversion: {gvfx.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"mujoco=={MUJOCO_VERSION}" in project["optional-dependencies"]["mujoco"]
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    assert pinned["mujoco"] == MUJOCO_VERSION
