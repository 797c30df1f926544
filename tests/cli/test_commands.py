"""The command line as a user meets it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.command_line import cli, invoke

import gvfx
import gvfx_paper
from gvfx.cli.terminal import SHORT_NAMES, class_name
from gvfx_paper.cli.options import accepted_name, short_name
from gvfx_paper.items import headline
from gvfx_paper.settings import runs as compare


def test_list_shows_settings_behaviours_learners():
    out = invoke("list").stdout
    for name in ("semi-greedy", "fourrooms", "forty", "GVFExplorer", "BPS", "ExpectedSarsa", "ImportanceSampling"):
        assert name in out
    rows = [line.split() for line in out.splitlines()]
    for name, short in SHORT_NAMES.items():
        assert any(row[:2] == [name, short] for row in rows)
    assert any(row[:2] == ["SuccessorRepresentation-greedy", "SR-greedy"] and row[-1] == "choice='greedy'" for row in rows)


def test_run_writes_json_that_matches_the_library(tmp_path):
    target = tmp_path / "deep" / "out.json"
    done = cli("run", "distinct", "--behaviour", "uniform", "--steps", 20000, "--seeds", 2, "--json", target, "--every", 10000)
    assert done.returncode == 0, done.stderr
    assert "average" in done.stdout and "steps/s" in done.stdout
    data = json.loads(target.read_text())
    setting = gvfx_paper.paper["distinct"]
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


def test_the_continuous_grid_with_linear_features_stops_and_is_planned(tmp_path):
    options = ("--learner", "LinearCertaintyEquivalence", "--behaviour", "Uniform", "--seeds", 1, "--save", tmp_path / "a")
    done = invoke("run", "continuous", *options, "--steps", 30_000, "--evaluate-every", 30_000, "--until", 1e4)
    assert done.exit_code == 0, done.output
    assert "stopped after" in done.stdout and "stopped after 30,000" not in done.stdout
    assert gvfx.load(tmp_path / "a").details.error_bars == "half-samples"
    planned = invoke("plan", "continuous", "--pilot", 2000, "--error", 0.5)
    assert planned.exit_code == 0, planned.output
    assert "world estimated from 2,000 steps of OptimalDesign" in planned.stdout and "optimum" in planned.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "distnct"], ["setting", "distnct", "distinct"]),
        (["run", "distinct", "--behaviour", "GVFExplore"], ["behaviour", "GVFExplorer"]),
        (["run", "distinct", "--learner", "sarsa"], ["learner", "ExpectedSarsa"]),
        (["run", "distinct", "--behaviour", "SR-lazy"], ["behaviour", "SR-lazy", "SR-greedy"]),
        (["run", "continuous", "--behaviour", "BehaviourPolicySearch"], ["behaviour", "GVFExplorer"]),
        (["run", "continuous", "--behaviour", "OptimalDesign"], ["behaviour", "GVFExplorer"]),
        (["run", "continuous", "--learner", "LinearCertaintyEquivalence", "-b", "SR"], ["behaviour", "OptimalDesign"]),
        (["run", "continuous", "--until", "1"], ["until", "gvfx.LinearCertaintyEquivalence()"]),
        (["plan", "continuous"], ["pilot", "cells"]),
        (["plan", "continuous", "--pilot", "100"], ["pilot", "100 steps are too few for 1600 pairs"]),
        (["run", "distinct", "--seeds", "0"], ["seeds"]),
        (["run", "distinct", "--evaluate-every", "0"], ["--evaluate-every", "at least 1"]),
        (["run", "distinct", "--every", "0"], ["--every", "at least 1"]),
        (["run", "distinct", "--steps", "0"], ["steps"]),
        (["run", "distinct", "--preset", "author"], ["preset", "authors"]),
        (["run", "distinct", "--rate-q", "3"], ["--rate-q: 3 does not fit", "at most 1"]),
        (["run", "distinct", "--json", "/proc/nowhere/out.json"], ["--json"]),
        (["run", "distinct", "--stepz", "5"], ["--stepz"]),
        (["run", "walker", "--calibrate"], ["calibrate", "MuJoCo", "give each question its own weight"]),
        (["run", "continuous", "--learner", "ExpectedSarsa"], ["learner", "Deep"]),
        (["run", "continuous", "--preset", "recommend"], ["preset", "recommended"]),
        (["run", "continuous", "--steps", "4001"], ["steps", "multiples of 8"]),
        (["reproduce", "table3", "--device", "abacus", "--results", "/tmp/gvfx-none"], ["device", "abacus", "cpu"]),
        (["plan", "same", "--error", "0"], ["error", "above 0"]),
        (["plan", "same", "--pilot", "-3"], ["pilot"]),
        (["demo", "--setting", "x"], ["setting", "distinct"]),
        (["reproduce", "table1", "--seeds", "0"], ["--seeds", "at least 1"]),
        (["train-targets", "walkr", "walk"], ["domain", "walker"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert done.stdout == "" or "Traceback" not in done.stdout
    if "--stepz" not in arguments:  # Typer's own message is a box
        assert done.stderr.startswith("gvfx: ") and done.stderr.count("\n") == 1


def test_bad_input_ends_the_process_with_2():
    done = cli("run", "distnct")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("gvfx: setting: 'distnct' is unknown") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "full", "short"),
    [
        ("BPS", "BehaviourPolicySearch", "BPS"),
        ("successorrepresentation", "SuccessorRepresentation", "SR"),
        ("sr-greedy", "SuccessorRepresentation-greedy", "SR-greedy"),
        ("SuccessorRepresentation-10", "SuccessorRepresentation-10", "SR-10"),
        ("GVFExplorer", "GVFExplorer", "GVFExplorer"),
    ],
)
def test_class_names_and_short_names_are_one_behaviour(name, full, short):
    assert (class_name(full), class_name(short)) == (full, full) and (short_name(full), short_name(short)) == (short, short)
    assert class_name(name).lower() == full.lower() and short_name(name).lower() == short.lower()
    setting = gvfx_paper.paper["same"]
    hashes = {setting.experiment(accepted_name(setting, spelling)).hash for spelling in (name, full, short)}
    assert hashes == {setting.experiment(accepted_name(setting, full)).hash}
    made = setting.experiment(accepted_name(setting, full)).behaviour
    assert full.split("-")[0] in repr(made)


@pytest.mark.parametrize("option", ["--evaluate-every", "--every"])
@pytest.mark.parametrize("name", ["SR", "SuccessorRepresentation"])
@pytest.mark.parametrize("setting", ["same", "continuous"])
def test_run_passes_names_and_options_on(setting, name, option, monkeypatch):
    passed = {}

    def stand_in(chosen, behaviour, learner, **options):
        passed.update(options, chosen=chosen, behaviour=behaviour, learner=learner)
        raise gvfx.InputError("stand-in: nothing is run.")

    monkeypatch.setattr(compare, "run_behaviour", stand_in)
    done = invoke("run", setting, "--behaviour", name, option, 800, "--learner", "Any", "--rate-q", 0.5)
    assert done.exit_code == 2 and done.stderr == "gvfx: stand-in: nothing is run.\n"
    assert passed["evaluate_every"] == 800 and passed["learner"] == "Any" and passed["rate_q"] == 0.5
    made = passed["chosen"].experiment(passed["behaviour"]).behaviour
    assert "SuccessorRepresentation" in repr(made)


def test_run_calibrated(tmp_path):
    done = cli("run", "distinct", "--calibrate", "--steps", 20000, "--seeds", 1, "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "out.json").read_text())
    setting = gvfx_paper.paper["distinct"]
    squares = (gvfx.exact.values(setting.world, setting.questions)[:, setting.world.live] ** 2).mean(axis=1)
    assert data["experiment"]["calibrate"] is True
    assert data["weights"][0] / data["weights"][1] == pytest.approx(squares[1] / squares[0])


def test_plan_shows_what_every_behaviour_would_need(tmp_path):
    done = cli("plan", "distinct", "--error", "0.05", "--json", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    assert "optimum" in done.stdout and "No behaviour needs fewer than" in done.stdout
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["costs"]["optimum"]["steps"] == pytest.approx(502.5 / 0.05, rel=0.01)
    assert plan["costs"]["Uniform"]["steps"] == pytest.approx(9941 / 0.05, rel=0.01)


def test_demo_names_a_winner_and_writes_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(headline, "run_now", lambda seeds, workers: np.full((seeds, 3), [0.3, 0.02, 0.007]))
    done = invoke("demo", "--steps", 20000, "--seeds", 2, "--workers", 1, "--out", tmp_path / "figures")
    assert done.exit_code == 0, done.output
    assert "times the statistical limit" in done.output and "has the lowest error" in done.output
    names = sorted(p.name for p in (tmp_path / "figures").iterdir())
    assert names == ["behaviour.png", "headline.png", "learning-curves.png", "value-error.png", "variance.png"]
    assert all(p.read_bytes().startswith(b"\x89PNG") and p.stat().st_size > 5000 for p in (tmp_path / "figures").iterdir())


def test_version():
    assert cli("--version").stdout.strip() == f"gvfx {gvfx.__version__}"
