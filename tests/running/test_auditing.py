"""Audits during a run in stepped environments."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.audits import TRUTH, Ring, asked

import gvfx
from gvfx.running.auditing import blocks
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx_paper.worlds.continuous_grid import paper_grid


def test_blocks_double_and_end_with_the_run():
    assert blocks(8000, 0.1, 1500) == [(2000, 200), (4000, 200), (8000, 400)]
    assert blocks(8000, 0.1, 1500, early=False) == [(8000, 800)]
    assert blocks(500, 0.2, 1000) == [(500, 100)]


@pytest.mark.parametrize("rows", [False, True], ids=["tables", "linear"])
def test_a_run_with_audits(rows):
    env = Ring(rows)
    result = gvfx.evaluate(env, asked(), gvfx.Uniform() if rows else None, steps=3000, seed=1, audit=0.2)
    found, values = result.audit(), result.value()
    assert {name: found[name].rollouts for name in ("left", "near")}["left"] == found["near"].rollouts > 5
    assert 0.5 * 600 < found["right"].steps + found["left"].steps < 1.3 * 600
    errors = result.details.audit_differences[0, :, :, 0]
    assert errors[0, 0] == result.details.audits[0, 0, 1] and (errors[~np.eye(3, dtype=bool)] > 0).all()
    for name, v in values.items():
        assert (v.value, v.low, v.high) == (found[name].value, found[name].low, found[name].high)
        assert abs(v.value - TRUTH[name]) < 3 * v.half < 5.0
        assert found[name].off == pytest.approx(result.details.starts[0, result.names.index(name), 0] - v.value)
    assert "audited at the start: off by" in result.summary()
    assert result.details.experiment["audit"] == 0.2


@pytest.mark.compiled(8)
def test_wrong_answers_are_found_out(tmp_path):
    """A learner that learns nothing answers 20 everywhere: in 8 runs of two policies audited values are nearer to the truth than
    they say (a mean square of at most 2 standard errors), and the check says by how much answers are off."""
    learner = gvfx.ExpectedSarsa(rate_q=gvfx.Fixed(1e-9), initial_q=20.0)
    z = []
    for seed in range(8):
        result = gvfx.evaluate(Ring(), asked(), gvfx.Uniform(), learner, steps=2000, seed=seed, audit=0.3)
        for name in ("right", "left"):
            found = result.audit()[name]
            assert found.answer == pytest.approx(20.0, abs=0.01) and found.low - 20 < -10
            z.append((found.value - TRUTH[name]) / (found.half / 2.0))
    assert np.mean(np.square(z)) < 2
    assert abs(np.mean(z)) < 3.5 / np.sqrt(16)
    result.save(tmp_path / "r.gvfx")
    assert gvfx.load(tmp_path / "r.gvfx").audit() == result.audit()


def test_without_audits_nothing_changes():
    plain, none = (gvfx.evaluate(Ring(), asked(), steps=1500, seed=2, **given) for given in ({}, {"audit": 0}))
    assert plain.values.tobytes() == none.values.tobytes() and plain.visits.tobytes() == none.visits.tobytes()
    assert plain.details.audits is None and "audit" not in plain.details.experiment
    with pytest.raises(gvfx.InputError, match=r"^audit: this run was not audited"):
        plain.audit()


def stream(audit=0.2):
    plan = Plan.checked(3000, None, (), 0)
    return open_backend(Ring(), asked(), gvfx.Uniform(), options=Options(plan, audit=audit)).begin(4)


def test_a_checkpoint_keeps_the_audits():
    """Scores so far are the same to the byte, and the rest of the block that was under way is planned again."""
    one, two = stream(), stream()
    one.start()
    one.advance(2600)  # within the block
    assert one.audits.frozen is not None
    two.restore(one.state())
    for a, b in zip(one.audits.scores(), two.audits.scores(), strict=True):
        assert a.tobytes() == b.tobytes() and a.dtype == b.dtype
    left = len(one.audits.queue) + len(one.audits.under_way)
    assert len(two.audits.queue) == left > 0
    two.start()
    two.advance(3000)
    assert len(two.audits.rollouts) > len(one.audits.rollouts)
    assert np.isfinite(two.audits.found(two).error).all()


def test_the_same_seed_has_the_same_audits():
    def run():
        return gvfx.evaluate(Ring(), asked(), steps=1500, seed=3, audit=0.2)

    one, two = run(), run()
    assert one.details.audits.tobytes() == two.details.audits.tobytes() and one.values.tobytes() == two.values.tobytes()


@pytest.mark.parametrize("audit", [-0.1, 1.0, "x", True, float("nan")])
def test_a_share_outside_its_range(audit):
    with pytest.raises(gvfx.InputError, match=r"^audit: .* is not a share of the steps"):
        gvfx.evaluate(Ring(), asked(), steps=1000, audit=audit)


def test_what_cannot_be_audited():
    with pytest.raises(gvfx.InputError, match=r"^audit: BehaviourPolicySearch, which learns from its own actions, cannot"):
        gvfx.evaluate(Ring(), asked(), gvfx.BehaviourPolicySearch(), steps=1000, audit=0.1)
    own = [gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.9)]
    with pytest.raises(gvfx.InputError, match=r"^audit: a policy that is found during the run"):
        gvfx.evaluate(Ring(), own, steps=1000, audit=0.1)


class NeedsOptions(Ring):
    """An environment that cannot be reset without options."""

    def reset(self, *, seed=None, options=None):
        if options is None:
            raise KeyError("layout")
        return super().reset(seed=seed)


def test_a_reset_that_needs_options():
    with pytest.raises(gvfx.EnvironmentFailed, match=r"reset raised KeyError: 'layout'; .*wrapper that gives its options"):
        gvfx.evaluate(NeedsOptions(), asked(), steps=1000, audit=0.1)


@pytest.mark.parametrize("rows", [False, True], ids=["tables", "linear"])
@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode), ids=lambda mode: mode.name)
def test_lanes_of_a_vector_environment_are_audited_side_by_side(rows, mode):
    """Each begins a rollout when an episode begins there; nothing is reset for it."""
    env = gym.vector.SyncVectorEnv([lambda: Ring(rows)] * 3, autoreset_mode=mode)
    result = gvfx.evaluate(env, asked(), gvfx.Uniform(), steps=3000, seed=1, audit=0.2)
    for name, check in result.audit().items():
        assert abs(check.value - TRUTH[name]) < 3 * check.half < 5.0
        assert check.rollouts > 10


@pytest.mark.compiled(8)
def test_values_of_vector_environments_hold():
    """8 runs of four lanes, two policies: a mean square of at most 2 standard errors, and no bias."""
    z = []
    for seed in range(8):
        env = gym.vector.SyncVectorEnv([Ring] * 4)
        found = gvfx.evaluate(env, asked(), gvfx.Uniform(), steps=2000, seed=seed, audit=0.2).audit()
        z += [(found[name].value - TRUTH[name]) / (found[name].half / 2.0) for name in ("right", "left")]
    assert np.mean(np.square(z)) < 2
    assert abs(np.mean(z)) < 3.5 / np.sqrt(16)


def test_an_mdp_is_stepped_for_its_audits():
    world = gvfx.gridworld(5, goals={"goal": (0, 4)}, horizon=50)
    goal = gvfx.Distractor(10, 1, at="goal")
    asked = [gvfx.GVF([0.1, 0.4, 0.4, 0.1], goal, 0.9, name="fast"), gvfx.GVF([0.25] * 4, goal, 0.9, name="even")]
    truth = gvfx.exact.values(world, asked) @ world.start
    for check, true in zip(gvfx.evaluate(world, asked, steps=4000, audit=0.3).audit().values(), truth, strict=True):
        assert abs(check.value - true) < 3 * check.half < 3.0


def test_the_continuous_grid_is_stepped_for_its_audits():
    world = paper_grid()
    asked = [gvfx.GVF([0.25] * 4, gvfx.Signal(goal.name), 0.9, name=goal.name) for goal in world.goals]
    learner = gvfx.LinearCertaintyEquivalence()
    for check in gvfx.evaluate(world, asked, None, learner, steps=2000, audit=0.3).audit().values():
        assert np.isfinite(check.half) and check.rollouts > 10


def test_rollouts_with_the_same_number_begin_alike():
    """The same draws for both policies in a plain environment: the same start, so the same V(s_0) where answers are alike."""
    learner = gvfx.ExpectedSarsa(rate_q=gvfx.Fixed(1e-9), initial_q=20.0)
    plan = Plan.checked(2000, None, (), 0)
    one = open_backend(Ring(), asked(), gvfx.Uniform(), learner, options=Options(plan, audit=0.3)).begin(1)
    one.start()
    one.advance(2000)
    scores = one.audits.scores()
    right, left = (~np.isnan(scores.gain[:, i]) for i in (0, 1))
    n = min(right.sum(), left.sum())
    assert n > 5
    np.testing.assert_array_equal(scores.stop[right][:n], scores.stop[left][:n])
