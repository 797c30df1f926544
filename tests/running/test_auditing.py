"""Audits during a run in stepped environments: a share of the steps in whole episodes of the target policies."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.audits import TRUTH, Ring, asked

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx_paper.worlds.continuous_grid import paper_grid


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
        if not rows:  # linear answers are made of model and episodes
            assert (v.value, v.low, v.high) == (found[name].value, found[name].low, found[name].high)
        assert abs(v.value - TRUTH[name]) < 3 * v.half < 5.0 and abs(found[name].value - TRUTH[name]) < 3 * found[name].half
        assert found[name].answer == pytest.approx(result.details.starts[0, result.names.index(name), 0])
    apart = result.compare().difference("right", "left")
    assert apart.difference == pytest.approx(values["right"].value - values["left"].value)
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
    """Scores so far are the same to the byte, and the rest is scored against answers that are frozen anew."""
    one, two, older = stream(), stream(), stream()
    one.start()
    one.advance(2600)
    arrays = one.state()
    two.restore(arrays)
    for a, b in zip(*(np.stack([of.gain[0] for of in own.whole.scored.done]) for own in (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)
    many = len(two.whole.scored.done)
    two.start()
    two.advance(3000)
    assert len(two.whole.scored.done) > many > 4 and len(two.whole.scored.surprise) > len(one.whole.scored.surprise)
    assert np.isfinite(two.whole.scored.found(two).error).all()
    older.restore({name: array for name, array in arrays.items() if not name.startswith("whole")})  # as before 0.3
    older.start()
    older.advance(3000)
    assert older.whole.scored.done


def test_the_behaviour_is_broken_off_where_episodes_do_not_end():
    """Without ends, policies get their share all the same, and it is about that which was asked for."""
    result = gvfx.evaluate(Ring(ends=False), asked(), gvfx.Uniform(), steps=6000, seed=1, audit=0.2)
    assert 0.7 * 1200 < sum(result.audit()[name].steps for name in ("left", "right")) < 1.2 * 1200
    assert min(check.rollouts for check in result.audit().values()) > 5


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
    found = gvfx.evaluate(world, asked, None, learner, steps=2000, audit=0.3).audit()
    assert all(check.rollouts > 10 and check.steps > 400 for check in found.values())


def test_episodes_with_the_same_number_begin_alike():
    """The same draws for both policies in a plain environment: the same starts and so the same V(s_0) where answers are alike."""
    one = stream()
    one.start()
    one.advance(3000)
    of = one.whole.scored.all(one)
    right, left = (of.pair[~np.isnan(of.gain[:, i])] for i in (0, 1))
    assert len(np.intersect1d(right, left)) > 5
    assert one.whole._seed(3) == one.whole._seed(3) and one.whole.scored.starts
