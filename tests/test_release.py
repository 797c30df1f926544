"""What a release needs: workflows that parse and call targets that exist, and a conda recipe with the package's own versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import gvfx

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_and_files_that_exist(path):
    jobs = yaml.safe_load(path.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for called in re.findall(r"make (?:-s )?([a-z-]+)", "\n".join(commands)):
        assert called in targets
    for file in re.findall(r"(\.ci/run|tools/\S+\.py|tests/[\w.]+)", "\n".join(commands)):
        assert (ROOT / file).exists()


def test_what_is_tested_with_other_versions_is_there():
    assert all((ROOT / name).exists() for name in (ROOT / "tests" / "versions.txt").read_text().split())


def test_every_supported_python_is_tested():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert jobs["versions"]["strategy"]["matrix"]["python"] == supported


def test_the_conda_recipe_has_the_versions_of_the_package():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    names = {"matplotlib-base": "matplotlib"}
    wanted = {line.split()[0]: line.split()[1] for line in recipe["requirements"]["run"]}
    found = dict(re.fullmatch(r"([a-z]+)(.+)", line).groups() for line in PROJECT["dependencies"])
    assert {names.get(name, name): bound for name, bound in wanted.items() if name != "python"} == found
    assert wanted["python"] == PROJECT["requires-python"]
    assert gvfx.__version__.startswith(recipe["context"]["version"])
