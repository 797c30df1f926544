"""The arrays of a run are named once: one that a world declares travels as the library's own do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gvfx
from gvfx.running import schema
from gvfx.running.result import gather
from gvfx.running.schema import Measurement, Part, Record, empty_part
from gvfx.tensors import CorruptFile, pack, unpack

NAMES, GVFS, STATES = ("a", "b"), 2, 3


@pytest.fixture
def declared(monkeypatch):
    """A world's own arrays: of curves, of snapshots, and at the end."""
    monkeypatch.setattr(schema, "_declared", dict(schema.declared()))
    schema.declare("gap", "t gvf")
    schema.declare("shade", "k gvf state")
    schema.declare("token", "weight", single=True)


def measurement(t, **more):
    table = np.full((GVFS, STATES), float(t))
    return Measurement(mse=np.array([t, 2.0 * t]), values=table, visits=np.ones((STATES, 2), int), behaviour=table.T, **more)


def record_of(times, **more):
    record = Record(GVFS)
    for t in times:
        m = measurement(t, gap=np.full(GVFS, 10.0 * t), shade=np.full((GVFS, STATES), t + 0.5), **more)
        record.measured([t], t // 2, m)
        record.shown([t], m)
    return record


def part_of(record):
    return record.part(np.zeros((GVFS, STATES)), 0.5, token=np.arange(4, dtype=np.float32))


def test_a_declared_array_is_measured_checkpointed_and_stored(declared):
    record = record_of([10, 20])
    again = Record(GVFS)
    again.restore(record.arrays())
    assert {name: array.tobytes() for name, array in again.arrays().items()} == {
        name: array.tobytes() for name, array in record.arrays().items()
    }
    part = part_of(again)
    assert part.extra["gap"].tolist() == [[100, 100], [200, 200]] and part.extra["shade"].shape == (2, GVFS, STATES)
    stored = Part.from_arrays(unpack(pack(part.arrays(), {}))[0])
    assert stored.is_like(part) and stored.extra["token"].tolist() == [0, 1, 2, 3]
    assert stored.cut(1).extra["gap"].tolist() == [[100, 100]] and stored.cut(1).extra["shade"].shape == (1, GVFS, STATES)
    lost = stored.diverged()
    assert np.isnan(lost.extra["gap"]).all() and np.isnan(lost.extra["token"]).all() and lost.visits.sum() == 0
    moved = stored.reordered(np.array([3, 0, 1]), 5)
    assert moved.extra["shade"][0, 0].tolist() == [10.5, 10.5, 0, 10.5, 0] and np.isnan(moved.truth[:, [2, 4]]).all()
    assert np.isnan(empty_part([10], [10], GVFS).extra["gap"]).all()


def test_a_declared_array_comes_back_in_a_result_and_its_file(declared, tmp_path):
    parts = [part_of(record_of([10, 20])) for _ in range(3)]
    result = gather(NAMES, np.ones(GVFS), (0, 1, 2), parts, {"behaviour": "b", "learner": "l"})
    assert result.details.extra["gap"].shape == (3, 2, GVFS) and result.details.extra["token"].shape == (3, 4)
    result.save(tmp_path / "a.gvfx")
    back = gvfx.load(tmp_path / "a.gvfx")
    assert np.array_equal(back.details.extra["gap"], result.details.extra["gap"]) and "token" not in back.details.extra
    assert np.array_equal(back.details.snapshots[0].extra["shade"], result.details.snapshots[0].extra["shade"])
    assert back.details.extra["levels"].shape == (3, 2, GVFS) and not back.details.extra["levels"].any()


def test_an_array_that_nobody_declares_is_refused(tmp_path):
    record = Record(GVFS)
    record.measured([10], 1, measurement(10))
    record.shown([10], measurement(10))
    part = record.part(np.zeros((GVFS, STATES)), 0.5)
    with pytest.raises(CorruptFile, match="gap does not belong to a result"):
        Part.from_arrays({**part.arrays(), "gap": np.zeros((1, GVFS))})
    gather(NAMES, np.ones(GVFS), (0,), [part], {}).save(tmp_path / "a.gvfx")
    arrays, metadata = unpack((tmp_path / "a.gvfx").read_bytes())
    (tmp_path / "a.gvfx").write_bytes(pack({**arrays, "gap": np.zeros((1, 1, GVFS))}, metadata))
    with pytest.raises(CorruptFile, match="gap is odd"):
        gvfx.load(tmp_path / "a.gvfx")


LINE = (
    '        Array("untried", "k gvf state", "of a log: nothing that the policy does was tried there", "bool", stored=False),\n'
)
NEW = '        Array("pretend", "k gvf state", "an array that somebody adds", missing=7.0),\n'
WITH_IT = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

spec = spec_from_file_location("gvfx.running.schema", sys.argv[1])
sys.modules[spec.name] = schema = module_from_spec(spec)
spec.loader.exec_module(schema)

import numpy as np
import gvfx
from gvfx.running.result import gather
from gvfx.tensors import pack, unpack

record, again = schema.Record(2), schema.Record(2)
for t, states in ((10, 2), (20, 3)):
    table = np.full((2, states), float(t))
    m = schema.Measurement(
        mse=table[:, 0], values=table, visits=np.ones((states, 2), int), behaviour=table.T, pretend=table + 1
    )
    assert m.pretend.shape == (2, states)
    record.measured([t], 1, m)
    record.shown([t], m)
again.restore(record.arrays())
part = schema.Part.from_arrays(unpack(pack(again.part(None, 0.5).arrays(), {}))[0])
assert part.pretend[0].tolist() == [[11, 11, 7], [11, 11, 7]] and part.cut(1).pretend.shape == (1, 2, 3)
assert part.reordered(np.array([2, 0, 1]), 4).pretend[1, 0].tolist() == [21, 21, 21, 7]
assert np.isnan(part.diverged().pretend).all()
result = gather(("a", "b"), np.ones(2), (0, 1), [part, part], {})
result.save(sys.argv[2])
back = gvfx.load(sys.argv[2])
assert back.details.pretend.tolist() == result.details.pretend.tolist() == [part.pretend[1].tolist()] * 2
assert back.details.snapshots[0].pretend.shape == (2, 2, 3)
without = schema.Measurement(mse=np.zeros(2), values=np.zeros((2, 3)))
assert without.pretend.size == 0
"""


def test_a_new_array_is_one_line(tmp_path):
    source = Path(schema.__file__).read_text()
    assert source.count(LINE) == 1
    (tmp_path / "schema.py").write_text(source.replace(LINE, LINE + NEW))
    command = [sys.executable, "-c", WITH_IT, tmp_path / "schema.py", tmp_path / "a.gvfx"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
