"""The examples run as they are, and stay short."""

from __future__ import annotations

import re
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gvfx

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SHOWN = (Path(__file__).parents[1] / "docs" / "examples.md").read_text()
LONG = ("cartpole", "pendulum")  # learn on networks; shortened below


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in LONG else []) for p in EXAMPLES]
)
def test_example(path, capsys):
    assert len(path.read_text().splitlines()) <= 95
    runpy.run_path(str(path), run_name="__main__")
    out = capsys.readouterr().out
    assert len(out.splitlines()) >= 3
    if path.stem in CLAIMS:
        CLAIMS[path.stem](out)
    if path.stem not in LONG:
        assert out.rstrip() in SHOWN, f"docs/examples.md is out of date; run `python docs/make_examples.py {path.stem}`."


def numbers(out, pattern):
    """The groups of a pattern in every line that has it, as numbers."""
    return [tuple(map(float, found)) for found in re.findall(pattern, out)]


def near_the_truth(out):
    """two_questions: the answers lie within a tenth of the truth."""
    answers = numbers(out, r"predicted +(\S+) +true +(\S+)")
    assert len(answers) == 2 and all(predicted == pytest.approx(true, rel=0.1) for predicted, true in answers)


def calibrated(out):
    """scales: with calibrated weights the small question is answered better, and no worse than twice as well as the large."""
    pairs = numbers(out, r"small: off by (\S+)%[^%]*large: off by (\S+)%")  # with OptimalDesign
    others = [pair[::-1] for pair in numbers(out, r"left: off by (\S+)%[^%]*right: off by (\S+)%")]  # with GVFExplorer
    for (small, _), (small_calibrated, large_calibrated) in (pairs, others):
        assert small_calibrated < small / 2 and 0.5 < small_calibrated / large_calibrated < 2


def near_monte_carlo(out, **shares):
    """cartpole, pendulum: answers lie near those of Monte Carlo, by a share of the signal's largest one."""
    answers = re.findall(r": ([a-z ]+): +(-?[\d.]+)[^;\n]*; Monte Carlo +(-?[\d.]+)", out)
    for signal, share in shares.items():
        found, truth = np.array([pair for which, *pair in answers if which == signal.replace("_", " ")], float).T
        assert len(found) in (3, 4) and np.abs(found - truth).max() < share * np.abs(truth).max(), signal


CLAIMS = {
    "two_questions": near_the_truth,
    "scales": calibrated,
    "cartpole": partial(near_monte_carlo, time_upright=0.1, distance=0.35),
    "pendulum": partial(near_monte_carlo, cost=0.1, upright=0.2),
}


def at_most(function, **most):
    """The function with some of its options cut to at most these numbers."""

    def called(*args, **options):
        return function(*args, **{**options, **{k: min(options[k], most[k]) for k in most if k in options}})

    return called


@pytest.mark.parametrize(
    ("name", "steps", "shares"),
    [
        ("cartpole", 3000, {"time_upright": 0.35}),  # off by 0.2; too short for the distance, which grows late in an episode
        ("pendulum", 3200, {"cost": 0.3, "upright": 0.3}),  # off by 0.17 and 0.11
    ],
    ids=LONG,
)
def test_long_examples_with_fewer_steps(name, steps, shares, capsys, monkeypatch):
    monkeypatch.setattr(gvfx, "evaluate", at_most(gvfx.evaluate, steps=steps))
    monkeypatch.setattr(gvfx, "truth_of", at_most(gvfx.truth_of, max_episodes=20))
    runpy.run_path(str(next(p for p in EXAMPLES if p.stem == name)), run_name="__main__")
    near_monte_carlo(capsys.readouterr().out, **shares)
