"""Networks in environments stepped from Python: equal to a plain reference, right about endings, vectors and failures."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.environments import BREAKS, HALF, Clock, Walk, break_down, broken, leaning
from helpers.environments import WALK_QUESTIONS as QUESTIONS
from helpers.networks import Adam, forward, gradients, numpy_network
from helpers.reference import Scales as PlainScales

import gvfx
from gvfx.questions.policies import ROUNDS
from gvfx.report.result_page import page_of
from gvfx.rng import BEHAVIOUR, seed_streams, uniform
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx.running.predictor import Scales
from gvfx.running.streams.network_gym import TOGETHER

SMALL = gvfx.Deep(hidden=(16,), batch=8, capacity=64, learning_starts=32, target_every=24, q_every=4, m_every=8)
EXPLORER = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Linear(1.0, 0.1, 100)))


def reference(run, seed, steps):
    """The same run in NumPy, one step after the other, with the same random numbers; its own environment."""
    learner, env, gvfs = run.learner, Walk(), 3
    heads = 1 + learner.heads
    start = run.begin(seed).agent
    q, m = numpy_network(start.learning.q), numpy_network(start.learning.m)
    target_q, target_m, adam_q, adam_m = q, m, Adam(q, learner.rate_q), Adam(m, learner.rate_m)
    weights, chance, bootstrap = np.array([1.0, 1.0, 3.0]), seed_streams(seed), start.bootstrap
    pi_at = lambda o: np.array([HALF, leaning(o), leaning(o)]).T  # noqa: E731
    scales, rows, o, sizes = Scales.none(2, gvfs), [], env.reset(seed=seed)[0], PlainScales(gvfs)
    for t in range(steps):
        out = forward(m, scales.scaled(o)[None], True, (2, gvfs))[0][0] * scales.unit**2
        score = np.sqrt((weights * pi_at(o) ** 2 * out * sizes.factors()).sum(axis=1))
        epsilon = max(1 - 0.9 * t / 100, 0.1)
        mu = (1 - epsilon) * score / score.sum() + epsilon / 2
        mu = 1e-3 + (1 - 2e-3) * np.maximum(mu - 1e-3, 0) / np.maximum(mu - 1e-3, 0).sum()
        a = int(uniform(chance, BEHAVIOUR) >= mu[0])
        o2, r, terminated, truncated, info = env.step(a + 3)
        gamma = np.array([0.9, 0.5 if o2[0] > 0.5 else 0.8, 0.7]) * (not terminated)
        rows.append(
            (o, o2, np.array([r, info["x"], 2.0]), gamma, a, pi_at(o2), 2.0 * bootstrap.integers(0, 2, (1, heads - 1))[0])
        )
        o = env.reset()[0] if terminated or truncated else o2
        done = t + 1
        if done == learner.learning_starts:
            columns = [np.array([row[k] for row in rows]) for k in (0, 2, 3)]
            scales = Scales.found(*(c.astype(np.float32) for c in columns))
        if done <= learner.learning_starts or (done - learner.learning_starts) % (TOGETHER * learner.block):
            continue
        for done in range(t + 1 - (TOGETHER - 1) * learner.block, t + 2, learner.block):
            u = np.asarray(jax.random.uniform(jax.random.fold_in(start.replay_key, done), (3 * learner.batch,)))
            stored = min(done, learner.capacity)
            first = 0 if done <= learner.capacity else done - learner.capacity
            slots = np.minimum((u * stored).astype(int), stored - 1).reshape(3, -1)
            for k in range(3):
                batch = []
                for slot in slots[k]:  # the slot's latest transition
                    index = slot if first == 0 else slot + (done - 1 - slot) // learner.capacity * learner.capacity
                    batch.append(rows[index])
                ob, ob2, c, g, act, pi, share = (np.array([row[j] for row in batch]) for j in range(7))
                ob, ob2, c = scales.scaled(ob), scales.scaled(ob2), c / scales.unit
                which = np.arange(len(act))
                v = (np.tile(pi, heads) * forward(target_q, ob2, False, (2, heads * gvfs))[0]).sum(axis=1)
                out, kept, z = forward(q, ob, False, (2, heads * gvfs))
                delta = np.tile(c, heads) + np.tile(g, heads) * v - out[which, act]
                d_out = np.zeros_like(out)
                if k < 2:
                    counted = np.repeat(np.concatenate([np.ones((len(act), 1)), share], axis=1), gvfs, axis=1)
                    d_out[which, act] = -2 * counted * delta / len(act)
                    q = adam_q.step(q, gradients(q, kept, z, d_out, False))
                else:
                    v = (pi * forward(target_m, ob2, True, (2, gvfs))[0]).sum(axis=1)
                    out, kept, z = forward(m, ob, True, (2, gvfs))
                    error = delta[:, :gvfs] ** 2 + g**2 * v - out[which, act]
                    d_out = np.zeros_like(out)
                    d_out[which, act] = -2 * error / len(act)
                    m = adam_m.step(m, gradients(m, kept, z, d_out, True))
            if done // learner.target_every > (done - learner.block) // learner.target_every:
                target_q, target_m = q, m
        if run.calibrated:
            latest = rows[-TOGETHER * learner.block :]
            ob, act = (np.array([row[j] for row in latest]) for j in (0, 4))
            out = forward(q, scales.scaled(ob), False, (2, heads * gvfs))[0][np.arange(len(act)), act, :gvfs] * scales.unit
            sizes.note((out**2).mean(axis=0), len(act))
    return q, m, rows, sizes


@pytest.mark.parametrize(
    ("heads", "calibrate"),
    [pytest.param(0, False, marks=pytest.mark.slow), pytest.param(3, False, marks=pytest.mark.full), (3, True)],
)
def test_the_loop_equals_a_plain_one(heads, calibrate):
    """Networks, scales and every action, with functions as policies, a varying discount and a replay that runs over."""
    learner = gvfx.Deep(**{**SMALL.__dict__, "heads": heads})
    run = open_backend(Walk(), QUESTIONS, EXPLORER, learner, options=Options(Plan.checked(200, None, ()), calibrate=calibrate))
    stream = run.begin(3)
    stream.start()
    stream.advance(160)
    q, m, rows, sizes = reference(run, 3, 160)
    if calibrate:
        (found,) = (state.scales for state in stream.agent.decider.states)
        np.testing.assert_allclose(found.square, sizes.square, rtol=1e-2)
        np.testing.assert_allclose(found.factor, sizes.factors(), rtol=1e-2)
        assert found.steps[0] == sizes.n == 128
    kept = stream.agent.seen_so_far()
    newest = [rows[k][4] for k in (*range(128, 160), *range(96, 128))]  # the newest run over the oldest
    assert np.array_equal(kept[:64, run.columns.action][:, 0], newest)
    for ours, theirs in ((stream.agent.learning.q, q), (stream.agent.learning.m, m)):
        for w, b, (w2, b2) in zip(ours.weights, ours.biases, theirs, strict=True):
            np.testing.assert_allclose(w, w2, rtol=2e-3, atol=2e-4)
            np.testing.assert_allclose(b, b2, rtol=2e-3, atol=2e-4)


class Ticks(Clock):
    action_space = gym.spaces.Discrete(2)


QUICK = gvfx.Deep(rate_q=1e-2, hidden=(32,), learning_starts=100, final_rate=0.05, capacity=2000, heads=4)


@pytest.mark.parametrize("kind", [pytest.param("box", marks=pytest.mark.slow), "dict"])
def test_truncation_bootstraps_and_termination_does_not(kind, tmp_path):
    question = [gvfx.GVF(HALF, gvfx.Reward(), 0.5, name="r")]
    start = np.array([0.0], np.float32) if kind == "box" else {"a": np.array([0.0], np.float32), "b": 0}
    ended = gvfx.evaluate(
        Ticks(True, kind), question, gvfx.Uniform(), QUICK, steps=2400, evaluate_every=1200, save=tmp_path / "a.gvfx"
    )
    assert ended.predict(start)[0] == pytest.approx(1 + 0.5 * (1 + 0.5 * 1.5), abs=0.03)
    assert 0 < ended.details.spread(start)[0] < 0.15
    assert ended.details.error_bars == "spread" and not ended.details.has_intervals and "spread" in ended.summary()
    with pytest.raises(gvfx.InputError, match="^intervals: networks have them at the start alone"):
        ended.intervals(start)
    cut = gvfx.evaluate(Ticks(False, kind), question, gvfx.Uniform(), QUICK, steps=2400, evaluate_every=2400)
    assert cut.predict(start)[0] > ended.predict(start)[0] + 0.02  # what lies beyond the cut counts
    page = page_of(ended, tmp_path / "a.gvfx")
    assert next(s for s in page.sections if s.id == "predictions").items[0].columns == ["at", "prediction", "spread", "visits"]
    assert "networks have intervals at the start alone" in page.summary.bullets[-1] and page.facts["error bars"] == "spread"
    back = gvfx.load(tmp_path / "a.gvfx", Ticks(True, kind), question)
    np.testing.assert_array_equal(back.predict(start), ended.predict(start))
    np.testing.assert_array_equal(back.details.spread(start), ended.details.spread(start))
    assert back.rows()[0]["spread"] > 0 and back.rows()[0]["low"] is None
    assert (
        len(back.rows()) == len(back.details.points)
        and back.summary() == ended.summary()
        and back.details.expected.shape == (1, 2, 1)
    )
    with pytest.raises(gvfx.InputError, match="^questions: a stored result"):
        gvfx.load(tmp_path / "a.gvfx").predict(start)
    with pytest.raises(gvfx.InputError, match="^observation: .* does not fit"):
        back.predict(np.zeros((3, 2)))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environments_however_they_reset(mode):
    env = SyncVectorEnv([Ticks] * 3, autoreset_mode=mode)
    run = open_backend(
        env, [gvfx.GVF(HALF, gvfx.Info("t"), 0.5)], gvfx.RoundRobin(), QUICK, options=Options(Plan.checked(90, None, ()))
    )
    stream = run.begin(0)
    stream.start()
    stream.advance(90)
    rows = stream.agent.seen_so_far()
    observation, following, c, gamma = (
        rows[:, getattr(run.columns, n)][:, 0] for n in ("observation", "following", "cumulants", "discounts")
    )
    np.testing.assert_allclose(following - observation, 0.25)  # no reset was taken for a transition
    np.testing.assert_allclose(c, 4 * following)
    np.testing.assert_allclose(gamma, np.where(following == 1, 0, 0.5))
    assert stream.stepper.episode == pytest.approx(22, abs=1) and len(rows) == stream.t


def test_more_lanes_than_are_learnt_from_at_once():
    """No transition is lost, and few enough wait."""
    env, learner = SyncVectorEnv([Ticks] * 80), gvfx.Deep(**{**SMALL.__dict__, "capacity": 4000})
    run = open_backend(
        env, [gvfx.GVF(HALF, gvfx.Info("t"), 0.5)], gvfx.Uniform(), learner, options=Options(Plan.checked(900, None, ()))
    )
    stream = run.begin(0)
    stream.start()
    stream.advance(800)
    rows = stream.agent.seen_so_far()
    assert stream.agent.pending < stream.agent.together < 80 and len(rows) == stream.t
    c = rows[:, run.columns.cumulants]
    c[: len(rows) - stream.agent.pending] *= stream.agent.scales.unit  # of those that were stored
    np.testing.assert_allclose(c, 4 * rows[:, run.columns.observation] + 1, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *BREAKS,
        (lambda o, *rest: (np.zeros(3), *rest), r"of \[3\]\) does not fit its space"),
        (lambda o, r, e, t, i: (o, r, e, i), "step did not return"),
    ],
)
def test_failures_are_named_and_what_was_learned_is_kept(change, words, tmp_path):
    path, learns = tmp_path / "kept.gvfx", change is break_down
    learner = QUICK if learns else gvfx.Deep(**{**QUICK.__dict__, "learning_starts": 500})
    with pytest.raises(gvfx.EnvironmentFailed, match=rf"^Broken: episode 75, step 0: .*{words}") as caught:
        gvfx.evaluate(
            broken(Ticks, 300, change), [gvfx.GVF(HALF, gvfx.Reward(), 0.5)], gvfx.Uniform(), learner, steps=1000, save=path
        )
    assert caught.value.result.visits.sum() == 300
    if learns:  # 200 steps of it: a tenth of the error of answering 0
        truth = np.array([1.875, 1.75, 1.5, 1.0])
        found = caught.value.result.predict(np.linspace(0, 0.75, 4)[:, None])[0]
        assert ((found - truth) ** 2).mean() < 0.1 * (truth**2).mean()
    assert np.array_equal(gvfx.load(path).values, caught.value.result.values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learner": gvfx.ExpectedSarsa()}, "^learner: ExpectedSarsa needs Discrete"),
        (
            {"learner": QUICK, "behaviour": gvfx.OptimalDesign()},
            "^behaviour: OptimalDesign runs on tables and linear features only",
        ),
        ({"learner": QUICK, "until": gvfx.error_below(0.1)}, "^until"),
    ],
)
def test_what_does_not_fit_is_named(options, words):
    with pytest.raises(gvfx.InputError, match=words):
        gvfx.evaluate(Ticks(), [gvfx.GVF(HALF, gvfx.Reward(), 0.5)], steps=100, **options)


def test_policies_are_asked_once_per_observation_and_jax_functions_are_compiled():
    calls = []

    def counted(observations):
        calls.append(len(observations))
        return jnp.full((len(observations), 2), 0.5)

    questions = [gvfx.GVF(gvfx.callable_policy(counted, batched=True), gvfx.Reward(), 0.5, name=f"q{k}") for k in range(5)]
    run = open_backend(Ticks(), questions, gvfx.Mixture(), QUICK, options=Options(Plan.checked(90, None, ())))
    stream = run.begin(0)
    stream.start()
    stream.advance(30)
    before = len(calls)
    assert 2 < before <= 3 + ROUNDS and len(run.targets.distinct) == 1  # once to look at it, once to trace it; and again as given
    stream.advance(60)
    assert len(calls) == before


@pytest.mark.parametrize(
    ("behaviour", "m_output"),
    [
        pytest.param(gvfx.Uniform(), "softplus", marks=pytest.mark.slow),
        pytest.param(gvfx.Mixture(), "softplus", marks=pytest.mark.full),
        (EXPLORER, "softplus"),
        pytest.param(EXPLORER, "exp", marks=pytest.mark.full),
        (gvfx.Blend(gvfx.RoundRobin(), gvfx.GVFExplorer(), 0.3), "softplus"),
        pytest.param(gvfx.SuccessorRepresentation(), "softplus", marks=pytest.mark.full),
    ],
    ids=repr,
)
def test_compiled_choices_are_those_of_the_rules_in_jax(behaviour, m_output):
    """Also with waves, weights and after an episode has ended."""
    learner = gvfx.Deep(**{**SMALL.__dict__, "waves": 3, "m_output": m_output})
    run = open_backend(Walk(), QUESTIONS, behaviour, learner, options=Options(Plan.checked(200, None, ())))
    stream = run.begin(1)
    stream.start()
    stream.advance(100)
    points = np.random.default_rng(0).normal(0, 1, (7, 2)).astype(np.float32)
    pi = run.policies(list(points))
    ours = stream.agent.decider.probabilities(100, points, pi)
    rule, learning = behaviour.network_rule(), stream.agent.learning
    state = rule.begin(run.weights)
    for _ in range(stream.stepper.episode):
        state = rule.episode_end(state)
    m = np.asarray(learning.m(stream.agent.scales.scaled(points))) * stream.agent.scales.unit**2
    value = (
        np.asarray(learning.intrinsic.value(stream.agent.scales.scaled(points))) if learning.intrinsic else np.zeros((7, 2, 1))
    )
    each = zip(pi[:, :, run.targets.member], m, value[..., 0], strict=True)
    theirs = [rule.probabilities(state, 100, *one) for one in each]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_answers_stay_within_what_the_cumulants_allow(tmp_path):
    """A reward of 1 in every step is worth 1 to 2 at a discount of 0.5, whatever an untrained network says."""
    wild = gvfx.Deep(**{**QUICK.__dict__, "rate_q": 0.3, "learning_starts": 100})
    question = [gvfx.GVF(HALF, gvfx.Reward(), 0.5, name="r")]
    result = gvfx.evaluate(Ticks(), question, gvfx.Uniform(), wild, steps=200, save=tmp_path / "wild.gvfx")
    network = result.details.predictor.functions[0]
    points = np.linspace(0, 1, 200, dtype=np.float32)[:, None]
    pi = np.full((200, 2, 1), 0.5)
    plain = replace(network, within=None).values(points, pi)[0]
    assert (plain < 1).any() or (plain > 2).any()
    assert np.array_equal(result.predict(points), plain.clip(1, 2))
    assert np.array_equal(gvfx.load(tmp_path / "wild.gvfx", Ticks(), question).predict(points), result.predict(points))


def test_the_range_holds_the_transitions_that_were_not_learned_from_too():
    run = open_backend(Walk(), QUESTIONS, gvfx.Uniform(), QUICK, options=Options(Plan.checked(400, None, ())))
    stream = run.begin(0)
    stream.start()
    assert stream.agent.within() is None
    for t in (60, 171, 300):  # before learning starts, and with rows that wait
        stream.advance(t)
        rows = stream.agent.seen_so_far()
        c = rows[:, run.columns.cumulants].copy()
        c[: len(rows) - stream.agent.pending] *= stream.agent.scales.unit if stream.agent.learns else 1
        least, most = c.min(axis=0), c.max(axis=0)
        found = stream.agent.within()
        whole = 1 / (1 - np.array([0.9, 0.8, 0.7]))
        np.testing.assert_allclose(found.low, np.where(least < 0, least * whole, least), rtol=1e-4)
        np.testing.assert_allclose(found.high, most * whole, rtol=1e-4)
    again = run.begin(0)
    again.restore(stream.state())
    np.testing.assert_array_equal(again.agent.within(), stream.agent.within())
