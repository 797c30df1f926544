"""The command line as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from helpers.commands import cli

import gvfx


def test_help_imports_nothing_heavy():
    code = "import sys; sys.argv=['gvfx','--help']\nfrom gvfx.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    heavy = code + "print('HEAVY', sorted({'numba','numpy','scipy','matplotlib'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout
    assert "HEAVY []" in out
    assert all(name in out for name in ("demo", "list", "run", "bench"))


def test_list_shows_settings_behaviours_learners():
    out = cli("list").stdout
    for name in ("semi-greedy", "fourrooms", "forty", "GVFExplorer", "BPS", "ExpectedSarsa", "ImportanceSampling"):
        assert name in out


def test_run_writes_json_that_matches_the_library(tmp_path):
    target = tmp_path / "deep" / "out.json"
    done = cli("run", "distinct", "--behaviour", "uniform", "--steps", 20000, "--seeds", 2, "--json", target, "--every", 10000)
    assert done.returncode == 0, done.stderr
    assert "average" in done.stdout and "steps/s" in done.stdout
    data = json.loads(target.read_text())
    setting = gvfx.paper["distinct"]
    result = gvfx.evaluate(
        setting.world,
        setting.questions,
        setting.behaviour("Uniform"),
        setting.learner(rate_q=setting.rate("Uniform")),
        steps=20000,
        seeds=2,
        evaluate_every=10000,
    )
    assert data["mse"] == result.mse.tolist()
    assert data["setting"] == "distinct" and data["seeds"] == [0, 1]
    assert [p.name for p in target.parent.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "distnct"], ["setting", "distnct", "distinct"]),
        (["run", "distinct", "--behaviour", "GVFExplore"], ["behaviour", "GVFExplorer"]),
        (["run", "distinct", "--learner", "sarsa"], ["learner", "ExpectedSarsa"]),
        (["run", "distinct", "--seeds", "0"], ["seeds"]),
        (["run", "distinct", "--steps", "0"], ["steps"]),
        (["run", "distinct", "--preset", "author"], ["preset", "authors"]),
        (["run", "distinct", "--rate-q", "3"], ["rate", "(0, 1]"]),
        (["run", "distinct", "--json", "/proc/nowhere/out.json"], ["--json"]),
        (["run", "distinct", "--stepz", "5"], ["--stepz"]),
        (["run", "continuous", "--learner", "ExpectedSarsa"], ["learner", "Deep"]),
        (["run", "continuous", "--preset", "recommend"], ["preset", "recommended"]),
        (["run", "continuous", "--steps", "4001"], ["steps", "multiples of 8"]),
        (["reproduce", "table3", "--device", "abacus", "--results", "/tmp/gvfx-none"], ["device", "abacus", "cpu"]),
        (["bench", "tabulr"], ["bench", "tabular"]),
        (["plan", "same", "--error", "0"], ["error", "above 0"]),
        (["plan", "same", "--pilot", "-3"], ["pilot"]),
        (["plan", "continuous"], ["world", "finite"]),
        (["demo", "--setting", "x"], ["setting", "distinct"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words):
    done = cli(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert done.stdout == "" or "Traceback" not in done.stdout


def test_plan_shows_what_every_behaviour_would_need(tmp_path):
    done = cli("plan", "distinct", "--error", "0.05", "--json", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    assert "optimum" in done.stdout and "No behaviour needs fewer than" in done.stdout
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["costs"]["optimum"]["steps"] == pytest.approx(502.5 / 0.05, rel=0.01)
    assert plan["costs"]["Uniform"]["steps"] == pytest.approx(9941 / 0.05, rel=0.01)


def test_demo_names_a_winner_and_writes_figures(tmp_path):
    done = cli("demo", "--steps", 20000, "--seeds", 2, "--out", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    assert "has the lowest error" in done.stdout
    names = sorted(p.name for p in (tmp_path / "figures").iterdir())
    assert names == ["behaviour.png", "learning-curves.png", "value-error.png", "variance.png"]
    assert all(p.read_bytes().startswith(b"\x89PNG") and p.stat().st_size > 5000 for p in (tmp_path / "figures").iterdir())


def test_version():
    assert cli("--version").stdout.strip() == f"gvfx {gvfx.__version__}"
