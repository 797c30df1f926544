"""Runs that diverge: they stop with step, GVF and value, keep their checkpoint, and the other runs of a sweep go on."""

from __future__ import annotations

import json
import pickle
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.experiments import small

import gvfx
from gvfx import inputs
from gvfx.errors import Diverged
from gvfx.experiments import executors
from gvfx.experiments.executors import run_task
from gvfx.experiments.store import Divergence, Store
from gvfx.experiments.sweep import finished_seeds, run_all, stored_result
from gvfx.running import drive
from gvfx.running.checkpoint import Checkpoints
from gvfx.running.streams.table_compiled import FiniteTables
from gvfx.tensors import CorruptFile
from gvfx_paper.cli.options import Stored
from gvfx_paper.cli.stored import run_missing

SEEDS = 6
SMALL = gvfx.GVF([0.25] * 4, gvfx.Constant(1.0, at="left"), 0.9, name="small")


@pytest.fixture(scope="module", autouse=True)
def unlimited():
    """Signals whose squares are infinite are not refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "LARGE", np.inf)
        yield


def explosive(**changes):
    """A run diverges as soon as the goal pays: some seeds meet it within 24 steps."""
    huge = gvfx.GVF([0.25] * 4, gvfx.Distractor(0, 1e200, at="left"), 0.9, name="huge")
    return small(**{"questions": (SMALL, huge), "steps": 24, "evaluate_every": 6, **changes})


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A store with a sweep of which some runs diverged, and what the sweep said."""
    store = Store(tmp_path_factory.mktemp("swept"))
    return store, run_all(store, [(explosive(), SEEDS), (small(), 1)], workers=1)


def lost(store, experiment):
    return [seed for seed in range(SEEDS) if store.divergence(experiment, seed)]


def test_the_other_runs_of_a_sweep_go_on(swept):
    store, tally = swept
    e, seeds = explosive(), {*range(SEEDS)}
    diverged = lost(store, e)
    assert 0 < len(diverged) < SEEDS and [d.seed for d in tally.diverged] == diverged
    assert (tally.done, tally.found, tally.total) == (SEEDS + 1, 0, SEEDS + 1)
    assert finished_seeds(store, e, SEEDS) == tuple(sorted(seeds - {*diverged}))
    assert all(store.path(e, seed).exists() for seed in seeds - {*diverged}) and store.has(small(), 0)
    assert all(store.has(e, seed) for seed in seeds) and not store.unfinished(e, seeds)
    assert not list(store.folder.rglob("*.claim"))


def test_the_record_names_step_gvf_value_and_versions(swept):
    store, tally = swept
    record = tally.diverged[0]
    path = store.folder / explosive().hash / f"seed-{record.seed:04d}.diverged.json"
    said = json.loads(path.read_text())
    assert said["experiment"] == explosive().hash and said["gvf"] == "huge" and said["value"] == "inf"
    assert said["what"] == "table of M" and said["step"] in (6, 12, 18, 24) and said["versions"].startswith("gvfx ")
    assert f"the table of M of 'huge' became inf before step {said['step']} (seed {record.seed})" in said["message"]
    log = [json.loads(line) for line in (store.folder / "runs.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in log if line.get("diverged")] == [d.step for d in tally.diverged]


def test_a_diverged_run_is_made_again_only_if_its_record_is_gone(swept):
    store, first = swept
    path = store.folder / explosive().hash / f"seed-{first.diverged[0].seed:04d}.diverged.json"
    again = run_all(store, [(explosive(), SEEDS)], workers=1)
    assert (again.done, again.found) == (0, SEEDS) and again.diverged == first.diverged
    raw = path.read_bytes()
    path.unlink()
    with ThreadPoolExecutor(1) as pool:  # what a worker returns, of a process or a cluster, is the same record
        assert run_all(store, [(explosive(), SEEDS)], executor=pool).done == 1
    assert path.read_bytes() == raw
    path.write_bytes(raw.replace(b'"gvf": "huge"', b'"gvf": "hugo"'))
    with pytest.raises(CorruptFile, match="diverged.json: damaged"):
        store.divergence(explosive(), first.diverged[0].seed)
    with pytest.warns(UserWarning, match=r"diverged.json: damaged .* set aside"):
        assert run_all(store, [(explosive(), SEEDS)], workers=1).done == 1
    assert path.read_bytes() == raw and path.with_suffix(".damaged").exists()


def test_a_stored_result_is_nan_where_runs_diverged(swept):
    store, _ = swept
    e = explosive()
    diverged = lost(store, e)
    result = stored_result(store, e, SEEDS)
    assert result.seeds == tuple(range(SEEDS)) and result.details.diverged == tuple(diverged)
    gone = np.isin(result.seeds, diverged)
    assert np.isnan(result.error[gone]).all() and np.isfinite(result.error[~gone]).all()
    assert np.isnan(result.values[gone]).all() and not result.visits[gone].any()
    assert stored_result(store, e, finished_seeds(store, e, SEEDS)).details.diverged == ()
    nothing = stored_result(store, e, diverged)
    assert np.isnan(nothing.error).all() and nothing.steps.tolist() == [6, 12, 18, 24]
    assert nothing.error.shape == (len(diverged), 4) and nothing.names == ("small", "huge")


def test_the_command_line_has_a_line_for_each_diverged_run(swept, capsys):
    store, tally = swept
    run_missing(store, [(explosive(), SEEDS)], Stored(workers=1))
    said = capsys.readouterr().out
    for record in tally.diverged:
        line = f"diverged: {record.experiment}, seed {record.seed}, step {record.step}: the table of M of 'huge' became inf"
        assert line in said
    assert f"{len(tally.diverged)} of {SEEDS} runs diverged; tables count them. Delete seed-" in said


def test_the_last_good_checkpoint_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(drive, "CHECKPOINT_EVERY", 0.0)
    e, store = explosive(evaluate_every=1), Store(tmp_path)
    tally = run_all(store, [(e, SEEDS)], workers=1)
    late = next(record for record in tally.diverged if record.step > 2)
    assert late.checkpoint == late.step - 1 and f"The checkpoint of step {late.checkpoint} is kept." in late.message
    kept = Checkpoints(tmp_path / e.hash, f"seed-{late.seed:04d}", f"{e.hash}/{late.seed}").load()
    assert int(kept["drive"][1]) == late.checkpoint
    assert all(np.isfinite(array).all() for name, array in kept.items() if name.startswith("stream:"))
    assert not list((tmp_path / e.hash).glob(f"seed-{finished_seeds(store, e, SEEDS)[0]:04d}*.checkpoint"))


def test_evaluate_stops_with_step_gvf_and_value():
    e = explosive()
    with pytest.raises(Diverged, match=r"table of M of 'huge' became inf before step \d+ \(seed 3\)") as caught:
        gvfx.evaluate(e.world, e.questions, e.behaviour, e.learner, steps=600, evaluate_every=6, seed=3)
    error = caught.value
    assert (error.gvf, error.value, error.seed, error.checkpoint) == ("huge", np.inf, 3, None)
    assert error.step % 6 == 0 and error.result.steps.tolist() == list(range(6, error.step, 6))
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.step, copied.gvf) == (str(error), error.step, error.gvf)


def test_an_error_whose_square_is_infinite_stops_the_run_although_its_tables_are_finite():
    e = explosive(behaviour=gvfx.Uniform())  # without M
    with pytest.raises(Diverged, match="the mean squared error of 'huge' became inf before step"):
        gvfx.evaluate(e.world, e.questions, e.behaviour, e.learner, steps=600, evaluate_every=6)


def test_a_large_error_is_not_divergence():
    e = explosive(questions=(gvfx.GVF([0.25] * 4, gvfx.Constant(1e6, at="left"), 0.9),))
    result = gvfx.evaluate(e.world, e.questions, e.behaviour, e.learner, steps=600, evaluate_every=600)
    assert result.error[0, -1] > 1e6 and run_task(e.json, 0).diverged is None


Acting = namedtuple("Acting", "theta marks count")


def test_a_behaviours_tables_must_stay_finite_unless_infinity_is_their_beginning():
    state = Acting(np.ones((2, 2)), np.array([np.inf, 1.0]), np.zeros(2, np.int64))
    watch = FiniteTables(("left",), 4, state)
    watch.check(10, state)
    state.marks[1] = np.inf
    watch.check(20, state)
    state.theta[1, 0] = -np.inf
    with pytest.raises(Diverged, match=r"the behaviour's theta became -inf before step 30 \(seed 4\)") as caught:
        watch.check(30, state)
    assert caught.value.gvf is None


def test_seeds_that_run_together_run_alone_if_one_diverges(monkeypatch):
    """As on a device: the loop of all seeds stops, then each is run by itself."""
    calls = []

    def run(specification, seeds, folder, own_parts):
        calls.append(tuple(seeds))
        if 1 in seeds:
            return [executors.Outcome(b"", 0.0, Divergence("hash", 1, "loss of Q", "left", "nan", 8, None, "run: ..."))]
        return [executors.Outcome(b"result", 0.0) for _ in seeds]

    monkeypatch.setattr(executors, "_run", run)
    made = executors.run_together("", (0, 1, 2), "cpu")
    assert calls == [(0, 1, 2), (0,), (1,), (2,)] and [m.diverged is not None for m in made] == [False, True, False]
    assert len(executors.run_together("", (0, 2), "cpu")) == 2 and calls[-1] == (0, 2)
