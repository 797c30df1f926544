"""Observations numbered as they are met: the answers of the same states as Discrete ones, in every order and after a resume."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.environments import Odometer, Pair, Panel, Sound

import gvfx
from gvfx.errors import InputError
from gvfx.evidence.uncertainty import start_values
from gvfx.evidence.unseen import Unseen
from gvfx.worlds import spec as numbering

HALF = [0.5, 0.5]


class Grid(gym.Env):
    """A walk on 15 x 15 cells, more than there is room for at first, that ends in a corner; observed as a pair of numbers."""

    observation_space = gym.spaces.MultiDiscrete([15, 15], start=[1, 1])
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([7, 7])
        return self.show(), {}

    def step(self, action):
        if self.np_random.random() < 0.1:
            action = int(self.np_random.integers(4))
        self.at = (self.at + ((1, 0), (-1, 0), (0, 1), (0, -1))[action]).clip(0, 14)
        return self.show(), float(self.at[0] == 0), bool((self.at == 14).all()), False, {}

    def show(self):
        return self.at + 1


class Flat(Grid):
    """The same with Discrete observations."""

    observation_space = gym.spaces.Discrete(225)

    def show(self):
        return int(self.at[0] * 15 + self.at[1])


def leaning(observation):
    """A policy that goes down in the first rows."""
    return [0.7, 0.1, 0.1, 0.1] if observation[0] < 8 else [0.25] * 4


def questions(policy):
    return [gvfx.GVF(policy, gvfx.Reward(), 0.9, name="lean"), gvfx.GVF([0.25] * 4, gvfx.Reward(), 0.9, name="drift")]


METHODS = [(gvfx.Uniform(), gvfx.CertaintyEquivalence()), (gvfx.Uniform(), gvfx.ExpectedSarsa(rate_q=0.2))]


@pytest.mark.parametrize(("behaviour", "learner"), METHODS)
def test_numbered_states_have_the_answers_of_discrete_ones(behaviour, learner):
    options = {"steps": 4000, "seeds": 2, "snapshots": [50, 1000]}
    one = gvfx.evaluate(Grid(), questions(leaning), behaviour, learner, **options)
    other = gvfx.evaluate(Flat(), questions(lambda s: leaning([s // 15 + 1, 0])), behaviour, learner, **options)
    cells = [one.details.predictor.label(s) for s in range(one.values.shape[2])]
    flat = np.array([(row - 1) * 15 + column - 1 for row, column in cells])
    assert flat.tolist() == sorted(set(flat)) and len(flat) > 200  # room for more states was made
    for mine, theirs in zip(one.details.snapshots, other.details.snapshots, strict=True):
        assert np.array_equal(mine.visits, theirs.visits[:, flat])
        acted = mine.visits.any(axis=2)[:, None]
        assert np.allclose(np.where(acted, mine.values - theirs.values[..., flat], 0), 0, atol=1e-10)
    if one.details.has_intervals:
        assert np.allclose(one.intervals(), other.intervals()[:, flat], atol=1e-8)
        assert np.allclose([v[:3] for v in one.value().values()], [v[:3] for v in other.value().values()], atol=1e-8)
    assert np.allclose(one.predict(np.array([3, 4])), other.predict(2 * 15 + 3))


def test_results_show_the_environments_own_observations(tmp_path):
    result = gvfx.evaluate(
        Pair(), [gvfx.GVF(lambda o: HALF if o[0] < 3 else [0.9, 0.1], gvfx.Info("force", index=1), 0.9)], steps=2000
    )
    assert [row["observation"] for row in result.rows()] == [[s + 1, [s % 2, int(s > 2)]] for s in range(5)]
    one = (2, np.array([1, 0], np.int8))
    two = (1, np.array([0, 0], np.int8))
    assert result.predict(one).shape == (1,) and result.predict([one, two]).shape == (1, 2)
    assert np.array_equal(result.predict((one, {})), result.predict(one))  # what reset returns
    assert np.isnan(result.predict((2, np.array([0, 0], np.int8)))).all()  # never met
    assert not np.isfinite(result.intervals((2, np.array([0, 0], np.int8)))).any()
    result.save(tmp_path / "answers.gvfx")
    again = gvfx.load(tmp_path / "answers.gvfx")
    assert repr(again.rows()) == repr(result.rows()) and np.array_equal(again.predict([one, two]), result.predict([one, two]))
    assert np.array_equal(again.intervals(one), result.intervals(one))
    with pytest.raises(InputError, match=r"^observation: 'start' .*result\.value"):
        result.predict("start")


def test_entries_that_cannot_be_read_are_left_out_and_actions_numbered():
    fast = gvfx.GVF([0, 0, 0, 0, 0.5, 0.5], gvfx.Reward(), 0.9, name="fast")
    told = gvfx.GVF(lambda o: np.eye(6)[5] if o["text"] == "at0" else np.full(6, 1 / 6), gvfx.Reward(), 0.9, name="told")
    with pytest.warns(UserWarning, match="^observation_space: text is left out"):
        result = gvfx.evaluate(Panel(), [fast, told], steps=4000)
    assert result.details.choices == ("[0, 0]", "[0, 1]", "[0, 2]", "[1, 0]", "[1, 1]", "[1, 2]")
    assert result.rows()[0]["observation"] == {"count": [0]}
    assert np.array_equal(result.predict({"count": np.array([2]), "text": "at2"}), result.predict({"count": np.array([2])}))
    truth = gvfx.truth_of(Panel(), [fast, told], max_episodes=500)
    start = result.value()
    off = [abs(start[name].value - v) / (se + (start[name].high - start[name].low) / 4) for name, v, se in
           zip(truth.names, truth.values[:, 0], truth.standard_errors[:, 0], strict=True)]  # fmt: skip
    assert max(off) < 4
    findings = gvfx.check(Panel(), [fast, told])
    assert [(f.severity, f.field) for f in findings] == [("warning", "observation_space")]


OTHERS = [pytest.param(mode, marks=pytest.mark.full) for mode in list(AutoresetMode)[1:]]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, *OTHERS])
def test_vector_environments_are_numbered_in_every_autoreset_mode(mode):
    envs = SyncVectorEnv([Grid] * 3, autoreset_mode=mode)
    result = gvfx.evaluate(envs, questions(leaning), gvfx.Uniform(), steps=6000)
    alone = gvfx.evaluate(Grid(), questions(leaning), gvfx.Uniform(), steps=6000)
    for name, v in result.value().items():
        assert abs(v.value - alone.value()[name].value) < 0.5 * (v.high - v.low) + 0.5 * (
            alone.value()[name].high - alone.value()[name].low
        )
    several = [leaning(o) for o in envs.reset(seed=0)[0]]
    assert result.predict(envs.reset(seed=0)[0]).shape == (2, len(several))


def test_a_resumed_run_keeps_its_numbers(tmp_path):
    class Counts(Grid):
        """Fails once, in the middle."""

        failed = False
        count = 0

        def step(self, action):
            self.count += 1
            if self.count == 3000 and not Counts.failed:
                Counts.failed = True
                raise RuntimeError("motor timeout")
            return super().step(action)

    method = (gvfx.Uniform(), gvfx.CertaintyEquivalence())
    with pytest.raises(gvfx.EnvironmentFailed, match="motor timeout") as caught:
        gvfx.evaluate(Counts(), questions(leaning), *method, steps=6000, checkpoint=tmp_path, snapshots=[100])
    partial = caught.value.result
    assert partial is not None and partial.values.shape[2] > 64
    with pytest.warns(UserWarning, match="continues at step 2,999"):
        result = gvfx.evaluate(Counts(), questions(leaning), *method, steps=6000, checkpoint=tmp_path, snapshots=[100])
    assert result.visits.sum() == 6000 and result.details.snapshots[0].visits.sum() == 100
    before = {str(partial.details.predictor.label(s)): n for s, n in enumerate(partial.visits.sum(axis=(0, 2)))}
    after = {str(result.details.predictor.label(s)): n for s, n in enumerate(result.visits.sum(axis=(0, 2)))}
    assert all(after[label] >= n for label, n in before.items())
    finished = gvfx.evaluate(Counts(), questions(leaning), *method, steps=6000, checkpoint=tmp_path, snapshots=[100])
    assert np.array_equal(finished.values, result.values) and repr(finished.rows()) == repr(result.rows())


def test_the_numbers_of_a_run_do_not_depend_on_a_pause():
    """A stream that is stored and restored into a new one goes on with the same numbers and tables."""
    from gvfx.running.backends import open_backend
    from gvfx.running.plan import Options, Plan

    plan = Plan.checked(2000, 500, ())
    backend = open_backend(Grid(), questions(leaning), gvfx.Uniform(), gvfx.CertaintyEquivalence(), options=Options(plan))
    stream = backend.begin(0)
    stream.start()
    stream.advance(2000)
    again = backend.begin(0)
    again.restore(stream.state())
    assert again.agent.spec.numbering.keys == stream.agent.spec.numbering.keys
    for (name, mine), theirs in zip(again.state().items(), stream.state().values(), strict=True):
        assert np.array_equal(mine, theirs), name
    assert np.array_equal(again.agent.known.values, stream.agent.known.values)


def test_too_many_observations_are_answered_by_features_instead(monkeypatch):
    monkeypatch.setattr(numbering, "SAMPLE", 200)
    with pytest.warns(UserWarning, match="in 201 steps, too many for tables; the run begins again .* the 196 transitions"):
        result = gvfx.evaluate(Odometer(), [gvfx.GVF(HALF, gvfx.Reward(), 0.5, name="q")], steps=600)
    assert "LinearCertaintyEquivalence" in str(result.details.experiment["learner"])
    assert result.value()["q"].value == pytest.approx(2.0, abs=0.2)
    assert result.details.snapshots[-1].visits.sum() == 600 + 196  # with the transitions of the tables
    tables = {"learner": gvfx.CertaintyEquivalence(), "steps": 600}
    with pytest.raises(gvfx.RunError, match=r"too many for tables; give learner=gvfx\.Linear") as caught:
        gvfx.evaluate(Odometer(), [gvfx.GVF(HALF, gvfx.Reward(), 0.5)], **tables)
    assert caught.value.result is not None
    monkeypatch.setattr(numbering, "MOST_STATES", 50)
    with pytest.raises(gvfx.RunError, match="50 different observations were met"):
        gvfx.evaluate(Grid(), questions(leaning), **tables)


def test_errors_count_where_observations_are_given():
    env = Grid()
    first = env.reset(seed=0)[0]
    given, start = (gvfx.evaluate(env, questions(leaning), steps=600, where=where) for where in ([first], "start"))
    half = np.diff(given.intervals(first), axis=-1).ravel() / 2
    expected = given.details.expected[0, -1]  # not known while something was never tried there
    np.testing.assert_allclose(1.96 * np.sqrt(expected), np.where(np.isfinite(half), half, np.nan), rtol=1e-3)
    assert given.details.experiment["where"].startswith("state") and start.details.experiment["where"] == "start"
    with pytest.raises(InputError, match="^where: .* does not fit its space.*; give 'start', or a list of observations"):
        gvfx.evaluate(env, questions(leaning), steps=100, where=["nowhere"])


def test_audits_meet_states_that_frozen_answers_do_not_know():
    result = gvfx.evaluate(Grid(), questions(leaning), steps=2000, audit=0.3, where="start")
    assert all(check.rollouts > 2 and np.isfinite(check.half) for check in result.audit().values())
    for name, check in result.audit().items():
        assert abs(check.off) < 3 * check.half, name


def test_cumulants_by_state_and_broken_policies_are_named():
    with pytest.raises(InputError, match="Constant cannot be read from this environment"):
        gvfx.evaluate(Grid(), [gvfx.GVF([0.25] * 4, gvfx.Constant(1, at=3), 0.9)], steps=10)
    with pytest.raises(InputError, match=r"policy: the function raised KeyError: .*make it accept every observation"):
        gvfx.evaluate(Grid(), [gvfx.GVF(lambda o: {}[int(o[0])], gvfx.Reward(), 0.9)], steps=10)
    with pytest.raises(gvfx.EnvironmentFailed, match="ZeroDivisionError") as caught:
        gvfx.evaluate(
            Grid(), [gvfx.GVF(lambda o: [0.25 / (o[0] > 5)] * 4 if o[0] > 5 else 1 / 0, gvfx.Reward(), 0.9)], steps=2000
        )
    assert caught.value.result is not None


def test_defaults_plan_and_policies_of_ones_own_work():
    result = gvfx.evaluate(
        Pair(),
        [gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(index=0), 0.9, name="best"), gvfx.GVF(HALF, gvfx.Reward(index=0), 0.9)],
        steps=3000,
    )
    best, half = (v.value for v in result.value().values())
    assert best > half
    assert "OptimalDesign" in str(result.details.experiment["behaviour"])
    networks = gvfx.evaluate(
        Pair(), [gvfx.GVF(HALF, gvfx.Reward(index=0), 0.9)], learner=gvfx.LinearCertaintyEquivalence(), steps=600
    )
    assert "LinearCertaintyEquivalence" in str(networks.details.experiment["learner"])
    with pytest.raises(InputError, match="^learner: "):
        gvfx.evaluate(Sound(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], learner=gvfx.LinearCertaintyEquivalence(), steps=100)


def test_plans_are_made_after_a_pilot():
    costs = gvfx.plan(Pair(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], 0.01, pilot=3000)
    discrete = gvfx.plan(Sound(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9), gvfx.GVF(HALF, -1.0, 0.9, name="b")], 0.01, pilot=3000)
    assert costs["optimum"].steps == pytest.approx(discrete["optimum"].steps, rel=0.3)
    with pytest.raises(InputError, match="^where: states are numbered"):
        gvfx.plan(Pair(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], 0.01, pilot=3000, where=[3])


def test_measuring_does_not_change_a_run():
    often, once = (gvfx.evaluate(Grid(), questions(leaning), steps=1200, evaluate_every=every) for every in (200, 1200))
    assert np.array_equal(often.visits, once.visits) and np.array_equal(often.values, once.values)


def test_the_model_of_a_result_does_not_claim_to_know_all_states():
    for steps in (60, 400):
        result = gvfx.evaluate(Pair(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], steps=steps, where="start")
        (model,) = result.details.models
        assert not Unseen(model).complete
        assert np.allclose(start_values(model)[:, 1], result.details.starts[0, :, 1], rtol=0.35)  # other numbers, other draws


class Errand(gym.Env):
    """Three cells in a row; an episode ends in the last one."""

    observation_space = gym.spaces.MultiDiscrete([3, 1])
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.array([0, 0]), {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        return np.array([self.at, 0]), 1.0, self.at == 2, False, {}


def test_where_episodes_end_no_action_is_missed():
    result = gvfx.evaluate(Errand(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], steps=200)
    assert "3 states reached" in result.summary() and "never tried" not in result.summary()
