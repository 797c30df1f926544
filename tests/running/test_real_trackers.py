"""TensorBoard and Weights & Biases themselves, offline; skipped where they are not installed."""

from __future__ import annotations

import json
import struct

import pytest
from helpers.environments import Sound

import gvfx

QUESTIONS = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="r")]


def tracked(folder, *trackers):
    """The lines of a run that is also sent to trackers."""
    gvfx.evaluate(Sound(), QUESTIONS, steps=200, seeds=2, evaluate_every=50, track=[folder / "x.jsonl", *trackers])
    return [json.loads(line) for line in (folder / "x.jsonl").read_text().splitlines()]


def test_tensorboard_shows_every_measurement(tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    lines = tracked(tmp_path, gvfx.TensorBoard(tmp_path / "runs"))
    events = accumulator.EventAccumulator(str(tmp_path / "runs"))
    events.Reload()
    for seed in (0, 1):
        shown = [(e.step, e.value) for e in events.Scalars(f"seed {seed}/error".replace(" ", "_"))]
        assert shown == [(w["step"], pytest.approx(w["error"])) for w in lines if w["seed"] == seed]
    assert events.Scalars("seed_all/value__r")[0].value == pytest.approx(lines[-1]["value: r"])


def stored_records(path):
    """The records of a file of Weights & Biases: a log as LevelDB writes it, in blocks of 32 KB, after 7 bytes of its own."""
    raw, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(raw):
        if 32768 - at % 32768 < 7:  # the end of a block that is too short for a header
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", raw[at : at + 7])
        whole += raw[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # complete, or the last part
            yield whole
            whole = b""


def wandb_history(folder):
    """The rows of the run that is stored in a folder."""
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    (path,) = folder.rglob("*.wandb")
    rows = []
    for raw in stored_records(path):
        record = messages.Record()
        record.ParseFromString(raw)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows


def test_weights_and_biases_keeps_every_measurement_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    lines = tracked(tmp_path, gvfx.WeightsAndBiases("p", folder=tmp_path))
    rows = wandb_history(tmp_path)
    for seed in (0, 1):
        kept = [(row["step"], row[f"seed {seed}/error"]) for row in rows if f"seed {seed}/error" in row]
        assert kept == [(w["step"], pytest.approx(w["error"])) for w in lines if w["seed"] == seed]
    (other := tmp_path / "own").mkdir()
    own = wandb.init(
        project="p", mode="offline", dir=str(tmp_path / "own")
    )  # a run that the caller opened is used, and stays open
    tracked(tmp_path, own)
    own.log({"after": 1.0})
    own.finish()
    assert [row["seed 1/error"] for row in wandb_history(other) if "seed 1/error" in row] == [
        pytest.approx(w["error"]) for w in lines if w["seed"] == 1
    ]
