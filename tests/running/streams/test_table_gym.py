"""Tables in a stepped environment: equal to the compiled loop, right about endings, vectors and failures."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.environments import Sound, Veiled, break_down, stepped

import gvfx
import gvfx_paper
from gvfx.running.plan import Plan
from gvfx.schedules import Fixed

HALF = [0.5, 0.5]
SARSA = gvfx.ExpectedSarsa(Fixed(0.2), Fixed(0.2), initial_q=0.0)


def cliff_questions():
    pi = np.random.default_rng(0).dirichlet(np.ones(4), 48)
    ends = lambda s, a, s2: 0.5 if s2 % 5 == 0 else 0.9  # noqa: E731
    return [gvfx.GVF(pi, gvfx.Reward(), 0.9), gvfx.GVF(gvfx.uniform_policy(), lambda s, a, s2: s != s2, ends)]


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize(
    ("behaviour", "learner"),
    [
        (gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())), SARSA),
        pytest.param(gvfx.RoundRobin(), gvfx.ImportanceSampling(Fixed(0.2), Fixed(0.2), initial_q=0.0), marks=pytest.mark.slow),
        (gvfx.SuccessorRepresentation(), gvfx_paper.EpisodicExpectedSarsa(Fixed(0.2), Fixed(0.2), initial_q=0.0)),
        pytest.param(gvfx.RoundRobin(), gvfx.CertaintyEquivalence(), marks=pytest.mark.slow),
        (gvfx.Floor(gvfx.GVFExplorer(), 0.02), gvfx.CertaintyEquivalence()),
    ],
)
def test_online_equals_compiled_where_the_environment_has_no_chance(behaviour, learner, calibrate):
    """CliffWalking moves without chance, so the same seed must give the same answers, bit for bit."""
    env, questions = gym.make("CliffWalking-v1", max_episode_steps=60), cliff_questions()
    if isinstance(learner, gvfx_paper.EpisodicExpectedSarsa):
        with pytest.raises(gvfx.InputError, match="^discount: EpisodicExpectedSarsa"):
            gvfx.evaluate(Veiled(env), questions, behaviour, learner, steps=10)
        questions[1] = dataclasses.replace(questions[1], discount=0.8)
    online = gvfx.evaluate(Veiled(env), questions, behaviour, learner, steps=1500, calibrate=calibrate)
    compiled = gvfx.evaluate(env, questions, behaviour, learner, steps=1500, calibrate=calibrate)
    assert np.isnan(online.mse).all() and not np.isnan(compiled.mse).any()
    live = gvfx.from_gymnasium(env).live
    assert np.array_equal(online.visits, compiled.visits) and np.array_equal(online.details.episodes, compiled.details.episodes)
    if isinstance(learner, gvfx.CertaintyEquivalence):  # the sums of the solver may be in another order
        np.testing.assert_allclose(online.values[:, :, live], compiled.values[:, :, live], rtol=1e-9, atol=1e-12)
        both = [np.nan_to_num(r.intervals()[:, live], posinf=1e9, neginf=-1e9) for r in (online, compiled)]
        np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-9)
    else:
        np.testing.assert_array_equal(online.values[:, :, live], compiled.values[:, :, live])


def lake_questions():
    ends = lambda s, a, s2: 0.5 if s2 == 6 else 0.9  # noqa: E731
    pi = np.random.default_rng(0).dirichlet(np.ones(4), 16)
    return [gvfx.GVF(pi, gvfx.Reward(), 0.95, name="goal"), gvfx.GVF(gvfx.uniform_policy(), lambda s, a, s2: s2 % 3, ends)]


@pytest.mark.compiled(12)
def test_defaults_count_and_plan_in_an_unknown_environment_too():
    """FrozenLake with its table hidden: answers near the truth, and intervals that hold it about as often as they say.

    Over 30 seeds the errors are 0.0016 and 0.041, with standard deviations of 0.0016 and 0.034.
    """
    env = gym.make("FrozenLake-v1")
    known = gvfx.from_gymnasium(env)
    truth = gvfx.exact.values(known, lake_questions())[:, known.live]
    result = gvfx.evaluate(Veiled(env), lake_questions(), steps=4000, seeds=15)
    assert (
        result.details.experiment["behaviour"].startswith("OptimalDesign")
        and "CertaintyEquivalence" in result.details.experiment["learner"]
    )
    off = ((result.values[:, :, known.live] - truth) ** 2).mean(axis=2)
    assert off.mean(axis=0)[0] < 3e-3 and off.mean(axis=0)[1] < 0.05
    expected = result.details.expected[:, -1].mean(axis=0)
    assert (off.mean(axis=0) / expected > 0.3).all() and (off.mean(axis=0) / expected < 3).all()
    inside = (
        np.abs(result.values[:, :, known.live] - truth) < 1.96 * result.details.snapshots[-1].standard_errors[:, :, known.live]
    )
    assert 0.82 < np.mean(inside) < 1
    assert (
        np.diff(result.details.expected[:, 8:].mean(axis=(0, 2))) < 0
    ).mean() > 0.8  # once its answers are known, it knows that it gets better


@pytest.mark.compiled(12)
def test_runs_in_unknown_environments_stop_when_sure():
    result = gvfx.evaluate(
        Veiled(gym.make("FrozenLake-v1")), lake_questions(), steps=60_000, seeds=2, until=gvfx.error_below(0.02)
    )
    assert (
        (result.stopped < 40_000).all() and (result.details.bounds < 0.02).all() and result.visits.sum() == result.stopped.sum()
    )
    with pytest.raises(gvfx.InputError, match="^until"):
        gvfx.evaluate(Clock(True), [gvfx.GVF(HALF, 1.0, 0.5)], learner=SARSA, steps=10, until=gvfx.error_below(0.02))


def test_signals_that_the_table_does_not_tell_are_stepped():
    env = gym.make("FrozenLake-v1")
    result = gvfx.evaluate(env, [gvfx.GVF(gvfx.uniform_policy(), gvfx.Info("prob"), 0.5)], gvfx.Uniform(), SARSA, steps=3000)
    assert result.details.experiment["environment"] == "FrozenLake-v1"
    known = gvfx.exact.values(gvfx.from_gymnasium(env), [gvfx.GVF(gvfx.uniform_policy(), 1 / 3, 0.5)])  # 1/3 per step
    assert result.predict(0)[0] == pytest.approx(known[0, 0], abs=0.02)  # at this rate the standard deviation is 0.0045


class Clock(gym.Env):
    """One state that pays 1; ends after three steps, by termination or by truncation."""

    observation_space = gym.spaces.Discrete(2, start=7)
    action_space = gym.spaces.Discrete(2, start=-1)

    def __init__(self, terminates):
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 7, {}

    def step(self, action):
        assert action in (-1, 0)
        self.t += 1
        done = self.t == 3
        return np.int64(7), 1, done and self.terminates, done and not self.terminates, {"t": self.t}


def test_truncation_bootstraps_and_termination_does_not():
    question = gvfx.GVF(HALF, gvfx.Reward(), 0.5)
    learner = gvfx.ExpectedSarsa(Fixed(0.05), initial_q=0.0)
    cut = gvfx.evaluate(Clock(False), [question], gvfx.Uniform(), learner, steps=3000)
    assert cut.predict(7)[0] == pytest.approx(2.0, abs=1e-3)
    with pytest.warns(UserWarning, match="12 of 12 episodes terminated after exactly 3 steps"):
        ended = gvfx.evaluate(Clock(True), [question], gvfx.Uniform(), learner, steps=3000)
    assert ended.predict(7)[0] == pytest.approx(1.5, abs=0.1)  # V = 1 + (2/3) V / 2
    with pytest.raises(gvfx.InputError, match="^observation: 3 is not a state; give a whole number, 7 to 8"):
        cut.predict(3)


def test_termination_by_signal_and_vectors_of_signals():
    """A discount of 0 when the clock strikes two: what is summed is 1 from there, whatever comes after."""
    ends = lambda s, a, r, s2, info: 0.0 if info["t"] == 2 else 0.5  # noqa: E731
    signal = gvfx.Measure(lambda s, a, r, s2, info: (1.0, info["t"]), size=2)
    result = gvfx.evaluate(Clock(False), [gvfx.GVF(HALF, signal, ends, name="v")], gvfx.Uniform(), SARSA, steps=300)
    assert result.names == ("v[0]", "v[1]") and result.predict(7).shape == (2,)
    assert result.visits[0].sum() == 300 and result.visits[0, 1].sum() == 0


class Count(gym.Env):
    """0, 1, 2, 3, then the end; info tells the number."""

    observation_space = gym.spaces.Discrete(5)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {}

    def step(self, action):
        self.s += 1
        return self.s, float(self.s), self.s == 4, False, {"number": self.s}


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environments_learn_the_same_however_they_reset(mode):
    """Deterministic and fast to learn at rate 1: the values must be exact, so no reset was taken for a transition."""
    env = SyncVectorEnv([Count] * 3, autoreset_mode=mode)
    questions = [gvfx.GVF(HALF, gvfx.Reward(), 0.5), gvfx.GVF(HALF, gvfx.Info("number"), 1.0), gvfx.GVF(HALF, 1.0, 1.0)]
    result = gvfx.evaluate(env, questions, gvfx.Uniform(), gvfx.ExpectedSarsa(Fixed(1.0), initial_q=0.0), steps=900)
    v = [1 + (2 + (3 + 4 / 2) / 2) / 2, 2 + (3 + 4 / 2) / 2, 3 + 4 / 2, 4]
    np.testing.assert_allclose(result.predict(range(4)), [v, [10, 9, 7, 4], [4, 3, 2, 1]])
    counted = gvfx.evaluate(env, questions, steps=300)
    np.testing.assert_allclose(counted.predict(range(4)), result.predict(range(4)))
    assert counted.details.models[0].evidence.starts.tolist()[:2] == [counted.details.models[0].evidence.starts.sum(), 0]
    assert 900 <= result.visits.sum() <= 902 and result.visits[0, 4].sum() == 0
    assert result.details.episodes[0, -1] == pytest.approx(225, abs=2)


def test_what_needs_one_episode_at_a_time_is_refused_for_vectors():
    env = SyncVectorEnv([Count] * 2)
    for options in ({"learner": gvfx_paper.EpisodicExpectedSarsa()}, {"behaviour": gvfx.BehaviourPolicySearch()}):
        with pytest.raises(gvfx.InputError, match="one episode at a time"):
            gvfx.evaluate(env, [gvfx.GVF(HALF, 1.0, 0.5)], steps=10, **options)


# --- failures ----------------------------------------------------------------------------------------------------


def after(steps, change):
    """`Sound` whose step is changed after so many steps."""

    def step(self, *values):
        self.count = getattr(self, "count", 0) + 1
        return change(*values) if self.count > steps else values

    return stepped(step)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (break_down, "step raised RuntimeError: out of oil"),
        (lambda o, r, e, t, i: (o, r, e, i), "step did not return"),
        (lambda o, *rest: (np.zeros(2), *rest), r"of shape \[2\] is not one whole number"),
        (lambda o, *rest: (0.5, *rest), "0.5 is not one whole number"),
        (lambda o, *rest: (5, *rest), "5 lies outside its space of 5 states"),
        (lambda o, r, *rest: (o, float("nan"), *rest), "the reward is nan"),
        (lambda o, r, e, t, i: (o, r, e, t, {}), "info: has no 'force'"),
    ],
)
def test_environments_that_fail_are_named_and_what_was_learned_is_kept(tmp_path, change, words):
    path = tmp_path / "answers.gvfx"
    questions = [gvfx.GVF(HALF, gvfx.Info("force", size=2), 0.9, name="force")]
    with pytest.raises(gvfx.EnvironmentFailed, match=rf"^Broken: episode \d+, step \d+: .*{words}") as caught:
        gvfx.evaluate(after(400, change)(), questions, gvfx.Uniform(), SARSA, steps=1000, evaluate_every=300, save=path)
    kept = caught.value.result
    assert kept.visits.sum() == 400 and kept.steps.tolist() == [300] and kept.values[0, 0, 0] > 1
    assert kept.details.experiment["failed"] == str(caught.value)
    assert np.array_equal(gvfx.load(path).values, kept.values)
    assert "out of" not in gvfx.load(path).summary() or change is break_down


def test_finished_seeds_are_kept_beside_the_one_that_failed():
    env = after(500, break_down)()
    with pytest.raises(gvfx.EnvironmentFailed) as caught:
        gvfx.evaluate(env, [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], gvfx.Uniform(), SARSA, steps=400, seeds=3, evaluate_every=50)
    kept = caught.value.result
    assert kept.seeds == (0, 1) and kept.visits.sum(axis=(1, 2)).tolist() == [400, 100] and kept.steps.tolist() == [50, 100]


def test_failing_at_once_keeps_nothing():
    with pytest.raises(gvfx.EnvironmentFailed, match="episode 0, step 0") as caught:
        gvfx.evaluate(after(0, break_down)(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], gvfx.Uniform(), SARSA, steps=400)
    assert caught.value.result is None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"workers": 2}, "workers"),
        ({"steps": Plan.checked(10, None, (), 5)}, "average_episodes"),
        ({"learner": gvfx.Deep()}, "learner"),
    ],
)
def test_options_that_do_not_fit_are_named(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.evaluate(Sound(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9)], **{"steps": 10} | options)
