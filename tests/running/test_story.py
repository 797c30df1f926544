"""What a result says about its run: the rule to stop, what was never seen, sums that do not end, states never tried."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from helpers.worlds import small_world, two_questions

import gvfx
from benchmarks.common.worlds import corridor, current
from gvfx.worlds.conversion import SteppedMDP

CE = gvfx.CertaintyEquivalence()


def test_a_rule_that_was_met_says_when_and_with_which_bound(tmp_path):
    path = tmp_path / "r.gvfx"
    r = gvfx.evaluate(small_world(), two_questions(), gvfx.Uniform(), CE, steps=1e5, until=gvfx.error_below(0.05), save=path)
    assert r.reached.all() and r.details.bounds[0] < 0.05
    words = f"until: met in this run after {r.stopped[0]:,} steps: the error is below {r.details.bounds[0]:.3g} (target 0.05)"
    assert words in r.summary() and "±: half the width of the 95 % interval" in r.summary()
    assert "states reached, the last one" in r.summary() and "missing mass ahead" in r.summary()
    back = gvfx.load(path)
    assert back.summary() == r.summary() and back.reached.all() and np.array_equal(back.details.unseen, r.details.unseen)


def test_a_rule_that_was_not_met_says_what_is_missing():
    world, questions = current(20, 0.4, 0.05)
    with pytest.warns(UserWarning, match=r"^until: 1 of 1 runs .*(may rest on states|never tried|cumulant other than 0)"):
        r = gvfx.evaluate(SteppedMDP(world), questions, gvfx.Uniform(), CE, steps=400, until=gvfx.error_below(0.01))
    assert not r.reached.any() and np.isinf(r.details.bounds).all() and r.details.unseen.max() > 0.03
    assert "until: an error below 0.01 was not reached within 400 steps (the error cannot be bounded yet)" in r.summary()


def test_nothing_was_tried_there():
    world, questions = current(20, 0.4, 0.05)
    r = gvfx.evaluate(SteppedMDP(world), questions, gvfx.Uniform(), CE, steps=200)
    assert r.visits[0, 19].sum() == 0 and np.isnan(r.predict(19)).all() and np.isinf(r.intervals(19)).all()
    assert np.isfinite(r.predict(0)).all() and np.isfinite(r.values).all()


class NoEnd(SteppedMDP):
    """The corridor without its end: it goes back to the start instead."""

    def step(self, action):
        s, reward, ended, cut, info = super().step(action)
        if ended:
            s = self.at = 0
        return s, reward, False, cut, info


@pytest.mark.parametrize("steps", [30, 300, 2000])
def test_a_discount_of_one_is_answered_or_explained(steps):
    world, questions = corridor(5)
    whole = [gvfx.GVF(q.policy, q.cumulant, 1.0, name=q.name) for q in questions]
    for source in (world, SteppedMDP(world)):
        r = gvfx.evaluate(source, whole, gvfx.Uniform(), CE, steps=steps)
        if steps == 2000:  # the mean return: the end is always reached, and pays 1
            assert r.predict(0) == pytest.approx([1, 1]) and np.isfinite(r.intervals(0)).all()
    with pytest.warns(UserWarning, match=r"^discount: strives, loose adds up without an end"):
        r = gvfx.evaluate(NoEnd(world), whole, gvfx.Uniform(), CE, steps=steps)
    assert np.isinf(r.intervals(0)).all()


@pytest.mark.parametrize(
    "behaviour", [gvfx.CharacteristicTime(first=20), gvfx.SecondMoment(first=20), gvfx.OptimalDesign(first=20)]
)
def test_plans_before_an_end_was_seen(behaviour):
    """With a discount of 1 and 30 steps no corridor of 40 cells has ended; behaviours that plan go on all the same."""
    world, (question, _) = corridor(40)
    whole = gvfx.GVF(question.policy, question.cumulant, 1.0, name="goal")
    with pytest.warns(UserWarning, match="^discount: goal adds up without an end"):
        result = gvfx.evaluate(SteppedMDP(world), [whole], behaviour, CE, steps=60)
    assert np.isinf(result.intervals(0)).all()


class Counter(gymnasium.Env):
    """Its observation is the number of steps so far."""

    observation_space, action_space = gymnasium.spaces.Discrete(2000), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = getattr(self, "t", -1) + 1
        return self.t, {}

    def step(self, action):
        self.t += 1
        return self.t, 1.0, False, False, {}


def test_observations_that_never_repeat_cannot_be_answered_by_tables():
    with pytest.warns(UserWarning, match=r"^world: nearly every state was met only once, so tables cannot answer"):
        r = gvfx.evaluate(Counter(), [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)], gvfx.Uniform(), CE, steps=600)
    assert np.isinf(r.intervals(0)).all()


def test_actions_never_tried_are_named():
    P = np.zeros((2, 3, 2))
    P[0, :, 1] = P[1, :, 0] = 1
    questions = [gvfx.GVF([0.5, 0.3, 0.2], gvfx.Constant(1.0, at=1), 0.9)]
    world = gvfx.MDP.from_matrix(P, start=[1, 0], horizon=10)
    two = gvfx.Follow([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    said = gvfx.evaluate(world, questions, two, gvfx.CertaintyEquivalence(), steps=200).summary()
    assert said.endswith("; 3 actions that a target policy takes were never tried (state: action 0: 2, 1: 1, 1: 2)")
    tried = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=200).summary()
    assert "never tried" not in tried
