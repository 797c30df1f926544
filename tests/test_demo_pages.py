"""The demonstrations as committed: notebooks with outputs and small, pages that quote measured tables; how these are measured."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("objectives", "traffic", "driving")


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_hold_their_outputs_and_are_small(name):
    path = ROOT / "examples" / "demos" / f"{name}.ipynb"
    assert path.stat().st_size <= 300_000
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    outputs = [out for cell in cells for out in cell["outputs"]]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not any(out["output_type"] == "error" or out.get("name") == "stderr" for out in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_pages_quote_the_measured_ratios(name):
    folder = ROOT / "docs" / "demos"
    page, measured = (folder / f"{name}.md").read_text(), (folder / f"{name}-measured.md").read_text()
    every, middle = re.search(r"\| median .*\*\*([\d.]+)\*\*.*\*\*([\d.]+)\*\*", measured).groups()
    holds = re.search(r"Intervals that hold: (\d+ % of \d+)", measured.replace("%", " %")).group(1)
    assert f"**{every}**" in page and middle in page and holds in page
    assert re.search(rf"\({name}\.md\).*\| {every} \| {middle} \| {holds.split(' of')[0]} \|", (folder / "README.md").read_text())
    assert f"({name}.png)" in page and f"({name}-measured.md)" in page and (folder / f"{name}.png").stat().st_size <= 150_000


@pytest.mark.parametrize("name", NAMES)
def test_packages_are_pinned(name):
    lines = (ROOT / "examples" / "demos" / f"{name}.txt").read_text().splitlines()
    assert lines and all(re.fullmatch(r"[a-z-]+==[\d.]+", line) for line in lines)


class Coin(gym.Env):
    """Episodes of one step: a number from a normal distribution, and one that is always 0, in `info`."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, 0.0, True, False, {"noise": self.np_random.normal(), "nothing": 0.0}


def test_rollouts_go_on_until_their_intervals_are_as_narrow(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "demos")
    compare = importlib.import_module("compare")
    demo = SimpleNamespace(SIGNALS=("noise", "nothing"), signals=lambda _, info: list(info.values()), DISCOUNT=0.9, LIMIT=400)
    env, rng = Coin(), np.random.default_rng(0)
    env.reset(seed=0)
    steps, late, found = compare.rolled_out(env, lambda seen: [1.0], demo, np.array([0.2, 0.2]), rng)
    assert 60 < steps[0] < 150 and not late[0]  # (1.96 / 0.2)^2 = 96
    assert np.isnan(steps[1]) and late[1] and len(found) == 400  # no interval within the limit, and no width to wait for
    wide = np.array([[0.0, 0.0]])
    run = {"needed": steps[None], "low": wide, "high": wide + 0.4, "late": late[None]}
    assert compare.both_have(run).tolist() == [[True, False]]
    assert [own.tolist() for own in compare.steps_of_rollouts(run)] == [[steps[0]], [steps[0]]]
    steps, late, _ = compare.rolled_out(env, lambda seen: [1.0], demo, np.array([0.05, 0.2]), rng)
    assert 1200 < steps[0] < 1900 and late[0]  # beyond the limit, by the root law: 1,537
