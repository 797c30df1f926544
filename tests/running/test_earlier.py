"""Runs that start from a log."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Sound, Walk
from helpers.recording import Blocks, Push, recorded

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.earlier import later
from gvfx.running.plan import Options, Plan

QUESTIONS = [
    gvfx.GVF([0.3, 0.7], gvfx.Reward(), 0.9, name="right"),
    gvfx.GVF([0.9, 0.1], lambda s, a, s2: s2, lambda s, a, s2: 0.5 if s2 == 2 else 0.9, name="left"),
]


@pytest.fixture(scope="module")
def log():
    """The second action is rare."""
    return recorded(Sound(), 2000, lambda rng: int(rng.random() < 0.01))


def begun(log, env=None, steps=100, **options):
    return open_backend(env or Sound(), QUESTIONS, options=Options(Plan.checked(steps, None, (), 0), log=log, **options)).begin(0)


@pytest.mark.parametrize("lanes", [None, 3])
def test_a_run_begins_with_the_evidence_of_the_log(log, lanes):
    env = Sound() if lanes is None else gym.vector.SyncVectorEnv([Sound] * lanes)
    (one,) = gvfx.evaluate_log({**log, "states": 5}, QUESTIONS).details.models
    stream = begun(log, env)
    assert stream.t == 0
    known = stream.agent.known
    np.testing.assert_allclose(known.values, one.values, rtol=1e-12)
    for name in ("visits", "tried"):
        assert np.array_equal(getattr(known, name), getattr(one, name))
    assert np.array_equal(known.evidence.starts, one.evidence.starts)
    assert np.array_equal(known.evidence.found[:5], one.evidence.found[:5])
    np.testing.assert_allclose(known.spreads, one.spreads, atol=1e-12)


def test_the_plan_adds_what_the_log_lacks(log):
    """Of 200 steps 155 take the rare action on average over 12 seeds, with a standard deviation of 13; seed 2 lies above."""
    alone, topped = (gvfx.evaluate(Sound(), QUESTIONS, steps=200, seeds=[2], log=before) for before in (None, log))
    added = topped.visits[0].copy()
    np.subtract.at(added, (log["observation"], log["action"]), 1)
    assert added.sum() == 200 and topped.steps[-1] == 200 and topped.details.snapshots[-1].step == 200
    assert added[:, 1].sum() > 150 > alone.visits[0][:, 1].sum()
    assert "ahead=0.1," in topped.details.experiment["behaviour"]  # the plan is for 200 steps, not for as many as there are data
    assert topped.details.experiment["log"] == 2000 and "log" not in alone.details.experiment
    assert "started from a log of 2,000 transitions" in topped.summary() and "200 steps" in topped.summary()
    widths = [np.ptp(result.intervals(0), axis=1) for result in (gvfx.evaluate_log(log, QUESTIONS), topped, alone)]
    assert (widths[1] < widths[0]).all() and (widths[1] < widths[2]).all()


def test_the_search_knows_what_the_log_has(log):
    search = begun(log).agent.at.behaviour.search
    assert search.n.sum() == 2000 and np.array_equal(search.n[:5].sum(axis=1), np.bincount(log["observation"], minlength=5))


def test_plans_are_due_as_the_data_grow():
    def doubling(n):
        return [size for size in (10, 20, 40, 80, 160) if size <= n]

    assert later(doubling, 0, 100) == {10, 20, 40, 80}
    assert later(doubling, 30, 100) == {0, 10, 50}  # one was due before
    assert later(doubling, 5, 10) == {5}


def test_rows_in_any_order_say_nothing_about_starts(log):
    order = np.random.default_rng(0).permutation(2000)
    shuffled = {name: column[order] for name, column in log.items()}
    stream = begun(shuffled)
    assert not stream.agent.at.outcomes.evidence.starts.any()
    result = gvfx.evaluate(Sound(), QUESTIONS, steps=60, log=shuffled, where="start")
    assert np.flatnonzero(result.details.models[0].evidence.starts).tolist() == [0]
    assert np.array_equal(stream.agent.at.visits, begun(log).agent.at.visits)


def test_the_same_call_continues_from_its_checkpoint_and_another_log_is_refused(log, tmp_path):
    options = {"steps": 60, "log": log, "checkpoint": tmp_path}
    first, again = (gvfx.evaluate(Sound(), QUESTIONS, **options) for _ in range(2))
    assert np.array_equal(first.values, again.values) and np.array_equal(first.visits, again.visits)
    assert np.array_equal(first.values, gvfx.evaluate(Sound(), QUESTIONS, steps=60, log=log).values)
    other = {name: column[1:] for name, column in log.items()}
    for changed in (None, other):
        with pytest.raises(gvfx.StoreError, match="belongs to another experiment"):
            gvfx.evaluate(Sound(), QUESTIONS, **options | {"log": changed})


def test_a_run_that_was_interrupted_keeps_the_log(log, tmp_path):
    options = {"log": log, "checkpoint": tmp_path, "evaluate_every": 20}

    def stop(seed, steps, error):
        if steps == 40:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        gvfx.evaluate(Sound(), QUESTIONS, steps=60, progress=stop, **options)
    stream = begun(log)
    state = {name: array.copy() for name, array in stream.state().items()}
    fresh = begun(log)
    fresh.restore(state)
    assert fresh.t == 0 and np.array_equal(fresh.agent.at.visits, stream.agent.at.visits)
    stream.start()
    stream.advance(30)
    fresh.restore(stream.state())
    assert fresh.t == stream.t == 30
    assert fresh.agent.at.visits.sum() == 2030


def test_counts_of_actions_and_states_begin_where_the_space_does():
    class Shifted(Sound):
        observation_space = gym.spaces.Discrete(5, start=7)
        action_space = gym.spaces.Discrete(2, start=3)

        def step(self, action):
            return super().step(action - 3)

        def show(self):
            return self.s + 7

    log = recorded(Shifted(), 300, lambda rng: 3 + int(rng.integers(2)))
    seen = []

    def signal(s, a, s2):
        seen.append((s, a))
        return 1.0

    result = gvfx.evaluate(Shifted(), [gvfx.GVF([0.5, 0.5], signal, 0.9)], steps=20, log=log)
    assert min(s for s, _ in seen) == 7 and {a for _, a in seen} == {3, 4}
    assert result.visits.sum() == 320
    with pytest.raises(gvfx.InputError, match="^log: observation is 0 in row 0 and Shifted has 7 to 11"):
        gvfx.evaluate(Shifted(), QUESTIONS, steps=20, log={**log, "observation": log["observation"] - 7})


def walked():
    return recorded(Walk(), 600, lambda rng: 3 + int(rng.random() < 0.1))


def test_linear_features_start_from_a_log():
    log = walked()
    questions = [gvfx.GVF(lambda o: [0.2, 0.8] if o[0] > 0 else [0.5, 0.5], gvfx.Reward(), 0.9, name="out")]
    stream = open_backend(Walk(), questions, options=Options(Plan.checked(100, None, (), 0), log=log)).begin(0)
    data = stream.agent.data
    assert len(data) == 600 and stream.t == 0
    assert np.array_equal(data.observation, log["observation"]) and np.array_equal(data.action, log["action"] - 3)
    assert np.array_equal(data.cumulant[:, 0], log["reward"])
    assert np.array_equal(data.discount[:, 0], 0.9 * ~log["terminated"])
    expected = [[0.2, 0.8] if o[0] > 0 else [0.5, 0.5] for o in log["next_observation"]]
    np.testing.assert_allclose(data.pi[:, :, 0], expected, rtol=1e-6)
    assert data.first.sum() == 1 + (log["terminated"] | log["truncated"])[:-1].sum() == data.episode[-1] + 1
    result = gvfx.evaluate(Walk(), questions, steps=100, log=log, evaluate_every=100)
    assert result.visits.sum() == 700 and result.details.experiment["log"] == 600 and result.steps.tolist() == [100]


SMALL = {"hidden": (8,), "batch": 16, "learning_starts": 40}


@pytest.mark.parametrize(
    ("make", "action", "policy", "learner"),
    [
        (Blocks, lambda rng: int(rng.integers(2)), [0.3, 0.7], None),
        (Blocks, lambda rng: int(rng.integers(2)), lambda o: [0.5, 0.5], gvfx.ExpectedSarsa(0.2)),
        (Walk, lambda rng: 3 + int(rng.integers(2)), [0.3, 0.7], gvfx.LinearCertaintyEquivalence(capacity=150)),
        (Walk, lambda rng: 3 + int(rng.integers(2)), [0.3, 0.7], gvfx.Deep(**SMALL, capacity=400)),
        (Push, lambda rng: rng.uniform(-2, 2, 1), gvfx.gaussian_policy([0.5], 0.5), gvfx.TwinCritics(**SMALL, capacity=400)),
    ],
    ids=["numbered", "numbered, updates", "linear, a part of it", "networks", "critics"],
)
def test_every_learner_starts_from_a_log(make, action, policy, learner):
    log = recorded(make(), 200, action)
    question = gvfx.GVF(policy, gvfx.Reward(), 0.9, name="reward")
    run = open_backend(make(), [question], None, learner, options=Options(Plan.checked(100, None, (), 0), log=log))
    stream = run.begin(0)
    assert stream.t == 0 and len(run.log) == 200 and run.log.last.sum() == run.log.begins.sum()
    result = gvfx.evaluate(make(), [question], None, learner, steps=60, log=log, evaluate_every=60)
    kept = 150 if isinstance(learner, gvfx.LinearCertaintyEquivalence) else 260
    assert result.visits.sum() == kept and result.steps.tolist() == [60] and np.isfinite(result.values).all()
    assert result.details.experiment["log"] == 200


def test_a_learner_of_a_log_has_seen_what_one_has_that_made_it():
    """The rows of a log are learned from as if the learner had chosen the actions itself."""
    log = recorded(Blocks(), 200, lambda rng: int(rng.integers(2)))
    question, learner = gvfx.GVF([0.3, 0.7], gvfx.Reward(), 0.9), gvfx.ExpectedSarsa(1.0, initial_q=0.0)
    stream = open_backend(
        Blocks(),
        [question],
        gvfx.Uniform(),
        learner,
        options=Options(Plan.checked(9, None, (), 0), log=log),
    ).begin(0)
    q, number = np.zeros((5, 3, 2)), stream.agent.spec.numbering.number
    rows = zip(log["observation"], log["action"], log["next_observation"], log["reward"], log["terminated"], strict=True)
    for s, a, s2, r, terminated in rows:
        q[(*s, a)] = r + 0.9 * (not terminated) * (q[tuple(s2)] @ [0.3, 0.7])
    for key, s in number.items():
        np.testing.assert_allclose(stream.agent.learning.q[s, :, 0], q[tuple(np.ravel(key))], atol=1e-12)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learner": gvfx.ImportanceSampling()}, "ImportanceSampling learns from its own steps alone"),
        ({"behaviour": gvfx.BehaviourPolicySearch()}, "BehaviourPolicySearch learns from its own actions alone"),
        ({"log": walked()}, "its observations are rows of numbers and those of Sound are states"),
        ({"log": "absent.csv"}, "cannot read absent.csv"),
        ({"log": []}, "is empty"),
        ({"world": Walk()}, "observation has 1 numbers and those of Walk have 2"),
    ],
)
def test_what_cannot_start_from_a_log_is_told(log, options, said):
    given = {"world": Sound(), "log": log, "steps": 10} | options
    with pytest.raises(gvfx.InputError, match=f"^log: {said}"):
        gvfx.evaluate(given.pop("world"), QUESTIONS[:1], **given)


def test_a_list_as_a_world_is_told_where_it_belongs():
    with pytest.raises(gvfx.InputError, match="use gvfx.evaluate_log"):
        gvfx.evaluate([{"observation": 0}], QUESTIONS)
