"""Networks on the continuous grid: runs resume exactly, stop at the first bad number, and name what does not fit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.driving import driven
from helpers.scanned import BEHAVIOUR, POLICIES, SMALL, questions, runner

import gvfx
from gvfx.errors import Diverged
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
from gvfx.running.plan import Plan
from gvfx_paper.loops.network_scanned import NetworkScanned
from gvfx_paper.worlds.continuous_grid import paper_grid


def parts_equal(a, b):
    first, second = a.arrays(), b.arrays()
    return first.keys() == second.keys() and all(first[k].tobytes() == second[k].tobytes() for k in first)


def test_same_seed_same_bytes_and_resuming_changes_nothing(tmp_path):
    run = runner()
    (whole,) = driven(run, 3)
    assert parts_equal(whole, driven(run, 3)[0]) and not parts_equal(whole, driven(run, 4)[0])

    class Stop(Exception):
        pass

    def stop_midway(seed, done, error):
        if done == 480:
            raise Stop

    with pytest.raises(Stop):
        driven(run, 3, progress=stop_midway, folder=tmp_path)
    assert list(tmp_path.glob("*.checkpoint"))
    heard = []
    (resumed,) = driven(runner(), 3, folder=tmp_path, progress=lambda seed, done, error: heard.append(done))
    assert parts_equal(whole, resumed) and heard[0] == 480  # not from the beginning


@pytest.mark.slow
def test_seeds_together_are_the_seeds_alone_and_resume_exactly(tmp_path):
    run = runner()
    both = driven(run, 3, 4)
    for seed, part in zip((3, 4), both, strict=True):
        (alone,) = driven(run, seed)
        assert np.array_equal(part.visits[0], alone.visits[0])  # the same draws; sums may differ in their last bits
        np.testing.assert_allclose(part.mse, alone.mse, rtol=1e-2)

    def stop_midway(seed, done, error):
        if done == 480:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driven(run, 3, 4, progress=stop_midway, folder=tmp_path)
    resumed = driven(runner(), 3, 4, folder=tmp_path)
    assert all(parts_equal(a, b) for a, b in zip(both, resumed, strict=True))


@pytest.mark.slow
def test_a_device_runs_all_missing_seeds_and_one_that_is_not_there_is_named(tmp_path):
    e = Experiment(paper_grid(), tuple(questions()), BEHAVIOUR, SMALL, 160, 80)
    store = Store(tmp_path / "a")
    tally = run_all(store, [(e, 3)], device="cpu")
    assert (tally.done, tally.found) == (3, 0) and all(store.has(e, seed) for seed in range(3))
    assert run_all(store, [(e, 3)], device="cpu").done == 0
    with pytest.raises(gvfx.InputError, match="device.*'tpu'"):
        run_all(Store(tmp_path / "b"), [(e, 1)], device="tpu")


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_gvf(tmp_path):
    wild = dataclasses.replace(SMALL, rate_q=1e30)
    run = runner(learner=wild)
    with pytest.raises(Diverged, match=r"loss of Q of 'left' became .* at step \d+ \(seed 0\)"):
        driven(run, 0, folder=tmp_path)


def test_questions_that_do_not_fit_are_named():
    plan = Plan.checked(80, 80, ())
    with pytest.raises(gvfx.InputError, match="gvf1.cumulant"):
        NetworkScanned(paper_grid(), [gvfx.GVF(POLICIES[0], 1.0)], BEHAVIOUR, SMALL, plan)
    with pytest.raises(gvfx.InputError, match="evaluate_every"):
        NetworkScanned(paper_grid(), questions(), BEHAVIOUR, SMALL, Plan.checked(90, 9, ()))
    with pytest.raises(gvfx.InputError, match="tables only"):
        NetworkScanned(paper_grid(), questions(), gvfx.BehaviourPolicySearch(), SMALL, plan)


def test_evaluate_runs_networks_too():
    result = gvfx.evaluate(paper_grid(), questions(), BEHAVIOUR, SMALL, steps=160, seeds=2, evaluate_every=80)
    assert result.mse.shape == (2, 2, 2) and result.details.extra["mse_outside"].shape == (2, 2, 2)
    assert result.values.shape == (2, 2, 400)
    with pytest.raises(gvfx.InputError, match="^learner"):
        gvfx.evaluate(paper_grid(), questions(), BEHAVIOUR, gvfx.ExpectedSarsa(), steps=80)
    with pytest.raises(gvfx.InputError, match="^learner"):
        gvfx.evaluate(gvfx.gridworld(3), questions(), BEHAVIOUR, SMALL, steps=80)
