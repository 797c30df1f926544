"""Runs followed from outside: JSON lines and the optional sinks."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
from helpers.environments import Sound

import gvfx

QUESTIONS = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="<r>"), gvfx.GVF([0.2, 0.8], 1.0, 0.8, name="one")]


def run(**options):
    return gvfx.evaluate(Sound(), QUESTIONS, steps=200, seeds=2, evaluate_every=50, **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "answers.gvfx"
    return run(save=path, track=path.with_name("run.jsonl")), path


def test_every_measurement_is_a_line_and_progress_is_still_told(saved, tmp_path):
    result, path = saved
    lines = [json.loads(line) for line in path.with_name("run.jsonl").read_text().splitlines()]
    assert [(line["seed"], line["step"]) for line in lines[:-1]] == [(s, t) for s in (0, 1) for t in (50, 100, 150, 200)]
    share = result.details.weights / result.details.weights.sum()
    assert lines[3]["error"] == pytest.approx(float(result.details.expected[0, -1] @ share))
    assert (
        lines[-1]["value: one"] == pytest.approx(result.values[:, 1].mean())
        and lines[-1]["experiment"] == result.details.experiment
    )
    told = []
    again = run(track=[tmp_path / "a.jsonl", gvfx.JsonLines(tmp_path / "b.jsonl")], progress=lambda *what: told.append(what))
    assert len(told) == 8 and np.array_equal(again.values, result.values)  # following a run changes nothing
    assert (tmp_path / "a.jsonl").read_text().count("\n") == (tmp_path / "b.jsonl").read_text().count("\n") == 9


@pytest.mark.parametrize(
    ("track", "words"),
    [
        (gvfx.TensorBoard("runs"), r"^track: TensorBoard is not installed; run pip install 'gvfx\[tensorboard\]'"),
        (gvfx.WeightsAndBiases(), r"^track: Weights & Biases is not installed; run pip install 'gvfx\[wandb\]'"),
        (3, "^track: 3 is not a tracker"),
    ],
)
def test_what_is_missing_is_told_before_the_first_step(track, words, monkeypatch):
    for name in ("tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(gvfx.InputError, match=words):
        gvfx.evaluate(Sound(), QUESTIONS, track=track)


def test_tensorboard_and_wandb_get_the_same_numbers(monkeypatch, tmp_path):
    """Against stand-ins with the packages' documented calls: add_scalar(tag, value, step), init(...).log(...), finish()."""
    scalars, logged, asked, closed = [], [], {}, []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, tag, value, step):
            scalars.append((tag, value, step))

        def close(self):
            closed.append(self.folder)

    board = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    made = types.SimpleNamespace(log=logged.append, finish=lambda: closed.append("wandb"))
    monkeypatch.setitem(sys.modules, "tensorboardX", board)
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: asked.update(options) or made))
    run(track=[tmp_path / "x.jsonl", gvfx.TensorBoard(tmp_path), gvfx.WeightsAndBiases("p")])
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [(v, t) for tag, v, t in scalars if tag == "seed 1/error"] == [
        (w["error"], w["step"]) for w in lines if w["seed"] == 1
    ]
    assert [w["seed 1/error"] for w in logged if "seed 1/error" in w] == [w["error"] for w in lines if w["seed"] == 1]
    assert asked["mode"] == "offline" and closed == [str(tmp_path), "wandb"]


def test_whatever_logs_numbers_by_name_is_a_tracker(tmp_path):
    """An object with a method log, a module with such a function, and a function."""
    told = {"object": [], "module": [], "function": []}
    thing = types.SimpleNamespace(log=told["object"].append)
    module = types.ModuleType("trackio")
    module.log = lambda metrics, step=None: told["module"].append(metrics)
    run(track=[tmp_path / "x.jsonl", thing, module, told["function"].append])
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert told["object"] == told["module"] == told["function"] and len(told["object"]) == len(lines) == 9
    for line, numbers in zip(lines, told["object"], strict=True):
        assert numbers["step"] == line["step"] and all(isinstance(x, int | float) for x in numbers.values())
    assert [n["seed 0/error"] for n in told["object"][:4]] == [line["error"] for line in lines[:4]]
    assert told["object"][-1]["seed all/value: one"] == lines[-1]["value: one"]
